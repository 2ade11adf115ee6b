/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses: one spelling in, one spelling out, and what kind of place an address is.
 *
 * Parsing takes what inet_pton() takes and nothing that getaddrinfo() would guess: no octal, no
 * hexadecimal, no shortened and no single-number IPv4, no zones, no brackets, no blanks. */
#ifndef LIB_NET_ADDRESS_H
#define LIB_NET_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/str.h"

enum { ADDRESS_TEXT_MAX = 46 }; /* with the NUL */

struct address {
    bool v6;
    uint8_t bytes[16]; /* network order; IPv4 in the first 4, the rest 0 */
};

/* Dotted quads without leading zeros; IPv6 as in RFC 4291, with a dotted quad at its end or not. */
bool address_parse(struct str s, struct address *ret);

/* RFC 5952. NUL-terminated, too; the result points into out. */
struct str address_text(const struct address *a, char out[static ADDRESS_TEXT_MAX]);

/* The same bytes of the same family: a mapped IPv6 is not the IPv4 in it. */
bool address_equal(const struct address *a, const struct address *b);

struct prefix {
    struct address base; /* bits behind the prefix are 0 */
    unsigned bits;
};

/* ADDRESS/BITS, or an address alone for all its bits. Refused where bits behind the prefix are set:
 * 10.1.2.3/8 is a mistake, and which one cannot be known. */
bool prefix_parse(struct str s, struct prefix *ret);
bool prefix_has(const struct prefix *p, const struct address *a); /* never across families */
static inline bool prefix_is_single(const struct prefix *p)       /* one address */
{
    return p->bits == (p->base.v6 ? 128u : 32u);
}

socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret);

/* False for other families. A mapped IPv6 stays one: sockets that take both families show IPv4
 * peers so, and who wants them as IPv4 sets IPV6_V6ONLY. port may be NULL. */
bool address_from_sockaddr(const struct sockaddr *sa, struct address *ret, uint16_t *port);

/* The same of a socket's own address, or of its peer's. */
bool address_of_socket(int fd, bool peer, struct address *ret, uint16_t *port);

/* Everything but ADDRESS_PUBLIC is denied unless one exact address was declared. */
enum address_class {
    ADDRESS_PUBLIC,
    ADDRESS_UNSPECIFIED, /* 0.0.0.0/8 and ::, which connect to the machine itself */
    ADDRESS_LOOPBACK,
    ADDRESS_PRIVATE, /* RFC 1918, unique local, site local */
    ADDRESS_SHARED,  /* carrier-grade NAT */
    ADDRESS_LINK_LOCAL,
    ADDRESS_METADATA, /* a cloud's metadata or credential service */
    ADDRESS_MULTICAST,
    ADDRESS_DOCUMENTATION,
    ADDRESS_EMBEDDED, /* an IPv6 form that carries a public IPv4 */
    ADDRESS_RESERVED, /* everything else that is no place on the internet */
    ADDRESS_CLASS_COUNT_,
};

/* IPv6 forms that carry an IPv4 (mapped, compatible, translated, both NAT64 prefixes, 6to4, Teredo)
 * are of that IPv4's class, and ADDRESS_EMBEDDED where it is public: never public themselves. An
 * IPv4 in a network-specific NAT64 prefix cannot be recognized. */
enum address_class address_classify(const struct address *a);
const char *address_class_name(enum address_class c); /* "loopback", "link-local": stable */

/* The i-th range of the table behind address_classify() and its class: for callers that convert the
 * table. The first range that contains an address decides; the last one contains all. An IPv6 form
 * that carries an IPv4 is ADDRESS_EMBEDDED here. False: i is past the end. */
bool address_range_at(bool v6, size_t i, struct prefix *ret, enum address_class *ret_class);

/* Whether the range contains no public address. Such a range is declared on purpose. */
bool prefix_lacks_public(const struct prefix *p);

/* The range that decided, for people: "private network (10.0.0.0/8)". */
const char *address_reason(const struct address *a);

/* Whether an endpoint that declares this exact address may reach it: everything but metadata
 * services, in every spelling. Loopback and the rest of the deny-set can be declared; they are the
 * egress worker's, never the sandbox's own. */
bool address_grantable(const struct address *a);

/* Ports of cluster control planes (etcd, the Kubernetes API and kubelet): never grantable. */
bool port_control_plane(uint16_t port);

#endif
