/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/net/address.h"

#include "base/own.h"

/* The position of the IPv4 in an embedding form. */
enum carries {
    NOTHING,
    AT_END,       /* the last 4 bytes */
    AT_2,         /* behind a prefix of 2 bytes */
    INVERTED_END, /* the last 4 bytes, all bits flipped */
    ANYWHERE,     /* RFC 6052: where depends on a prefix length that is the operator's */
};

struct address_range {
    uint8_t base[16];
    unsigned bits;
    enum address_class class;
    const char *why;
    enum carries carries;
};

#define V4(a, b, c, d, bits, class, why)                                                           \
    {                                                                                              \
        { (a), (b), (c), (d) }, (bits), ADDRESS_##class, (why), NOTHING                            \
    }
#define GROUP(g) (uint8_t)((g) >> 8), (uint8_t)((g)&0xff)
#define V6(a, b, c, d, e, f, g, h, bits, class, why, carries)                                      \
    {                                                                                              \
        { GROUP(a), GROUP(b), GROUP(c), GROUP(d), GROUP(e), GROUP(f), GROUP(g), GROUP(h) },        \
            (bits), ADDRESS_##class, (why), (carries)                                              \
    }

/* From the narrowest to the widest: the first that holds an address decides. After the IANA
 * registries of special-purpose addresses, and what clouds document. */
static const struct address_range ranges_v4[] = {
    V4(100, 100, 100, 200, 32, METADATA, "metadata service (Alibaba)"),
    V4(168, 63, 129, 16, 32, METADATA, "metadata service (Azure's host)"),
    V4(169, 254, 0, 23, 32, METADATA, "metadata service (Tencent)"),
    V4(169, 254, 42, 42, 32, METADATA, "metadata service (Scaleway)"),
    V4(169, 254, 169, 254, 32, METADATA, "metadata service (169.254.169.254)"),
    V4(169, 254, 170, 2, 32, METADATA, "credential service (ECS)"),
    V4(169, 254, 170, 23, 32, METADATA, "credential service (EKS)"),
    V4(192, 0, 0, 192, 32, METADATA, "metadata service (Oracle)"),
    V4(255, 255, 255, 255, 32, RESERVED, "broadcast"),
    V4(192, 0, 0, 0, 24, RESERVED, "protocol assignments (192.0.0.0/24)"),
    V4(192, 0, 2, 0, 24, DOCUMENTATION, "documentation (192.0.2.0/24)"),
    V4(192, 88, 99, 0, 24, RESERVED, "6to4 relays (192.88.99.0/24)"),
    V4(198, 51, 100, 0, 24, DOCUMENTATION, "documentation (198.51.100.0/24)"),
    V4(203, 0, 113, 0, 24, DOCUMENTATION, "documentation (203.0.113.0/24)"),
    V4(169, 254, 0, 0, 16, LINK_LOCAL, "link-local (169.254.0.0/16)"),
    V4(192, 168, 0, 0, 16, PRIVATE, "private network (192.168.0.0/16)"),
    V4(198, 18, 0, 0, 15, RESERVED, "benchmarking (198.18.0.0/15)"),
    V4(172, 16, 0, 0, 12, PRIVATE, "private network (172.16.0.0/12)"),
    V4(100, 64, 0, 0, 10, SHARED, "carrier-grade NAT (100.64.0.0/10)"),
    V4(0, 0, 0, 0, 8, UNSPECIFIED, "this network (0.0.0.0/8)"),
    V4(10, 0, 0, 0, 8, PRIVATE, "private network (10.0.0.0/8)"),
    V4(127, 0, 0, 0, 8, LOOPBACK, "loopback (127.0.0.0/8)"),
    V4(224, 0, 0, 0, 4, MULTICAST, "multicast (224.0.0.0/4)"),
    V4(240, 0, 0, 0, 4, RESERVED, "reserved (240.0.0.0/4)"),
    V4(0, 0, 0, 0, 0, PUBLIC, "public"),
};

static const struct address_range ranges_v6[] = {
    V6(0, 0, 0, 0, 0, 0, 0, 0, 128, UNSPECIFIED, "unspecified (::)", NOTHING),
    V6(0, 0, 0, 0, 0, 0, 0, 0x1, 128, LOOPBACK, "loopback (::1)", NOTHING),
    V6(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42, 128, METADATA, "metadata service (Scaleway)", NOTHING),
    V6(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe, 128, METADATA, "metadata service (Oracle)",
       NOTHING),
    V6(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23, 128, METADATA, "credential service (EKS)", NOTHING),
    V6(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254, 128, METADATA, "metadata service (EC2)", NOTHING),
    V6(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254, 128, METADATA, "metadata service (Google)", NOTHING),
    V6(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe, 128, METADATA, "metadata service (OpenStack)",
       NOTHING),
    V6(0, 0, 0, 0, 0, 0, 0, 0, 96, EMBEDDED, "IPv4-compatible (::/96)", AT_END),
    V6(0, 0, 0, 0, 0, 0xffff, 0, 0, 96, EMBEDDED, "IPv4-mapped (::ffff:0:0/96)", AT_END),
    V6(0, 0, 0, 0, 0xffff, 0, 0, 0, 96, EMBEDDED, "IPv4-translated (::ffff:0:0:0/96)", AT_END),
    V6(0x64, 0xff9b, 0, 0, 0, 0, 0, 0, 96, EMBEDDED, "NAT64 (64:ff9b::/96)", AT_END),
    V6(0x64, 0xff9b, 0x1, 0, 0, 0, 0, 0, 48, EMBEDDED, "NAT64 (64:ff9b:1::/48)", ANYWHERE),
    V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 32, EMBEDDED, "Teredo (2001::/32)", INVERTED_END),
    V6(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0, 32, DOCUMENTATION, "documentation (2001:db8::/32)",
       NOTHING),
    V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 23, RESERVED, "protocol assignments (2001::/23)", NOTHING),
    V6(0x3fff, 0, 0, 0, 0, 0, 0, 0, 20, DOCUMENTATION, "documentation (3fff::/20)", NOTHING),
    V6(0x2002, 0, 0, 0, 0, 0, 0, 0, 16, EMBEDDED, "6to4 (2002::/16)", AT_2),
    V6(0xfe80, 0, 0, 0, 0, 0, 0, 0, 10, LINK_LOCAL, "link-local (fe80::/10)", NOTHING),
    V6(0xfec0, 0, 0, 0, 0, 0, 0, 0, 10, PRIVATE, "site-local (fec0::/10)", NOTHING),
    V6(0xff00, 0, 0, 0, 0, 0, 0, 0, 8, MULTICAST, "multicast (ff00::/8)", NOTHING),
    V6(0xfc00, 0, 0, 0, 0, 0, 0, 0, 7, PRIVATE, "unique local (fc00::/7)", NOTHING),
    V6(0x2000, 0, 0, 0, 0, 0, 0, 0, 3, PUBLIC, "public", NOTHING),
    V6(0, 0, 0, 0, 0, 0, 0, 0, 0, RESERVED, "not assigned to the internet", NOTHING),
};

static const struct address_range *find_range(const struct address *a)
{
    const struct address_range *r = a->v6 ? ranges_v6 : ranges_v4;

    for (;; r++) { /* ends with a range of 0 bits */
        struct prefix p = { .base.v6 = a->v6, .bits = r->bits };

        memcpy(p.base.bytes, r->base, sizeof r->base);
        if (prefix_has(&p, a))
            return r;
    }
}

bool address_range_at(bool v6, size_t i, struct prefix *ret, enum address_class *ret_class)
{
    const struct address_range *r = v6 ? ranges_v6 : ranges_v4;

    if (i >= (v6 ? COUNT_OF(ranges_v6) : COUNT_OF(ranges_v4)))
        return false;
    *ret = (struct prefix){ .base.v6 = v6, .bits = r[i].bits };
    memcpy(ret->base.bytes, r[i].base, sizeof r[i].base);
    *ret_class = r[i].class;
    return true;
}

/* The narrowest range around all of it decides, unless it has a public one inside. */
bool prefix_lacks_public(const struct prefix *p)
{
    enum address_class class, around = ADDRESS_CLASS_COUNT_;
    struct prefix r;

    for (size_t i = 0; address_range_at(p->base.v6, i, &r, &class); i++) {
        if (r.bits > p->bits && class == ADDRESS_PUBLIC && prefix_has(p, &r.base))
            return false;
        if (r.bits <= p->bits && around == ADDRESS_CLASS_COUNT_ && prefix_has(&r, &p->base))
            around = class;
    }
    return around != ADDRESS_PUBLIC;
}

/* The 4 bytes at `at`, all bits flipped if `flip` is 0xff, passing over byte 8, which RFC 6052 keeps
 * free, if they reach it. */
static const struct address_range *find_carried(const struct address *a, size_t at,
                                                bool over_byte_8, uint8_t flip)
{
    struct address in = { 0 };

    for (size_t i = 0; i < 4; i++, at++) {
        if (over_byte_8 && at == 8)
            at++;
        in.bytes[i] = a->bytes[at] ^ flip;
    }
    return find_range(&in);
}

/* A metadata service anywhere decides, then the most usual place, the end. */
static const struct address_range *find_anywhere(const struct address *a)
{
    static const size_t places[] = { 6, 7, 9 };

    for (size_t i = 0; i < COUNT_OF(places); i++) {
        const struct address_range *r = find_carried(a, places[i], true, 0);

        if (r->class == ADDRESS_METADATA)
            return r;
    }
    return find_carried(a, 12, false, 0);
}

/* The range that decides: of the address, or of the IPv4 in it if that is not public. */
static const struct address_range *find_deciding_range(const struct address *a)
{
    const struct address_range *outer = find_range(a), *inner = NULL;

    switch (outer->carries) {
    case NOTHING:
        return outer;
    case AT_END:
        inner = find_carried(a, 12, false, 0);
        break;
    case AT_2:
        inner = find_carried(a, 2, false, 0);
        break;
    case INVERTED_END:
        inner = find_carried(a, 12, false, 0xff);
        break;
    case ANYWHERE:
        inner = find_anywhere(a);
        break;
    }
    return inner && inner->class != ADDRESS_PUBLIC ? inner : outer;
}

enum address_class address_classify(const struct address *a)
{
    return find_deciding_range(a)->class;
}

/* The IPv4 in a Teredo address is inverted, so the reason names Teredo instead of its range. */
const char *address_reason(const struct address *a)
{
    const struct address_range *outer = find_range(a);

    return outer->carries == INVERTED_END ? outer->why : find_deciding_range(a)->why;
}

const char *address_class_name(enum address_class c)
{
    static const char *const names[ADDRESS_CLASS_COUNT_] = {
        [ADDRESS_PUBLIC] = "public",
        [ADDRESS_UNSPECIFIED] = "unspecified",
        [ADDRESS_LOOPBACK] = "loopback",
        [ADDRESS_PRIVATE] = "private",
        [ADDRESS_SHARED] = "shared",
        [ADDRESS_LINK_LOCAL] = "link-local",
        [ADDRESS_METADATA] = "metadata",
        [ADDRESS_MULTICAST] = "multicast",
        [ADDRESS_DOCUMENTATION] = "documentation",
        [ADDRESS_EMBEDDED] = "embedded",
        [ADDRESS_RESERVED] = "reserved",
    };

    return (unsigned)c < ADDRESS_CLASS_COUNT_ ? names[c] : "unknown";
}

bool address_grantable(const struct address *a)
{
    return address_classify(a) != ADDRESS_METADATA;
}

bool port_control_plane(uint16_t port)
{
    static const uint16_t ports[] = { 2379, 2380, 6443, 10250, 10255 };

    for (size_t i = 0; i < COUNT_OF(ports); i++)
        if (port == ports[i])
            return true;
    return false;
}
