/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses: one table for the code, the manual, and the statuses of server errors. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stddef.h>

#include "base/str.h"

enum {
    EXIT_REPORTED = 1, /* the daemon reports a failure without a status of its own */
    EXIT_USAGE = 2,
    EXIT_MISSING = 3,
    EXIT_CONFLICT = 4,
    EXIT_DENIED = 5,
    EXIT_BUSY = 6,
    /* Beside a program's own, as in the shell and its relatives. */
    EXIT_TIMED_OUT = 124,
    EXIT_TOOL_FAILED = 125, /* we failed, not the program */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNALLED = 128, /* plus the signal's number */
};

/* The status for a problem's code ("not_found"); EXIT_REPORTED for unknown codes. */
int status_of_problem(struct str code);

/* The same for verbs that return a program's status: errors that are not the program's become
 * EXIT_TOOL_FAILED. */
int status_of_command(struct str code, struct str step);

struct status_meaning {
    const char *status; /* "0", "128+N" */
    const char *meaning;
};

/* For the manual. */
extern const struct status_meaning status_meanings[];
extern const size_t status_meaning_count;

#endif
