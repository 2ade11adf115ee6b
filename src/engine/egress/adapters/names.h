/* SPDX-License-Identifier: Apache-2.0 */
/* Policy DNS without its sockets: turns a question into an answer, at once or after one lookup.
 *
 * Answers are synthetic addresses (fake_addresses.h), A and AAAA, for names that have an endpoint
 * in the policy and whose real addresses are all allowed. They are mapped before the answer is
 * sent. Other record types of such a name (HTTPS, SVCB, TXT…) are answered with "no such record",
 * so that no record leads past the worker. Names without an endpoint, and names whose addresses are
 * not allowed, get NXDOMAIN with the extended error "Blocked" (dns_build_blocked()); for a name
 * without an endpoint, no outside server is queried. A question that cannot be decided now (no
 * policy yet, too many questions, policy changed meanwhile, audit record full, resolver timeout) is
 * answered with SERVFAIL, and programs retry.
 *
 * Concurrent questions for one name share a lookup. A name with an unexpired mapping of the current
 * policy needs no lookup. Only decisions are audited, not answers from a mapping. */
#ifndef ENGINE_EGRESS_ADAPTERS_NAMES_H
#define ENGINE_EGRESS_ADAPTERS_NAMES_H

#include "engine/egress/egress.h"

struct dns_names;
struct dns_names *names_new(struct egress_box *b);
void names_free(struct dns_names *n); /* does not call waiters' callbacks; accepts NULL */

/* The client that sent the question. */
struct names_client {
    struct address address;
    uint16_t port;
};

enum { NAMES_ANSWER_MAX = DNS_UDP_MIN }; /* holds every answer */
enum { NAMES_LATER = -1 };

/* Returns the length of the answer in out; 0: send no answer; NAMES_LATER: call names_wait() with
 * the query in *ret. */
int names_answer(struct dns_names *n, struct str message, const struct names_client *from,
                 struct dns_query *ret, uint8_t out[static NAMES_ANSWER_MAX]);

struct names_waiter;
typedef void names_fn(struct names_waiter *w, struct str answer);

struct names_waiter { /* a member of its owner, zeroed before use */
    struct dns_query query;
    names_fn *done_;
    struct dns_names *names_;
    struct link link_;
};

/* done is called once, from the loop, and may free the waiter. */
void names_wait(struct dns_names *n, struct names_waiter *w, const struct dns_query *q,
                const struct names_client *from, names_fn *done);
/* `done` is not called afterwards; accepts a zeroed waiter */
void names_forget(struct names_waiter *w);

#endif
