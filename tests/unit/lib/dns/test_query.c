/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/message.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>

#include "base/own.h"
#include "harness/tap.h"

static struct dns_query q;
static enum dns_rcode rcode;
static struct err e;

#define HEAD(flags, counts) "\x12\x34" flags counts
#define ONE                 "\0\1\0\0\0\0\0\0"
#define NAME                "\3aPi\7example\3com\0"
#define A_IN                "\0\1\0\1"
#define OPT                 "\0\0\x29\x04\xd0\0\0\0\0\0\0"

TEST(a_query)
{
    CHECK_OK(dns_parse_query(STR(HEAD("\1\0", ONE) NAME A_IN), &q, &rcode, &e), e);
    CHECK_INT(q.id, 0x1234);
    CHECK(q.recursion_desired && !q.has_edns);
    CHECK_STR(str_from(q.question.name), "api.example.com");
    CHECK_INT(q.question.type, DNS_A);
    CHECK_INT(q.question.class, DNS_IN);
}

TEST(a_query_with_edns)
{
    CHECK_OK(dns_parse_query(STR(HEAD("\1\x20", "\0\1\0\0\0\0\0\1") NAME A_IN OPT), &q, &rcode, &e),
             e);
    CHECK(q.has_edns);
    CHECK_INT(q.edns_size, 1232);
}

TEST(options_of_edns_are_passed_over)
{
    struct str with_cookie =
        STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN "\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x08"
                                                       "12345678");

    CHECK_OK(dns_parse_query(with_cookie, &q, &rcode, &e), e);
    CHECK(q.has_edns);
}

/* What comes back, and whether the question can be repeated with it. */
static const struct {
    enum dns_rcode rcode;
    bool repeats;
    struct str message;
} refused[] = {
    /* not to be answered: too short, or an answer */
    { DNS_NOERROR, false, STR("") },
    { DNS_NOERROR, false, STR(HEAD("\1\0", "\0\1\0\0\0\0\0")) },
    { DNS_NOERROR, false, STR(HEAD("\x81\x80", ONE) NAME A_IN) },
    { DNS_NOTIMP, false, STR(HEAD("\x11\0", ONE) NAME A_IN) },
    { DNS_NOTIMP, false, STR(HEAD("\x28\0", ONE) NAME A_IN) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", "\0\0\0\0\0\0\0\0")) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", "\0\2\0\0\0\0\0\0") NAME A_IN NAME A_IN) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", "\0\1\0\1\0\0\0\0") NAME A_IN) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", "\0\1\0\0\0\1\0\0") NAME A_IN) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", "\0\1\0\0\0\0\0\2") NAME A_IN OPT OPT) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", ONE)) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", ONE) "\3api") },
    { DNS_FORMERR, false,
      STR(HEAD("\1\0", ONE) "\x10"
                            "api\0" A_IN) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", ONE) "\3api\xc0\x0c" A_IN) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", ONE) "\xc0\x0c" A_IN) },
    { DNS_FORMERR, false,
      STR(HEAD("\1\0", ONE) "\x40"
                            "api\0" A_IN) },
    { DNS_FORMERR, false, STR(HEAD("\1\0", ONE) NAME "\0\1\0") },
    { DNS_FORMERR, true, STR(HEAD("\1\0", ONE) NAME A_IN "x") },
    { DNS_FORMERR, true, STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN) },
    { DNS_FORMERR, true, STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN OPT "x") },
    { DNS_FORMERR, true, STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN NAME A_IN) },
    { DNS_FORMERR, true,
      STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN "\0\0\x29\x04\xd0\0\0\0\0\0\1") },
    { DNS_BADVERS, true,
      STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN "\0\0\x29\x04\xd0\0\1\0\0\0\0") },
    /* names that are no host names */
    { DNS_NXDOMAIN, true, STR(HEAD("\1\0", ONE) "\3a.b\3com\0" A_IN) },
    { DNS_NXDOMAIN, true, STR(HEAD("\1\0", ONE) "\3a\0b\3com\0" A_IN) },
    { DNS_NXDOMAIN, true, STR(HEAD("\1\0", ONE) "\2\xc3\xa4\0" A_IN) },
    { DNS_NXDOMAIN, true, STR(HEAD("\1\0", ONE) "\1*\3com\0" A_IN) },
    { DNS_REFUSED, true, STR(HEAD("\1\0", ONE) NAME "\0\1\0\3") },
    { DNS_REFUSED, true, STR(HEAD("\1\0", ONE) NAME "\0\1\0\xff") },
    { DNS_NOTIMP, true, STR(HEAD("\1\0", ONE) NAME "\0\0\0\1") },
    { DNS_NOTIMP, true, STR(HEAD("\1\0", ONE) NAME "\0\x29\0\1") },
    { DNS_NOTIMP, true, STR(HEAD("\1\0", ONE) NAME "\0\xfc\0\1") },
    { DNS_NOTIMP, true, STR(HEAD("\1\0", ONE) NAME "\0\xff\0\1") },
};

TEST(what_cannot_be_answered)
{
    uint8_t out[DNS_UDP_MIN];

    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        rcode = (enum dns_rcode)99;
        if (dns_parse_query(refused[i].message, &q, &rcode, &e) != -ERR_INVALID)
            FAIL("message %zu is taken", i);
        if (rcode != refused[i].rcode || (q.wire_n_ > 0) != refused[i].repeats)
            FAIL("message %zu: rcode %d, %zu bytes repeated: %s", i, rcode, q.wire_n_, e.msg);
        CHECK(dns_build_answer(&q, rcode, NULL, 0, 0, out, sizeof out) >= 12);
        CHECK_INT(out[3] & 15, rcode & 15);
        CHECK_INT(out[5], refused[i].repeats);
    }
}

TEST(the_longest_name)
{
    uint8_t message[DNS_QUERY_MAX + 1] = { 0x12, 0x34, 1, 0, 0, 1 };
    size_t n = 12;

    for (int i = 0; i < 4; i++) {
        size_t label = i < 3 ? 63 : 61;

        message[n++] = (uint8_t)label;
        memset(message + n, 'a', label);
        n += label;
    }
    message[n + 2] = message[n + 4] = 1;
    CHECK_INT(n + 5, 12 + 255 + 4);
    CHECK_OK(dns_parse_query((struct str){ (char *)message, n + 5 }, &q, &rcode, &e), e);
    CHECK_INT(strlen(q.question.name), 253);
    message[n - 62] = 62; /* one byte more */
    memset(message + n, 0, 6);
    message[n] = 'a';
    CHECK_INT(dns_parse_query((struct str){ (char *)message, n + 6 }, &q, &rcode, &e),
              -ERR_INVALID);
    CHECK_INT(rcode, DNS_FORMERR);
}

static struct address addresses[40];

static size_t some_addresses(size_t n, bool v6)
{
    for (size_t i = 0; i < n; i++)
        addresses[i] = (struct address){ .v6 = v6, .bytes = { 192, 0, 2, (uint8_t)i } };
    return n;
}

/* glibc reads what we write. */
TEST(answers_as_the_libc_reads_them)
{
    uint8_t out[DNS_UDP_MAX];
    ns_msg m;
    ns_rr rr;
    size_t n = some_addresses(3, false);

    addresses[1].v6 = true; /* was not asked for */
    CHECK_OK(dns_parse_query(STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN OPT), &q, &rcode, &e),
             e);
    n = dns_build_answer(&q, DNS_NOERROR, addresses, n, 30, out, sizeof out);
    CHECK(ns_initparse(out, (int)n, &m) == 0);
    CHECK_INT(ns_msg_id(m), 0x1234);
    CHECK_INT(ns_msg_getflag(m, ns_f_qr), 1);
    CHECK_INT(ns_msg_getflag(m, ns_f_rd), 1);
    CHECK_INT(ns_msg_getflag(m, ns_f_ra), 1);
    CHECK_INT(ns_msg_getflag(m, ns_f_tc), 0);
    CHECK_INT(ns_msg_count(m, ns_s_an), 2);
    CHECK_INT(ns_msg_count(m, ns_s_ar), 1);
    CHECK(ns_parserr(&m, ns_s_qd, 0, &rr) == 0);
    CHECK_STR(str_from(ns_rr_name(rr)), "aPi.example.com"); /* in the client's letters */
    CHECK(ns_parserr(&m, ns_s_an, 1, &rr) == 0);
    CHECK_INT(ns_rr_type(rr), ns_t_a);
    CHECK_INT(ns_rr_ttl(rr), 30);
    CHECK_INT(ns_rr_rdlen(rr), 4);
    CHECK_INT(ns_rr_rdata(rr)[3], 2);
    CHECK(ns_parserr(&m, ns_s_ar, 0, &rr) == 0);
    CHECK_INT(ns_rr_type(rr), ns_t_opt);
}

TEST(answers_that_do_not_fit_are_truncated)
{
    uint8_t out[DNS_UDP_MAX];
    size_t n;

    CHECK_OK(dns_parse_query(STR(HEAD("\1\0", ONE) NAME "\0\x1c\0\1"), &q, &rcode, &e), e);
    n = dns_build_answer(&q, DNS_NOERROR, addresses, some_addresses(17, true), 1, out, 512);
    CHECK_INT(n, 12 + 21 + 16 * 28 + 28); /* 509 bytes */
    CHECK(!(out[2] & 2));
    n = dns_build_answer(&q, DNS_NOERROR, addresses, some_addresses(18, true), 1, out, 512);
    CHECK_INT(n, 12 + 21);
    CHECK(out[2] & 2);
    CHECK_INT(out[7], 0);
    CHECK_INT(dns_build_answer(&q, DNS_NOERROR, addresses, 18, 1, out, 12 + 20), 0);
    n = dns_build_answer(&q, DNS_REFUSED, addresses, 18, 1, out, 512);
    CHECK_INT(n, 12 + 21);
    CHECK(!(out[2] & 2));
}

TEST(blocked_names)
{
    uint8_t out[DNS_UDP_MAX];
    ns_msg m;
    ns_rr rr;
    size_t n;

    CHECK_OK(dns_parse_query(STR(HEAD("\1\0", "\0\1\0\0\0\0\0\1") NAME A_IN OPT), &q, &rcode, &e),
             e);
    n = dns_build_blocked(&q, out, sizeof out);
    CHECK(ns_initparse(out, (int)n, &m) == 0);
    CHECK_INT(ns_msg_getflag(m, ns_f_rcode), DNS_NXDOMAIN);
    CHECK_INT(ns_msg_count(m, ns_s_an) + ns_msg_count(m, ns_s_ns), 0);
    CHECK(ns_parserr(&m, ns_s_ar, 0, &rr) == 0);
    CHECK_INT(ns_rr_type(rr), ns_t_opt);
    CHECK_INT(ns_rr_rdlen(rr), 6);
    CHECK(memcmp(ns_rr_rdata(rr), "\0\x0f\0\2\0\x0f", 6) == 0);
    CHECK_INT(dns_build_blocked(&q, out, n - 1), 0);
    CHECK_OK(dns_parse_query(STR(HEAD("\1\0", ONE) NAME A_IN), &q, &rcode, &e), e);
    CHECK_INT(dns_build_blocked(&q, out, sizeof out), 12 + 21);
    CHECK_INT(out[3] & 15, DNS_NXDOMAIN);
}

/* glibc asks in the same bytes. */
TEST(queries_as_the_libc_makes_them)
{
    static const char *const names[] = { "a", "api.example.com", "_x._tcp.a-b.example" };
    uint8_t ours[DNS_QUERY_MAX], theirs[PACKETSZ];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        int want = res_mkquery(ns_o_query, names[i], ns_c_in, ns_t_aaaa, NULL, 0, NULL, theirs,
                               sizeof theirs);
        size_t n = dns_build_query((uint16_t)(theirs[0] << 8 | theirs[1]), str_from(names[i]),
                                   DNS_AAAA, false, ours);

        CHECK_INT(n, want);
        CHECK(memcmp(ours, theirs, n) == 0);
    }
}

TEST(names_that_cannot_be_asked_for)
{
    static const struct str names[] = { STR(""),     STR("."),   STR("a."),  STR(".a"),
                                        STR("a..b"), STR("A"),   STR("a b"), STR("a\0b"),
                                        STR("*"),    STR("a/b"), STR("\xe4") };
    uint8_t out[DNS_QUERY_MAX];
    char name[254];

    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK_INT(dns_build_query(1, names[i], DNS_A, true, out), 0);
    memset(name, 'a', sizeof name);
    CHECK_INT(dns_build_query(1, (struct str){ name, 64 }, DNS_A, true, out), 0);
    for (size_t i = 63; i < sizeof name; i += 64)
        name[i] = '.';
    CHECK_INT(dns_build_query(1, (struct str){ name, 253 }, DNS_A, true, out), DNS_QUERY_MAX);
    CHECK_INT(dns_build_query(1, (struct str){ name, 254 }, DNS_A, true, out), 0);
}

TEST(queries_with_edns_say_what_we_take)
{
    uint8_t out[DNS_QUERY_MAX];
    size_t n = dns_build_query(7, STR("api.example.com"), DNS_A, true, out);

    CHECK_OK(dns_parse_query((struct str){ (char *)out, n }, &q, &rcode, &e), e);
    CHECK(q.has_edns);
    CHECK_INT(q.edns_size, DNS_UDP_MAX);
    n = dns_build_query(7, STR("api.example.com"), DNS_A, false, out);
    CHECK_OK(dns_parse_query((struct str){ (char *)out, n }, &q, &rcode, &e), e);
    CHECK(!q.has_edns);
}

TEST(letters_are_mixed_and_compared)
{
    static const uint8_t none[DNS_CASE_BYTES] = { 0 };
    uint8_t query[DNS_QUERY_MAX], answer[DNS_UDP_MIN], all[DNS_CASE_BYTES];
    size_t n = dns_build_query(7, STR("a-1.example.com"), DNS_A, true, query), got;
    struct str name = { (const char *)query + 12, 16 };

    memset(all, 0xff, sizeof all);
    dns_mix_case(query, n, none);
    CHECK(str_eq(name, STR("\3a-1\7example\3com")));
    dns_mix_case(query, n, all);
    CHECK(str_eq(name, STR("\3A-1\7EXAMPLE\3COM")));
    CHECK_INT(query[12 + 17 + 3], 1); /* the class, and nothing else behind the name */
    CHECK_OK(dns_parse_query((struct str){ (char *)query, n }, &q, &rcode, &e), e);
    CHECK_STR(str_from(q.question.name), "a-1.example.com");
    got = dns_build_answer(&q, DNS_NXDOMAIN, NULL, 0, 0, answer, sizeof answer);
    CHECK(dns_same_case((struct str){ (char *)answer, got }, query, n));
    answer[12 + 5] ^= 0x20;
    CHECK(!dns_same_case((struct str){ (char *)answer, got }, query, n));
    CHECK(!dns_same_case((struct str){ (char *)answer, 14 }, query, n));
}
