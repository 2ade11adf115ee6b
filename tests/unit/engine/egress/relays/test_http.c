/* SPDX-License-Identifier: Apache-2.0 */
/* relay_http(): a tunnel, or a captured connection, whose requests are inspected. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/relays/exchange.h"
#include "harness/tap.h"
#include "unit/engine/egress/relays/world.h"

#define RULES                                                                                      \
    "protocol: rest, rules: [{ allow: { method: GET, path: /ok/** } },"                            \
    " { allow: { method: POST, path: /ok/** } }]"
#define FULL      "protocol: rest, access: full"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: {}\r\n\r\n"
#define OK        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static struct world w;

static struct exchange *the_exchange(void)
{
    return container_of(list_first(&w.box.open), struct exchange, open.link);
}

static void begin(const char *rules)
{
    world_start(&w, rules);
    world_tunnel(&w, STR(""), STR(""));
}

static void say(const char *text)
{
    world_say(&w, world_text(&w, text));
}

static void check_seen(const char *text)
{
    CHECK_STR(buf_str(&w.seen), world_text(&w, text).p);
}

/* One allowed exchange, over a connection that lasts. */
static void check_alive(void)
{
    world_forget(&w);
    say(GET("/ok/alive"));
    CHECK(world_has(&w.seen, "GET /ok/alive HTTP/1.1\r\n"));
    world_answer(&w, STR(OK));
    CHECK_INT(world_status(&w), 200);
    CHECK(!w.client_ended);
}

TEST(requests_and_answers_pass_over_one_connection)
{
    begin(RULES);
    CHECK_INT(w.accepted, 0); /* nothing is dialled before a request is allowed */
    for (int i = 0; i < 3; i++) {
        world_forget(&w);
        say("GET /ok/a?b=c HTTP/1.1\r\nHost: {}\r\nAccept: x\r\n\r\n");
        CHECK_STR(buf_str(&w.seen),
                  world_text(&w, "GET /ok/a?b=c HTTP/1.1\r\nHost: {}\r\nAccept: x\r\n\r\n").p);
        world_answer(&w, STR(OK));
        CHECK_STR(buf_str(&w.heard), OK);
    }
    CHECK_INT(w.accepted, 1);
    CHECK(w.box.counters.bytes_out > 0 && w.box.counters.bytes_in > 0);
    CHECK(!w.client_ended);
    world_stop(&w);
}

TEST(an_idle_connection_holds_no_buffer)
{
    const struct exchange *x;

    begin(RULES);
    check_alive();
    CHECK(!w.origin_ended);
    x = the_exchange();
    CHECK(!x->in.p && !x->back.p && !x->up.bytes.p && !x->down.bytes.p && !x->setup);
    CHECK(!x->request.target.p && !x->greeting.p);
    world_stop(&w);
}

TEST(a_denied_request_reaches_nobody_and_ends_the_connection)
{
    static const char *const denied[] = {
        GET("/secret"),
        GET("/ok/../secret"),
        "DELETE /ok/a HTTP/1.1\r\nHost: {}\r\n\r\n",
        "POST /no HTTP/1.1\r\nHost: {}\r\nContent-Length: 3\r\n\r\nabc",
    };

    for (size_t i = 0; i < COUNT_OF(denied); i++) {
        begin(RULES);
        say(denied[i]);
        CHECK_INT(world_status(&w), 403);
        CHECK(world_has(&w.heard, "Connection: close\r\n"));
        CHECK(world_has(&w.heard, "\"error\":"));
        CHECK(w.client_ended);
        CHECK_INT(w.accepted, 0);
        CHECK(world_has(
            &(struct buf){ .p = (char *)(uintptr_t)world_audit(&w).p, .n = world_audit(&w).n },
            "Denied"));
        world_stop(&w);
    }
}

TEST(the_greeting_is_sent_when_upstream_stands)
{
    world_start(&w, RULES);
    world_tunnel(&w, STR(""), STR("HTTP/1.1 200 Connection established\r\n\r\n"));
    CHECK_INT(w.accepted, 1);
    CHECK_STR(buf_str(&w.heard), "HTTP/1.1 200 Connection established\r\n\r\n");
    check_alive();
    CHECK_INT(w.accepted, 1);
    world_stop(&w);
}

TEST(no_greeting_is_sent_when_upstream_cannot_be_reached)
{
    world_start(&w, RULES);
    close(w.listener);
    w.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    world_tunnel(&w, STR("GET /ok/ HTTP/1.1\r\n"),
                 STR("HTTP/1.1 200 Connection established\r\n\r\n"));
    CHECK_INT(world_status(&w), 502);
    CHECK(w.client_ended);
    world_stop(&w);
}

TEST(bytes_that_came_with_the_head_are_the_first_request)
{
    world_start(&w, RULES);
    world_tunnel(&w, world_text(&w, GET("/ok/first")), STR("HTTP/1.1 200 Yes\r\n\r\n"));
    CHECK(world_has(&w.seen, "GET /ok/first "));
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), "HTTP/1.1 200 Yes\r\n\r\n" OK);
    world_stop(&w);
}

/* An allowed path is sent unchanged, for every rule. */
TEST(paths_are_sent_as_they_were_written)
{
    static const char *const rows[] = {
        "/ok/%61/./b;v=1?%2e%2e/&c",
        "/ok/items;id=5",
        "/ok//key",
        "/ok/a/",
        "/ok/a+b",
        "/ok/a%2bb",
        "/ok/%7euser",
        "/ok/..;x",
        "/ok/a|b",
        "/ok/x/../y",
        "/ok/a?b;c=d&e=",
        "/ok/?",
    };
    char head[256];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin("protocol: rest, access: full");
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: {}\r\n\r\n", rows[i]);
        say(head);
        check_seen(head);
        world_stop(&w);
    }
}

TEST(a_path_with_a_reading_that_is_not_allowed_is_refused)
{
    static const char *const rows[] = { GET("/x/..//ok/a"), GET("/ok/../secret"),
                                        GET("/ok/..;x/secret"), GET("//ok/a") };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(RULES);
        say(rows[i]);
        CHECK_INT(world_status(&w), 403);
        CHECK(world_has(&w.heard, "request_denied"));
        CHECK_INT(w.accepted, 0);
        world_stop(&w);
    }
}

TEST(a_pipelined_request_waits_and_is_judged_for_itself)
{
    begin(RULES);
    say(GET("/ok/1") GET("/ok/2") GET("/secret") GET("/ok/4"));
    check_seen(GET("/ok/1"));
    world_answer(&w, STR(OK));
    check_seen(GET("/ok/1") GET("/ok/2"));
    world_answer(&w, STR(OK));
    check_seen(GET("/ok/1") GET("/ok/2"));
    CHECK_INT(world_count(&w.heard, "HTTP/1.1 200 OK\r\n"), 2);
    CHECK_INT(world_count(&w.heard, "HTTP/1.1 403 "), 1);
    CHECK(w.client_ended);
    world_stop(&w);
}

/* Behind a body, behind HEAD, behind an answer without a body. */
TEST(a_denied_request_is_found_wherever_it_hides)
{
    static const struct {
        const char *first, *answer, *seen;
    } rows[] = {
        { "POST /ok/p HTTP/1.1\r\nHost: {}\r\nContent-Length: 3\r\n\r\nabc", OK,
          "POST /ok/p HTTP/1.1\r\nHost: {}\r\nContent-Length: 3\r\n\r\nabc" },
        { "POST /ok/p HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n"
          "0\r\nX-T: 1\r\n\r\n",
          OK,
          "POST /ok/p HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
          "0\r\n\r\n" },
        { "HEAD /ok/h HTTP/1.1\r\nHost: {}\r\n\r\n",
          "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
          "HEAD /ok/h HTTP/1.1\r\nHost: {}\r\n\r\n" },
        { GET("/ok/n"), "HTTP/1.1 204 No Content\r\n\r\n", GET("/ok/n") },
        { GET("/ok/n"), "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", GET("/ok/n") },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char both[1024];

        snprintf(both, sizeof(both), "%s" GET("/secret"), rows[i].first);
        begin(RULES);
        say(both);
        check_seen(rows[i].seen);
        world_answer(&w, str_from(rows[i].answer));
        check_seen(rows[i].seen);
        CHECK(world_has(&w.heard, "HTTP/1.1 403 "));
        CHECK(w.client_ended);
        world_stop(&w);
    }
}

/* The bytes upstream do not depend on the segmentation of the input. */
TEST(every_segmentation_gives_the_same_requests)
{
    static const char all[] = GET("/ok/1") "POST /ok/2 HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: "
                                           "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" GET("/secret");
    static char text[512];
    struct str whole;

    world_start(&w, RULES);
    whole = world_text(&w, all);
    memcpy(text, whole.p, whole.n);
    world_stop(&w);
    for (size_t cut = 1; cut < whole.n; cut++) {
        begin(RULES);
        whole = world_text(&w, all); /* the port differs */
        memcpy(text, whole.p, whole.n);
        world_say(&w, (struct str){ text, cut });
        world_say(&w, (struct str){ text + cut, whole.n - cut });
        CHECK_INT(world_count(&w.seen, " /ok/1 "), 1);
        world_answer(&w, STR(OK));
        CHECK_INT(world_count(&w.seen, " /ok/2 "), 1);
        CHECK_INT(world_count(&w.seen, "abc"), 1);
        CHECK(world_has(&w.seen, "0\r\n\r\n"));
        world_answer(&w, STR(OK));
        CHECK_INT(world_count(&w.seen, "secret"), 0);
        CHECK_INT(world_count(&w.heard, "HTTP/1.1 403 "), 1);
        world_stop(&w);
    }
}

TEST(a_request_that_comes_byte_by_byte_is_one)
{
    struct str s;

    begin(RULES);
    s = world_text(&w, "POST /ok/2 HTTP/1.1\r\nHost: {}\r\nContent-Length: 5\r\n\r\nhello");
    for (size_t i = 0; i < s.n; i++)
        world_say(&w, (struct str){ s.p + i, 1 });
    CHECK_STR(buf_str(&w.seen), s.p);
    world_answer(&w, STR(OK));
    check_alive();
    world_stop(&w);
}

TEST(another_authority_in_the_tunnel_is_refused)
{
    static const char *const rows[] = {
        "GET /ok/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET /ok/ HTTP/1.1\r\nHost: 93.184.216.34\r\n\r\n", /* another port */
        "GET /ok/ HTTP/1.1\r\nHost: 93.184.216.35:80\r\n\r\n",
        "GET http://evil.example/ok/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n",
        "GET http://{}/ok/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(RULES);
        say(rows[i]);
        CHECK_INT(world_status(&w), 403);
        CHECK(world_has(&w.heard, "request_authority_mismatch"));
        CHECK_INT(w.accepted, 0);
        world_stop(&w);
    }
}

TEST(the_absolute_form_of_the_same_place_is_taken)
{
    begin(RULES);
    say("GET http://{}/ok/a HTTP/1.1\r\nHost: {}\r\n\r\n");
    check_seen(GET("/ok/a"));
    world_stop(&w);
}

TEST(upgrades_and_overrides_do_not_pass_where_requests_are_inspected)
{
    static const char *const rows[] = {
        "GET /ok/ HTTP/1.1\r\nHost: {}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET /ok/ HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket, h2c\r\n\r\n",
        "GET /ok/ HTTP/1.1\r\nHost: {}\r\nUpgrade: h2c, websocket\r\n\r\n",
        "GET /ok/ HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n",
        "POST /ok/?_method=DELETE HTTP/1.1\r\nHost: {}\r\n\r\n",
        "POST /ok/?a=b&%5Fmethod=DELETE HTTP/1.1\r\nHost: {}\r\n\r\n",
        "POST /ok/?_METHOD=DELETE HTTP/1.1\r\nHost: {}\r\n\r\n",
        "TRACE /ok/ HTTP/1.1\r\nHost: {}\r\n\r\n",
        "post /ok/ HTTP/1.1\r\nHost: {}\r\n\r\n",
        "Get /ok/ HTTP/1.1\r\nHost: {}\r\n\r\n",
        "CONNECT {} HTTP/1.1\r\nHost: {}\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(FULL);
        say(rows[i]);
        CHECK_INT(world_status(&w), 403);
        CHECK(w.client_ended);
        CHECK_INT(w.accepted, 0);
        world_stop(&w);
    }
}

/* As Java's HttpClient and curl --http2 ask: the request is served as HTTP/1.1. */
TEST(an_offer_of_h2c_is_left_out)
{
    static const char *const rows[] = {
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        "connection: upgrade,http2-settings,x\r\nHTTP2-Settings: AA\r\nupgrade: H2C\r\nX: b\r\n",
        "Upgrade: h2c\r\n",
        "HTTP2-Settings: AAMAAABk\r\n",
    };
    char head[256];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(RULES);
        snprintf(head, sizeof head, "GET /ok/a HTTP/1.1\r\nHost: {}\r\n%s\r\n", rows[i]);
        say(head);
        check_seen(GET("/ok/a"));
        world_answer(&w,
                     STR("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"));
        CHECK_INT(world_status(&w), 502); /* unsolicited */
        world_stop(&w);
    }
}

TEST(what_is_no_http_is_closed_without_a_word)
{
    static const struct str hello = STR("\x16\x03\x01\x00\x05hello");

    world_start(&w, FULL);
    world_tunnel(&w, STR(""), STR("HTTP/1.1 200 Yes\r\n\r\n"));
    world_say(&w, hello);
    CHECK_STR(buf_str(&w.heard), "HTTP/1.1 200 Yes\r\n\r\n");
    CHECK(w.client_ended);
    CHECK_INT(w.seen.n, 0);
    world_stop(&w);
}

TEST(interim_answers_come_in_their_order)
{
    begin(RULES);
    say("POST /ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    CHECK(world_has(&w.seen, "Expect: 100-continue\r\n\r\n"));
    world_answer(&w, STR("HTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"));
    CHECK_STR(buf_str(&w.heard), "HTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
    say("hello");
    CHECK(world_has(&w.seen, "\r\n\r\nhello"));
    world_forget(&w);
    world_answer(&w, STR("HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"));
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), "HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" OK);
    check_alive();
    CHECK_INT(w.accepted, 1);
    world_stop(&w);
}

TEST(an_answer_before_the_end_of_the_request_is_the_last)
{
    begin(RULES);
    say("POST /ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    world_answer(&w, STR("HTTP/1.1 413 Big\r\nContent-Length: 0\r\n\r\n"));
    CHECK_STR(buf_str(&w.heard),
              "HTTP/1.1 413 Big\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    CHECK(w.client_ended);
    world_stop(&w);
}

TEST(a_client_that_closes_its_half_gets_its_answer)
{
    begin(RULES);
    say(GET("/ok/last"));
    world_end_client(&w);
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), OK);
    CHECK(w.client_ended);
    world_stop(&w);
}

TEST(a_request_that_is_cut_off_is_not_completed)
{
    begin(RULES);
    say("POST /ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 50\r\n\r\nhello");
    world_end_client(&w);
    CHECK(w.origin_ended);
    CHECK(w.client_ended);
    world_stop(&w);
}

TEST(an_old_client_gets_one_answer_that_it_can_read)
{
    begin(RULES);
    say("GET /ok/ HTTP/1.0\r\n\r\n");
    check_seen("GET /ok/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n");
    world_answer(&w, STR("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
                         "\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"));
    CHECK_STR(buf_str(&w.heard), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde");
    CHECK(w.client_ended);
    world_stop(&w);
}

/* --- Large bodies and slow readers --- */

static void check_bulk(bool up, bool chunked)
{
    enum { ALL = 3 << 20, PIECE = 60000 };
    static char piece[PIECE];
    char head[128];
    size_t sent = 0, body = 0;
    const struct buf *got;

    memset(piece, 'x', sizeof(piece)); /* in no head, and no digit of a size */
    begin(RULES);
    say(up ? "" : GET("/ok/"));
    snprintf(head, sizeof(head),
             chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: %d\r\n\r\n", ALL);
    say(up ? "POST /ok/ HTTP/1.1\r\nHost: {}\r\n" : "");
    if (up)
        world_say(&w, str_from(head));
    else {
        world_answer(&w, STR("HTTP/1.1 200 OK\r\n"));
        world_answer(&w, str_from(head));
    }
    while (sent < ALL) {
        size_t n = ALL - sent < PIECE ? ALL - sent : PIECE;
        char line[32];
        int m = snprintf(line, sizeof(line), "%zx\r\n", n);
        struct str parts[] = { { line, (size_t)m }, { piece, n }, STR("\r\n") };

        for (size_t i = 0; i < 3; i++)
            if (chunked || i == 1)
                (up ? world_say : world_answer)(&w, parts[i]);
        sent += n;
    }
    if (chunked)
        (up ? world_say : world_answer)(&w, STR("0\r\n\r\n"));
    got = up ? &w.seen : &w.heard;
    for (size_t i = 0; i < got->n; i++)
        body += got->p[i] == 'x';
    CHECK_INT(body, ALL);
    if (up)
        world_answer(&w, STR(OK));
    check_alive();
    CHECK_INT(w.accepted, 1);
    world_stop(&w);
}

TEST(large_bodies_pass_in_both_framings_and_directions)
{
    check_bulk(false, false);
    check_bulk(false, true);
    check_bulk(true, false);
    check_bulk(true, true);
}

/* A reader that does not read stops the writer: nothing grows in between. */
TEST(a_client_that_never_reads_stops_the_origin)
{
    static char piece[65536];
    size_t sent = 0;
    int r, turns = 0;
    struct err e;

    begin(RULES);
    say(GET("/ok/"));
    world_answer(&w, STR("HTTP/1.1 200 OK\r\n\r\n"));
    for (int quiet = 0; quiet < 20;) {
        ssize_t n = send(w.origin, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        r = loop_run_once(&w.loop, NS_PER_MS, &e);
        quiet = n > 0 || r > 0 ? 0 : quiet + 1; /* a busy loop would never be quiet */
        CHECK(++turns < 10000);
    }
    CHECK(sent < 32 << 20);
    world_stop(&w);
}

TEST(an_origin_that_never_reads_stops_the_client)
{
    static char piece[65536];
    size_t sent = 0;
    int r, turns = 0;
    struct err e;

    begin(RULES);
    say("POST /ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 1000000000\r\n\r\n");
    for (int quiet = 0; quiet < 20;) {
        ssize_t n = send(w.client, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        r = loop_run_once(&w.loop, NS_PER_MS, &e);
        quiet = n > 0 || r > 0 ? 0 : quiet + 1;
        CHECK(++turns < 10000);
    }
    CHECK(sent < 32 << 20);
    world_stop(&w);
}

TEST(a_flood_of_pipelined_requests_is_held_at_the_door)
{
    struct buf many = BUF_INIT(8 << 20);
    struct err e;
    int turns = 0;
    size_t at = 0;

    begin(RULES);
    while (many.n < 1 << 20)
        CHECK_INT(buf_add(&many, world_text(&w, GET("/ok/flood"))), 0);
    for (int quiet = 0; quiet < 20;) {
        ssize_t n = send(w.client, many.p + at, many.n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        int r = loop_run_once(&w.loop, NS_PER_MS, &e);

        at += n > 0 ? (size_t)n : 0;
        quiet = n > 0 || r > 0 ? 0 : quiet + 1;
        CHECK(++turns < 10000);
    }
    world_turn(&w);
    CHECK_INT(world_count(&w.seen, "GET "), 1);
    for (int i = 2; i < 6; i++) {
        world_answer(&w, STR(OK));
        CHECK_INT(world_count(&w.seen, "GET "), i);
    }
    buf_done(&many);
    world_stop(&w);
}

/* --- Time --- */

/* As if all the time that is given had passed. */
static void let_time_pass(void)
{
    struct exchange *x = the_exchange();
    loop_timer_fn *call = x->timer.call_;

    x->deadline = 0;
    loop_timer_stop(&x->timer);
    CHECK_INT(loop_timer_start(&w.loop, &x->timer, 0, call, NULL), 0);
    world_turn(&w);
}

static int64_t time_left(void)
{
    return the_exchange()->deadline - clock_mono();
}

TEST(a_head_that_does_not_come_is_not_waited_for)
{
    int64_t left;

    begin(RULES);
    CHECK(time_left() > EGRESS_HEAD_NS);
    say("GET /ok");
    left = time_left();
    CHECK(left <= EGRESS_HEAD_NS);
    say("/a");
    CHECK(time_left() <= left); /* more bytes do not give more time */
    let_time_pass();
    CHECK_INT(world_status(&w), 408);
    CHECK(w.client_ended);
    CHECK_INT(w.accepted, 0);
    world_stop(&w);
}

TEST(an_idle_connection_ends_without_a_word)
{
    begin(RULES);
    check_alive();
    world_forget(&w);
    let_time_pass();
    CHECK_INT(w.heard.n, 0);
    CHECK(w.client_ended && w.origin_ended);
    world_stop(&w);
}

TEST(a_body_that_does_not_come_is_not_waited_for)
{
    begin(RULES);
    say("POST /ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 9\r\n\r\nabc");
    CHECK(time_left() <= EGRESS_STALL_NS);
    let_time_pass();
    CHECK_INT(world_status(&w), 408);
    CHECK(w.client_ended && w.origin_ended);
    world_stop(&w);
}

TEST(an_answer_that_does_not_come_is_a_gateway_timeout)
{
    begin(RULES);
    say(GET("/ok/"));
    CHECK(time_left() > EGRESS_STALL_NS && time_left() <= EGRESS_ANSWER_NS);
    let_time_pass();
    CHECK_INT(world_status(&w), 504);
    CHECK(w.client_ended && w.origin_ended);
    world_stop(&w);
}

TEST(an_answer_that_does_not_go_on_is_cut_off)
{
    begin(RULES);
    say(GET("/ok/"));
    world_answer(&w, STR("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"));
    let_time_pass();
    CHECK(w.client_ended && w.origin_ended);
    CHECK_INT(world_count(&w.heard, "HTTP/1.1 "), 1);
    world_stop(&w);
}

TEST(a_timer_that_comes_early_waits_for_the_rest)
{
    struct exchange *x;
    loop_timer_fn *call;

    begin(RULES);
    x = the_exchange();
    call = x->timer.call_;
    loop_timer_stop(&x->timer);
    CHECK_INT(loop_timer_start(&w.loop, &x->timer, 0, call, NULL), 0);
    world_turn(&w);
    CHECK(loop_timer_started(&x->timer));
    check_alive();
    world_stop(&w);
}

TEST(a_client_that_is_told_no_cannot_stay)
{
    static char piece[65536];

    begin(RULES);
    say(GET("/secret"));
    CHECK_INT(world_status(&w), 403);
    for (int i = 0; i < 20; i++) /* more than is thrown away */
        world_say(&w, (struct str){ piece, sizeof(piece) });
    CHECK_INT(w.box.rank.count, 0);
    world_stop(&w);
    begin(RULES);
    say(GET("/secret"));
    let_time_pass();
    CHECK_INT(w.box.rank.count, 0);
    world_stop(&w);
}

/* --- New policies --- */

TEST(a_new_policy_is_asked_before_the_next_request)
{
    begin(RULES);
    check_alive();
    world_policy(&w, RULES);
    world_turn(&w);
    CHECK(!w.client_ended);
    CHECK(w.origin_ended); /* an upstream of an older policy carries no further request */
    check_alive();
    CHECK_INT(w.accepted, 2);
    world_policy(&w, "protocol: rest, rules: [{ allow: { method: GET, path: /other } }]");
    world_forget(&w);
    say(GET("/ok/alive"));
    CHECK_INT(world_status(&w), 403);
    CHECK_INT(w.seen.n, 0);
    world_stop(&w);
}

TEST(an_idle_tunnel_that_is_no_longer_allowed_is_closed_at_once)
{
    begin(RULES);
    check_alive();
    world_policy(&w, NULL);
    world_turn(&w);
    CHECK(w.client_ended && w.origin_ended);
    world_stop(&w);
}

TEST(a_request_under_way_goes_on_if_the_new_policy_allows_it)
{
    begin(RULES);
    say("POST /ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 10\r\n\r\nhello");
    world_policy(&w, FULL);
    say("world");
    CHECK(world_has(&w.seen, "helloworld"));
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), OK);
    CHECK(w.origin_ended); /* not used again */
    check_alive();
    CHECK_INT(w.accepted, 2);
    world_stop(&w);
}

TEST(a_request_under_way_is_not_completed_if_it_is_not_allowed_any_more)
{
    static const char *const policies[] = {
        NULL,
        "protocol: rest, rules: [{ allow: { method: GET, path: /ok/** } }]",
        "protocol: rest, access: full, deny_rules: [{ method: POST, path: /ok/** }]",
    };

    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        begin(RULES);
        say("POST /ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 10\r\n\r\nhello");
        CHECK(!w.origin_ended);
        world_policy(&w, policies[i]);
        say("world");
        CHECK(w.client_ended && w.origin_ended);
        CHECK(!world_has(&w.seen, "world"));
        world_stop(&w);
    }
}

TEST(an_answer_under_way_ends_with_its_permission)
{
    begin(RULES);
    say(GET("/ok/"));
    world_answer(&w, STR("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"));
    world_policy(&w, NULL);
    world_turn(&w);
    CHECK(w.client_ended && w.origin_ended);
    world_stop(&w);
}
