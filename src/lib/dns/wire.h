/* SPDX-License-Identifier: Apache-2.0 */
/* Names, numbers and heads on the wire. Private to dns. */
#ifndef LIB_DNS_WIRE_H
#define LIB_DNS_WIRE_H

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

enum { /* flags of a head */
       DNS_IS_ANSWER = 0x8000,
       DNS_OPCODE = 0x7800,
       DNS_TRUNCATED = 0x0200,
       DNS_RECURSION_DESIRED = 0x0100,
       DNS_RECURSION_AVAILABLE = 0x0080,
       DNS_RCODE = 0x000f,
};

struct dns_head {
    uint16_t id, flags, questions, answers, authorities, others;
};

struct dns_reader {
    struct str message;
    size_t at;
};

/* False, if the message ends before. */
bool dns_read_u8(struct dns_reader *in, uint8_t *ret);
bool dns_read_u16(struct dns_reader *in, uint16_t *ret);
bool dns_read_u32(struct dns_reader *in, uint32_t *ret);
bool dns_skip(struct dns_reader *in, size_t n);
bool dns_read_head(struct dns_reader *in, struct dns_head *ret);

struct dns_writer {
    uint8_t *p; /* the caller sees to the room */
    size_t n;
};

void dns_write_u16(struct dns_writer *w, uint16_t v);
void dns_write_u32(struct dns_writer *w, uint32_t v);
void dns_write_bytes(struct dns_writer *w, const void *p, size_t n);
void dns_write_head(struct dns_writer *w, const struct dns_head *h);

enum { DNS_OPT_BYTES = 11, DNS_EDE_BYTES = 6 };
/* An OPT record; of rcode, the bits that do not fit in a head. error: with this extended error (RFC
 * 8914), which takes DNS_EDE_BYTES more; 0: none. */
void dns_write_opt(struct dns_writer *w, unsigned rcode, uint16_t error);

#endif
