/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/hex.h"

/* --- Text --- */

/* One part of a dotted quad. */
static bool parse_octet(struct str s, uint8_t *ret)
{
    uint64_t v;

    if (s.n == 0 || s.n > 3 || (s.n > 1 && s.p[0] == '0') || !str_to_u64(s, &v) || v > UINT8_MAX)
        return false;
    *ret = (uint8_t)v;
    return true;
}

static bool parse_quad(struct str s, uint8_t ret[static 4])
{
    for (size_t i = 0; i < 4; i++) {
        struct str part;

        s = str_cut(s, '.', &part);
        if (!parse_octet(part, &ret[i]) || (i < 3) != (s.p != NULL))
            return false;
    }
    return true;
}

static bool parse_group(struct str s, uint8_t ret[static 2])
{
    unsigned v = 0;

    if (s.n == 0 || s.n > 4)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        int d = hex_digit(s.p[i]);

        if (d < 0)
            return false;
        v = v << 4 | (unsigned)d;
    }
    ret[0] = (uint8_t)(v >> 8);
    ret[1] = (uint8_t)v;
    return true;
}

/* Groups between colons, the last maybe a dotted quad, into at most `room` bytes; how many were
 * filled, or -1. */
static int parse_groups(struct str s, bool quad_allowed, uint8_t *ret, size_t room)
{
    size_t n = 0;

    while (s.p) {
        struct str part;

        s = str_cut(s, ':', &part);
        if (!s.p && quad_allowed && str_find(part, '.') < part.n) {
            if (room - n < 4 || !parse_quad(part, ret + n))
                return -1;
            return (int)n + 4;
        }
        if (room - n < 2 || !parse_group(part, ret + n))
            return -1;
        n += 2;
    }
    return (int)n;
}

/* "::" replaces at least one group of zeros, so the written groups have at most 14 bytes. */
static bool parse_v6_address(struct str s, uint8_t ret[static 16])
{
    const char *colons = memmem(s.p, s.n, "::", 2);
    size_t gap = colons ? (size_t)(colons - s.p) : s.n;
    struct str head = { s.p, gap }, tail = { s.p + gap + 2, s.n - gap - 2 };
    uint8_t behind[14];
    int before = 0, after = 0;

    if (gap == s.n)
        return parse_groups(s, true, ret, 16) == 16;
    if (head.n > 0)
        before = parse_groups(head, false, ret, 14);
    if (before >= 0 && tail.n > 0)
        after = parse_groups(tail, true, behind, 14 - (size_t)before);
    if (before < 0 || after < 0)
        return false;
    memset(ret + before, 0, 16 - (size_t)before);
    memcpy(ret + 16 - after, behind, (size_t)after);
    return true;
}

bool address_parse(struct str s, struct address *ret)
{
    struct address a = { .v6 = s.n && str_find(s, ':') < s.n };

    if (s.n == 0 || s.n >= ADDRESS_TEXT_MAX)
        return false;
    if (a.v6 ? !parse_v6_address(s, a.bytes) : !parse_quad(s, a.bytes))
        return false;
    *ret = a;
    return true;
}

static char *write_decimal_byte(char *at, unsigned v)
{
    if (v >= 100)
        *at++ = (char)('0' + v / 100);
    if (v >= 10)
        *at++ = (char)('0' + v / 10 % 10);
    *at++ = (char)('0' + v % 10);
    return at;
}

/* inet_ntop() goes through printf(), and every line of the audit record has two addresses. */
static struct str quad_text(const uint8_t *bytes, char *out)
{
    char *at = out;

    for (int i = 0; i < 4; i++) {
        at = write_decimal_byte(at, bytes[i]);
        *at++ = i < 3 ? '.' : '\0';
    }
    return (struct str){ out, (size_t)(at - out) - 1 };
}

struct str address_text(const struct address *a, char out[static ADDRESS_TEXT_MAX])
{
    if (!a->v6)
        return quad_text(a->bytes, out);
    inet_ntop(AF_INET6, a->bytes, out, ADDRESS_TEXT_MAX);
    return str_from(out);
}

/* --- Comparison --- */

static size_t address_width(const struct address *a)
{
    return a->v6 ? 16 : 4;
}

bool address_equal(const struct address *a, const struct address *b)
{
    return a->v6 == b->v6 && memcmp(a->bytes, b->bytes, address_width(a)) == 0;
}

bool prefix_has(const struct prefix *p, const struct address *a)
{
    const uint8_t *x = p->base.bytes, *y = a->bytes;
    unsigned whole = p->bits / 8, rest = p->bits % 8;

    return p->base.v6 == a->v6 && memcmp(x, y, whole) == 0 &&
           (rest == 0 || (x[whole] ^ y[whole]) >> (8 - rest) == 0);
}

static bool bits_behind(const struct prefix *p)
{
    for (unsigned i = p->bits; i < 8 * address_width(&p->base); i++)
        if (p->base.bytes[i / 8] & 0x80 >> i % 8)
            return true;
    return false;
}

bool prefix_parse(struct str s, struct prefix *ret)
{
    struct str text, bits = str_cut(s, '/', &text);
    struct prefix p;
    uint64_t n;

    if (!address_parse(text, &p.base))
        return false;
    n = 8 * address_width(&p.base);
    if (bits.p && (bits.n > 3 || (bits.n > 1 && bits.p[0] == '0') || !str_to_u64(bits, &n)))
        return false;
    if (n > 8 * address_width(&p.base))
        return false;
    p.bits = (unsigned)n;
    if (bits_behind(&p))
        return false;
    *ret = p;
    return true;
}

/* --- Sockets --- */

socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in *in = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

    memset(ret, 0, sizeof *ret);
    if (a->v6) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, a->bytes, 16);
        return sizeof *in6;
    }
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    memcpy(&in->sin_addr, a->bytes, 4);
    return sizeof *in;
}

bool address_from_sockaddr(const struct sockaddr *sa, struct address *ret, uint16_t *port)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;
    struct address a = { .v6 = sa->sa_family == AF_INET6 };

    if (sa->sa_family != AF_INET && !a.v6)
        return false;
    memcpy(a.bytes, a.v6 ? (const void *)&in6->sin6_addr : &in->sin_addr, address_width(&a));
    if (port)
        *port = ntohs(a.v6 ? in6->sin6_port : in->sin_port);
    *ret = a;
    return true;
}

bool address_of_socket(int fd, bool peer, struct address *ret, uint16_t *port)
{
    struct sockaddr_storage sa = { 0 };
    struct sockaddr *to = (struct sockaddr *)&sa;
    socklen_t n = sizeof sa;

    return (peer ? getpeername(fd, to, &n) : getsockname(fd, to, &n)) == 0 &&
           address_from_sockaddr(to, ret, port);
}
