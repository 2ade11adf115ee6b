/* SPDX-License-Identifier: Apache-2.0 */
/* Selects records of programs, by the query parameters of a request. */
#ifndef EDGE_REST_COMMAND_FILTER_H
#define EDGE_REST_COMMAND_FILTER_H

#include "domain/model/command.h"
#include "domain/policy/glob.h"
#include "edge/core/call.h"

#define COMMAND_FILTER_QUERY "caller client failed program since status until"

struct command_filter {
    int64_t since_ns, until_ns; /* 0: no bound */
    struct str client, caller;  /* empty: any */
    const struct glob *program; /* NULL: any */
    bool failed;                /* only those that failed */
    bool by_code;               /* only this exit code … */
    int code;
    bool by_outcome; /* … or this outcome */
    enum command_end outcome;
};

/* Texts live as long as the call. False: the call is answered. */
bool command_filter_read(struct call *c, struct command_filter *ret);
/* Times are compared by the store. */
bool command_filter_fits(const struct command_filter *f, const struct command_row *row);

#endif
