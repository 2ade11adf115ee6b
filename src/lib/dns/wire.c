/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/wire.h"

bool dns_skip(struct dns_reader *in, size_t n)
{
    if (in->message.n - in->at < n)
        return false;
    in->at += n;
    return true;
}

bool dns_read_u8(struct dns_reader *in, uint8_t *ret)
{
    if (!dns_skip(in, 1))
        return false;
    *ret = (uint8_t)in->message.p[in->at - 1];
    return true;
}

bool dns_read_u16(struct dns_reader *in, uint16_t *ret)
{
    uint8_t high, low;

    if (!dns_read_u8(in, &high) || !dns_read_u8(in, &low))
        return false;
    *ret = (uint16_t)(high << 8 | low);
    return true;
}

bool dns_read_u32(struct dns_reader *in, uint32_t *ret)
{
    uint16_t high, low;

    if (!dns_read_u16(in, &high) || !dns_read_u16(in, &low))
        return false;
    *ret = (uint32_t)high << 16 | low;
    return true;
}

bool dns_read_head(struct dns_reader *in, struct dns_head *ret)
{
    return dns_read_u16(in, &ret->id) && dns_read_u16(in, &ret->flags) &&
           dns_read_u16(in, &ret->questions) && dns_read_u16(in, &ret->answers) &&
           dns_read_u16(in, &ret->authorities) && dns_read_u16(in, &ret->others);
}

void dns_write_u16(struct dns_writer *w, uint16_t v)
{
    w->p[w->n++] = (uint8_t)(v >> 8);
    w->p[w->n++] = (uint8_t)v;
}

void dns_write_u32(struct dns_writer *w, uint32_t v)
{
    dns_write_u16(w, (uint16_t)(v >> 16));
    dns_write_u16(w, (uint16_t)v);
}

void dns_write_bytes(struct dns_writer *w, const void *p, size_t n)
{
    if (n > 0)
        memcpy(w->p + w->n, p, n);
    w->n += n;
}

void dns_write_head(struct dns_writer *w, const struct dns_head *h)
{
    dns_write_u16(w, h->id);
    dns_write_u16(w, h->flags);
    dns_write_u16(w, h->questions);
    dns_write_u16(w, h->answers);
    dns_write_u16(w, h->authorities);
    dns_write_u16(w, h->others);
}

/* RFC 6891: the class is the size, the first byte of the TTL is the rcode's. */
void dns_write_opt(struct dns_writer *w, unsigned rcode, uint16_t error)
{
    enum { OPTION_EDE = 15 };

    dns_write_bytes(w, "", 1); /* the root */
    dns_write_u16(w, DNS_OPT);
    dns_write_u16(w, DNS_UDP_MAX);
    dns_write_u32(w, (uint32_t)rcode >> 4 << 24);
    dns_write_u16(w, error ? DNS_EDE_BYTES : 0);
    if (!error)
        return;
    dns_write_u16(w, OPTION_EDE);
    dns_write_u16(w, sizeof error);
    dns_write_u16(w, error);
}
