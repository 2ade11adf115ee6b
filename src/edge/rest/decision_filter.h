/* SPDX-License-Identifier: Apache-2.0 */
/* Selects decisions of an egress log, by the query parameters of a request: since, until, host,
 * action and program. */
#ifndef EDGE_REST_DECISION_FILTER_H
#define EDGE_REST_DECISION_FILTER_H

#include "edge/core/call.h"
#include "lib/json/value.h"

#define DECISION_FILTER_QUERY "action host program since until"

struct decision_filter {
    int64_t since_ms, until_ms; /* 0: no bound */
    struct str host, program;   /* empty: any */
    enum { DECISION_ANY, DECISION_ALLOWED, DECISION_DENIED } action;
};

/* Texts live as long as the call. False: the call is answered. */
bool decision_filter_read(struct call *c, struct decision_filter *ret);
/* False: every decision fits. */
bool decision_filter_selects(const struct decision_filter *f);

/* A log is in the order of time but for a few seconds: earlier lines than one that is EARLIER do not
 * fit either, nor do later ones than one that is LATER. */
enum decision_fit {
    DECISION_FITS,
    DECISION_OTHER,
    DECISION_EARLIER,
    DECISION_LATER,
};
/* A parsed line. */
enum decision_fit decision_filter_test(const struct decision_filter *f, const struct json *line);

#endif
