/* SPDX-License-Identifier: Apache-2.0 */
/* Requests through the real program, and through a process that was taken over: the test itself. */
#include "engine/fetcher/fetcher.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "lib/proc/spawn.h"
#include "unit/lib/fetch/server.h"

/* One request and what came of it. */
struct probe {
    struct fetch_request request;
    char url[256];
    int calls, pieces, piece_r;
    size_t piece_bytes;
    struct err err;
    int status;
    struct buf body;
    char many[16], redirect[256];
};

static struct loop loop;
static struct fetcher fetcher;
static struct fetcher_share share;
static struct err e;
static int port;
static pid_t program;   /* the last one that was started */
static int theirs = -1; /* our end of the socket of a process that was taken over */
static int ended;       /* how many were to be ended */

static void turn(void)
{
    enum { LOOK_AGAIN_MS = 10 };

    CHECK_OK(loop_run_once(&loop, LOOK_AGAIN_MS * NS_PER_MS, &e), e);
}

#define WAIT_FOR(cond)                                                                             \
    while (!(cond))                                                                                \
    turn()

static int start_program(void *user, int *ret, uint64_t *ret_id, struct err *why)
{
    char path[PATH_MAX], name[] = "sandboxer-fetch", *argv[] = { name, NULL }, *none[] = { NULL };
    int pair[2];
    const int *at = pair;

    CHECK_OK(ipc_pair(pair, why), *why);
    CHECK_OK(spawn_find(name, path, sizeof path, why), *why);
    CHECK_OK(spawn_start(&(struct spawn){ .path = path,
                                          .argv = argv,
                                          .envp = none,
                                          .fds = (const int[]){ -1, -1, STDERR_FILENO, at[1] },
                                          .n_fds = 4 },
                         &program, why),
             *why);
    close(pair[1]);
    *ret = pair[0];
    *ret_id = (uint64_t)program;
    return 0;
}

static int start_taken_over(void *user, int *ret, uint64_t *ret_id, struct err *why)
{
    int pair[2];

    CHECK_OK(ipc_pair(pair, why), *why);
    drop_fd(&theirs);
    theirs = pair[1];
    *ret = pair[0];
    *ret_id = 42;
    return 0;
}

static int start_none(void *user, int *ret, uint64_t *ret_id, struct err *why)
{
    return err_set(why, ERR_BUSY, "the supervisor does not answer");
}

static void on_end(void *user, uint64_t id)
{
    ended++;
}

static void setup(int (*start)(void *, int *, uint64_t *, struct err *))
{
    signal(SIGPIPE, SIG_IGN);
    CHECK_OK(loop_init(&loop, &e), e);
    fetcher = (struct fetcher){ .loop = &loop, .start = start, .end = on_end };
    fetcher_init(&fetcher);
    fetcher_share_init(&share, &fetcher, 8);
}

static void teardown(void)
{
    fetcher_share_done(&share);
    fetcher_done(&fetcher);
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
    (void)str_copy(fetch_answer_redirect(a), p->redirect, sizeof p->redirect);
}

static int on_piece(struct fetch_request *r, const struct fetch_answer *head, struct str piece,
                    struct err *why)
{
    struct probe *p = container_of(r, struct probe, request);

    CHECK_INT(head->status, 200);
    p->pieces++;
    p->piece_bytes += piece.n;
    return p->piece_r < 0 ? err_set(why, ERR_FULL, "no room for it") : p->piece_r;
}

static void prepare(struct probe *p, const char *path)
{
    *p = (struct probe){ .body = BUF_INIT(1 << 20),
                         .request = { .timeout = 60 * NS_PER_S,
                                      .max_body = 10000,
                                      .reach = FETCH_REACH_ANY,
                                      .done = on_answer } };
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d%s", port, path);
    p->request.url = p->url;
}

static void start(struct probe *p)
{
    CHECK_OK(fetcher_start(&share, &p->request, &e), e);
    CHECK_INT(p->calls, 0);
}

static void ask(struct probe *p)
{
    start(p);
    WAIT_FOR(p->calls);
    CHECK_INT(p->calls, 1);
}

static void check_failed(struct probe *p, enum err_code code, const char *why)
{
    CHECK_INT(p->calls, 1);
    CHECK_INT(p->err.code, code);
    if (!strstr(p->err.msg, why))
        FAIL("'%s' does not say '%s'", p->err.msg, why);
    CHECK_INT(p->status, 0);
    buf_done(&p->body);
}

static void check_answered(struct probe *p, int status, const char *body)
{
    CHECK_OK(-(int)p->err.code, p->err);
    CHECK_INT(p->status, status);
    CHECK_STR(buf_str(&p->body), body);
    buf_done(&p->body);
}

/* --- the real program --- */

TEST(an_answer_has_status_headers_and_body)
{
    struct probe p;

    setup(start_program);
    port = server_start();
    CHECK_INT(fetcher.starts, 0); /* nobody asked yet */
    prepare(&p, "/ok");
    ask(&p);
    CHECK_STR(str_from(p.many), "last");
    check_answered(&p, 200, "hello");
    prepare(&p, "/missing");
    ask(&p);
    check_answered(&p, 404, "no such thing");
    prepare(&p, "/redirect");
    ask(&p);
    CHECK(strstr(p.redirect, "/ok"));
    check_answered(&p, 302, "elsewhere");
    CHECK_INT(fetcher.starts, 1);
    teardown();
}

TEST(a_request_is_sent_whole)
{
    AUTO(buf_done) struct buf body = BUF_INIT(1 << 20);
    struct probe p;

    setup(start_program);
    port = server_start();
    for (int i = 0; i < 700; i++) /* the server takes no more than this */
        CHECK_INT(buf_add(&body, STR("0123456789")), 0);
    prepare(&p, "/echo");
    p.request.method = FETCH_POST;
    p.request.headers = &(struct fetch_header){ STR("Authorization"), STR("Bearer t") };
    p.request.header_count = 1;
    p.request.body = buf_str(&body);
    start(&p);
    memset(body.p, 'x', body.n); /* it was copied */
    WAIT_FOR(p.calls);
    CHECK(strstr(p.body.p, "POST /echo HTTP/1.1\r\n") && strstr(p.body.p, "Bearer t\r\n"));
    CHECK(strstr(p.body.p, "01234567890123456789"));
    CHECK_INT(strstr(p.body.p, "xxx") ? 1 : 0, 0);
    CHECK_INT(p.status, 200);
    buf_done(&p.body);
    teardown();
}

TEST(what_the_server_does_wrong_is_told)
{
    static const struct {
        const char *path;
        enum err_code code;
        const char *why;
    } cases[] = {
        { "/endless-body", ERR_TOO_BIG, "longer than 10000 bytes" },
        { "/endless-head", ERR_TOO_BIG, "the head of the answer" },
        { "/cut", ERR_UPSTREAM, "asking http://127.0.0.1" },
        { "/silent", ERR_UPSTREAM, "asking http://127.0.0.1" },
        { "/garbage", ERR_UPSTREAM, "asking http://127.0.0.1" },
    };
    struct probe p;

    setup(start_program);
    port = server_start();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        prepare(&p, cases[i].path);
        ask(&p);
        check_failed(&p, cases[i].code, cases[i].why);
    }
    prepare(&p, "/hang");
    p.request.timeout = 50 * NS_PER_MS;
    ask(&p);
    check_failed(&p, ERR_TIMEOUT, "asking http://127.0.0.1");
    CHECK_INT(fetcher.starts, 1);
    teardown();
}

TEST(requests_that_are_wrong_are_refused_at_once)
{
    struct probe p;

    setup(start_program);
    prepare(&p, "/ok");
    snprintf(p.url, sizeof p.url, "file:///etc/passwd");
    CHECK_INT(fetcher_start(&share, &p.request, &e), -ERR_INVALID);
    prepare(&p, "/ok");
    p.request.ca_file = "/nowhere/at/all";
    CHECK_INT(fetcher_start(&share, &p.request, &e), -ERR_SYS);
    prepare(&p, "/ok");
    p.request.headers = &(struct fetch_header){ STR("X"), STR("a\r\nb") };
    p.request.header_count = 1;
    CHECK_INT(fetcher_start(&share, &p.request, &e), -ERR_INVALID);
    CHECK_INT(fetcher.starts, 0);
    CHECK_INT(share.running, 0);
    teardown();
}

TEST(a_share_has_its_limit)
{
    struct probe p[9];

    setup(start_program);
    port = server_start();
    for (int i = 0; i < 9; i++)
        prepare(&p[i], "/hang");
    for (int i = 0; i < 8; i++)
        start(&p[i]);
    CHECK_INT(fetcher_start(&share, &p[8].request, &e), -ERR_BUSY);
    CHECK_INT(fetcher_start(&share, &p[0].request, &e), -ERR_CONFLICT);
    fetcher_cancel(&p[0].request);
    fetcher_cancel(&p[0].request);
    start(&p[8]);
    teardown();
    for (int i = 0; i < 9; i++)
        CHECK_INT(p[i].calls, 0);
}

/* An endless answer stops at its window; others come, and it goes on when it is wanted. */
TEST(a_slow_consumer_stops_its_own_answer_alone)
{
    struct probe slow, other;

    setup(start_program);
    port = server_start();
    prepare(&slow, "/endless-body");
    slow.request.piece = on_piece;
    slow.piece_r = FETCH_HOLD;
    start(&slow);
    for (int i = 0; i < 20; i++) {
        prepare(&other, "/ok");
        ask(&other);
        check_answered(&other, 200, "hello");
    }
    WAIT_FOR(slow.piece_bytes > FETCHER_WINDOW - FETCHER_PIECE_MAX);
    for (int i = 0; i < 20; i++) {
        prepare(&other, "/ok");
        ask(&other);
        check_answered(&other, 200, "hello");
    }
    CHECK(slow.piece_bytes <= FETCHER_WINDOW);
    slow.piece_r = FETCH_TAKEN;
    fetcher_resume(&slow.request);
    WAIT_FOR(slow.piece_bytes > 4 * FETCHER_WINDOW);
    slow.piece_r = -1;
    WAIT_FOR(slow.calls);
    check_failed(&slow, ERR_FULL, "no room for it");
    CHECK_INT(fetcher.starts, 1);
    CHECK_INT(ended, 0);
    teardown();
}

TEST(only_public_and_declared_addresses_are_connected_to)
{
    static const struct address loopback = { .bytes = { 127, 0, 0, 1 } };
    struct probe p;

    setup(start_program);
    port = server_start();
    prepare(&p, "/ok");
    p.request.reach = FETCH_REACH_PUBLIC;
    ask(&p);
    check_failed(&p, ERR_DENIED, "not allowed");
    prepare(&p, "/ok");
    p.request.reach = FETCH_REACH_PUBLIC;
    p.request.addresses = &loopback;
    p.request.address_count = 1;
    ask(&p);
    check_answered(&p, 200, "hello");
    teardown();
}

/* In a network of its own, where a public address is ours. */
TEST(redirects_from_public_places_do_not_lead_inside)
{
    static const char *const paths[] = { "/redirect-loopback", "/redirect-metadata" };
    struct probe p;

    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("no network namespace can be made here");
    if (system("ip link set lo up && ip addr add 11.22.33.44/32 dev lo && "
               "ip addr add 169.254.169.254/32 dev lo") != 0)
        SKIP("no address can be added with ip");
    setup(start_program);
    port = server_start_everywhere();
    prepare(&p, "");
    snprintf(p.url, sizeof p.url, "http://11.22.33.44:%d/ok", port);
    p.request.reach = FETCH_REACH_PUBLIC;
    ask(&p);
    check_answered(&p, 200, "hello");
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        prepare(&p, "");
        snprintf(p.url, sizeof p.url, "http://11.22.33.44:%d%s", port, paths[i]);
        p.request.reach = FETCH_REACH_PUBLIC;
        p.request.redirects = 3;
        ask(&p);
        check_failed(&p, ERR_DENIED, "not allowed");
    }
    prepare(&p, ""); /* the same redirect, where it is allowed */
    snprintf(p.url, sizeof p.url, "http://11.22.33.44:%d%s", port, paths[0]);
    p.request.redirects = 3;
    ask(&p);
    check_answered(&p, 200, "hello");
    teardown();
}

TEST(certificates_come_with_the_request)
{
    char ca_file[64];
    struct probe p;

    setup(start_program);
    port = server_start_tls(ca_file, sizeof ca_file);
    prepare(&p, "");
    snprintf(p.url, sizeof p.url, "https://localhost:%d/", port);
    p.request.max_body = 1 << 20;
    p.request.ca_file = ca_file;
    ask(&p);
    CHECK_OK(-(int)p.err.code, p.err);
    CHECK_INT(p.status, 200);
    buf_done(&p.body);
    prepare(&p, "");
    snprintf(p.url, sizeof p.url, "https://localhost:%d/", port);
    ask(&p);
    check_failed(&p, ERR_UPSTREAM, "certificate");
    prepare(&p, ""); /* a file that has none */
    snprintf(p.url, sizeof p.url, "https://localhost:%d/", port);
    p.request.ca_file = "/etc/hostname";
    ask(&p);
    check_failed(&p, ERR_UPSTREAM, "asking https://localhost");
    CHECK_INT(fetcher.starts, 1);
    teardown();
}

/* Nothing that waits hangs, and the next request finds another one. */
TEST(a_process_that_is_killed_fails_its_requests_and_is_started_again)
{
    struct probe p, q;

    setup(start_program);
    port = server_start();
    prepare(&p, "/hang");
    prepare(&q, "/ok");
    start(&p);
    ask(&q);
    check_answered(&q, 200, "hello");
    CHECK(kill(program, SIGKILL) == 0);
    WAIT_FOR(p.calls);
    check_failed(&p, ERR_UPSTREAM, "sandboxer-fetch");
    prepare(&q, "/ok");
    ask(&q);
    check_answered(&q, 200, "hello");
    CHECK_INT(fetcher.starts, 2);
    teardown();
}

/* Another file of that name, which the process could not read. */
TEST(changed_settings_need_another_process)
{
    static char path[] = "/tmp/fetcher-settings-XXXXXX";
    static const char *const settings[] = { path, NULL };
    struct probe p;
    int fd = mkstemp(path);

    setup(start_program);
    fetcher.settings = settings;
    port = server_start();
    for (int i = 0; i < 2; i++) {
        prepare(&p, "/ok");
        ask(&p);
        check_answered(&p, 200, "hello");
    }
    CHECK_INT(fetcher.starts, 1);
    CHECK(unlink(path) == 0);
    prepare(&p, "/ok");
    ask(&p);
    check_answered(&p, 200, "hello");
    CHECK_INT(fetcher.starts, 2);
    CHECK_INT(ended, 0);
    close(fd);
    teardown();
}

TEST(the_process_ends_with_its_socket)
{
    struct probe p;
    int status;

    setup(start_program);
    port = server_start();
    prepare(&p, "/ok");
    ask(&p);
    check_answered(&p, 200, "hello");
    prepare(&p, "/hang");
    start(&p);
    teardown();
    CHECK(waitpid(program, &status, 0) == program);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- a process that was taken over --- */

static union fetcher_message got;

/* The next message to the process that is no detail of a request. */
static void expect(enum fetcher_type type)
{
    ssize_t n;

    WAIT_FOR(theirs >= 0 && fetcher.sock >= 0);
    fcntl(theirs, F_SETFL, O_NONBLOCK);
    for (;;) {
        struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };

        n = ipc_recv(theirs, &got, sizeof got, &fds, &e);
        if (n > 0 && got.head.type != FETCHER_MORE)
            break;
        if (n <= 0)
            turn();
    }
    CHECK_OK(fetcher_check(&got, (size_t)n, FETCHER_TO_PROCESS, &e), e);
    CHECK_INT(got.head.type, type);
}

static void say(const void *message, size_t n)
{
    CHECK_OK(ipc_send(theirs, message, n, NULL, 0, &e), e);
}

static void say_answer(uint64_t id)
{
    AUTO(buf_done) struct buf m = BUF_INIT(FETCHER_ANSWER_MAX);

    CHECK_INT(fetcher_write_answer(&(struct fetch_answer){ .status = 200 }, id, &m), 0);
    say(m.p, m.n);
}

static void say_piece(uint64_t id, size_t n)
{
    static struct fetcher_bytes m;

    fetcher_fill(&m.head, FETCHER_PIECE, id, sizeof m.head + n);
    say(&m, sizeof m.head + n);
}

static void say_end(uint64_t id, enum err_code code)
{
    struct fetcher_end m;

    say(&m, fetcher_write_end(&m, FETCHER_END, id, &(struct err){ .code = code }, STR("")));
}

static void lie_garbage(uint64_t id)
{
    say("garbage, and a lot of it: more than a head has", 47);
}

static void lie_huge(uint64_t id)
{
    static char huge[sizeof(union fetcher_message) + 1];

    fetcher_fill((struct fetcher_head *)(void *)huge, FETCHER_PIECE, id, sizeof huge);
    say(huge, sizeof huge);
}

static void lie_unknown(uint64_t id)
{
    say_answer(id + 1);
}

static void lie_early_piece(uint64_t id)
{
    say_piece(id, 1);
}

static void lie_twice(uint64_t id)
{
    say_answer(id);
    say_answer(id);
}

static void lie_nothing(uint64_t id)
{
    say_end(id, ERR_OK);
}

static void lie_much(uint64_t id)
{
    say_answer(id);
    say_piece(id, 10001);
}

static void lie_pong(uint64_t id)
{
    struct fetcher_head m;

    fetcher_fill(&m, FETCHER_PONG, id, sizeof m);
    say(&m, sizeof m);
}

static void lie_direction(uint64_t id)
{
    struct fetcher_head m;

    fetcher_fill(&m, FETCHER_PING, id, sizeof m);
    say(&m, sizeof m);
}

static void lie_descriptor(uint64_t id)
{
    struct fetcher_end m;

    (void)fetcher_write_end(&m, FETCHER_END, id, &(struct err){ .code = ERR_UPSTREAM }, STR(""));
    CHECK_OK(ipc_send(theirs, &m, m.head.size, &(int){ STDERR_FILENO }, 1, &e), e);
}

static void lie_after_end(uint64_t id)
{
    say_end(id, ERR_UPSTREAM);
    say_piece(id, 1);
}

TEST(a_process_that_breaks_the_protocol_is_ended)
{
    static const struct {
        const char *name;
        void (*lie)(uint64_t id);
        bool ends_first; /* the request ended in good order before */
    } lies[] = {
        { "garbage", lie_garbage, false },
        { "a message that is too long", lie_huge, false },
        { "a request that nobody made", lie_unknown, false },
        { "a piece before the answer", lie_early_piece, false },
        { "two answers", lie_twice, false },
        { "no answer", lie_nothing, false },
        { "more than was asked for", lie_much, false },
        { "a pong for no ping", lie_pong, false },
        { "a message of the other direction", lie_direction, false },
        { "a descriptor", lie_descriptor, false },
        { "a piece after the end", lie_after_end, true },
    };

    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        struct probe p;

        setup(start_taken_over);
        ended = 0;
        prepare(&p, "/ok");
        start(&p);
        expect(FETCHER_REQUEST);
        lies[i].lie(got.head.id);
        WAIT_FOR(ended);
        if (p.calls != 1 || p.err.code != ERR_UPSTREAM)
            FAIL("%s: %d calls, %s", lies[i].name, p.calls, p.err.msg);
        if (!lies[i].ends_first && !strstr(p.err.msg, "sandboxer-fetch"))
            FAIL("%s: '%s' does not say who it was", lies[i].name, p.err.msg);
        buf_done(&p.body);
        prepare(&p, "/ok"); /* the daemon goes on, with another one */
        start(&p);
        expect(FETCHER_REQUEST);
        say_answer(got.head.id);
        say_piece(got.head.id, 10);
        say_end(got.head.id, ERR_OK);
        WAIT_FOR(p.calls);
        CHECK_INT(p.status, 200);
        CHECK_INT(p.body.n, 10);
        buf_done(&p.body);
        CHECK_INT(fetcher.starts, 2);
        teardown();
    }
}

/* What is not used is not to be sent. */
TEST(a_process_that_ignores_the_window_is_ended)
{
    struct probe p;

    setup(start_taken_over);
    prepare(&p, "/ok");
    p.request.piece = on_piece;
    p.piece_r = FETCH_HOLD;
    start(&p);
    expect(FETCHER_REQUEST);
    say_answer(got.head.id);
    for (size_t sent = 0; sent < FETCHER_WINDOW; sent += FETCHER_PIECE_MAX) {
        say_piece(got.head.id, FETCHER_PIECE_MAX);
        WAIT_FOR(p.piece_bytes > sent);
    }
    CHECK_INT(ended, 0);
    say_piece(got.head.id, 1);
    WAIT_FOR(p.calls);
    CHECK_INT(ended, 1);
    CHECK_INT(p.piece_bytes, FETCHER_WINDOW);
    check_failed(&p, ERR_UPSTREAM, "unexpected piece");
    teardown();
}

TEST(credit_is_given_for_what_was_used)
{
    struct probe p;

    setup(start_taken_over);
    prepare(&p, "/ok");
    p.request.piece = on_piece;
    p.piece_r = FETCH_TAKEN;
    start(&p);
    expect(FETCHER_REQUEST);
    say_answer(got.head.id);
    for (uint64_t sent = 0, id = got.head.id; sent < 3 * FETCHER_WINDOW;
         sent += FETCHER_WINDOW / 4) {
        for (size_t i = 0; i < FETCHER_WINDOW / 4; i += FETCHER_PIECE_MAX)
            say_piece(id, FETCHER_PIECE_MAX);
        expect(FETCHER_CREDIT);
        CHECK_INT(got.credit.bytes, FETCHER_WINDOW / 4);
        CHECK_INT(got.head.id, id);
    }
    CHECK_INT(ended, 0);
    CHECK_INT(p.piece_bytes, 3 * FETCHER_WINDOW);
    teardown();
}

/* Its messages may be on their way while it is cancelled: they are not believed wrong until END. */
TEST(a_cancelled_request_is_left_until_the_process_ends_it)
{
    struct probe p, q;
    uint64_t id;

    setup(start_taken_over);
    prepare(&p, "/ok");
    prepare(&q, "/ok");
    start(&p);
    start(&q);
    expect(FETCHER_REQUEST);
    id = got.head.id;
    expect(FETCHER_REQUEST);
    fetcher_cancel(&p.request);
    expect(FETCHER_CANCEL);
    CHECK_INT(got.head.id, id);
    say_answer(id);
    say_piece(id, 100);
    say_end(id, ERR_UPSTREAM);
    say_answer(id + 1);
    say_end(id + 1, ERR_OK);
    WAIT_FOR(q.calls);
    CHECK_INT(q.status, 200);
    CHECK_INT(p.calls, 0);
    CHECK_INT(ended, 0);
    start(&p);
    expect(FETCHER_REQUEST);
    say_answer(id); /* it is over, and another one now */
    WAIT_FOR(p.calls);
    check_failed(&p, ERR_UPSTREAM, "unknown request");
    buf_done(&q.body);
    teardown();
}

TEST(a_process_that_cannot_serve_says_why)
{
    struct fetcher_end m;
    struct probe p;

    setup(start_taken_over);
    prepare(&p, "/ok");
    start(&p);
    expect(FETCHER_REQUEST);
    say(&m,
        fetcher_write_end(&m, FETCHER_FAILED, 0,
                          &(struct err){ .code = ERR_NOT_FOUND, .msg = "the program is not there" },
                          STR("")));
    WAIT_FOR(p.calls);
    check_failed(&p, ERR_UPSTREAM, "the program is not there");
    teardown();
}

TEST(a_process_that_cannot_be_started_fails_requests_and_hangs_none)
{
    struct probe p, q;

    setup(start_none);
    prepare(&p, "/ok");
    prepare(&q, "/ok");
    start(&p);
    start(&q);
    WAIT_FOR(p.calls && q.calls);
    check_failed(&p, ERR_UPSTREAM, "the supervisor does not answer");
    check_failed(&q, ERR_UPSTREAM, "the supervisor does not answer");
    CHECK_INT(share.running, 0);
    teardown();
}

/* Those that keep dying are started ever more rarely. */
TEST(the_pause_before_the_next_one_grows)
{
    int64_t before = 0;
    struct probe p;

    setup(start_taken_over);
    for (int i = 0; i < 4; i++) {
        prepare(&p, "/ok");
        start(&p);
        expect(FETCHER_REQUEST);
        drop_fd(&theirs);
        WAIT_FOR(p.calls);
        check_failed(&p, ERR_UPSTREAM, "ended");
        CHECK(fetcher.pause_ns > before);
        before = fetcher.pause_ns;
    }
    CHECK_INT(fetcher.starts, 4);
    teardown();
}

/* It took the request, and answers neither that nor a ping. */
TEST(a_process_that_hangs_is_ended)
{
    struct probe p;

    setup(start_taken_over);
    fetcher.look_ns = NS_PER_MS;
    prepare(&p, "/ok");
    start(&p);
    WAIT_FOR(p.calls);
    CHECK_INT(ended, 1);
    check_failed(&p, ERR_UPSTREAM, "does not answer");
    teardown();
}

/* Between two batches, of which each looks at most once: so it is never silent. */
static void answer_pings(void)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };

    if (theirs < 0)
        return;
    fcntl(theirs, F_SETFL, O_NONBLOCK);
    while (ipc_recv(theirs, &got, sizeof got, &fds, &e) > 0)
        if (got.head.type == FETCHER_PING) {
            fetcher_fill(&got.head, FETCHER_PONG, got.head.id, sizeof got.head);
            (void)ipc_send(theirs, &got, sizeof got.head, NULL, 0, NULL); /* it may be over */
        }
}

TEST(a_process_that_is_not_needed_ends)
{
    struct probe p;

    setup(start_taken_over);
    fetcher.look_ns = NS_PER_MS;
    prepare(&p, "/ok");
    start(&p);
    expect(FETCHER_REQUEST);
    say_answer(got.head.id);
    say_end(got.head.id, ERR_OK);
    while (fetcher.sock >= 0 || !p.calls) {
        turn();
        answer_pings();
    }
    CHECK_INT(ended, 0); /* it ends by itself */
    CHECK_INT(p.status, 200);
    buf_done(&p.body);
    teardown();
}

/* Alive, and silent about a request: one that runs, or one that was cancelled. */
TEST(a_process_that_does_not_end_a_request_is_ended)
{
    struct probe p;

    for (int cancelled = 0; cancelled < 2; cancelled++) {
        setup(start_taken_over);
        fetcher.look_ns = 20 * NS_PER_MS;
        ended = 0;
        prepare(&p, "/ok");
        p.request.timeout = NS_PER_MS;
        start(&p);
        expect(FETCHER_REQUEST);
        if (cancelled)
            fetcher_cancel(&p.request);
        while (!ended) {
            turn();
            answer_pings();
        }
        CHECK_INT(p.calls, cancelled ? 0 : 1);
        if (!cancelled)
            CHECK_INT(p.err.code, ERR_TIMEOUT);
        buf_done(&p.body);
        teardown();
        drop_fd(&theirs);
    }
}

TEST(requests_can_be_cancelled_at_any_time)
{
    struct probe p, q;

    setup(start_taken_over);
    prepare(&p, "/ok");
    prepare(&q, "/ok");
    start(&p);
    start(&q);
    expect(FETCHER_REQUEST);
    expect(FETCHER_REQUEST);
    fetcher_cancel(&q.request);
    drop_fd(&theirs);
    WAIT_FOR(p.calls);
    CHECK_INT(q.calls, 0);
    buf_done(&p.body);
    prepare(&p, "/ok");
    start(&p);
    fetcher_cancel(&p.request); /* before there is a process */
    CHECK_INT(share.running, 0);
    teardown();
}
