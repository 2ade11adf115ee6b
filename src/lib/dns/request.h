/* One question, asked of a resolver's servers until one of them settles it. Private to dns. */
#ifndef DNS_ASK_H
#define DNS_ASK_H

#include "dns/resolver.h"

struct dns_ask {
    struct dns_resolver *resolver;
    void (*settled)(struct dns_ask *a);
    struct dns_question question;
    uint16_t id;
    unsigned tries; /* that failed */
    bool plain;     /* this server is asked without EDNS */
    bool last;      /* no other server is asked any more: it can do without */
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
 * answer filled and a call of settled(); if nobody can be asked, from inside this one. */
void dns_ask_start(struct dns_ask *a);

void dns_ask_stop(struct dns_ask *a); /* does not call settled() */

#endif
