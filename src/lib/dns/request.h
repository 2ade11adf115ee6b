/* SPDX-License-Identifier: Apache-2.0 */
/* One question, asked of a resolver's servers until one of them settles it. Private to dns. */
#ifndef LIB_DNS_REQUEST_H
#define LIB_DNS_REQUEST_H

#include "lib/dns/resolver.h"

struct dns_request {
    struct dns_resolver *resolver;
    void (*settled)(struct dns_request *a);
    struct dns_question question;
    uint16_t id;
    unsigned tries; /* that failed */
    bool plain;     /* this server is asked without EDNS */
    bool last;      /* the last server: no other one follows */
    bool is_settled;
    int fd;
    struct loop_fd socket;
    struct loop_timer timer;
    uint8_t query[DNS_QUERY_MAX]; /* as it was sent */
    size_t query_n;
    struct buf out, in; /* of TCP */
    enum dns_outcome outcome;
    struct dns_answer answer; /* if found */
};

/* `resolver`, `settled` and `question` are set, fd is -1, the rest zeroed. Ends with outcome and
 * answer filled and a call of settled(); if no server can be asked, from inside this call. */
void dns_request_start(struct dns_request *a);

void dns_request_stop(struct dns_request *a); /* does not call settled() */

#endif
