/* Exit statuses: one table for what we return, what the manual says, and what servers report. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stddef.h>

#include "base/str.h"

enum {
    EXIT_REPORTED = 1, /* the daemon reports a failure that has no status of its own */
    EXIT_USAGE = 2,
    EXIT_MISSING = 3,
    EXIT_CONFLICT = 4,
    EXIT_DENIED = 5,
    EXIT_BUSY = 6,
    /* Beside a program's own, as in the shell and its relatives. */
    EXIT_TIMED_OUT = 124,
    EXIT_OURS = 125, /* we failed, not the program */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNALLED = 128, /* plus the signal's number */
};

/* The status for a problem's code ("not_found"); EXIT_REPORTED for one that nobody knows. */
int status_of_problem(struct str code);

/* The same for verbs that end with a program's status: what is not about the program is our
 * failure.
 */
int status_of_command(struct str code, struct str step);

struct status_meaning {
    const char *status; /* "0", "128+N" */
    const char *meaning;
};

/* For the manual. */
extern const struct status_meaning status_meanings[];
extern const size_t status_meaning_count;

#endif
