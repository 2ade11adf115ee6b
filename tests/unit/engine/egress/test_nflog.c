/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/adapters/rejects.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

static char text[ADDRESS_TEXT_MAX];

#define V4(proto, fragment)                                                                        \
    0x45, 0, 0, 60, 0, 1, (fragment), 0, 64, (proto), 0, 0, 10, 0, 0, 1, 93, 184, 216, 34
#define V6(next)                                                                                   \
    0x60, 0, 0, 0, 0, 20, (next), 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,      \
        0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2
#define PORTS 0x13, 0x88, 0, 123

static struct nflog_packet parsed(const uint8_t *bytes, size_t n)
{
    struct nflog_packet p;

    CHECK(nflog_parse_packet((struct str){ (const char *)bytes, n }, &p));
    return p;
}

#define PARSED(...)                                                                                \
    parsed((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void check(struct nflog_packet p, int protocol, uint16_t from, uint16_t to)
{
    CHECK_INT(p.protocol, protocol);
    CHECK_INT(p.from_port, from);
    CHECK_INT(p.to_port, to);
}

TEST(ports_of_every_protocol_that_has_some)
{
    static const uint8_t with[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP, IPPROTO_UDPLITE,
                                    IPPROTO_DCCP };
    static const uint8_t without[] = { IPPROTO_ICMP, IPPROTO_GRE, IPPROTO_ESP, 0, 255 };

    for (size_t i = 0; i < COUNT_OF(with); i++) {
        check(PARSED(V4(with[i], 0), PORTS), with[i], 5000, 123);
        check(PARSED(V6(with[i]), PORTS), with[i], 5000, 123);
    }
    for (size_t i = 0; i < COUNT_OF(without); i++)
        check(PARSED(V4(without[i], 0), PORTS), without[i], 0, 0);
    check(PARSED(V6(IPPROTO_ICMPV6), PORTS), IPPROTO_ICMPV6, 0, 0);
}

TEST(addresses_of_both_families)
{
    struct nflog_packet p = PARSED(V4(IPPROTO_UDP, 0), PORTS);

    CHECK_STR(address_text(&p.from, text), "10.0.0.1");
    CHECK_STR(address_text(&p.to, text), "93.184.216.34");
    p = PARSED(V6(IPPROTO_UDP), PORTS);
    CHECK_STR(address_text(&p.from, text), "2001:db8::1");
    CHECK_STR(address_text(&p.to, text), "2001:db8::2");
}

TEST(options_and_extension_headers_are_passed_over)
{
    check(PARSED(0x46, 0, 0, 60, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, /* option: */
                 7, 7, 7, 7, PORTS),
          IPPROTO_UDP, 5000, 123);
    check(PARSED(V6(0), 60, 0, 0, 0, 0, 0, 0, 0, /* hop by hop, then options of 16 bytes */
                 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, PORTS),
          IPPROTO_UDP, 5000, 123);
    check(PARSED(V6(51), 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, PORTS), IPPROTO_UDP, 5000, 123);
    check(PARSED(V6(44), 17, 0, 0, 1, 0, 0, 0, 0, PORTS), IPPROTO_UDP, 5000, 123);
    check(PARSED(V6(44), 17, 0, 0, 8, 0, 0, 0, 0, PORTS), IPPROTO_UDP, 0, 0); /* a later one */
    check(PARSED(V4(IPPROTO_UDP, 1), PORTS), IPPROTO_UDP, 0, 0);
}

/* Missing parts of a packet are not invented, and nothing behind its end is read. */
TEST(cut_packets)
{
    static const uint8_t v4[] = { V4(IPPROTO_UDP, 0), PORTS };
    static const uint8_t v6[] = { V6(0), 17, 0, 0, 0, 0, 0, 0, 0, PORTS };
    struct nflog_packet p;

    for (size_t n = 0; n < sizeof v4; n++) {
        CHECK_INT(nflog_parse_packet((struct str){ (const char *)v4, n }, &p), n >= 20);
        CHECK_INT(p.to_port, 0);
    }
    for (size_t n = 0; n < sizeof v6; n++) {
        CHECK_INT(nflog_parse_packet((struct str){ (const char *)v6, n }, &p), n >= 40);
        CHECK_INT(p.to_port, 0);
    }
    CHECK(!nflog_parse_packet((struct str){ "\x41zzzzzzzzzzzzzzzzzzzzzzz", 24 }, &p));
    CHECK(!nflog_parse_packet((struct str){ "\x50zzzzzzzzzzzzzzzzzzzzzzz", 24 }, &p));
}

static void add_attribute(struct buf *b, uint16_t type, const void *p, size_t n)
{
    struct nlattr a = { .nla_len = (uint16_t)(sizeof a + n), .nla_type = type };

    buf_add(b, (struct str){ (const char *)&a, sizeof a });
    buf_add(b, (struct str){ p, n });
    while (b->n % 4)
        buf_add_c(b, 0);
}

static void add_message(struct buf *b, uint16_t type, const void *packet, size_t n)
{
    struct nlmsghdr h = { .nlmsg_type = type };
    struct nfgenmsg g = { .nfgen_family = AF_INET };
    size_t at = b->n;

    buf_add(b, (struct str){ (const char *)&h, sizeof h });
    buf_add(b, (struct str){ (const char *)&g, sizeof g });
    add_attribute(b, NFULA_PREFIX, "egress", 7);
    if (packet)
        add_attribute(b, NFULA_PAYLOAD, packet, n);
    h.nlmsg_len = (uint32_t)(b->n - at);
    memcpy(b->p + at, &h, sizeof h);
}

TEST(a_datagram_of_several_messages)
{
    static const uint8_t one[] = { V4(IPPROTO_UDP, 0), PORTS }, two[] = { V6(IPPROTO_SCTP), PORTS };
    const uint16_t type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;
    AUTO(buf_done) struct buf b = BUF_INIT(4096);
    struct nflog_packet p;
    struct str s;

    add_message(&b, type, one, sizeof one);
    add_message(&b, NLMSG_NOOP, one, sizeof one);
    add_message(&b, type, NULL, 0);
    add_message(&b, type, "garbage", 7);
    add_message(&b, type, two, sizeof two);
    s = buf_str(&b);
    CHECK(nflog_next(&s, &p));
    check(p, IPPROTO_UDP, 5000, 123);
    CHECK(nflog_next(&s, &p));
    check(p, IPPROTO_SCTP, 5000, 123);
    CHECK(!nflog_next(&s, &p));
}

TEST(a_datagram_whose_lengths_lie)
{
    static const uint8_t one[] = { V4(IPPROTO_UDP, 0), PORTS };
    const uint16_t type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;
    static const uint32_t lengths[] = { 0, 1, 15, 16, 19, 1000, UINT32_MAX };
    AUTO(buf_done) struct buf b = BUF_INIT(4096);
    struct nflog_packet p;

    add_message(&b, type, one, sizeof one);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct str s = buf_str(&b);

        memcpy(b.p, &lengths[i], sizeof lengths[i]);
        CHECK(!nflog_next(&s, &p));
    }
}
