/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/own.h"
#include "harness/tap.h"

static struct netlink m;

static void expect_bytes(const char *want, size_t n)
{
    CHECK_INT(m.n, n);
    for (size_t i = 0; i < n; i++)
        if (m.bytes[i] != (uint8_t)want[i])
            FAIL("byte %zu is %02x, not %02x", i, m.bytes[i], (uint8_t)want[i]);
}
#define EXPECT_BYTES(literal) expect_bytes(literal, sizeof(literal) - 1)

TEST(a_message_is_a_header_and_padded_attributes)
{
    netlink_init(&m);
    netlink_begin(&m, 0x1234, NLM_F_ACK, "HEAD", 4);
    netlink_add(&m, 7, "abcde", 5);
    netlink_add_be16(&m, 8, 0x0102);
    netlink_add_be32(&m, 9, 0x01020304);
    netlink_add_be64(&m, 10, 0x0102030405060708);
    netlink_add_text(&m, 11, "abc");
    CHECK(!m.broken);
    EXPECT_BYTES("\x44\0\0\0\x34\x12\x05\0\x01\0\0\0\0\0\0\0HEAD"
                 "\x09\0\x07\0abcde\0\0\0"
                 "\x06\0\x08\0\x01\x02\0\0"
                 "\x08\0\x09\0\x01\x02\x03\x04"
                 "\x0c\0\x0a\0\x01\x02\x03\x04\x05\x06\x07\x08"
                 "\x08\0\x0b\0abc\0");
}

TEST(nested_attributes_hold_what_is_put_while_they_are_open)
{
    netlink_init(&m);
    netlink_begin(&m, 1, 0, "HEAD", 4);
    netlink_open(&m, 2);
    netlink_open(&m, 3);
    netlink_add(&m, 4, "x", 1);
    netlink_close(&m);
    netlink_close(&m);
    netlink_add(&m, 5, "yyyy", 4);
    CHECK(!m.broken && m.depth == 0);
    EXPECT_BYTES("\x2c\0\0\0\x01\0\x01\0\x01\0\0\0\0\0\0\0HEAD"
                 "\x10\0\x02\x80\x0c\0\x03\x80\x05\0\x04\0x\0\0\0"
                 "\x08\0\x05\0yyyy");
}

TEST(messages_follow_each_other_and_are_numbered)
{
    netlink_init(&m);
    netlink_begin(&m, 1, 0, "ONE.", 4);
    netlink_begin(&m, 2, 0, "TWO.", 4);
    netlink_add(&m, 3, "zzzz", 4);
    EXPECT_BYTES("\x14\0\0\0\x01\0\x01\0\x01\0\0\0\0\0\0\0ONE."
                 "\x1c\0\0\0\x02\0\x01\0\x02\0\0\0\0\0\0\0TWO.\x08\0\x03\0zzzz");
}

static void expect_not_sent(void)
{
    AUTO_CLOSE int sock = -1;
    struct err e;

    CHECK_OK(netlink_socket(NETLINK_ROUTE, &sock, &e), e);
    CHECK_INT(netlink_talk(sock, &m, &e), -ERR_BUG);
}

TEST(what_is_not_well_formed_is_not_sent)
{
    static const char zeros[NETLINK_ROOM];

    netlink_init(&m);
    expect_not_sent();
    netlink_begin(&m, 1, 0, "HEAD", 4); /* more than there is room for */
    netlink_add(&m, 1, zeros, NETLINK_ROOM - 20 - 3);
    CHECK(m.broken);
    expect_not_sent();
    netlink_init(&m);
    netlink_begin(&m, 1, 0, "HEAD", 4); /* left open */
    netlink_open(&m, 1);
    expect_not_sent();
    netlink_begin(&m, 1, 0, "HEAD", 4);
    CHECK(m.broken);
    netlink_init(&m);
    netlink_begin(&m, 1, 0, "HEAD", 4); /* closed once too often */
    netlink_close(&m);
    expect_not_sent();
    netlink_init(&m);
    netlink_begin(&m, 1, 0, "HEAD", 4);
    for (int i = 0; i <= NETLINK_DEPTH; i++)
        netlink_open(&m, 1);
    expect_not_sent();
}

TEST(as_much_as_there_is_room_for_fits)
{
    static const char zeros[NETLINK_ROOM];

    netlink_init(&m);
    netlink_begin(&m, 1, 0, "HEAD", 4);
    netlink_add(&m, 1, zeros, NETLINK_ROOM - 20 - 4);
    CHECK(!m.broken);
    CHECK_INT(m.n, NETLINK_ROOM);
}

static int ask_for_link(int sock, int index, uint16_t flags, struct err *e)
{
    struct ifinfomsg link = { .ifi_index = index };

    netlink_init(&m);
    netlink_begin(&m, RTM_GETLINK, flags, &link, sizeof link);
    return netlink_talk(sock, &m, e);
}

TEST(the_kernels_answer_is_the_result)
{
    AUTO_CLOSE int sock = -1;
    struct err e;

    CHECK_OK(netlink_socket(NETLINK_ROUTE, &sock, &e), e);
    CHECK_OK(ask_for_link(sock, 1, NLM_F_ACK, &e), e);
    CHECK_INT(ask_for_link(sock, 0x7ffffff0, NLM_F_ACK, &e), -ERR_SYS);
    CHECK_INT(e.sys, ENODEV);
    CHECK_INT(errno, ENODEV);
}

/* One bad message among good ones. */
TEST(any_error_counts)
{
    struct ifinfomsg good = { .ifi_index = 1 }, bad = { .ifi_index = 0x7ffffff0 };
    AUTO_CLOSE int sock = -1;
    struct err e;

    CHECK_OK(netlink_socket(NETLINK_ROUTE, &sock, &e), e);
    netlink_init(&m);
    netlink_begin(&m, RTM_GETLINK, NLM_F_ACK, &bad, sizeof bad);
    netlink_begin(&m, RTM_GETLINK, NLM_F_ACK, &good, sizeof good);
    CHECK_INT(netlink_talk(sock, &m, &e), -ERR_SYS);
    CHECK_INT(e.sys, ENODEV);
}
