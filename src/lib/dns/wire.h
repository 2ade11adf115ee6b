/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and heads on the wire. Private to dns. */
#ifndef LIB_DNS_WIRE_H
#define LIB_DNS_WIRE_H

#include "lib/dns/name.h"

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
