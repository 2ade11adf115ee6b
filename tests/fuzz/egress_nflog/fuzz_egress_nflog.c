/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says whether the rest is a packet or what a netlink socket gave. What is read of a
 * packet is in it: its addresses, and ports that stand where its headers end. */
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/adapters/rejects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static bool is_in(struct str s, const void *bytes, size_t n)
{
    return memmem(s.p, s.n, bytes, n) != NULL;
}

static void check_port(struct str s, uint16_t port)
{
    const uint8_t bytes[] = { (uint8_t)(port >> 8), (uint8_t)port };

    must(port == 0 || is_in(s, bytes, sizeof bytes));
}

static void check_packet(struct str s, const struct nflog_packet *p)
{
    must(p->from.v6 == p->to.v6 && p->protocol >= 0 && p->protocol <= 255);
    must(is_in(s, p->from.bytes, p->from.v6 ? 16 : 4));
    must(is_in(s, p->to.bytes, p->to.v6 ? 16 : 4));
    check_port(s, p->from_port);
    check_port(s, p->to_port);
}

static void check_datagram(struct str s)
{
    struct str rest = s;
    struct nflog_packet p;
    size_t before = rest.n;

    while (nflog_next(&rest, &p)) {
        must(rest.n < before && rest.p + rest.n == s.p + s.n);
        before = rest.n;
        check_packet(s, &p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nflog_packet p;
    struct str s;
    char *copy;

    if (size < 2 || size > 65536)
        return 0;
    copy = malloc(size - 1); /* of just its size: a look behind the end is seen */
    if (!copy)
        abort();
    memcpy(copy, data + 1, size - 1);
    s = (struct str){ copy, size - 1 };
    if (data[0] & 1)
        check_datagram(s);
    else if (nflog_parse_packet(s, &p))
        check_packet(s, &p);
    free(copy);
    return 0;
}
