/* The record of what a run reached that a daemon served: fetched when the run is over, it goes to
 * the file of --egress-log, and what was refused is said. */
#ifndef CLI_RUN_RECORD_H
#define CLI_RUN_RECORD_H

#include "base/id.h"
#include "cli/denials.h"
#include "cli/network_options.h"

struct run_record {
    char sandbox[ID_MAX]; /* empty: it never began */
    int log;              /* -1: nobody wants it as a file */
    struct denials denials;
};

#define RUN_RECORD_NONE                                                                            \
    {                                                                                              \
        .log = -1                                                                                  \
    }

/* Opens the file, so that a run whose record cannot be kept does not begin. */
int run_record_open(struct run_record *r, const struct network_options *o, struct err *e);
void run_record_done(struct run_record *r);

void run_record_of(struct run_record *r, struct str sandbox); /* whose it is */

/* Fetches it, says what was refused unless it is to be quiet. An error was said. */
int run_record_end(struct run_record *r, const struct verb *v, bool quiet);

#endif
