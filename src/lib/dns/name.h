/* SPDX-License-Identifier: Apache-2.0 */
/* Names on the wire. Private to dns. */
#ifndef LIB_DNS_NAME_H
#define LIB_DNS_NAME_H

#include "base/str.h"
#include "lib/dns/message.h"

enum { DNS_HEAD = 12, DNS_NAME_WIRE_MAX = 255 };

struct dns_name {
    char text[DNS_NAME_MAX + 1];
    size_t n;
    bool odd; /* holds a byte that a canonical name does not */
};

/* Reads the name at *at and moves *at behind it. Pointers only lead backwards, each further than
 * the one before, so there are no loops; `compressed` says whether they are allowed at all. */
bool dns_name_read(struct str message, size_t *at, bool compressed, struct dns_name *ret);

/* Neither is odd, and they are the same. */
bool dns_name_same(const struct dns_name *a, const struct dns_name *b);

/* A keyed hash: clients that do not know the seed cannot cause collisions. */
uint64_t dns_name_hash(uint64_t seed, struct str name);

/* The bytes written, or 0 if the name is not canonical, or the root. */
size_t dns_name_write(struct str name, uint8_t out[static DNS_NAME_WIRE_MAX]);

#endif
