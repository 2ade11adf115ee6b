/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/h1.h"

#include "base/own.h"
#include "harness/tap.h"

static struct h1_request q;
static struct h1_response p;
static struct err e;
static int status;

static int parse(struct str in)
{
    struct h1_scan s = { 0 };

    status = 0;
    return h1_parse_request(&s, in, &H1_LIMITS, &q, &status, &e);
}

static int parse_response(struct str in, enum h1_method asked)
{
    struct h1_scan s = { 0 };

    return h1_parse_response(&s, in, &H1_LIMITS, asked, &p, &e);
}

#define H "Host: a\r\n"

/* Heads that some program reads in another way than its neighbour. */
static const struct {
    int status;
    struct str head;
} refused[] = {
    /* lines and bytes */
    { 400, STR("GET / HTTP/1.1\n" H "\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a\n\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a\r\n\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r" H "\r\n") },
    { 400, STR("\r\nGET / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("\nGET / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X: a\x0b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n X: a\r\n" H "\r\n") },
    { 400, STR("\xef\xbb\xbfGET / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") },
    /* the first line */
    { 400, STR("GET  / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET\t/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET / HTTP/1.1 \r\n" H "\r\n") },
    { 400, STR("GET /  HTTP/1.1\r\n" H "\r\n") },
    { 400, STR(" GET / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET / a HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /\r\n\r\n") },
    { 400, STR("GET\r\n\r\n") },
    { 400, STR("G(T / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET / http/1.1\r\n" H "\r\n") },
    { 400, STR("GET / HTTP/1.10\r\n" H "\r\n") },
    { 400, STR("GET / HTTP/01.1\r\n" H "\r\n") },
    { 400, STR("GET / HTTP/1,1\r\n" H "\r\n") },
    { 400, STR("GET / HTTP/+1.1\r\n" H "\r\n") },
    { 505, STR("GET / HTTP/1.2\r\n" H "\r\n") },
    { 505, STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") },
    { 501, STR("AAAAAAAAAABBBBBBBBBBCCCCCCCCCCDDD / HTTP/1.1\r\n" H "\r\n") },
    /* targets */
    { 400, STR("GET a HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET * HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /#a HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /\\a HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http:/x HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http:///x HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http://a@b/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http://a\\@b/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http://a:80:80/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http://a:0/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET HTTP://a/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http://[::1/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET a:80 HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT a HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT a:65536 HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT a:007 HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT a:-1 HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT a:443x HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT a: HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT a:443 HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n") },
    { 400, STR("CONNECT a:443 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n") },
    /* fields */
    { 400, STR("GET / HTTP/1.1\r\n" H "X : a\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H ": a\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X Y: a\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "X\xc3: a\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "Connection: content-length\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "Connection: close, Host\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "Connection: a b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n\r\n") },
    { 417, STR("POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nExpect: tea\r\n\r\n") },
    /* hosts */
    { 400, STR("GET / HTTP/1.1\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H H "\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.0\r\n" H H "\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost:\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: :\r\n\r\n") },
    { 400, STR("CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a:x\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: \xd0\xb0pi\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: ::1\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a..b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: .a\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a..\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a\t\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost:\ta\r\n\r\n") },
    { 400, STR("GET http://a..b/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("CONNECT .a:443 HTTP/1.1\r\n" H "\r\n") },
    /* lengths */
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 6\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: -0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 05\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 5_0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 5 0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 5.0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: \xd9\xa5\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551621\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 9223372036854775808\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content_Length: 5\r\n\r\n") },
    { 400, STR("GET / HTTP/1.0\r\n" H "Content-Length: 5\r\n\r\n") },
    { 400, STR("DELETE / HTTP/1.0\r\n" H "Content-Length: 1\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length : 5\r\n\r\n") },
    /* codings */
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity, chunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\x0b\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked;a=b\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n chunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer_Encoding: chunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H
               "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n") },
    { 400, STR("POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n") },
};

TEST(heads_that_could_be_read_differently_are_refused)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        int r = parse(refused[i].head);

        if (r >= 0 || status != refused[i].status)
            FAIL("case %zu gives %d and status %d, not %d: " STR_FMT, i, r, status,
                 refused[i].status, STR_ARG(refused[i].head));
    }
}

/* Whatever the pieces it comes in, a bad head never becomes a good one. */
TEST(a_refused_head_is_refused_byte_by_byte)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct h1_scan s = { 0 };
        int r = 0;

        for (size_t n = 1; n <= refused[i].head.n && r == 0; n++)
            r = h1_parse_request(&s, (struct str){ refused[i].head.p, n }, &H1_LIMITS, &q, &status,
                                 &e);
        if (r >= 0)
            FAIL("case %zu gives %d", i, r);
    }
}

static const char good[] = "POST /a/b?c=d HTTP/1.1\r\nHost: example.com:8080\r\n"
                           "Content-Length: 12\r\nX-Empty:\r\nX: \t y z\t \r\n\r\nbody";

TEST(a_request_is_taken_apart)
{
    struct str in = STR(good);

    CHECK_INT(parse(in), in.n - 4);
    CHECK_INT(q.method, H1_POST);
    CHECK_STR(q.method_text, "POST");
    CHECK_INT(q.form, H1_ORIGIN);
    CHECK_STR(q.path, "/a/b?c=d");
    CHECK_STR(q.host.name, "example.com");
    CHECK_INT(q.host.port, 8080);
    CHECK_INT(q.head.framing, H1_LENGTH);
    CHECK_INT(q.head.length, 12);
    CHECK_INT(q.head.n, 4);
    CHECK(q.head.keep_alive && !q.head.upgrade && !q.expects_continue);
    CHECK_STR(h1_value(&q.head, STR("x")), "y z");
    CHECK_STR(h1_value(&q.head, STR("X-EMPTY")), "");
    CHECK(!h1_find(&q.head, STR("y")));
}

TEST(a_head_may_come_byte_by_byte)
{
    struct str in = STR(good);
    struct h1_scan s = { 0 };

    in.n -= 4;
    for (size_t n = 0; n < in.n; n++)
        CHECK_INT(h1_parse_request(&s, (struct str){ in.p, n }, &H1_LIMITS, &q, &status, &e), 0);
    CHECK_INT(h1_parse_request(&s, in, &H1_LIMITS, &q, &status, &e), in.n);
    CHECK_INT(q.head.length, 12);
}

TEST(targets_have_four_forms)
{
    CHECK(parse(STR("GET http://a.b:81/x?y HTTP/1.1\r\n" H "\r\n")) > 0);
    CHECK_INT(q.form, H1_ABSOLUTE);
    CHECK_STR(q.scheme, "http");
    CHECK_STR(q.to.name, "a.b");
    CHECK_INT(q.to.port, 81);
    CHECK_STR(q.path, "/x?y");
    CHECK(parse(STR("GET https://a?y HTTP/1.1\r\n" H "\r\n")) > 0);
    CHECK_STR(q.path, "?y");
    CHECK(parse(STR("CONNECT [2001:db8::1]:443 HTTP/1.1\r\n" H "\r\n")) > 0);
    CHECK_INT(q.form, H1_AUTHORITY);
    CHECK_STR(q.to.name, "2001:db8::1");
    CHECK(q.to.is_ipv6);
    CHECK_INT(q.to.port, 443);
    CHECK(parse(STR("OPTIONS * HTTP/1.1\r\n" H "\r\n")) > 0);
    CHECK_INT(q.form, H1_ASTERISK);
}

TEST(http_1_0_is_not_kept_alive)
{
    CHECK(parse(STR("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")) > 0);
    CHECK(!q.head.keep_alive);
    CHECK_INT(q.host.name.n, 0);
    CHECK(parse(STR("GET / HTTP/1.1\r\n" H "Connection: foo,  CLOSE\r\n\r\n")) > 0);
    CHECK(!q.head.keep_alive);
}

TEST(upgrades_and_expectations_are_seen)
{
    CHECK(parse(STR("GET / HTTP/1.1\r\n" H "Connection: keep-alive, Upgrade\r\n"
                    "Upgrade: websocket\r\n\r\n")) > 0);
    CHECK(q.head.upgrade);
    CHECK_STR(q.head.proto, "websocket");
    CHECK(parse(STR("GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\n\r\n")) > 0);
    CHECK(!q.head.upgrade);
    CHECK(parse(STR("POST / HTTP/1.1\r\n" H
                    "Transfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n")) > 0);
    CHECK(q.expects_continue);
    CHECK_INT(q.head.framing, H1_CHUNKED);
    CHECK(parse(STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: CHUNKED\r\n\r\n")) > 0);
    CHECK_INT(q.head.framing, H1_CHUNKED);
    CHECK_INT(h1_method_of(STR("get")), H1_OTHER);
}

TEST(a_port_may_be_empty)
{
    CHECK(parse(STR("GET http://a:/x HTTP/1.1\r\nHost: a:\r\n\r\n")) > 0);
    CHECK_STR(q.to.name, "a");
    CHECK_INT(q.to.port, 0);
    CHECK(h1_host_same(q.to, q.host, 80));
    CHECK_STR(q.path, "/x");
    CHECK(parse(STR("GET http://[::1]:/ HTTP/1.1\r\nHost: [::1]\r\n\r\n")) > 0);
}

TEST(limits_have_their_status)
{
    static char big[H1_HEAD_MAX + 64];
    struct h1_scan s = { 0 };
    int n = snprintf(big, sizeof(big), "GET /");

    memset(big + n, 'a', sizeof(big) - (size_t)n);
    CHECK(parse((struct str){ big, 9000 }) < 0);
    CHECK_INT(status, 414);
    n = snprintf(big, sizeof(big), "GET / HTTP/1.1\r\n" H "X: ");
    big[n] = 'a';
    CHECK_INT(h1_parse_request(&s, (struct str){ big, H1_HEAD_MAX }, &H1_LIMITS, &q, &status, &e),
              0);
    CHECK(h1_parse_request(&s, (struct str){ big, H1_HEAD_MAX + 1 }, &H1_LIMITS, &q, &status, &e) <
          0);
    CHECK_INT(status, 431);
    n = snprintf(big, sizeof(big), "GET / HTTP/1.1\r\n" H);
    for (int i = 0; i < H1_FIELDS_MAX; i++)
        n += snprintf(big + n, sizeof(big) - (size_t)n, "X: y\r\n");
    n += snprintf(big + n, sizeof(big) - (size_t)n, "\r\n");
    CHECK(parse((struct str){ big, (size_t)n }) < 0);
    CHECK_INT(status, 431);
    n = snprintf(big, sizeof(big), "GET / HTTP/1.1\r\n" H "%0*d: a\r\n\r\n", H1_NAME_MAX, 0);
    CHECK(parse((struct str){ big, (size_t)n }) > 0);
    n = snprintf(big, sizeof(big), "GET / HTTP/1.1\r\n" H "%0*d: a\r\n\r\n", H1_NAME_MAX + 1, 0);
    CHECK(parse((struct str){ big, (size_t)n }) < 0);
    CHECK_INT(status, 431);
}

TEST(a_request_can_be_moved)
{
    char copy[128];
    struct str in = STR("GET http://h/p HTTP/1.1\r\n" H "\r\n");

    CHECK(parse(in) > 0);
    memcpy(copy, in.p, in.n);
    h1_move_request(&q, in.p, copy);
    CHECK(q.path.p > copy && q.path.p < copy + in.n);
    CHECK(q.to.name.p > copy && q.to.name.p < copy + in.n);
    CHECK_STR(q.path, "/p");
    CHECK_STR(h1_value(&q.head, STR("host")), "a");
    CHECK(h1_value(&q.head, STR("host")).p < copy + in.n);
}

static const struct {
    enum h1_method asked;
    enum h1_framing framing;
    bool keep_alive;
    struct str head;
} responses[] = {
    { H1_GET, H1_LENGTH, true, STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n") },
    { H1_GET, H1_CHUNKED, true, STR("HTTP/1.1 200 \r\nTransfer-Encoding: Chunked\r\n\r\n") },
    { H1_GET, H1_UNTIL_CLOSE, false, STR("HTTP/1.1 200\r\n\r\n") },
    { H1_HEAD, H1_EMPTY, true, STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n") },
    { H1_GET, H1_EMPTY, true, STR("HTTP/1.1 204 No\r\n\r\n") },
    { H1_GET, H1_EMPTY, false, STR("HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n") },
    { H1_GET, H1_EMPTY, true, STR("HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n") },
    { H1_GET, H1_EMPTY, true, STR("HTTP/1.1 103 Early\r\n\r\n") },
    { H1_CONNECT, H1_EMPTY, true, STR("HTTP/1.1 200 Go\r\n\r\n") },
    { H1_CONNECT, H1_LENGTH, true, STR("HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\n") },
};

TEST(responses_are_framed_by_what_was_asked)
{
    for (size_t i = 0; i < COUNT_OF(responses); i++) {
        if (parse_response(responses[i].head, responses[i].asked) <= 0)
            FAIL("case %zu: %s", i, e.msg);
        if (p.head.framing != responses[i].framing || p.head.keep_alive != responses[i].keep_alive)
            FAIL("case %zu: framing %d, keep-alive %d", i, p.head.framing, p.head.keep_alive);
    }
}

TEST(doubtful_responses_are_refused)
{
    static const struct str bad[] = {
        STR("HTTP/1.1 99 a\r\n\r\n"),
        STR("HTTP/1.1 2000 a\r\n\r\n"),
        STR("HTTP/1.1 100 a\r\nTransfer-Encoding: chunked\r\n\r\n"),
        STR("HTTP/1.1 103 a\r\nContent-Length: 1\r\n\r\n"),
        STR("HTTP/1.1 +20 a\r\n\r\n"),
        STR("HTTP/1.1  200 a\r\n\r\n"),
        STR("HTTP/2.0 200 a\r\n\r\n"),
        STR("ICY 200 OK\r\n\r\n"),
        STR("HTTP/1.1 200 OK\nContent-Length: 3\n\n"),
        STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n"),
        STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
        STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
        STR("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        STR("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"),
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (parse_response(bad[i], H1_GET) >= 0)
            FAIL("case %zu was accepted", i);
}

TEST(hosts_are_compared_with_their_ports)
{
    struct h1_host a, b;

    CHECK(h1_parse_host(STR("Example.COM"), &a) && h1_parse_host(STR("example.com:80"), &b));
    CHECK(h1_host_same(a, b, 80));
    CHECK(!h1_host_same(a, b, 443));
    CHECK(h1_parse_host(STR("[::1]"), &a) && !h1_host_same(a, b, 80));
    CHECK(h1_parse_host(STR("example.com."), &a));
}
