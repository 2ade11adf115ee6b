/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/rewrite.h"

#include <stdio.h>

#include "harness/tap.h"

static struct buf out = { .max = 65536 };
static struct err e;

static struct host host_of(const char *name)
{
    struct host h;
    struct str s = str_from(name);

    CHECK_OK(host_parse(s, memchr(s.p, ':', s.n) != NULL, &h, &e), e);
    return h;
}

static struct str request_to(const char *head, const char *host, uint16_t port, bool inspected)
{
    struct h1_scan s = { 0 };
    struct h1_request q;
    struct host h = host_of(host);
    struct h1_limits limits = H1_LIMITS;
    int status;

    CHECK_OK(h1_parse_request(&s, str_from(head), &limits, &q, &status, &e), e);
    buf_clear(&out);
    CHECK_INT(rewrite_request(&q,
                              &(struct rewrite_to){ .host = &h,
                                                    .port = port,
                                                    .default_port = 80,
                                                    .path = STR("/p"),
                                                    .query = STR("q=1"),
                                                    .inspected = inspected },
                              &out),
              0);
    return buf_str(&out);
}

static struct str answer_to(const char *head, enum h1_method asked, bool close)
{
    struct h1_scan s = { 0 };
    struct h1_response p;
    struct h1_limits limits = H1_LIMITS;

    CHECK_OK(h1_parse_response(&s, str_from(head), &limits, asked, &p, &e), e);
    buf_clear(&out);
    CHECK_INT(rewrite_response(&p, &(struct rewrite_answer){ asked, p.head.framing, close }, &out),
              0);
    return buf_str(&out);
}

#define GET(fields) "GET http://other/x HTTP/1.1\r\nHost: other\r\n" fields "\r\n"

TEST(a_request_is_written_in_origin_form_for_the_decided_host)
{
    CHECK_STR(request_to(GET("Accept: */*\r\n"), "example.com", 80, true),
              "GET /p?q=1 HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n");
    CHECK_STR(request_to(GET(""), "example.com", 8080, true),
              "GET /p?q=1 HTTP/1.1\r\nHost: example.com:8080\r\n\r\n");
    CHECK_STR(request_to(GET(""), "2001:db8::1", 81, true),
              "GET /p?q=1 HTTP/1.1\r\nHost: [2001:db8::1]:81\r\n\r\n");
    CHECK_STR(request_to("GET / HTTP/1.0\r\n\r\n", "1.2.3.4", 80, true),
              "GET /p?q=1 HTTP/1.1\r\nHost: 1.2.3.4\r\nConnection: close\r\n\r\n");
}

TEST(what_concerns_one_connection_ends_there)
{
    static const char *const dropped[] = {
        "Connection: keep-alive",
        "Connection: x-a, Authorization\r\nX-A: 1\r\nAuthorization: b",
        "Keep-Alive: timeout=5",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: x",
        "proxy_authorization: x",
        "Proxy-Anything: x",
        "TE: trailers",
        "Trailer: X",
        "Upgrade: h2c",
        "HTTP2-Settings: AAAA",
        "upgrade: websocket\r\nConnection: Upgrade",
    };

    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
        char head[512];

        snprintf(head, sizeof(head), GET("%s\r\n"), dropped[i]);
        CHECK_STR(request_to(head, "example.com", 80, false),
                  "GET /p?q=1 HTTP/1.1\r\nHost: example.com\r\n\r\n");
    }
}

TEST(another_method_or_path_is_not_named_where_requests_are_inspected)
{
    static const char *const overrides[] = {
        "X-HTTP-Method-Override: DELETE", "x-http-method: DELETE",  "X-METHOD-OVERRIDE: DELETE",
        "X_HTTP_Method_Override: DELETE", "X-Original-URL: /admin", "X-Rewrite-Url: /admin",
        "X-Original-Method: DELETE",
    };

    for (size_t i = 0; i < sizeof(overrides) / sizeof(overrides[0]); i++) {
        char head[512], kept[512];

        snprintf(head, sizeof(head), GET("%s\r\n"), overrides[i]);
        snprintf(kept, sizeof(kept), "GET /p?q=1 HTTP/1.1\r\nHost: example.com\r\n%s\r\n\r\n",
                 overrides[i]);
        CHECK_STR(request_to(head, "example.com", 80, true),
                  "GET /p?q=1 HTTP/1.1\r\nHost: example.com\r\n\r\n");
        CHECK_STR(request_to(head, "example.com", 80, false), kept);
    }
}

TEST(a_body_has_one_framing_and_an_expectation_goes_with_it)
{
    CHECK_STR(request_to("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
                         "Expect: 100-continue\r\n\r\n",
                         "a", 80, true),
              "POST /p?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n"
              "\r\n");
    CHECK_STR(request_to("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "a",
                         80, true),
              "POST /p?q=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    CHECK_STR(request_to("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "a", 80, true),
              "POST /p?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    CHECK_STR(
        request_to("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", "a", 80, true),
        "GET /p?q=1 HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST(an_answer_is_framed_by_us)
{
    CHECK_STR(answer_to("HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nX: y\r\n\r\n", H1_GET, false),
              "HTTP/1.1 200 Fine\r\nX: y\r\nContent-Length: 3\r\n\r\n");
    CHECK_STR(answer_to("HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\nTrailer: X\r\n"
                        "Connection: x-b\r\nX-B: 1\r\nProxy-Authenticate: Basic\r\n\r\n",
                        H1_GET, true),
              "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    CHECK_STR(answer_to("HTTP/1.0 200 OK\r\n\r\n", H1_GET, true),
              "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
}

TEST(the_length_of_a_body_that_is_not_sent_stays_known)
{
    CHECK_STR(answer_to("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", H1_HEAD, false),
              "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    CHECK_STR(answer_to("HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", H1_GET, false),
              "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n");
    CHECK_STR(answer_to("HTTP/1.1 204 None\r\nContent-Length: 9\r\n\r\n", H1_GET, false),
              "HTTP/1.1 204 None\r\n\r\n");
    CHECK_STR(answer_to("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n", H1_HEAD, false),
              "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n");
}

TEST(a_head_that_does_not_fit_leaves_nothing)
{
    struct buf small = BUF_INIT(100);
    struct h1_scan s = { 0 };
    struct h1_response p;
    struct h1_limits limits = H1_LIMITS;

    CHECK_OK(h1_parse_response(&s, STR("HTTP/1.1 200 OK\r\nX: y\r\n\r\n"), &limits, H1_GET, &p, &e),
             e);
    CHECK_INT(rewrite_response(&p, &(struct rewrite_answer){ H1_GET, H1_EMPTY, false }, &small),
              -ERR_TOO_BIG);
    CHECK_INT(small.n, 0);
}
