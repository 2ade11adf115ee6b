/* SPDX-License-Identifier: Apache-2.0 */
/* The egress log of a run by the daemon: fetched when the run has ended, it is written to the file
 * of --egress-log, and denials are printed. */
#ifndef CLI_RUN_RUN_RECORD_H
#define CLI_RUN_RUN_RECORD_H

#include "base/id.h"
#include "cli/denials.h"
#include "cli/run/network_options.h"

struct run_record {
    char sandbox[ID_MAX]; /* empty: it never began */
    int log;              /* -1: no file was requested */
    struct denials denials;
};

#define RUN_RECORD_NONE                                                                            \
    {                                                                                              \
        .log = -1                                                                                  \
    }

void run_record_done(struct run_record *r);

/* Fetches the log, and prints the denials unless quiet. Errors have been printed. */
int run_record_end(struct run_record *r, const struct verb *v, bool quiet);

#endif
