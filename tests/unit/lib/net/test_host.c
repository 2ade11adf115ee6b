/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/net/host.h"

#include "base/own.h"
#include "harness/tap.h"

static struct host h;
static struct err e;
static uint16_t port;

/* Ways in which programs write, or are talked into reading, the machine itself. Each is refused or
 * known for what it is. */
static const char *const loopbacks[] = {
    "127.0.0.1",
    "127.0.0.2",
    "127.1.1.1",
    "127.255.255.254",
    "127.1",
    "127.0.1",
    "127.0.0.1.",
    "127.0.0.1..",
    "2130706433",
    "2130706433.",
    "4294967297",
    "0x7f000001",
    "0X7F000001",
    "0x7f.0x0.0x0.0x1",
    "0x7f.1",
    "0x7f.0.0.1",
    "0x7f.0.1",
    "127.0x1",
    "0x00000000007f000001",
    "017700000001",
    "0177.0.0.1",
    "0177.1",
    "00177.0.0.1",
    "0177.0.0.01",
    "0177.0x0.0.1",
    "127.000.000.001",
    "127.00.0.1",
    "0127.0.0.1",
    "127.0.0.0001",
    "127.65537",
    "127.0.65535",
    "127.16777215",
    "0",
    "0.",
    "00",
    "0x0",
    "0.0",
    "0.0.0",
    "0.0.0.0",
    "0.0.0.0.",
    "0.1.2.3",
    "256.256.256.256",
    "383.0.0.1",
    "127.0.0.1:80@",
    "@127.0.0.1",
    "127.0.0.1#",
    "127.0.0.1?",
    "127.0.0.1/",
    "127.0.0.1\\",
    "127.0.0.1 ",
    " 127.0.0.1",
    "\t127.0.0.1",
    "127.0.0.1\r",
    "127。0。0。1",
    "127.0.0.1%00",
    "127%2e0.0.1",
    "%31%32%37.0.0.1",
    "①②⑦.⓪.⓪.①",
    "１２７.0.0.1",
    "127．0．0．1",
    "[127.0.0.1]",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[0::1]",
    "[::0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:7F00:0001]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:7f00:0001::1]",
    "[2001::80ff:fffe]",
    "[::1%lo]",
    "[::1%25lo]",
    "[fe80::1%25lo]",
    "[[::1]]",
    "[::1",
    "::1]",
    "::1",
    "[::ffff:127.1]",
    "[::ffff:0x7f.0.0.1]",
    "[v1.::1]",
    "[]",
    "[ ::1]",
    "[::1 ]",
};

TEST(the_machine_itself_in_every_spelling)
{
    CHECK(COUNT_OF(loopbacks) >= 74);
    for (size_t i = 0; i < COUNT_OF(loopbacks); i++) {
        if (authority_parse(str_from(loopbacks[i]), 80, &h, &port, &e) < 0)
            continue;
        if (!h.is_address || address_classify(&h.address) == ADDRESS_PUBLIC ||
            address_classify(&h.address) == ADDRESS_EMBEDDED)
            FAIL("%s is taken for %s", loopbacks[i], h.name);
    }
}

static const struct {
    const char *in, *name;
    int port;
} good[] = {
    { "api.example.com:443", "api.example.com", 443 },
    { "api.example.com.:443", "api.example.com", 443 },
    { "API.Example.COM:443", "api.example.com", 443 },
    { "api.example.com", "api.example.com", 80 },
    { "localhost:1", "localhost", 1 },
    { "a:65535", "a", 65535 },
    { "_dmarc._tcp.example.com:25", "_dmarc._tcp.example.com", 25 },
    { "xn--80ak6aa92e.com:443", "xn--80ak6aa92e.com", 443 },
    { "XN--80AK6AA92E.com:443", "xn--80ak6aa92e.com", 443 },
    { "1e100.net:443", "1e100.net", 443 },
    { "1.2.3.4.example:443", "1.2.3.4.example", 443 },
    { "127.0.0.1:8080", "127.0.0.1", 8080 },
    { "1.2.3.4", "1.2.3.4", 80 },
    { "[2001:DB8::0:1]:443", "2001:db8::1", 443 },
    { "[::1]", "::1", 80 },
    { "[::ffff:7f00:1]:80", "::ffff:127.0.0.1", 80 },
};

TEST(one_form_for_every_spelling)
{
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        int r = authority_parse(str_from(good[i].in), 80, &h, &port, &e);

        if (r < 0)
            FAIL("%s: %s", good[i].in, e.msg);
        CHECK_STR(str_from(h.name), good[i].name);
        CHECK_INT(port, good[i].port);
    }
}

static const struct str refused[] = {
    /* brackets and zones */
    STR("[api.example.com]:443"),
    STR("[127.0.0.1]:80"),
    STR("[[::1]]:80"),
    STR("[fe80::1%25lo]:80"),
    STR("[fe80::1%lo]:80"),
    STR("[::1]x:80"),
    STR("[::1]80"),
    STR("[::1]]:80"),
    STR("[]:80"),
    STR("a[::1]:80"),
    STR("::1"),
    STR("2001:db8::1"),
    STR("2001:db8::1:443"),
    /* bytes */
    STR("evil.example\0.api.example.com:443"),
    STR("a\x01.example:443"),
    STR("a\t.example:443"),
    STR("a%00.example:443"),
    STR("a b.example:443"),
    STR("a\x7f:443"),
    STR("\xd0\xb0pi.example.com:443"),
    STR("api\xc2\xad.example.com:443"),
    STR("api\xe3\x80\x82"
        "example:443"),
    STR("\xef\xbc\x90:80"),
    STR("*.example.com:443"),
    STR("a,b:443"),
    STR("a;b:443"),
    STR("a|b:443"),
    STR("a\"b:443"),
    /* delimiters of URLs */
    STR("api.example.com@evil:80"),
    STR("evil\\@api.example.com:80"),
    STR("evil#@api:80"),
    STR("evil/api:80"),
    STR("evil?api:80"),
    STR("http://a:80"),
    STR("//a:80"),
    STR("user:pw@a:80"),
    STR("api.example.com:80:80"),
    /* labels */
    STR(""),
    STR("."),
    STR(".."),
    STR(":443"),
    STR(".:443"),
    STR(".a:443"),
    STR("a..b:443"),
    STR("a.b..:443"),
    STR("a.1:443"),
    STR("example.0x7f:443"),
    STR("a.b.c.1:443"),
    STR("1.2.3:443"),
    STR("1.2.3.4.:443"),
    STR("1.2.3.4.5:443"),
    STR("01.2.3.4:443"),
    /* ports */
    STR("a:"),
    STR("a:0"),
    STR("a:65536"),
    STR("a:443x"),
    STR("a:-1"),
    STR("a:+1"),
    STR("a:007"),
    STR("a:00"),
    STR("a: 80"),
    STR("a:80 "),
    STR("a:0x50"),
    STR("a:99999999999999999999"),
    STR("a:4294967376"),
    STR("a:\xef\xbc\x98"),
    STR("[::1]:"),
    STR("[::1]:0"),
    STR("1.2.3.4:"),
};

TEST(what_two_programs_could_read_differently_is_refused)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        port = 7;
        if (authority_parse(refused[i], 80, &h, &port, &e) >= 0)
            FAIL("'" STR_FMT "' is taken for %s", STR_ARG(refused[i]), h.name);
        CHECK_INT(port, 7);
        CHECK(e.msg[0]);
    }
}

TEST(a_port_is_required_without_a_default)
{
    CHECK_INT(authority_parse(STR("a.example"), 0, &h, &port, &e), -ERR_INVALID);
    CHECK_INT(authority_parse(STR("[::1]"), 0, &h, &port, &e), -ERR_INVALID);
    CHECK_OK(authority_parse(STR("a.example:1"), 0, &h, &port, &e), e);
}

/* Of 63 a's and dots, n bytes in all. */
static struct str long_name(char *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = i % 64 == 63 ? '.' : 'a';
    return (struct str){ out, n };
}

TEST(lengths)
{
    char name[300];

    CHECK_OK(host_parse(long_name(name, 253), false, &h, &e), e);
    CHECK_INT(strlen(h.name), 253);
    name[253] = '.';
    CHECK_OK(host_parse((struct str){ name, 254 }, false, &h, &e), e);
    CHECK_INT(strlen(h.name), 253);
    CHECK_INT(host_parse(long_name(name, 254), false, &h, &e), -ERR_INVALID);
    memset(name, 'a', sizeof name);
    CHECK_OK(host_parse((struct str){ name, 63 }, false, &h, &e), e);
    CHECK_INT(host_parse((struct str){ name, 64 }, false, &h, &e), -ERR_INVALID);
    CHECK_INT(host_parse((struct str){ NULL, 0 }, false, &h, &e), -ERR_INVALID);
    CHECK_INT(authority_parse((struct str){ NULL, 0 }, 80, &h, &port, &e), -ERR_INVALID);
}

TEST(metadata_services)
{
    static const char *const services[] = {
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata.goog",
        "metadata",
        "instance-data",
        "169.254.169.254",
        "100.100.100.200",
    };
    static const char *const others[] = { "metadata.example.com", "google.internal", "1.1.1.1",
                                          "169.254.1.1" };

    for (size_t i = 0; i < COUNT_OF(services); i++)
        CHECK(host_parse(str_from(services[i]), false, &h, &e) >= 0 && host_is_metadata(&h));
    for (size_t i = 0; i < COUNT_OF(others); i++)
        CHECK(host_parse(str_from(others[i]), false, &h, &e) >= 0 && !host_is_metadata(&h));
    CHECK(host_parse(STR("fd00:ec2::254"), true, &h, &e) >= 0 && host_is_metadata(&h));
    CHECK(host_parse(STR("::ffff:169.254.169.254"), true, &h, &e) >= 0 && host_is_metadata(&h));
}

/* DNS has them, and a wildcard may match them. */
TEST(labels_may_begin_and_end_with_a_hyphen)
{
    static const struct str names[] = { STR("-a.example:443"), STR("A-.example:443"),
                                        STR("--.example.:443") };

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CHECK_OK(authority_parse(names[i], 0, &h, &port, &e), e);
        CHECK(!h.is_address);
    }
    CHECK_STR(str_from(h.name), "--.example");
}
