/* Policy DNS without its sockets: a question becomes an answer, at once or after one lookup.
 *
 * Answers are synthetic addresses (mapping.h), A and AAAA, for names that the policy has an
 * endpoint for and whose real addresses it all takes; they are mapped before anybody is told. What
 * else there may be of such a name (HTTPS, SVCB, TXT…) is answered as "no such record", so that
 * nothing leads past us. For names without an endpoint the answer is NXDOMAIN with the extended
 * error "Blocked" (dns_build_blocked()), and no server outside is asked; it is the same for names
 * whose addresses are not allowed. A question that cannot be decided now (no policy yet, too many,
 * the policy changed meanwhile, the record is full, the resolver does not answer) is SERVFAIL:
 * programs try again.
 *
 * Questions for the same name at the same time share a lookup, and a mapped name that has not
 * expired and is of the policy in force needs none: only what is decided is audited, an answer from
 * a mapping is not. */
#ifndef EGRESS_ADAPTERS_NAMES_H
#define EGRESS_ADAPTERS_NAMES_H

#include "egress/egress.h"

struct names;
struct names *names_new(struct egress_box *b);
void names_free(struct names *n); /* who waits is not told any more; NULL is fine */

/* Who asks. */
struct names_client {
    struct address address;
    uint16_t port;
};

enum { NAMES_ANSWER_MAX = DNS_UDP_MIN }; /* holds every answer */
enum { NAMES_LATER = -1 };

/* The length of the answer in out; 0: none is due; NAMES_LATER: names_wait() must follow, with the
 * query that is in *ret. */
int names_ask(struct names *n, struct str message, const struct names_client *from,
              struct dns_query *ret, uint8_t out[static NAMES_ANSWER_MAX]);

struct names_waiter;
typedef void names_fn(struct names_waiter *w, struct str answer);

struct names_waiter { /* a member of whoever waits, zeroed before */
    struct dns_query query;
    names_fn *done_;
    struct names *names_;
    struct link link_;
};

/* done is called once, from the loop, and may free the waiter. */
void names_wait(struct names *n, struct names_waiter *w, const struct dns_query *q,
                const struct names_client *from, names_fn *done);
void names_forget(struct names_waiter *w); /* not called any more; harmless on a zeroed one */

#endif
