/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of an origin, valid and invalid, and what the client gets. */
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"
#include "harness/tap.h"
#include "unit/engine/egress/relays/world.h"

#define FULL "protocol: rest, access: full"
#define OK   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static struct world w;

static void ask(const char *method)
{
    char text[128];

    snprintf(text, sizeof(text), "%s /x HTTP/1.1\r\nHost: {}\r\n\r\n", method);
    world_start(&w, FULL);
    world_tunnel(&w, world_text(&w, text), STR(""));
    CHECK_INT(w.accepted, 1);
}

static void next(void)
{
    world_forget(&w);
    world_say(&w, world_text(&w, "GET /next HTTP/1.1\r\nHost: {}\r\n\r\n"));
}

/* Refused before a byte of them went down. */
TEST(answers_that_cannot_be_understood_are_a_bad_gateway)
{
    static const char *const rows[] = {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nraw",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0",
        "HTTP/1.1 200 OK\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "<html>hello</html>\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "\x15\x03\x01\x00\x02\x02\x16",
        "HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nhi",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask("GET");
        world_answer(&w, str_from(rows[i]));
        CHECK_INT(world_status(&w), 502);
        CHECK_INT(world_count(&w.heard, "Connection: close\r\n"), 1);
        CHECK(!world_has(&w.heard, "HTTP/1.1 200"));
        CHECK(w.origin_ended && w.client_ended);
        world_stop(&w);
    }
}

TEST(an_endless_head_is_a_bad_gateway)
{
    static char line[1000];

    memset(line, 'x', sizeof(line));
    ask("GET");
    world_answer(&w, STR("HTTP/1.1 200 OK\r\nX: "));
    for (int i = 0; i < 40 && !w.origin_ended; i++)
        world_answer(&w, (struct str){ line, sizeof(line) });
    CHECK_INT(world_status(&w), 502);
    world_stop(&w);
}

TEST(endless_interim_answers_are_a_bad_gateway)
{
    ask("GET");
    for (int i = 0; i < 100 && !w.origin_ended; i++)
        world_answer(&w, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(world_has(&w.heard, "HTTP/1.1 502 "));
    CHECK(world_count(&w.heard, "HTTP/1.1 100 ") <= 32);
    world_stop(&w);
}

/* Their heads went down already: the connection breaks, and nothing looks whole. */
TEST(bodies_that_break_break_the_connection)
{
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 1\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask("GET");
        world_answer(&w, str_from(rows[i]));
        CHECK(w.origin_ended && w.client_ended);
        CHECK(!world_has(&w.heard, "0\r\n\r\n"));
        world_stop(&w);
    }
}

TEST(an_answer_that_is_cut_off_never_looks_whole)
{
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask("GET");
        world_answer(&w, str_from(rows[i]));
        world_end_origin(&w);
        CHECK_INT(world_status(&w), 200);
        CHECK(world_has(&w.heard, "hello"));
        CHECK(!world_has(&w.heard, "\r\n0\r\n\r\n"));
        CHECK(w.client_ended);
        world_stop(&w);
    }
}

TEST(no_answer_at_all_is_a_bad_gateway)
{
    ask("GET");
    world_end_origin(&w);
    CHECK_INT(world_status(&w), 502);
    world_stop(&w);
    ask("GET");
    world_answer(&w, STR("HTTP/1.1 200 OK\r\nConte"));
    world_end_origin(&w);
    CHECK_INT(world_status(&w), 502);
    world_stop(&w);
}

TEST(an_answer_until_close_is_the_last)
{
    ask("GET");
    world_answer(&w, STR("HTTP/1.1 200 OK\r\n\r\nhello"));
    CHECK(!w.client_ended);
    world_answer(&w, STR(" world"));
    world_end_origin(&w);
    CHECK_STR(buf_str(&w.heard), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world");
    CHECK(w.client_ended);
    world_stop(&w);
}

/* Unsolicited bytes must not become the answer to the next request. */
TEST(bytes_behind_an_answer_are_never_heard)
{
    static const struct {
        const char *method, *answer;
    } rows[] = {
        { "GET", OK "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison" },
        { "GET", OK "x" },
        { "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison" },
        { "GET", "HTTP/1.1 204 None\r\nContent-Length: 6\r\n\r\npoison" },
        { "GET", "HTTP/1.1 304 Same\r\nContent-Length: 6\r\n\r\npoison" },
        { "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\npoison" },
        { "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\npoison" },
        { "GET", OK "HTTP/1.1 100 Continue\r\n\r\n" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask(rows[i].method);
        world_answer(&w, str_from(rows[i].answer));
        CHECK(!world_has(&w.heard, "poison"));
        CHECK(w.origin_ended && !w.client_ended);
        next();
        CHECK_INT(w.accepted, 2);
        world_answer(&w, STR(OK));
        CHECK_STR(buf_str(&w.heard), OK);
        world_stop(&w);
    }
}

TEST(an_origin_that_speaks_unasked_is_not_heard)
{
    ask("GET");
    world_answer(&w, STR(OK));
    world_answer(&w, STR("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"));
    CHECK(w.origin_ended && !w.client_ended);
    next();
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), OK);
    CHECK_INT(w.accepted, 2);
    world_stop(&w);
}

/* Both wait when the relay looks, and it looks at the client first. */
TEST(what_came_unasked_is_not_the_answer_to_a_request_that_comes_with_it)
{
    struct str request;

    ask("GET");
    world_answer(&w, STR(OK));
    world_forget(&w);
    request = world_text(&w, "GET /next HTTP/1.1\r\nHost: {}\r\n\r\n");
    CHECK_INT(send(w.client, request.p, request.n, 0), (ssize_t)request.n);
    CHECK(send(w.origin, OK, sizeof(OK) - 1, 0) > 0);
    world_turn(&w);
    CHECK_INT(w.accepted, 2);
    CHECK_INT(w.heard.n, 0);
    world_answer(&w, STR("HTTP/1.1 204 No Content\r\n\r\n"));
    CHECK_INT(world_status(&w), 204);
    world_stop(&w);
}

TEST(an_origin_that_closes_between_requests_is_dialled_again)
{
    static const char *const rows[] = {
        OK,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask("GET");
        world_answer(&w, str_from(rows[i]));
        if (w.origin >= 0)
            world_end_origin(&w);
        CHECK(!w.client_ended);
        next();
        CHECK_INT(w.accepted, 2);
        world_answer(&w, STR(OK));
        CHECK_STR(buf_str(&w.heard), OK);
        world_stop(&w);
    }
}

TEST(an_answer_in_pieces_is_the_same)
{
    struct str s = STR("HTTP/1.1 103 H\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "5;a=b\r\nhello\r\n00\r\nT: 1\r\n\r\n");

    for (size_t cut = 1; cut < s.n; cut++) {
        ask("GET");
        world_answer(&w, (struct str){ s.p, cut });
        world_answer(&w, (struct str){ s.p + cut, s.n - cut });
        CHECK(world_has(&w.heard, "HTTP/1.1 103 H\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: "
                                  "chunked\r\n\r\n"));
        CHECK_INT(world_count(&w.heard, "\r\n0\r\n\r\n"), 1);
        CHECK(!world_has(&w.heard, "T: 1"));
        CHECK(!w.client_ended && !w.origin_ended);
        world_stop(&w);
    }
}
