/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>

#include "base/own.h"
#include "harness/tap.h"

static struct address a, b;
static char text[ADDRESS_TEXT_MAX];

/* Written, as it is read back. */
static const struct {
    const char *in, *out;
} good[] = {
    { "0.0.0.0", "0.0.0.0" },
    { "127.0.0.1", "127.0.0.1" },
    { "255.255.255.255", "255.255.255.255" },
    { "9.10.99.100", "9.10.99.100" },
    { "::", "::" },
    { "::1", "::1" },
    { "1::", "1::" },
    { "0:0:0:0:0:0:0:0", "::" },
    { "2001:DB8::A", "2001:db8::a" },
    { "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1" },
    { "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8" },
    { "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
    { "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8" },
    { "1::8", "1::8" },
    { "fe80::1:0:0:1", "fe80::1:0:0:1" },
    { "::ffff:127.0.0.1", "::ffff:127.0.0.1" },
    { "::ffff:7f00:1", "::ffff:127.0.0.1" },
    { "64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe" },
    { "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304" },
    { "1:2:3:4:5::1.2.3.4", "1:2:3:4:5:0:102:304" },
    { "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
};

static const char *const bad[] = {
    "",
    " ",
    ".",
    "1",
    "127.1",
    "127.0.1",
    "127.0.0.1.",
    ".127.0.0.1",
    "127..0.1",
    "127.0.0.1.1",
    "0127.0.0.1",
    "127.0.0.01",
    "127.00.0.1",
    "256.0.0.1",
    "127.0.0.999",
    "127.0.0.1000",
    "0x7f.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "127.0.0.1 ",
    " 127.0.0.1",
    "127.0.0.1/8",
    "+127.0.0.1",
    "-1.0.0.1",
    "127.0.0.a",
    "127,0,0,1",
    ":",
    ":::",
    "1:::2",
    "::1::",
    "1::2::3",
    ":1",
    "1:",
    ":1::2",
    "1::2:",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::1:2:3:4:5:6:7:8",
    "1:2:3:4::5:6:7:8",
    "00001::",
    "12345::",
    "g::",
    "::g",
    "fe80::1%lo",
    "fe80::1%25lo",
    "[::1]",
    "::1]",
    "::127.1",
    "::127.0.0.01",
    "::127.0.0.1:1",
    "1.2.3.4::",
    "::1.2.3.4.5",
    "127.0.0.1::",
    "1:2:3:4:5:6:7:1.2.3.4",
    "1:2:3:4:5:6:7::1.2.3.4",
    "::ffff:0x7f.0.0.1",
    "::ffff:2130706433",
    "\xef\xbc\x91.0.0.1",
};

TEST(what_is_read_is_written_in_one_form)
{
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (!address_parse(str_from(good[i].in), &a))
            FAIL("%s is refused", good[i].in);
        CHECK_STR(address_text(&a, text), good[i].out);
        CHECK(address_parse(str_from(good[i].out), &b) && address_equal(&a, &b));
    }
}

TEST(other_spellings_are_refused)
{
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (address_parse(str_from(bad[i]), &a))
            FAIL("'%s' is taken", bad[i]);
    CHECK(!address_parse((struct str){ NULL, 0 }, &a));
    CHECK(!address_parse(STR("127.0.0.1\0"), &a));
    CHECK(!address_parse(STR("127.0.0\0.1"), &a));
    CHECK(!address_parse(STR("::1\0"), &a));
}

/* What we take, inet_pton() takes, with the same bytes; and the other way round. */
static void compare(struct str s)
{
    char copy[64];
    uint8_t theirs[16] = { 0 };
    bool ours = address_parse(s, &a);
    int family = str_find(s, ':') < s.n ? AF_INET6 : AF_INET;

    CHECK(str_copy(s, copy, sizeof copy));
    if (ours != (inet_pton(family, copy, theirs) == 1))
        FAIL("%s: ours says %d", copy, ours);
    if (ours)
        CHECK(memcmp(a.bytes, theirs, sizeof theirs) == 0);
}

TEST(inet_pton_agrees)
{
    static const char bytes[] = "0012579af:::..g";
    unsigned seed = 1;

    for (size_t i = 0; i < COUNT_OF(good); i++)
        compare(str_from(good[i].in));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        compare(str_from(bad[i]));
    for (int i = 0; i < 200000; i++) {
        char s[48];
        size_t n;

        seed = seed * 1103515245 + 12345;
        n = seed >> 16 & 15;
        for (size_t k = 0; k < n; k++) {
            seed = seed * 1103515245 + 12345;
            s[k] = bytes[(seed >> 16) % (sizeof bytes - 1)];
        }
        compare((struct str){ s, n });
    }
}

static void check_prefix(const char *p, const char *in, bool has)
{
    struct prefix prefix;

    CHECK(prefix_parse(str_from(p), &prefix));
    CHECK(address_parse(str_from(in), &a));
    if (prefix_has(&prefix, &a) != has)
        FAIL("%s has %s: not %d", p, in, has);
}

TEST(prefixes)
{
    check_prefix("10.0.0.0/8", "10.255.0.1", true);
    check_prefix("10.0.0.0/8", "11.0.0.0", false);
    check_prefix("172.16.0.0/12", "172.31.255.255", true);
    check_prefix("172.16.0.0/12", "172.32.0.0", false);
    check_prefix("0.0.0.0/0", "1.2.3.4", true);
    check_prefix("0.0.0.0/0", "::1", false);
    check_prefix("::/0", "1.2.3.4", false);
    check_prefix("::/0", "ffff::", true);
    check_prefix("192.0.2.7", "192.0.2.7", true);
    check_prefix("192.0.2.7", "192.0.2.6", false);
    check_prefix("192.0.2.6/31", "192.0.2.7", true);
    check_prefix("fe80::/10", "febf::1", true);
    check_prefix("fe80::/10", "fec0::1", false);
    check_prefix("::1/128", "::1", true);
    check_prefix("::1", "::2", false);
}

TEST(prefixes_that_are_refused)
{
    static const char *const refused[] = {
        "",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "10.1.0.0/8",
        "10/8",
        "::/129",
        "::1/64",
        "10.0.0.0/ 8",
        "10.0.0.0/a",
        "[::]/0",
        "10.0.0.0/0",
        "10.0.0.0/999",
        "::/0128",
    };
    struct prefix p;

    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (prefix_parse(str_from(refused[i]), &p))
            FAIL("'%s' is taken", refused[i]);
}

TEST(families_do_not_equal_each_other)
{
    CHECK(address_parse(STR("0.0.0.0"), &a) && address_parse(STR("::"), &b));
    CHECK(!address_equal(&a, &b));
    CHECK(address_parse(STR("127.0.0.1"), &a) && address_parse(STR("::ffff:127.0.0.1"), &b));
    CHECK(!address_equal(&a, &b));
}

TEST(socket_addresses_and_back)
{
    struct sockaddr_storage ss;
    struct sockaddr *sa = (struct sockaddr *)&ss;
    uint16_t port = 0;

    CHECK(address_parse(STR("192.0.2.1"), &a));
    CHECK_INT(address_to_sockaddr(&a, 443, &ss), sizeof(struct sockaddr_in));
    CHECK(address_from_sockaddr(sa, &b, &port) && address_equal(&a, &b));
    CHECK_INT(port, 443);
    CHECK(address_parse(STR("2001:db8::1"), &a));
    CHECK_INT(address_to_sockaddr(&a, 53, &ss), sizeof(struct sockaddr_in6));
    CHECK(address_from_sockaddr(sa, &b, &port) && address_equal(&a, &b));
    CHECK_INT(port, 53);
    CHECK(address_from_sockaddr(sa, &b, NULL));
    sa->sa_family = AF_UNIX;
    CHECK(!address_from_sockaddr(sa, &b, &port));
}
