/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that two programs could read differently, or that name a place in a way that hides it:
 * none of them reaches the origin, through either relay. */
#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"
#include "unit/engine/egress/relays/world.h"

#define FULL "protocol: rest, access: full"
#define ROW(s)                                                                                     \
    {                                                                                              \
        s, sizeof(s) - 1                                                                           \
    }

static struct world w;

/* Nothing went upstream, the client got a refusal or was disconnected, and its input is not read
 * further. */
static void check_refused(const char *what, size_t row)
{
    unsigned status = world_status(&w);

    if (w.seen.n > 0)
        FAIL("%s %zu: '" STR_FMT "' got out", what, row, STR_ARG(buf_str(&w.seen)));
    if (!w.client_ended || (status != 0 && status < 400) ||
        world_count(&w.heard, "Connection: close\r\n") > 1)
        FAIL("%s %zu: answered '" STR_FMT "'", what, row, STR_ARG(buf_str(&w.heard)));
}

static void refuse_in_tunnel(struct str request, const char *what, size_t row)
{
    world_start(&w, FULL);
    world_tunnel(&w, STR(""), STR(""));
    world_say(&w, world_fill(&w, request));
    world_say(&w, world_text(&w, "GET /second HTTP/1.1\r\nHost: {}\r\n\r\n"));
    check_refused(what, row);
    world_stop(&w);
}

static void refuse_in_forward(struct str request, const char *what, size_t row)
{
    world_start(&w, FULL);
    world_forward(&w, STR(""));
    world_say(&w, world_fill(&w, request));
    world_say(&w, world_text(&w, "GET http://{}/second HTTP/1.1\r\nHost: {}\r\n\r\n"));
    check_refused(what, row);
    world_stop(&w);
}

/* Rests of a head that begins with "POST /x HTTP/1.1\r\nHost: {}\r\n". */
static const struct str rests[] = {
    /* two lengths, or a length and chunks */
    ROW("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    ROW("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ROW("Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    ROW("Content-Length: 5\r\ncontent-length: 0\r\n\r\nhello"),
    ROW("Content-Length: 5, 5\r\n\r\nhello"),
    ROW("Content-Length: 5,6\r\n\r\nhello"),
    ROW("Content-Length: 5;\r\n\r\nhello"),
    /* lengths that are no plain number */
    ROW("Content-Length: +5\r\n\r\nhello"),
    ROW("Content-Length: -5\r\n\r\nhello"),
    ROW("Content-Length: -0\r\n\r\n"),
    ROW("Content-Length: 0x5\r\n\r\nhello"),
    ROW("Content-Length: 05\r\n\r\nhello"),
    ROW("Content-Length: 5_0\r\n\r\nhello"),
    ROW("Content-Length: 5 5\r\n\r\nhello"),
    ROW("Content-Length: 5.0\r\n\r\nhello"),
    ROW("Content-Length: 5e0\r\n\r\nhello"),
    ROW("Content-Length: \xd9\xa5\r\n\r\nhello"),
    ROW("Content-Length:\r\n\r\nhello"),
    ROW("Content-Length: a\r\n\r\nhello"),
    ROW("Content-Length: 18446744073709551621\r\n\r\nhello"),
    ROW("Content-Length: 9223372036854775808\r\n\r\nhello"),
    ROW("Content-Length: \"5\"\r\n\r\nhello"),
    ROW("Content-Length : 5\r\n\r\nhello"),
    ROW("Content-Length\t: 5\r\n\r\nhello"),
    ROW("Content-Length\x0b: 5\r\n\r\nhello"),
    ROW("Content_Length: 5\r\n\r\nhello"),
    ROW("Content-Length: 5\x0b\r\n\r\nhello"),
    ROW("Content-Length: \x00"
        "5\r\n\r\nhello"),
    ROW("Content-Length: 5\r\r\n\r\nhello"),
    /* codings that are not chunked, or not quite */
    ROW("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\x0b\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: \x0b"
        "chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: \x00"
        "chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: 'chunked'\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: cow\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding\t:chunked\r\n\r\n0\r\n\r\n"),
    ROW("Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(" Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("X: y\r\n\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    /* chunks */
    ROW("Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5_0\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n11111111111111115\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\nG\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5;\x00\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n5\r\r\nhello\r\n0\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n0\r\nTransfer-Encoding: x\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n0\r\nHost: evil\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n0\r\n: y\r\n\r\n"),
    ROW("Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n"),
    /* fields */
    ROW("X: a\r\n b\r\n\r\n"),
    ROW("X: a\r\n\tb\r\n\r\n"),
    ROW("X: a\rb\r\n\r\n"),
    ROW("X: a\nb\r\n\r\n"),
    ROW("X: a\x00"
        "b\r\n\r\n"),
    ROW("X: a\x01"
        "b\r\n\r\n"),
    ROW("X: a\x7f"
        "b\r\n\r\n"),
    ROW("X : a\r\n\r\n"),
    ROW(": a\r\n\r\n"),
    ROW("X\r\n\r\n"),
    ROW("X y: a\r\n\r\n"),
    ROW("X(: a\r\n\r\n"),
    ROW("X\xc3\xa4: a\r\n\r\n"),
    ROW("\xef\xbb\xbfX: a\r\n\r\n"),
    ROW("Host: {}\r\n\r\n"),
    ROW("Host: evil.example\r\n\r\n"),
    ROW("host: {}\r\n\r\n"),
    ROW("Connection: host\r\n\r\n"),
    ROW("Connection: close, content-length\r\nContent-Length: 0\r\n\r\n"),
    ROW("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("Connection: a b\r\n\r\n"),
    ROW("Connection: \"close\"\r\n\r\n"),
    ROW("Expect: 200-ok\r\nContent-Length: 1\r\n\r\nx"),
    ROW("Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"),
};

TEST(fields_and_bodies_that_can_be_misread_get_nowhere)
{
    char text[512];

    for (size_t i = 0; i < COUNT_OF(rests); i++) {
        int n = snprintf(text, sizeof(text), "POST /x HTTP/1.1\r\nHost: {}\r\n");

        memcpy(text + n, rests[i].p, rests[i].n);
        refuse_in_tunnel((struct str){ text, (size_t)n + rests[i].n }, "tunnel", i);
        n = snprintf(text, sizeof(text), "POST http://{}/x HTTP/1.1\r\nHost: {}\r\n");
        memcpy(text + n, rests[i].p, rests[i].n);
        refuse_in_forward((struct str){ text, (size_t)n + rests[i].n }, "forward", i);
    }
}

/* Whole first lines; Host follows. */
static const struct str first_lines[] = {
    ROW("GET /x"),
    ROW("GET /x HTTP/0.9"),
    ROW("GET /x HTTP/1.2"),
    ROW("GET /x HTTP/2.0"),
    ROW("GET /x HTTP/1.1 "),
    ROW("GET /x HTTP/1.10"),
    ROW("GET /x HTTP/01.1"),
    ROW("GET /x http/1.1"),
    ROW("GET /x HTTP/1,1"),
    ROW("GET /x HTTP /1.1"),
    ROW("GET /x HTTP/1.1\x0b"),
    ROW("GET\t/x HTTP/1.1"),
    ROW("GET /x\tHTTP/1.1"),
    ROW("GET  /x HTTP/1.1"),
    ROW("GET /x  HTTP/1.1"),
    ROW(" GET /x HTTP/1.1"),
    ROW("\r\nGET /x HTTP/1.1"),
    ROW("\nGET /x HTTP/1.1"),
    ROW("GET HTTP/1.1"),
    ROW("GET x HTTP/1.1"),
    ROW("GET * HTTP/1.1"),
    ROW("OPTIONS * HTTP/1.1"),
    ROW("G(T /x HTTP/1.1"),
    ROW("G\x00T /x HTTP/1.1"),
    ROW("\xef\xbb\xbfGET /x HTTP/1.1"),
    ROW("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA /x HTTP/1.1"),
    ROW("get /x HTTP/1.1"),
    ROW("PoST /x HTTP/1.1"),
    ROW("TRACE /x HTTP/1.1"),
    ROW("PRI * HTTP/2.0"),
    ROW("CONNECT evil.example:443 HTTP/1.1"),
    ROW("SSH-2.0-OpenSSH_9.2"),
    ROW("EHLO mail.example"),
    /* targets */
    ROW("GET /x y HTTP/1.1"),
    ROW("GET /x#y HTTP/1.1"),
    ROW("GET /x\x00 HTTP/1.1"),
    ROW("GET /x\x7f HTTP/1.1"),
    ROW("GET /\xc3\xa4 HTTP/1.1"),
    ROW("GET /x\\y HTTP/1.1"),
    ROW("GET /%5c HTTP/1.1"),
    ROW("GET /..%5cx HTTP/1.1"),
    ROW("GET /%2e%2e%2fx HTTP/1.1"),
    ROW("GET /../x HTTP/1.1"),
    ROW("GET /a/../../x HTTP/1.1"),
    ROW("GET /%2e%2e/x HTTP/1.1"),
    ROW("GET /%252e%252e/x HTTP/1.1"),
    ROW("GET /a/%2F../b HTTP/1.1"),
    ROW("GET /a%2Fb HTTP/1.1"),
    ROW("GET /a%2fb HTTP/1.1"),
    ROW("GET /%c0%ae%c0%ae/x HTTP/1.1"),
    ROW("GET /%c0%af HTTP/1.1"),
    ROW("GET /%e0%80%af HTTP/1.1"),
    ROW("GET /%ff HTTP/1.1"),
    ROW("GET /%00 HTTP/1.1"),
    ROW("GET /%0d%0aX:%20y HTTP/1.1"),
    ROW("GET /%g0 HTTP/1.1"),
    ROW("GET /%4 HTTP/1.1"),
    ROW("GET /% HTTP/1.1"),
    ROW("GET /%u002e HTTP/1.1"),
    /* absolute targets, of other places and schemes */
    ROW("GET https://{}/x HTTP/1.1"),
    ROW("GET ftp://{}/x HTTP/1.1"),
    ROW("GET ws://{}/x HTTP/1.1"),
    ROW("GET wss://{}/x HTTP/1.1"),
    ROW("GET gopher://{}/x HTTP/1.1"),
    ROW("GET HTTP://{}/x HTTP/1.1"),
    ROW("GET hTTp://{}/x HTTP/1.1"),
    ROW("GET file:///x HTTP/1.1"),
    ROW("GET http:///x HTTP/1.1"),
    ROW("GET http:/x HTTP/1.1"),
    ROW("GET http:{}/x HTTP/1.1"),
    ROW("GET http://{}@evil.example/x HTTP/1.1"),
    ROW("GET http://evil.example@{}/x HTTP/1.1"),
    ROW("GET http://u:p@{}/x HTTP/1.1"),
    ROW("GET http://evil.example\\@{}/x HTTP/1.1"),
    ROW("GET http://evil.example#@{}/x HTTP/1.1"),
    ROW("GET http://evil.example?@{}/x HTTP/1.1"),
    ROW("GET http://{}:80/x HTTP/1.1"),
    ROW("GET http://93.184.216.34:/x HTTP/1.1"),
    ROW("GET http://93.184.216.34:0/x HTTP/1.1"),
    ROW("GET http://93.184.216.34:65536/x HTTP/1.1"),
    ROW("GET http://93.184.216.34:+80/x HTTP/1.1"),
    ROW("GET http://93.184.216.34:080/x HTTP/1.1"),
    ROW("GET http://93.184.216.34%20/x HTTP/1.1"),
    ROW("GET http://93.184.216.34%00/x HTTP/1.1"),
    ROW("GET http://[93.184.216.34]:80/x HTTP/1.1"),
    ROW("GET http://[::ffff:93.184.216.34]/x HTTP/1.1"),
    ROW("GET http://[::1%25lo]/x HTTP/1.1"),
    ROW("GET http://[[::1]]/x HTTP/1.1"),
    ROW("GET http://2130706433/x HTTP/1.1"),
    ROW("GET http://0x7f000001/x HTTP/1.1"),
    ROW("GET http://0177.0.0.1/x HTTP/1.1"),
    ROW("GET http://127.1/x HTTP/1.1"),
    ROW("GET http://0/x HTTP/1.1"),
    ROW("GET http://\xd0\xb0pi.example.com/x HTTP/1.1"),
    ROW("GET http://evil.example/x HTTP/1.1"),
    ROW("GET http://169.254.169.254/latest HTTP/1.1"),
};

TEST(first_lines_that_can_be_misread_get_nowhere)
{
    char text[512];

    for (size_t i = 0; i < COUNT_OF(first_lines); i++) {
        size_t n = first_lines[i].n;

        memcpy(text, first_lines[i].p, n);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "\r\nHost: {}\r\n\r\n");
        refuse_in_tunnel((struct str){ text, n }, "tunnel", i);
        refuse_in_forward((struct str){ text, n }, "forward", i);
    }
}

TEST(paths_that_can_be_misread_are_not_forwarded_either)
{
    char text[512];

    for (size_t i = 0; i < COUNT_OF(first_lines); i++) {
        struct str line = first_lines[i];

        if (!str_starts(line, STR("GET /")) || !str_ends(line, STR(" HTTP/1.1")))
            continue;
        memcpy(text, "GET http://{}", 13);
        memcpy(text + 13, line.p + 4, line.n - 4);
        memcpy(text + 13 + line.n - 4, "\r\nHost: {}\r\n\r\n", 15);
        refuse_in_forward((struct str){ text, 13 + line.n - 4 + 14 }, "forward", i);
    }
}

static const struct str hosts[] = {
    ROW(""), /* none at all */
    ROW("Host:\r\n"),
    ROW("Host: {}, evil.example\r\n"),
    ROW("Host: {}/x\r\n"),
    ROW("Host: u@{}\r\n"),
    ROW("Host: {}:80\r\n"),
    ROW("Host: {}#\r\n"),
    ROW("Host: 93.184.216.34:\r\n"),
    ROW("Host: 93.184.216.34:x\r\n"),
    ROW("Host: 93.184.216.34:0\r\n"),
    ROW("Host: http://{}\r\n"),
    ROW("Host: {} evil.example\r\n"),
    ROW("Host: [{}]\r\n"),
    ROW("Host: evil.example\r\n"),
    ROW("Host: {}\r\nHost: evil.example\r\n"),
    ROW("Host : {}\r\n"),
    ROW(" Host: {}\r\n"),
    ROW("Host: {}\x00\r\n"),
};

TEST(hosts_that_are_not_the_authority_get_nowhere)
{
    char text[512];

    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        int n = snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\n");

        memcpy(text + n, hosts[i].p, hosts[i].n);
        memcpy(text + n + hosts[i].n, "\r\n", 2);
        refuse_in_tunnel((struct str){ text, (size_t)n + hosts[i].n + 2 }, "tunnel", i);
        n = snprintf(text, sizeof(text), "GET http://{}/x HTTP/1.1\r\n");
        memcpy(text + n, hosts[i].p, hosts[i].n);
        memcpy(text + n + hosts[i].n, "\r\n", 2);
        refuse_in_forward((struct str){ text, (size_t)n + hosts[i].n + 2 }, "forward", i);
    }
}

TEST(heads_that_are_too_large_get_nowhere)
{
    static char text[60000];
    size_t n = (size_t)snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: {}\r\nX: ");

    memset(text + n, 'x', 40000);
    memcpy(text + n + 40000, "\r\n\r\n", 4);
    refuse_in_tunnel((struct str){ text, n + 40004 }, "long field", 0);

    n = (size_t)snprintf(text, sizeof(text), "GET /");
    memset(text + n, 'x', 40000);
    memcpy(text + n + 40000, " HTTP/1.1\r\n\r\n", 13);
    refuse_in_tunnel((struct str){ text, n + 40013 }, "long target", 0);

    n = (size_t)snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: {}\r\n");
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "X%d: y\r\n", i);
    memcpy(text + n, "\r\n", 2);
    refuse_in_tunnel((struct str){ text, n + 2 }, "many fields", 0);
}

/* A chunk becomes malformed later: the bytes sent so far were valid, and the body is not
 * completed. */
TEST(a_body_that_turns_bad_is_not_completed)
{
    world_start(&w, FULL);
    world_tunnel(&w, STR(""), STR(""));
    world_say(&w, world_text(&w, "POST /x HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n"
                                 "\r\n5\r\nhello\r\n"));
    CHECK(world_has(&w.seen, "\r\n\r\n5\r\nhello\r\n"));
    world_say(&w, STR("+5\r\nworld\r\n0\r\n\r\n"));
    CHECK(!world_has(&w.seen, "world"));
    CHECK(!world_has(&w.seen, "0\r\n\r\n"));
    CHECK(w.origin_ended && w.client_ended);
    CHECK_INT(world_status(&w), 400);
    world_stop(&w);
}
