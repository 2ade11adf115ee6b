/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "lib/dns/message.h"
#include "harness/tap.h"

static struct dns_answer a;
static struct err e;
static char text[ADDRESS_TEXT_MAX];

static const struct dns_question asked = { "api.example.com", DNS_A, DNS_IN };
static const struct dns_question asked_v6 = { "api.example.com", DNS_AAAA, DNS_IN };

#define HEAD(flags, n)      "\x12\x34" flags "\0\1\0" n "\0\0\0\0"
#define QUESTION            "\3api\7example\3com\0\0\1\0\1"
#define GOOD(n)             HEAD("\x81\x80", n) QUESTION /* 33 bytes: records begin at 0x21 */
#define SELF                "\xc0\x0c"                   /* api.example.com */
#define PARENT              "\xc0\x10"                   /* example.com */
#define A(owner, ttl, last) owner "\0\1\0\1" ttl "\0\4\xc0\0\2" last
#define TTL(b)              "\0\0\0" b

/* A CNAME within example.com: its label has one byte, so its data has 4. */
#define ALIAS(owner, ttl, label) owner "\0\5\0\1" ttl "\0\4\1" label PARENT
#define AT(label)                "\1" label PARENT

static int parse(struct str message)
{
    return dns_parse_answer(message, &asked, 0x1234, &a, &e);
}

TEST(addresses)
{
    CHECK_OK(parse(STR(GOOD("\2") A(SELF, TTL("\x3c"), "\1") A(SELF, TTL("\x1e"), "\2"))), e);
    CHECK_INT(a.rcode, DNS_NOERROR);
    CHECK_INT(a.n, 2);
    CHECK_INT(a.ttl, 30);
    CHECK_INT(a.hops, 0);
    CHECK_STR(address_text(&a.addresses[0], text), "192.0.2.1");
    CHECK_STR(address_text(&a.addresses[1], text), "192.0.2.2");
}

TEST(ipv6_addresses)
{
    struct str m = STR(
        HEAD("\x81\x80", "\1") "\3api\7example\3com\0\0\x1c\0\1" SELF
                               "\0\x1c\0\1\0\0\0\5\0\x10\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1");

    CHECK_OK(dns_parse_answer(m, &asked_v6, 0x1234, &a, &e), e);
    CHECK_INT(a.n, 1);
    CHECK_STR(address_text(&a.addresses[0], text), "2001:db8::1");
}

TEST(letters_in_any_case)
{
    CHECK_OK(parse(STR(HEAD("\x81\x80", "\1") "\3aPI\7EXAMPLE\3com\0\0\1\0\1" A(
                 "\3Api\7exAmple\3COM\0", TTL("\1"), "\1"))),
             e);
    CHECK_INT(a.n, 1);
}

TEST(a_chain_in_any_order)
{
    CHECK_OK(parse(STR(GOOD("\3") A(AT("c"), TTL("\x63"), "\7") ALIAS(AT("b"), TTL("\5"), "c")
                           ALIAS(SELF, TTL("\x63"), "b"))),
             e);
    CHECK_INT(a.n, 1);
    CHECK_INT(a.hops, 2);
    CHECK_INT(a.ttl, 5);
    CHECK_STR(address_text(&a.addresses[0], text), "192.0.2.7");
}

TEST(records_of_other_names_are_not_taken)
{
    CHECK_OK(parse(STR(GOOD("\3") A(AT("x"), TTL("\1"), "\1") A(SELF, TTL("\2"), "\2")
                           A(PARENT, TTL("\1"), "\3"))),
             e);
    CHECK_INT(a.n, 1);
    CHECK_INT(a.ttl, 2);
    CHECK_STR(address_text(&a.addresses[0], text), "192.0.2.2");
    /* not even beside an alias */
    CHECK_OK(parse(STR(GOOD("\2") A(SELF, TTL("\2"), "\2") ALIAS(SELF, TTL("\1"), "b"))), e);
    CHECK_INT(a.n, 0);
    CHECK_INT(a.ttl, 0);
    /* other classes and types */
    CHECK_OK(
        parse(STR(GOOD("\2") SELF "\0\1\0\3\0\0\0\1\0\4\1\2\3\4" SELF "\0\x10\0\1\0\0\0\1\0\2\1x")),
        e);
    CHECK_INT(a.n, 0);
}

TEST(names_that_look_alike_are_not_the_same)
{
    /* "api.example" as one label, and with a NUL */
    CHECK_OK(parse(STR(GOOD("\1") A("\x0b"
                                    "api.example\3com\0",
                                    TTL("\1"), "\1"))),
             e);
    CHECK_INT(a.n, 0);
    CHECK_OK(parse(STR(GOOD("\1") A("\4api\0\7example\3com\0", TTL("\1"), "\1"))), e);
    CHECK_INT(a.n, 0);
}

TEST(a_great_ttl_is_none)
{
    CHECK_OK(parse(STR(GOOD("\1") A(SELF, "\x80\0\0\0", "\1"))), e);
    CHECK_INT(a.ttl, 0);
    CHECK_OK(parse(STR(GOOD("\1") A(SELF, "\x7f\xff\xff\xff", "\1"))), e);
    CHECK_INT(a.ttl, INT32_MAX);
}

TEST(failures_and_no_data)
{
    CHECK_OK(parse(STR(HEAD("\x81\x83", "\0") QUESTION)), e);
    CHECK_INT(a.rcode, DNS_NXDOMAIN);
    CHECK_OK(parse(STR(HEAD("\x81\x82", "\0") QUESTION)), e);
    CHECK_INT(a.rcode, DNS_SERVFAIL);
    CHECK_OK(parse(STR(HEAD("\x81\x83", "\1") QUESTION A(SELF, TTL("\1"), "\1"))), e);
    CHECK_INT(a.n, 0);
    CHECK_OK(parse(STR(GOOD("\0"))), e);
    CHECK_INT(a.rcode, DNS_NOERROR);
    CHECK_INT(a.n, 0);
}

/* An SOA record with this minimum, of a message without answers whose rcode is NXDOMAIN. */
#define NO_SUCH(n)             "\x12\x34\x81\x83\0\1\0\0\0" n "\0\0" QUESTION
#define SOA(owner, ttl, least) owner "\0\6\0\1" ttl "\0\x18" PARENT PARENT NUMBERS least
#define NUMBERS                "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4"

static const struct {
    struct str message;
    uint32_t ttl;
} nothing[] = {
    { STR(NO_SUCH("\1") SOA(PARENT, TTL("\x3c"), TTL("\7"))), 7 },
    { STR(NO_SUCH("\1") SOA(PARENT, TTL("\6"), TTL("\7"))), 6 },
    { STR(NO_SUCH("\1") SOA(SELF, TTL("\6"), TTL("\7"))), 6 },
    { STR(NO_SUCH("\1") SOA("\0", TTL("\6"), TTL("\7"))), 6 }, /* the root's */
    { STR(NO_SUCH("\2") A(PARENT, TTL("\1"), "\1") SOA(PARENT, TTL("\6"), TTL("\7"))), 6 },
    { STR("\x12\x34\x81\x80\0\1\0\0\0\1\0\0" QUESTION SOA(PARENT, TTL("\6"), TTL("\7"))), 6 },
    { STR(NO_SUCH("\0")), 0 },
    { STR(NO_SUCH("\0") SOA(PARENT, TTL("\6"), TTL("\7"))), 0 },
    /* another's zone, another class, a failure */
    { STR(NO_SUCH("\1") SOA("\2pi" PARENT, TTL("\6"), TTL("\7"))), 0 },
    { STR(NO_SUCH("\1") SOA("\7example\3org\0", TTL("\6"), TTL("\7"))), 0 },
    { STR(NO_SUCH("\1") SOA("\1x" SELF, TTL("\6"), TTL("\7"))), 0 },
    { STR(NO_SUCH("\1") PARENT "\0\6\0\3\0\0\0\6\0\x18" PARENT PARENT NUMBERS TTL("\7")), 0 },
    { STR("\x12\x34\x81\x82\0\1\0\0\0\1\0\0" QUESTION SOA(PARENT, TTL("\6"), TTL("\7"))), 0 },
    /* malformed: cut short, too long, a name that leads nowhere */
    { STR(NO_SUCH("\1") PARENT "\0\6\0\1\0\0\0\6\0\x18" PARENT PARENT NUMBERS "\0\0"), 0 },
    { STR(NO_SUCH("\1") PARENT "\0\6\0\1\0\0\0\6\0\x17" PARENT PARENT NUMBERS "\0\0\1"), 0 },
    { STR(NO_SUCH("\1") PARENT "\0\6\0\1\0\0\0\6\0\x19" PARENT PARENT NUMBERS TTL("\7") "x"), 0 },
    { STR(NO_SUCH("\1") PARENT "\0\6\0\1\0\0\0\6\0\x18" PARENT "\xff\xff" NUMBERS TTL("\7")), 0 },
};

TEST(how_long_there_is_nothing)
{
    for (size_t i = 0; i < COUNT_OF(nothing); i++) {
        CHECK_OK(parse(nothing[i].message), e);
        if (a.n != 0 || a.ttl != nothing[i].ttl)
            FAIL("message %zu: %u s", i, a.ttl);
    }
}

TEST(a_truncated_answer_is_only_that)
{
    CHECK_OK(parse(STR(HEAD("\x83\x80", "\2") QUESTION A(SELF, TTL("\1"), "\1"))), e);
    CHECK(a.truncated);
    CHECK_INT(a.n, 0);
}

static const struct str strangers[] = {
    STR(""),
    STR("\x12\x34\x81\x80"),
    STR("\x12\x35\x81\x80\0\1\0\1\0\0\0\0" QUESTION A(SELF, TTL("\1"), "\1")),
    STR(HEAD("\1\0", "\0") QUESTION),     /* our own question */
    STR(HEAD("\x89\x80", "\0") QUESTION), /* another opcode */
    STR("\x12\x34\x81\x80\0\0\0\1\0\0\0\0" A("\3api\7example\3com\0", TTL("\1"), "\1")),
    STR("\x12\x34\x81\x80\0\2\0\0\0\0\0\0" QUESTION QUESTION),
    STR(HEAD("\x81\x80", "\0") "\3api\7example\3org\0\0\1\0\1"),
    STR(HEAD("\x81\x80", "\0") "\3api\7example\3com\0\0\x1c\0\1"),
    STR(HEAD("\x81\x80", "\0") "\3api\7example\3com\0\0\1\0\3"),
    STR(HEAD("\x81\x80", "\0") "\x0b"
                               "api.example\3com\0\0\1\0\1"),
    STR(HEAD("\x81\x80", "\0") "\xc0\x0c\0\1\0\1"),
    STR(HEAD("\x81\x80", "\0") "\3api\7example\3com\0\0\1\0"),
};

TEST(messages_that_answer_something_else)
{
    for (size_t i = 0; i < COUNT_OF(strangers); i++)
        if (parse(strangers[i]) != -ERR_CONFLICT)
            FAIL("message %zu is not a stranger's", i);
}

static const struct str malformed[] = {
    STR(GOOD("\1")),
    STR(GOOD("\2") A(SELF, TTL("\1"), "\1")),
    STR(GOOD("\1") SELF "\0\1\0\1\0\0\0\1\0\4\1\2\3"),
    STR(GOOD("\1") SELF "\0\1\0\1\0\0\0\1\0\3\1\2\3"),
    STR(GOOD("\1") SELF "\0\1\0\1\0\0\0\1\0\5\1\2\3\4\5"),
    STR(GOOD("\1") SELF "\0\1\0\1\0\0\0\1\0\0"),
    STR(GOOD("\1") SELF "\0\1\0\1\0\0\0\1\xff\xff\1\2\3\4"),
    STR(GOOD("\1") SELF "\0\x1c\0\1\0\0\0\1\0\4\1\2\3\4"),
    STR(GOOD("\2") A(SELF, TTL("\1"), "\1")
            AT("x") "\0\1\0\1\0\0\0\1\0\1\1"), /* a stranger's, too */
    /* pointers: to itself, forward, into the head, beyond the end, cut off, two that meet */
    STR(GOOD("\1") A("\xc0\x21", TTL("\1"), "\1")),
    STR(GOOD("\1") A("\xc0\x23", TTL("\1"), "\1")),
    STR(GOOD("\1") A("\xc0\x04", TTL("\1"), "\1")),
    STR(GOOD("\1") A("\xff\xff", TTL("\1"), "\1")),
    STR(GOOD("\1") "\xc0"),
    STR(GOOD("\1") A("\1a\xc0\x21", TTL("\1"), "\1")),
    STR(GOOD("\2") A(SELF, TTL("\1"), "\1") A("\xc0\x33\xc0\x31", TTL("\1"), "\1")),
    /* kinds of labels that do not exist */
    STR(GOOD("\1") A("\x41"
                     "a",
                     TTL("\1"), "\1")),
    STR(GOOD("\1") A("\x80\x0c", TTL("\1"), "\1")),
    /* aliases: data too short, too long, two of them, to what is no host name */
    STR(GOOD("\1") SELF "\0\5\0\1\0\0\0\1\0\3\1b\xc0\x10"),
    STR(GOOD("\1") SELF "\0\5\0\1\0\0\0\1\0\5\1b\xc0\x10x"),
    STR(GOOD("\1") SELF "\0\5\0\1\0\0\0\1\0\0"),
    STR(GOOD("\2") ALIAS(SELF, TTL("\1"), "b") ALIAS(SELF, TTL("\1"), "c")),
    STR(GOOD("\1") ALIAS(SELF, TTL("\1"), "\0")),
    STR(GOOD("\1") ALIAS(SELF, TTL("\1"), ".")),
};

TEST(malformed_answers)
{
    for (size_t i = 0; i < COUNT_OF(malformed); i++) {
        int r = parse(malformed[i]);

        if (r != -ERR_INVALID)
            FAIL("message %zu: %d", i, r);
    }
}

#define HOP(from, to) ALIAS(AT(from), TTL("\1"), to)
#define FOUR          ALIAS(SELF, TTL("\1"), "b") HOP("b", "c") HOP("c", "d") HOP("d", "e")
#define FOUR_MORE     HOP("e", "f") HOP("f", "g") HOP("g", "h") HOP("h", "i")

TEST(loops_and_long_chains)
{
    CHECK_INT(parse(STR(GOOD("\1") SELF "\0\5\0\1\0\0\0\1\0\2" SELF)), -ERR_TOO_BIG);
    CHECK_INT(
        parse(STR(GOOD("\2") ALIAS(SELF, TTL("\1"), "b") AT("b") "\0\5\0\1\0\0\0\1\0\2" SELF)),
        -ERR_TOO_BIG);
    CHECK_OK(parse(STR(GOOD("\x09") FOUR FOUR_MORE A(AT("i"), TTL("\1"), "\1"))), e);
    CHECK_INT(a.hops, 8);
    CHECK_INT(a.n, 1);
    CHECK_INT(parse(STR(GOOD("\x0a") FOUR FOUR_MORE ALIAS(AT("i"), TTL("\1"), "j")
                            A(AT("j"), TTL("\1"), "\1"))),
              -ERR_TOO_BIG);
}

/* The message with n times the same address. */
static int parse_many(unsigned n)
{
    static char message[65536];
    struct str start = STR(GOOD("\0")), record = STR(A(SELF, TTL("\1"), "\1"));
    size_t at = start.n;

    memcpy(message, start.p, start.n);
    message[6] = (char)(n >> 8);
    message[7] = (char)n;
    for (unsigned i = 0; i < n; i++, at += record.n)
        memcpy(message + at, record.p, record.n);
    return parse((struct str){ message, at });
}

TEST(many_addresses)
{
    CHECK_OK(parse_many(16), e);
    CHECK_INT(a.n, 16);
    CHECK_OK(parse_many(17), e);
    CHECK_INT(a.n, 17);
    CHECK_OK(parse_many(256), e);
    CHECK_INT(a.n, 256); /* all of them, to be checked */
    CHECK_INT(parse_many(257), -ERR_TOO_BIG);
    CHECK_INT(parse_many(4000), -ERR_TOO_BIG);
}

TEST(nothing_is_written_on_failure)
{
    memset(&a, 0x55, sizeof a);
    CHECK(parse(malformed[0]) < 0);
    for (size_t i = 0; i < sizeof a; i++)
        CHECK(((const unsigned char *)&a)[i] == 0x55);
}
