/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fetch/fetch.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/hash.h"
#include "harness/tap.h"
#include "server.h"

/* One request and what came of it. */
struct probe {
    struct fetch_request request;
    char url[256];
    int calls;
    struct err err;
    int status;
    struct buf body, pieces;
    char many[16], location[32], connection[16], redirect[256];
    struct fetch_request *cancels; /* by the callback */
    bool holds;
    int held;
};

static struct loop loop;
static struct fetch fetch;
static int port;

static const struct fetch_limits limits = { .requests = 64, .connections = 64, .per_host = 64 };

static void setup(void)
{
    struct err e;

    port = server_start();
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(fetch_init(&fetch, &loop, limits, &e), e);
}

static void teardown(void)
{
    fetch_done(&fetch);
    loop_done(&loop);
}

static void on_answer(struct fetch_request *r, const struct fetch_answer *a)
{
    struct probe *p = container_of(r, struct probe, request);

    p->calls++;
    p->err = a->err;
    p->status = a->status;
    buf_clear(&p->body);
    CHECK_INT(buf_add(&p->body, a->body), 0);
    (void)str_copy(fetch_answer_header(a, "x-many"), p->many, sizeof p->many);
    (void)str_copy(fetch_answer_header(a, "Location"), p->location, sizeof p->location);
    (void)str_copy(fetch_answer_header(a, "X-Connection"), p->connection, sizeof p->connection);
    CHECK(fetch_answer_header(a, "X-Absent").p == NULL);
    (void)str_copy(fetch_answer_redirect(a), p->redirect, sizeof p->redirect);
    if (p->cancels)
        fetch_cancel(p->cancels);
}

static void prepare(struct probe *p, const char *path)
{
    *p = (struct probe){ .body = BUF_INIT(1 << 20),
                         .pieces = BUF_INIT(1 << 20),
                         .request = { .timeout = 60 * NS_PER_S,
                                      .max_body = 10000,
                                      .reach = FETCH_REACH_ANY,
                                      .done = on_answer } };
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d%s", port, path);
    p->request.url = p->url;
}

static void start(struct probe *p)
{
    struct err e;

    CHECK_OK(fetch_start(&fetch, &p->request, &e), e);
    CHECK_INT(p->calls, 0);
}

/* Until nothing is running. */
static void run(void)
{
    struct err e;

    while (fetch.running > 0)
        CHECK_OK(loop_run_once(&loop, -1, &e), e);
}

static void ask(struct probe *p)
{
    start(p);
    run();
    CHECK_INT(p->calls, 1);
}

static void check_failed(struct probe *p, enum err_code code, const char *why)
{
    CHECK_INT(p->err.code, code);
    if (!strstr(p->err.msg, why))
        FAIL("'%s' does not say '%s'", p->err.msg, why);
    CHECK_INT(p->status, 0);
    CHECK_INT(p->body.n, 0);
    buf_done(&p->body);
}

static void check_refused(struct probe *p, int code, const char *why)
{
    struct err e = { .code = ERR_OK };

    CHECK_INT(fetch_start(&fetch, &p->request, &e), code);
    if (!strstr(e.msg, why))
        FAIL("'%s' does not say '%s'", e.msg, why);
    CHECK_INT(fetch.running, 0);
}

TEST(an_answer_has_status_headers_and_body)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    ask(&p);
    CHECK_OK(-(int)p.err.code, p.err);
    CHECK_INT(p.status, 200);
    CHECK_STR(buf_str(&p.body), "hello");
    CHECK_STR(str_from(p.many), "last");
    buf_done(&p.body);
    teardown();
}

static int on_piece(struct fetch_request *r, const struct fetch_answer *head, struct str piece,
                    struct err *e)
{
    struct probe *p = container_of(r, struct probe, request);

    CHECK_INT(head->status, 200);
    CHECK_STR(fetch_answer_header(head, "x-many"), "last");
    if (p->cancels) /* stands for: do not want it */
        return err_set(e, ERR_CONFLICT, "not this one");
    return buf_add(&p->pieces, piece);
}

TEST(a_body_comes_in_pieces_if_it_is_asked_for)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    p.request.piece = on_piece;
    p.request.max_body = 1;
    ask(&p);
    CHECK_INT(p.status, 200);
    CHECK_INT(p.body.n, 0);
    CHECK_STR(buf_str(&p.pieces), "hello");
    buf_done(&p.pieces);
    buf_done(&p.body);
    teardown();
}

TEST(the_body_of_an_error_comes_whole)
{
    struct probe p;

    setup();
    prepare(&p, "/missing");
    p.request.piece = on_piece;
    ask(&p);
    CHECK_INT(p.status, 404);
    CHECK_STR(buf_str(&p.body), "no such thing");
    buf_done(&p.body);
    teardown();
}

TEST(a_piece_that_is_not_wanted_ends_it)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    p.request.piece = on_piece;
    p.cancels = &p.request;
    ask(&p);
    CHECK_INT(p.err.code, ERR_CONFLICT);
    CHECK(strstr(p.err.msg, "not this one"));
    buf_done(&p.body);
    teardown();
}

TEST(head_has_no_body)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    p.request.method = FETCH_HEAD;
    ask(&p);
    CHECK_INT(p.status, 200);
    CHECK_INT(p.body.n, 0);
    buf_done(&p.body);
    teardown();
}

TEST(an_error_of_the_server_is_an_answer)
{
    struct probe p;

    setup();
    prepare(&p, "/missing");
    ask(&p);
    CHECK_INT(p.err.code, ERR_OK);
    CHECK_INT(p.status, 404);
    CHECK_STR(buf_str(&p.body), "no such thing");
    buf_done(&p.body);
    prepare(&p, "/broken");
    ask(&p);
    CHECK_INT(p.status, 503);
    buf_done(&p.body);
    teardown();
}

static void check_sent(const struct probe *p, const char *text)
{
    if (!strstr(p->body.p, text))
        FAIL("'%s' was not sent, but: %s", text, p->body.p);
}

TEST(what_was_given_is_sent_and_nothing_more)
{
    const struct fetch_header headers[] = { { STR("Content-Type"), STR("application/json") },
                                            { STR("X-Empty"), STR("") } };
    struct probe p;

    setup();
    prepare(&p, "/echo");
    p.request.method = FETCH_PATCH;
    p.request.headers = headers;
    p.request.header_count = COUNT_OF(headers);
    p.request.body = STR("{\"a\":1}");
    ask(&p);
    check_sent(&p, "PATCH /echo HTTP/1.1\r\n");
    check_sent(&p, "\r\nContent-Type: application/json\r\n");
    check_sent(&p, "\r\nX-Empty:\r\n");
    check_sent(&p, "\r\n\r\n{\"a\":1}");
    buf_done(&p.body);

    prepare(&p, "/echo");
    p.request.method = FETCH_POST;
    ask(&p);
    check_sent(&p, "POST /echo HTTP/1.1\r\n");
    check_sent(&p, "\r\nContent-Length: 0\r\n");
    CHECK(!strstr(p.body.p, "Content-Type"));
    CHECK(!strstr(p.body.p, "Expect"));
    buf_done(&p.body);
    teardown();
}

TEST(proxies_of_the_environment_are_not_used)
{
    struct probe p;

    CHECK_INT(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    setup();
    prepare(&p, "/ok");
    ask(&p);
    CHECK_INT(p.status, 200);
    buf_done(&p.body);
    teardown();
}

TEST(a_silent_server_is_a_timeout)
{
    struct probe p;

    setup();
    prepare(&p, "/hang");
    p.request.timeout = 50 * NS_PER_MS;
    ask(&p);
    check_failed(&p, ERR_TIMEOUT, "127.0.0.1");
    teardown();
}

TEST(a_refused_connection_names_the_server_and_not_the_path)
{
    struct probe p;

    setup();
    port = server_dead_port();
    prepare(&p, "/token-in-path");
    ask(&p);
    check_failed(&p, ERR_UPSTREAM, "asking http://127.0.0.1:");
    CHECK(!strstr(p.err.msg, "token"));
    teardown();
}

TEST(a_name_that_does_not_exist)
{
    struct probe p;

    setup();
    prepare(&p, "");
    snprintf(p.url, sizeof p.url, "http://nowhere.invalid/");
    ask(&p);
    check_failed(&p, ERR_UPSTREAM, "nowhere.invalid");
    teardown();
}

TEST(an_answer_that_does_not_end_is_cut_off)
{
    struct probe p;

    setup();
    prepare(&p, "/endless-body");
    ask(&p);
    check_failed(&p, ERR_TOO_BIG, "longer than 10000 bytes");
    prepare(&p, "/endless-head");
    ask(&p);
    check_failed(&p, ERR_TOO_BIG, "head of the answer");
    teardown();
}

TEST(the_ceiling_is_exact)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    p.request.max_body = 5;
    ask(&p);
    CHECK_INT(p.status, 200);
    buf_done(&p.body);
    prepare(&p, "/ok");
    p.request.max_body = 4;
    ask(&p);
    check_failed(&p, ERR_TOO_BIG, "longer than 4 bytes");
    teardown();
}

TEST(half_an_answer_is_none)
{
    static const char *const paths[] = { "/cut", "/silent", "/garbage" };
    struct probe p;

    setup();
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        prepare(&p, paths[i]);
        ask(&p);
        check_failed(&p, ERR_UPSTREAM, "asking http://127.0.0.1:");
    }
    teardown();
}

TEST(redirects_are_followed_when_asked_for)
{
    struct probe p;

    setup();
    prepare(&p, "/redirect");
    ask(&p);
    CHECK_INT(p.status, 302);
    CHECK_STR(str_from(p.location), "/ok");
    snprintf(p.many, sizeof p.many, ":%d/ok", port);
    CHECK(str_ends(str_from(p.redirect), str_from(p.many)));
    CHECK_STR(buf_str(&p.body), "elsewhere");
    buf_done(&p.body);

    prepare(&p, "/redirect");
    p.request.redirects = 1;
    ask(&p);
    CHECK_INT(p.status, 200);
    CHECK_STR(buf_str(&p.body), "hello");
    buf_done(&p.body);
    teardown();
}

TEST(redirects_do_not_lead_anywhere)
{
    static const char *const paths[] = { "/round", "/redirect-file", "/redirect-user" };
    struct probe p;

    setup();
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        prepare(&p, paths[i]);
        p.request.redirects = 5;
        ask(&p);
        check_failed(&p, ERR_UPSTREAM, "asking");
    }
    teardown();
}

TEST(a_cancelled_request_is_not_heard_of_again)
{
    struct probe hung, other;

    setup();
    prepare(&hung, "/hang");
    prepare(&other, "/ok");
    start(&hung);
    start(&other);
    while (!other.calls)
        CHECK(loop_run_once(&loop, -1, NULL) >= 0);
    fetch_cancel(&hung.request);
    fetch_cancel(&hung.request);
    CHECK_INT(fetch.running, 0);
    CHECK_INT(hung.calls, 0);

    start(&hung); /* and it can be started again */
    fetch_cancel(&hung.request);
    fetch_cancel(&(struct fetch_request){ 0 });
    buf_done(&other.body);
    teardown();
}

/* Both are answered in the same batch or not: in no case is the cancelled one called. */
TEST(a_callback_may_cancel_another_request)
{
    struct probe a, b;

    setup();
    prepare(&a, "/ok");
    prepare(&b, "/ok");
    a.cancels = &b.request;
    b.cancels = &a.request;
    start(&a);
    start(&b);
    run();
    CHECK_INT(a.calls + b.calls, 1);
    buf_done(&a.body);
    buf_done(&b.body);
    teardown();
}

static void start_again(struct fetch_request *r, const struct fetch_answer *a)
{
    struct probe *p = container_of(r, struct probe, request);
    struct err e;

    CHECK_INT(a->status, 200);
    if (++p->calls < 3)
        CHECK_OK(fetch_start(&fetch, r, &e), e);
}

TEST(a_callback_may_start_its_request_again)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    p.request.done = start_again;
    start(&p);
    run();
    CHECK_INT(p.calls, 3);
    teardown();
}

TEST(many_at_once)
{
    static const char *const paths[] = { "/ok", "/missing", "/cut", "/endless-body", "/hang" };
    static struct probe probes[60];
    size_t answered = 0;

    setup();
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        prepare(&probes[i], paths[i % COUNT_OF(paths)]);
        start(&probes[i]);
    }
    while (answered < COUNT_OF(probes) / 5 * 4) {
        CHECK(loop_run_once(&loop, -1, NULL) >= 0);
        answered = 0;
        for (size_t i = 0; i < COUNT_OF(probes); i++)
            answered += (size_t)probes[i].calls;
    }
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        static const int status[] = { 200, 404, 0, 0, 0 };

        CHECK_INT(probes[i].calls, i % 5 == 4 ? 0 : 1);
        CHECK_INT(probes[i].status, status[i % 5]);
        buf_done(&probes[i].body);
    }
    teardown(); /* cancels those that hang */
    CHECK(probes[4].request.exchange_ == NULL);
}

TEST(more_than_the_limit_is_refused)
{
    struct probe probes[3];
    struct err e;

    setup();
    fetch.limits.requests = 2;
    for (size_t i = 0; i < 3; i++)
        prepare(&probes[i], "/ok");
    start(&probes[0]);
    start(&probes[1]);
    CHECK_INT(fetch_start(&fetch, &probes[2].request, &e), -ERR_BUSY);
    CHECK_INT(fetch_start(&fetch, &probes[0].request, &e), -ERR_CONFLICT);
    run();
    start(&probes[2]);
    run();
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(probes[i].status, 200);
        buf_done(&probes[i].body);
    }
    teardown();
}

TEST(requests_wait_for_a_connection)
{
    struct probe probes[8];
    struct err e;

    setup();
    fetch_done(&fetch);
    CHECK_OK(fetch_init(&fetch, &loop,
                        (struct fetch_limits){ .requests = 8, .connections = 2, .per_host = 2 },
                        &e),
             e);
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        prepare(&probes[i], "/ok");
        start(&probes[i]);
    }
    run();
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        CHECK_INT(probes[i].status, 200);
        CHECK(strtoul(probes[i].connection, NULL, 10) <= 2);
        buf_done(&probes[i].body);
    }
    teardown();
}

static const struct address loopback = { .bytes = { 127, 0, 0, 1 } };

TEST(only_public_and_declared_addresses_are_connected_to)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    p.request.reach = FETCH_REACH_PUBLIC;
    p.request.addresses = &loopback;
    p.request.address_count = 1;
    ask(&p);
    CHECK_INT(p.status, 200);
    buf_done(&p.body);

    prepare(&p, "/ok");
    p.request.reach = FETCH_REACH_PUBLIC;
    ask(&p);
    check_failed(&p, ERR_DENIED, "not allowed");
    teardown();
}

/* What a request may reach, without a connection to any of it. */
TEST(reaches)
{
    static const struct {
        const char *address;
        uint16_t port;
        const char *declared;
        bool allowed;
    } cases[] = {
        { "93.184.216.34", 443, NULL, true },
        { "2606:2800:220:1::1", 443, NULL, true },
        { "93.184.216.34", 6443, NULL, false }, /* a cluster's control plane */
        { "127.0.0.1", 443, NULL, false },
        { "127.0.0.1", 443, "127.0.0.1", true },
        { "127.0.0.1", 2379, "127.0.0.1", false },
        { "127.0.0.2", 443, "127.0.0.1", false },
        { "::1", 443, NULL, false },
        { "::ffff:127.0.0.1", 443, NULL, false },
        { "10.0.0.1", 443, NULL, false },
        { "10.0.0.1", 443, "10.0.0.1", true },
        { "169.254.169.254", 80, NULL, false },
        { "169.254.169.254", 80, "169.254.169.254", false }, /* metadata: not even declared */
        { "0.0.0.0", 80, NULL, false },
        { "100.64.0.1", 80, NULL, false },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fetch_request r = { .reach = FETCH_REACH_PUBLIC };
        struct sockaddr_storage to;
        struct address a, declared;

        CHECK(address_parse(str_from(cases[i].address), &a));
        address_to_sockaddr(&a, cases[i].port, &to);
        if (cases[i].declared) {
            CHECK(address_parse(str_from(cases[i].declared), &declared));
            r.addresses = &declared;
            r.address_count = 1;
        }
        if (fetch_allows(&r, (struct sockaddr *)&to) != cases[i].allowed)
            FAIL("%s port %u is %s", cases[i].address, cases[i].port,
                 cases[i].allowed ? "refused" : "allowed");
    }
    CHECK(!fetch_allows(&(struct fetch_request){ .reach = FETCH_REACH_ANY },
                        &(struct sockaddr){ .sa_family = AF_UNIX }));
}

/* One that somebody else has opened would get around the check. */
TEST(connections_are_not_shared_with_requests_of_less_reach)
{
    struct probe p;

    setup();
    for (int i = 0; i < 2; i++) {
        prepare(&p, "/ok");
        ask(&p);
        CHECK_STR(str_from(p.connection), "1"); /* kept open, and used again */
        buf_done(&p.body);
    }
    prepare(&p, "/ok");
    p.request.reach = FETCH_REACH_PUBLIC;
    p.request.addresses = &loopback;
    p.request.address_count = 1;
    ask(&p);
    CHECK_STR(str_from(p.connection), "2");
    buf_done(&p.body);
    prepare(&p, "/ok");
    p.request.reach = FETCH_REACH_PUBLIC;
    ask(&p);
    check_failed(&p, ERR_DENIED, "not allowed");
    teardown();
}

static int on_held_piece(struct fetch_request *r, const struct fetch_answer *head, struct str piece,
                         struct err *e)
{
    struct probe *p = container_of(r, struct probe, request);

    if (p->holds) {
        p->held++;
        return FETCH_HOLD;
    }
    CHECK_INT(buf_add(&p->pieces, piece), 0);
    return FETCH_TAKEN;
}

/* The piece was not taken, so it comes again; others are served meanwhile. */
TEST(a_held_piece_stops_its_own_request_alone)
{
    struct probe p, other;

    setup();
    prepare(&p, "/ok");
    p.request.piece = on_held_piece;
    p.holds = true;
    start(&p);
    while (!p.held) {
        struct err e;

        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    }
    prepare(&other, "/ok");
    start(&other);
    while (!other.calls) {
        struct err e;

        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    }
    CHECK_INT(other.status, 200);
    CHECK_INT(p.calls, 0);
    p.holds = false;
    fetch_resume(&p.request);
    run();
    CHECK_INT(p.calls, 1);
    CHECK_INT(p.held, 1);
    CHECK_STR(buf_str(&p.pieces), "hello");
    buf_done(&p.body);
    buf_done(&p.pieces);
    buf_done(&other.body);
    teardown();
}

/* Every attempt: an answer's status, when all pieces are wanted. */
TEST(every_piece_comes_if_it_is_asked_for)
{
    struct probe p;

    setup();
    prepare(&p, "/missing");
    p.request.piece = on_held_piece;
    p.request.every_piece = true;
    ask(&p);
    CHECK_INT(p.status, 404);
    CHECK_INT(p.body.n, 0);
    CHECK(p.pieces.n > 0);
    buf_done(&p.body);
    buf_done(&p.pieces);
    teardown();
}

TEST(urls_that_are_refused)
{
    static const struct {
        const char *url, *why;
    } bad[] = {
        { "", "http://" },
        { "ftp://host/", "http://" },
        { "file:///etc/passwd", "http://" },
        { "host/path", "http://" },
        { "HTTP://host/", "http://" },
        { "http://", "not valid" },
        { "http:///path", "names no host" },
        { "http://user@host/", "user name" },
        { "http://user:secret@host/", "user name" },
        { "http://host:99999/", "not valid" },
        { "http://host/a b", "blank" },
        { "http://host/a\r\nX: y", "blank" },
        { "http://h\xc3\xb6st/", "blank" },
        { "http://[::1/", "not valid" },
    };
    struct probe p;

    setup();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        prepare(&p, "");
        p.request.url = bad[i].url;
        check_refused(&p, -ERR_INVALID, bad[i].why);
    }
    teardown();
}

TEST(a_url_has_a_longest_length)
{
    static char url[FETCH_URL_MAX + 2] = "http://host/";
    struct probe p;

    setup();
    memset(url + 12, 'a', sizeof url - 13);
    prepare(&p, "");
    p.request.url = url;
    check_refused(&p, -ERR_INVALID, "8192");
    teardown();
}

TEST(headers_that_are_refused)
{
    static const struct {
        struct fetch_header header;
        const char *why;
    } bad[] = {
        { { { "", 0 }, { "x", 1 } }, "token" },
        { { { "X:", 2 }, { "x", 1 } }, "token" },
        { { { "X\0", 2 }, { "x", 1 } }, "token" },
        { { { "X\r\nY", 4 }, { "x", 1 } }, "token" },
        { { { "X", 1 }, { "a\r\nY: b", 7 } }, "not allowed" },
        { { { "X", 1 }, { "a\0b", 3 } }, "not allowed" },
        { { { "X", 1 }, { "\xff", 1 } }, "not allowed" },
        { { { "host", 4 }, { "other", 5 } }, "cannot be set" },
        { { { "Content-Length", 14 }, { "1", 1 } }, "cannot be set" },
        { { { "transfer-encoding", 17 }, { "chunked", 7 } }, "cannot be set" },
    };
    struct probe p;

    setup();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        prepare(&p, "/ok");
        p.request.headers = &bad[i].header;
        p.request.header_count = 1;
        check_refused(&p, -ERR_INVALID, bad[i].why);
    }
    teardown();
}

TEST(requests_that_contradict_themselves)
{
    struct probe p;

    setup();
    prepare(&p, "/ok");
    p.request.body = STR("body");
    check_refused(&p, -ERR_BUG, "GET has no body");
    prepare(&p, "/ok");
    p.request.method = FETCH_POST;
    p.request.redirects = 1;
    check_refused(&p, -ERR_BUG, "POST follows no redirects");
    prepare(&p, "/ok");
    p.request.redirects = 1;
    p.request.addresses = &loopback;
    p.request.address_count = 1;
    check_refused(&p, -ERR_BUG, "follows no redirects");
    prepare(&p, "/ok");
    p.request.timeout = 0;
    check_refused(&p, -ERR_BUG, "timeout");
    prepare(&p, "/ok");
    p.request.done = NULL;
    check_refused(&p, -ERR_BUG, "callback");
    teardown();
}

static void prepare_tls(struct probe *p, const char *host, const char *ca_file)
{
    prepare(p, "");
    snprintf(p->url, sizeof p->url, "https://%s:%d/", host, port);
    p->request.ca_file = ca_file;
}

TEST(certificates_are_checked)
{
    char ca_file[64];
    struct probe p;

    setup();
    port = server_start_tls(ca_file, sizeof ca_file);
    prepare_tls(&p, "localhost", ca_file);
    ask(&p);
    CHECK_OK(-(int)p.err.code, p.err);
    CHECK_INT(p.status, 200);
    buf_done(&p.body);

    prepare_tls(&p, "localhost", NULL); /* signed by nobody we know */
    ask(&p);
    check_failed(&p, ERR_UPSTREAM, "certificate");
    prepare_tls(&p, "127.0.0.1", ca_file); /* known, and somebody else's */
    ask(&p);
    check_failed(&p, ERR_UPSTREAM, "certificate");
    teardown();
}

/* libcurl loads the system's OpenSSL; were ours visible to it, it would call into ours and
 * crash. */
TEST(our_openssl_is_not_seen_by_libraries)
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    Dl_info info = { 0 };
    void *found;

    setup();
    crypto_sha256(STR("links ours into this program"), digest);
    found = dlsym(RTLD_DEFAULT, "EVP_MD_fetch");
    if (found && dladdr(found, &info) && !strstr(info.dli_fname, "libcrypto.so"))
        FAIL("EVP_MD_fetch is found in %s", info.dli_fname);
    teardown();
}
