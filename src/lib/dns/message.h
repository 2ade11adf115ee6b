/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages (RFC 1035, EDNS0 of RFC 6891), as far as a stub resolver and a policy server need
 * them. Nothing is allocated, nothing borrowed: results hold copies.
 *
 * Names are text without the last dot, lower case, of letters, digits, '-' and '_'; the root is
 * "". Everything else in a name makes it a name that equals no other and cannot be asked for. */
#ifndef LIB_DNS_MESSAGE_H
#define LIB_DNS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/net/address.h"

enum dns_type { DNS_A = 1, DNS_CNAME = 5, DNS_SOA = 6, DNS_AAAA = 28, DNS_OPT = 41 };
enum { DNS_IN = 1 };

enum dns_rcode {
    DNS_NOERROR = 0,
    DNS_FORMERR = 1,
    DNS_SERVFAIL = 2,
    DNS_NXDOMAIN = 3,
    DNS_NOTIMP = 4,
    DNS_REFUSED = 5,
    DNS_BADVERS = 16, /* needs EDNS */
};

enum { DNS_BLOCKED = 15 }; /* an extended error: a policy of who runs the server */

enum {
    DNS_NAME_MAX = 253, /* bytes of a name as text */
    DNS_UDP_MIN = 512,  /* the size over UDP that every client accepts */
    DNS_UDP_MAX = 1232, /* the largest size that we send over UDP to clients that accept more */
    DNS_MESSAGE_MAX = 65535, /* over TCP, behind the two bytes of its length */
    DNS_QUERY_MAX = 12 + 255 + 4 + 11,
    DNS_ADDRESSES_MAX = 256, /* of one answer, so that all of them can be checked */
    DNS_HOPS_MAX = 8,        /* CNAMEs of one answer */
};

struct dns_question {
    char name[DNS_NAME_MAX + 1];
    uint16_t type, class;
};

struct dns_query {
    uint16_t id;
    bool recursion_desired;
    bool has_edns;
    uint16_t edns_size; /* the answer that the client accepts over UDP; ours fit into DNS_UDP_MIN */
    struct dns_question question;
    uint8_t wire_[255 + 4]; /* the question as it came, letter case too: answers repeat it */
    size_t wire_n_;
};

/* One question of class IN, nothing answered in it, at most an OPT record behind it, and nothing
 * after that.
 *
 * On failure *refuse is what to answer with dns_build_answer(), for which *ret holds what was
 * understood; or DNS_NOERROR, if the message must not be answered at all: it is no query, or
 * shorter than a header. Types are not judged but for those that ask for something else than a
 * record (ANY, AXFR and their like: DNS_NOTIMP). */
int dns_parse_query(struct str message, struct dns_query *ret, enum dns_rcode *refuse,
                    struct err *e);

/* Writes the answer and returns its length. Of the addresses those are taken that the question's
 * type asks for; none with an rcode other than DNS_NOERROR. If they do not all fit in `size` none
 * is written and the answer is marked as truncated. 0 if not even that fits: DNS_UDP_MIN does. */
size_t dns_build_answer(const struct dns_query *q, enum dns_rcode rcode,
                        const struct address *addresses, size_t n, uint32_t ttl, void *out,
                        size_t size);

/* The answer to a name that a policy refuses: DNS_NXDOMAIN, which every resolver takes for final
 * (at DNS_REFUSED some wait for their timeout), with the extended error DNS_BLOCKED (RFC 8914) if
 * the query has EDNS. Without an SOA record resolvers do not cache it (RFC 2308): a name that is
 * allowed later is found at once. Returns as dns_build_answer(). */
size_t dns_build_blocked(const struct dns_query *q, void *out, size_t size);

/* A query for a record of class IN, with recursion: its length, or 0 if `name` is not a canonical
 * name. With EDNS it says that we take DNS_UDP_MAX over UDP. */
size_t dns_build_query(uint16_t id, struct str name, enum dns_type type, bool edns,
                       uint8_t out[static DNS_QUERY_MAX]);

enum { DNS_CASE_BYTES = 32 }; /* a bit for each letter that a name can have */

/* Writes the letters of a query's name large where `bits` say so. Servers repeat the question as it
 * came, so that who forges an answer must guess these bits besides id and port. */
void dns_mix_case(uint8_t *query, size_t n, const uint8_t bits[static DNS_CASE_BYTES]);
/* Whether the answer, which dns_parse_answer() took, repeats the question letter by letter. */
bool dns_same_case(struct str answer, const uint8_t *query, size_t n);

struct dns_answer {
    enum dns_rcode rcode; /* without EDNS' upper bits */
    bool truncated;       /* ask again over TCP; nothing below is filled */
    unsigned hops;        /* CNAMEs followed */
    uint32_t ttl;         /* the minimum of chain and addresses; without addresses, the negative
                             TTL of the SOA record (RFC 2308), or 0 without one */
    size_t n;
    struct address addresses[DNS_ADDRESSES_MAX];
};

/* Follows the CNAMEs of the message from the name that was asked and takes the addresses at their
 * end, and no other record's. A chain that ends without addresses, or in a name whose records are
 * not in the message, has none (n == 0).
 *
 * -ERR_CONFLICT: not the answer to this question (id, question, direction); the right one may still
 * come. -ERR_INVALID: the answer, and malformed: lengths, compression, two CNAMEs of one name.
 * -ERR_TOO_BIG: more than DNS_HOPS_MAX hops, as every loop has, or more records than
 * DNS_ADDRESSES_MAX: all addresses must be checked. */
int dns_parse_answer(struct str message, const struct dns_question *asked, uint16_t id,
                     struct dns_answer *ret, struct err *e);

#endif
