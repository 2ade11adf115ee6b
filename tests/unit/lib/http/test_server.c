/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/http/url.h"
#include "unit/lib/http/serving.h"

#define HOST            "Host: a\r\n"
#define GET(path)       "GET " path " HTTP/1.1\r\n" HOST "\r\n"
#define GET_CLOSE(path) "GET " path " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"

static struct err e;
static struct http_exchange *held; /* of /hold */
static int gone, drained, ended;
static struct buf streamed = { .max = 64 << 20 };
static int pass_fd = -1;

static void count_gone(struct http_exchange *x)
{
    CHECK(x == held);
    held = NULL;
    gone++;
}

static void count_drain(struct http_exchange *x)
{
    CHECK(x == held);
    drained++;
}

static void text(struct http_exchange *x, int status, struct str body)
{
    const struct h1_field f = { STR("Content-Type"), STR("text/plain") };

    CHECK_OK(http_respond(x, status, &f, 1, body, &e), e);
}

static void echo(struct http_exchange *x, struct str body)
{
    text(x, 200, body);
}

static void take_piece(struct http_exchange *x, struct str piece)
{
    if (piece.n == 0)
        ended++;
    CHECK(buf_add(&streamed, piece) == 0);
}

static void echo_raw(struct http_exchange *x, struct str piece)
{
    CHECK_OK(http_write(x, piece, &e), e);
    if (has(piece, "bye"))
        http_end(x);
}

static void hold(struct http_exchange *x)
{
    held = x;
    http_on_gone(x, count_gone);
    http_on_drain(x, count_drain);
}

static void hello(struct http_exchange *x)
{
    text(x, 200, STR("hello"));
}

static void collect(struct http_exchange *x)
{
    http_collect(x, 100000, echo);
    http_on_gone(x, count_gone);
    held = x;
}

static void stream(struct http_exchange *x)
{
    hold(x);
    http_stream(x, take_piece);
}

static void begin(struct http_exchange *x)
{
    hold(x);
    CHECK_OK(http_begin(x, 200, NULL, 0, HTTP_UNKNOWN, &e), e);
}

static void pieces(struct http_exchange *x)
{
    CHECK_OK(http_begin(x, 200, NULL, 0, HTTP_UNKNOWN, &e), e);
    CHECK_OK(http_write(x, STR("one "), &e), e);
    CHECK_OK(http_write(x, STR(""), &e), e);
    CHECK_OK(http_write(x, STR("two"), &e), e);
    http_end(x);
}

static void known(struct http_exchange *x)
{
    CHECK_OK(http_begin(x, 200, NULL, 0, 6, &e), e);
    CHECK_OK(http_write(x, STR("abc"), &e), e);
    CHECK_INT(http_write(x, STR("defg"), &e), -ERR_BUG);
    CHECK_OK(http_write(x, STR("def"), &e), e);
    http_end(x);
}

static void too_short(struct http_exchange *x)
{
    CHECK_OK(http_begin(x, 200, NULL, 0, 6, &e), e);
    CHECK_OK(http_write(x, STR("abc"), &e), e);
    http_end(x);
}

static void fail_late(struct http_exchange *x)
{
    CHECK_OK(http_begin(x, 200, NULL, 0, HTTP_UNKNOWN, &e), e);
    CHECK_OK(http_write(x, STR("abc"), &e), e);
    http_fail(x, 500, STR("late"));
}

static void drop_late(struct http_exchange *x)
{
    CHECK_OK(http_begin(x, 200, NULL, 0, HTTP_UNKNOWN, &e), e);
    CHECK_OK(http_write(x, STR("abc"), &e), e);
    http_drop(x);
}

static void fail_early(struct http_exchange *x)
{
    http_fail(x, 500, STR("it \"broke\""));
}

static void no_content(struct http_exchange *x)
{
    CHECK_OK(http_respond(x, 204, NULL, 0, (struct str){ 0 }, &e), e);
}

static void upgrade(struct http_exchange *x)
{
    const struct h1_field f = { STR("Upgrade"), STR("echo") };

    if (http_upgrade(x, &f, 1, echo_raw, &e) < 0)
        http_fail(x, 400, STR("not an upgrade"));
}

static void give_fd(struct http_exchange *x)
{
    CHECK_OK(http_begin(x, 200, NULL, 0, HTTP_UNKNOWN, &e), e);
    CHECK_OK(http_write(x, STR("before"), &e), e);
    CHECK_OK(http_write_fds(x, STR("with"), &pass_fd, 1, &e), e);
    CHECK_OK(http_write(x, STR("after"), &e), e);
    http_end(x);
}

static void inject(struct http_exchange *x)
{
    const struct h1_field bad[] = { { STR("A"), STR("b\r\nSet-Cookie: c") },
                                    { STR("A b"), STR("c") },
                                    { STR("Content-Length"), STR("5") } };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(http_respond(x, 200, &bad[i], 1, STR("x"), &e), -ERR_INVALID);
    hello(x);
}

static void news(struct http_exchange *x)
{
    const struct h1_field step = { STR("Progress-Step"), STR("probe") };
    const struct h1_field bad = { STR("A"), STR("b\r\nSet-Cookie: c") };

    CHECK_OK(http_interim(x, &step, 1, &e), e);
    CHECK_INT(http_interim(x, &bad, 1, &e), http_request(x)->head.minor ? -ERR_INVALID : 0);
    CHECK_INT(http_respond(x, 102, NULL, 0, STR("x"), &e), -ERR_INVALID);
    hello(x);
}

static void who(struct http_exchange *x)
{
    const struct http_peer *p = http_peer(x);
    char out[64];

    snprintf(out, sizeof(out), "%d %d %d", p->is_unix, (int)p->cred.pid, (int)p->cred.uid);
    text(x, 200, str_from(out));
}

/* The caller is the request's query. */
static void bill(struct http_exchange *x)
{
    const struct quota_who caller = { .key = url_split(http_request(x)->path).query };
    int r = http_bill(x, &caller, &e);

    if (r < 0)
        text(x, 429, str_from(e.msg));
    else
        hold(x);
}

static int parts_gone;

static void on_part_gone(struct http_exchange *x)
{
    parts_gone++;
}

/* The same with the query as a part of a caller, and an answer that is under way. */
static void bill_part(struct http_exchange *x)
{
    const struct quota_who caller = { .key = STR("owner"),
                                      .parts = { url_split(http_request(x)->path).query } };

    CHECK_OK(http_bill(x, &caller, &e), e);
    begin(x);
    http_on_gone(x, on_part_gone);
}

static void hold_part(struct http_exchange *x)
{
    const struct quota_who caller = { .key = STR("owner"),
                                      .parts = { url_split(http_request(x)->path).query } };

    CHECK_OK(http_bill(x, &caller, &e), e);
    http_on_gone(x, on_part_gone);
}

/* Of a client that stays unauthenticated. */
static void hold_open(struct http_exchange *x)
{
    http_on_gone(x, on_part_gone);
}

/* The query is a token, and its first letter the token's family. */
static int bill_token(struct http_exchange *x)
{
    struct str token = url_split(http_request(x)->path).query;
    const struct quota_who caller = { .key = STR("owner"), .parts = { token, { token.p, 1 } } };
    int r = http_bill(x, &caller, &e);

    if (r < 0)
        text(x, 429, str_from(e.msg));
    return r;
}

static void answer_token(struct http_exchange *x)
{
    if (bill_token(x) >= 0)
        text(x, 200, STR("done"));
}

static void hold_token(struct http_exchange *x)
{
    if (bill_token(x) >= 0)
        http_on_gone(x, on_part_gone);
}

static void on_last_word(struct http_exchange *x)
{
    CHECK_OK(http_write(x, STR("last word"), &e), e);
    http_end(x);
}

static void bill_talking(struct http_exchange *x)
{
    bill_part(x);
    http_on_ended(x, on_last_word);
}

static const struct {
    const char *path;
    http_exchange_fn *call;
} routes[] = {
    { "/", hello },
    { "/hold", hold },
    { "/collect", collect },
    { "/stream", stream },
    { "/begin", begin },
    { "/pieces", pieces },
    { "/known", known },
    { "/short", too_short },
    { "/fail-late", fail_late },
    { "/drop", drop_late },
    { "/fail", fail_early },
    { "/204", no_content },
    { "/upgrade", upgrade },
    { "/fd", give_fd },
    { "/inject", inject },
    { "/who", who },
    { "/news", news },
    { "/bill", bill },
    { "/part", bill_part },
    { "/hold-part", hold_part },
    { "/talking", bill_talking },
    { "/hold-open", hold_open },
    { "/token", answer_token },
    { "/hold-token", hold_token },
};

static void route(struct http_exchange *x)
{
    for (size_t i = 0; i < COUNT_OF(routes); i++)
        if (str_eq(url_split(http_request(x)->path).path, str_from(routes[i].path))) {
            routes[i].call(x);
            return;
        }
    text(x, 404, STR("no"));
}

static void start(struct http_config c)
{
    c.on_request = route;
    serving_start(&c);
}

static void check_has(struct str got, const char *part)
{
    if (!has(got, part))
        FAIL("no '%s' in '" STR_FMT "'", part, STR_ARG(got));
}

TEST(a_request_is_answered)
{
    struct str got;

    start((struct http_config){ 0 });
    got = serving_ask(STR(GET_CLOSE("/")));
    CHECK(str_starts(got, STR("HTTP/1.1 200 OK\r\nDate: ")));
    check_has(got, "\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
                   "hello");
    check_has(serving_ask(STR("HEAD / HTTP/1.0\r\n\r\n")), "Content-Length: 5\r\n");
    CHECK(!has(serving_ask(STR("HEAD / HTTP/1.0\r\n\r\n")), "hello"));
    CHECK(!has(serving_ask(STR(GET_CLOSE("/204"))), "Content-Length"));
    check_has(serving_ask(STR(GET_CLOSE("/inject"))), "hello");
    check_has(serving_ask(STR(GET_CLOSE("/known"))), "Content-Length: 6\r\n");
    check_has(serving_ask(STR(GET_CLOSE("/known"))), "\r\n\r\nabcdef");
    check_has(serving_ask(STR(GET_CLOSE("/fail"))), "\"detail\":\"it \\\"broke\\\"\"}");
    serving_stop();
}

TEST(news_come_before_the_answer)
{
    struct str got;

    start((struct http_config){ 0 });
    got = serving_ask(STR(GET_CLOSE("/news")));
    CHECK(str_starts(got, STR("HTTP/1.1 102 Processing\r\nDate: ")));
    check_has(got, "\r\nProgress-Step: probe\r\n\r\nHTTP/1.1 200 OK\r\n");
    CHECK(!has(got, "Set-Cookie"));
    got = serving_ask(STR("GET /news HTTP/1.0\r\n\r\n"));
    CHECK(str_starts(got, STR("HTTP/1.1 200 OK\r\n")));
    serving_stop();
}

TEST(a_stream_is_chunked_or_ends_with_the_connection)
{
    start((struct http_config){ 0 });
    check_has(serving_ask(STR(GET_CLOSE("/pieces"))), "\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n");
    check_has(serving_ask(STR("GET /pieces HTTP/1.0\r\n\r\n")), "\r\n\r\none two");
    serving_stop();
}

TEST(a_failure_half_way_is_no_clean_end)
{
    struct str got;

    start((struct http_config){ 0 });
    got = serving_ask(STR(GET("/fail-late")));
    CHECK(!has(got, "0\r\n\r\n"));
    got = serving_ask(STR(GET("/short")));
    CHECK(!has(got, "HTTP/1.1 500"));
    serving_stop();
}

TEST(pipelined_requests_are_answered_in_order)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;

    start((struct http_config){ 0 });
    fd = serving_connect();
    serving_put(fd,
                STR(GET("/hold") "POST /collect HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
                                 "POST / HTTP/1.1\r\n" HOST
                                 "Content-Length: 3\r\n\r\nGET" GET_CLOSE("/nothing")));
    serving_turn();
    CHECK(held);
    CHECK(read(fd, (char[1]){ 0 }, 1) < 0);
    text(held, 202, STR("first"));
    serving_until(fd, &in, (struct str){ 0 });
    check_has(buf_str(&in), "202 Accepted");
    check_has(buf_str(&in), "firstHTTP/1.1 200 OK");
    check_has(buf_str(&in), "abcHTTP/1.1 200 OK");
    check_has(buf_str(&in), "helloHTTP/1.1 404");
    serving_stop();
}

TEST(a_request_may_come_byte_by_byte)
{
    struct str request =
        STR("POST /collect HTTP/1.1\r\n" HOST "Connection: close\r\n"
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n");
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;

    start((struct http_config){ 0 });
    fd = serving_connect();
    for (size_t i = 0; i < request.n; i++)
        serving_put(fd, (struct str){ request.p + i, 1 });
    serving_until(fd, &in, (struct str){ 0 });
    check_has(buf_str(&in), "\r\n\r\nabcde");
    serving_stop();
}

TEST(bad_requests_have_their_answers)
{
    static char big[40000];
    struct http_stats s;

    memset(big, 'a', sizeof(big));
    start((struct http_config){ 0 });
    check_has(serving_ask(STR("GET / HTTP/1.1\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    check_has(serving_ask(STR("GET / HTTP/3.0\r\n\r\n")), "HTTP/1.1 505 ");
    memcpy(big, "GET /", 5);
    check_has(serving_ask((struct str){ big, 10000 }), "HTTP/1.1 414 ");
    memcpy(big, "GET / HTTP/1.1\r\nA: ", 19);
    check_has(serving_ask((struct str){ big, sizeof(big) }), "HTTP/1.1 431 ");
    check_has(serving_ask(STR("POST /collect HTTP/1.1\r\n" HOST "Content-Length: 100001\r\n\r\n")),
              "HTTP/1.1 413 ");
    CHECK_INT(gone, 1);
    check_has(serving_ask(STR("POST /collect HTTP/1.1\r\n" HOST
                              "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n")),
              "HTTP/1.1 400 ");
    check_has(serving_ask(STR("GET / HTTP/1.1\r\n\r\n" GET("/"))), "\"code\":\"bad_request\"");
    http_server_stats(serving, &s);
    CHECK_INT(s.refused, 7);
    CHECK_INT(s.exchanges, 0);
    serving_stop();
}

TEST(slow_clients_are_told_or_closed)
{
    start((struct http_config){
        .head_ns = 20 * NS_PER_MS, .body_ns = 20 * NS_PER_MS, .idle_ns = 20 * NS_PER_MS });
    CHECK_INT(serving_ask((struct str){ 0 }).n, 0);
    check_has(serving_ask(STR("GET / HT")), "HTTP/1.1 408 ");
    check_has(serving_ask(STR("POST /collect HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabc")),
              "HTTP/1.1 408 ");
    check_has(serving_ask(STR("POST /stream HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabc")),
              "HTTP/1.1 408 ");
    CHECK_INT(gone, 2);
    check_has(serving_ask(STR(GET("/"))), "hello"); /* and is then idle */
    serving_stop();
}

TEST(an_unwanted_body_is_read_or_ends_the_connection)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;
    static char junk[1 << 20];

    memset(junk, 'j', sizeof(junk));
    start((struct http_config){ 0 });
    fd = serving_connect();
    serving_put(fd, STR("POST /none HTTP/1.1\r\n" HOST "Content-Length: 50000\r\n\r\n"));
    serving_put(fd, (struct str){ junk, 50000 });
    serving_put(fd, STR(GET("/")));
    serving_until(fd, &in, STR("hello"));
    check_has(buf_str(&in), "HTTP/1.1 404");
    buf_clear(&in);
    serving_put(fd, STR("POST /none HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n"));
    serving_put(fd, (struct str){ junk, sizeof(junk) });
    serving_until(fd, &in, (struct str){ 0 });
    check_has(buf_str(&in), "Connection: close\r\n");
    serving_stop();
}

TEST(continue_is_said_when_the_body_is_wanted)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;

    start((struct http_config){ 0 });
    fd = serving_connect();
    serving_put(fd, STR("POST /collect HTTP/1.1\r\n" HOST
                        "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
    serving_until(fd, &in, STR("100 Continue\r\n\r\n"));
    serving_put(fd, STR("ok"));
    serving_until(fd, &in, STR("\r\n\r\nok"));
    serving_put(fd, STR("POST /none HTTP/1.1\r\n" HOST
                        "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
    serving_until(fd, &in, (struct str){ 0 });
    check_has(buf_str(&in), "404 Not Found");
    serving_stop();
}

TEST(a_client_that_vanishes_is_noticed)
{
    static const char *const paths[] = { GET("/hold"), GET("/begin"),
                                         "POST /stream HTTP/1.1\r\n" HOST
                                         "Content-Length: 5\r\n\r\nab" };

    start((struct http_config){ 0 });
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        int fd = serving_connect();

        serving_put(fd, str_from(paths[i]));
        serving_turn();
        CHECK(held);
        close(fd);
        serving_turn();
        CHECK(!held);
        CHECK_INT(gone, i + 1);
    }
    serving_stop();
}

TEST(output_is_bounded_and_drains)
{
    static char block[16 << 10];
    AUTO(buf_done) struct buf in = BUF_INIT(64 << 20);
    AUTO_CLOSE int fd = -1;
    size_t written = 0;
    int r = 0;

    start((struct http_config){ 0 });
    fd = serving_connect();
    serving_put(fd, STR(GET("/begin")));
    serving_turn();
    memset(block, 'b', sizeof(block));
    while ((r = http_write(held, (struct str){ block, sizeof(block) }, &e)) == 0)
        written += sizeof(block);
    CHECK_INT(r, 1);
    CHECK(http_queued(held) > HTTP_QUEUE_SOFT);
    while ((r = http_write(held, (struct str){ block, sizeof(block) }, &e)) >= 0)
        written += sizeof(block);
    CHECK_INT(r, -ERR_BUSY);
    CHECK(http_queued(held) <= HTTP_QUEUE_HARD);
    serving_turn();
    CHECK_INT(drained, 0);
    while (!drained)
        serving_until(fd, &in, STR("b"));
    http_end(held);
    serving_until(fd, &in, STR("0\r\n\r\n"));
    CHECK(in.n > written);
    serving_stop();
}

TEST(a_client_that_does_not_read_is_cut)
{
    static char block[200 << 10];
    AUTO_CLOSE int fd = -1;

    start((struct http_config){ .write_ns = 20 * NS_PER_MS });
    fd = serving_connect();
    serving_put(fd, STR(GET("/begin")));
    serving_turn();
    while (http_write(held, (struct str){ block, sizeof(block) }, &e) == 0)
        ;
    for (int64_t until = clock_mono() + 10 * NS_PER_S; !gone && clock_mono() < until;)
        loop_run_once(&serving_loop, NS_PER_MS, &e);
    CHECK_INT(gone, 1);
    serving_stop();
}

TEST(a_streamed_body_can_be_paused)
{
    static char block[1 << 20];
    AUTO_CLOSE int fd = -1;
    size_t at_pause, sent = 0;

    start((struct http_config){ 0 });
    fd = serving_connect();
    serving_put(fd, STR("POST /stream HTTP/1.1\r\n" HOST "Content-Length: 4194304\r\n\r\n"));
    serving_turn();
    http_body_pause(held);
    for (ssize_t n; (n = write(fd, block, sizeof(block))) > 0; serving_turn())
        sent += (size_t)n;
    CHECK(errno == EAGAIN && sent < 4194304);
    at_pause = streamed.n;
    CHECK_INT(at_pause, 0);
    http_body_resume(held);
    while (sent < 4194304) {
        size_t left = 4194304 - sent;

        serving_put(fd, (struct str){ block, left < sizeof(block) ? left : sizeof(block) });
        sent += left < sizeof(block) ? left : sizeof(block);
    }
    serving_turn();
    CHECK_INT(streamed.n, 4194304);
    CHECK_INT(ended, 1);
    serving_stop();
}

TEST(an_upgrade_hands_over_the_bytes)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;

    start((struct http_config){ 0 });
    check_has(serving_ask(STR(GET_CLOSE("/upgrade"))), "HTTP/1.1 400");
    fd = serving_connect();
    serving_put(fd, STR("GET /upgrade HTTP/1.1\r\n" HOST
                        "Connection: upgrade\r\nUpgrade: echo\r\n\r\nearly"));
    serving_until(fd, &in, STR("early"));
    check_has(buf_str(&in), "HTTP/1.1 101 Switching Protocols\r\n");
    check_has(buf_str(&in), "Connection: upgrade\r\n\r\nearly");
    serving_put(fd, STR(GET("/")));
    serving_until(fd, &in, STR(GET("/")));
    serving_put(fd, STR("bye"));
    serving_until(fd, &in, (struct str){ 0 });
    CHECK(str_ends(buf_str(&in), STR("bye")));
    serving_stop();
}

TEST(descriptors_go_out_with_their_bytes_and_never_in)
{
    char bytes[256], control[CMSG_SPACE(sizeof(int))];
    struct iovec v = { bytes, sizeof(bytes) };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control };
    AUTO_CLOSE int fd = -1;
    int got = -1, pipe_ends[2], before;
    struct cmsghdr *h;

    start((struct http_config){ 0 });
    CHECK_INT(pipe2(pipe_ends, O_CLOEXEC), 0);
    pass_fd = pipe_ends[1];
    fd = serving_connect();
    before = dup(0);
    close(before);
    h = (struct cmsghdr *)control;
    *h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                           .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(h), &pass_fd, sizeof(int));
    m.msg_controllen = sizeof(control);
    v.iov_len = (size_t)snprintf(bytes, sizeof(bytes), GET("/fd"));
    CHECK_INT(sendmsg(fd, &m, 0), v.iov_len);
    serving_turn();
    CHECK_INT(dup(0), before); /* what came in is closed, what goes out too */
    close(before);
    for (ssize_t n; got < 0;) {
        v.iov_len = sizeof(bytes);
        m.msg_controllen = sizeof(control);
        n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        CHECK(n > 0);
        h = CMSG_FIRSTHDR(&m);
        if (!h)
            continue;
        memcpy(&got, CMSG_DATA(h), sizeof(int));
        CHECK(has((struct str){ bytes, (size_t)n }, "4\r\nwith"));
    }
    CHECK_INT(write(got, "x", 1), 1);
    CHECK_INT(read(pipe_ends[0], bytes, 1), 1);
    serving_stop();
}

static int listen_unix(struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof(*a);

    *a = (struct sockaddr_un){ .sun_family = AF_UNIX }; /* autobind: an abstract name */
    CHECK_INT(bind(fd, (struct sockaddr *)a, sizeof(sa_family_t)), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)a, &n), 0);
    CHECK_INT(listen(fd, 100), 0);
    CHECK_OK(http_server_listen(serving, fd, &e), e);
    return (int)n;
}

static int connect_unix(const struct sockaddr_un *a, int n)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0);
    CHECK_INT(connect(fd, (const struct sockaddr *)a, (socklen_t)n), 0);
    return fd;
}

TEST(a_local_peer_is_known)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;
    struct sockaddr_un a;
    char want[64];
    int n;

    start((struct http_config){ 0 });
    n = listen_unix(&a);
    fd = connect_unix(&a, n);
    serving_put(fd, STR(GET_CLOSE("/who")));
    serving_until(fd, &in, (struct str){ 0 });
    snprintf(want, sizeof(want), "\r\n\r\n1 %d %d", (int)getpid(), (int)getuid());
    check_has(buf_str(&in), want);
    serving_stop();
}

TEST(what_a_part_of_a_caller_has_open_ends_with_it)
{
    AUTO(buf_done)
    struct buf in = BUF_INIT(1 << 16), waits = BUF_INIT(1 << 16), talks = BUF_INIT(1 << 16),
               other = BUF_INIT(1 << 16);
    int fds[5];
    struct http_stats s;

    start((struct http_config){ 0 });
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = serving_connect();
    serving_put(fds[0], STR(GET("/part?a")));
    serving_until(fds[0], &in, STR("\r\n\r\n"));
    serving_put(fds[1], STR(GET("/hold-part?a")));
    serving_put(fds[2], STR(GET("/talking?a")));
    serving_until(fds[2], &talks, STR("\r\n\r\n"));
    serving_put(fds[3], STR(GET("/part?b")));
    serving_until(fds[3], &other, STR("\r\n\r\n"));
    serving_put(fds[4], STR(GET("/")));
    serving_turn();
    http_end_part(serving, STR("nobody"), 401, STR("no"));
    serving_turn();
    CHECK_INT(parts_gone, 0);
    http_end_part(serving, STR("a"), 401, STR("its time is over"));
    serving_until(fds[0], &in, (struct str){ 0 });
    serving_until(fds[1], &waits, (struct str){ 0 });
    serving_until(fds[2], &talks, (struct str){ 0 });
    check_has(buf_str(&waits), "401");
    check_has(buf_str(&waits), "its time is over");
    check_has(buf_str(&talks), "last word");
    CHECK_INT(parts_gone, 2);
    http_server_stats(serving, &s);
    CHECK_INT(s.exchanges, 1);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
    serving_stop();
}

TEST(tcp_connections_are_counted_by_address)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fds[3];
    socklen_t n = sizeof(a);
    struct http_stats s;

    start((struct http_config){ .per_address = 2 });
    CHECK_INT(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    CHECK_INT(listen(listener, 10), 0);
    CHECK_OK(http_server_listen(serving, listener, &e), e);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(fds[i], (struct sockaddr *)&a, sizeof(a)), 0);
    }
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.connections, 2);
    CHECK_INT(s.strangers, 2);
    CHECK_INT(s.evicted, 1); /* the oldest, which has sent nothing */
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
    serving_stop();
}

static int listen_tcp(struct sockaddr_in *a)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof(*a);

    *a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    CHECK_INT(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)a, &n), 0);
    CHECK_INT(listen(fd, 64), 0);
    CHECK_OK(http_server_listen(serving, fd, &e), e);
    return 0;
}

static int connect_tcp(const struct sockaddr_in *a)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(connect(fd, (const struct sockaddr *)a, sizeof(*a)), 0);
    CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Sends a request and reads to the end: 0, or the errno of the end. */
static int ask_tcp(const struct sockaddr_in *a, struct str request, struct buf *in)
{
    int fd = connect_tcp(a), r = EAGAIN;
    char piece[4096];
    ssize_t n;

    serving_put(fd, request);
    for (int64_t deadline = clock_mono() + 10 * NS_PER_S; r == EAGAIN && clock_mono() < deadline;) {
        CHECK_OK(loop_run_once(&serving_loop, NS_PER_MS, &e), e);
        while ((n = read(fd, piece, sizeof(piece))) > 0)
            CHECK(buf_add(in, (struct str){ piece, (size_t)n }) == 0);
        r = n == 0 ? 0 : errno;
    }
    close(fd);
    serving_turn();
    return r;
}

TEST(a_stream_that_is_dropped_closes_in_good_order_and_has_no_end)
{
    AUTO(buf_done) struct buf in = BUF_INIT(4096), cut = BUF_INIT(4096), old = BUF_INIT(4096);
    struct sockaddr_in a;

    start((struct http_config){ 0 });
    listen_tcp(&a);
    CHECK_INT(ask_tcp(&a, STR(GET("/drop")), &in), 0);
    check_has(buf_str(&in), "\r\n\r\n3\r\nabc\r\n");
    CHECK(!has(buf_str(&in), "0\r\n\r\n"));
    /* Where the end of the connection would be the end of the body, it is reset. */
    CHECK_INT(ask_tcp(&a, STR(GET("/fail-late")), &cut), ECONNRESET);
    CHECK_INT(ask_tcp(&a, STR("GET /drop HTTP/1.0\r\n\r\n"), &old), ECONNRESET);
    serving_stop();
}

TEST(answered_connections_that_owe_a_body_make_room)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    struct sockaddr_in a;
    struct http_stats s;
    int fds[6], good;

    start((struct http_config){ .strangers = 4, .per_address = 4 });
    listen_tcp(&a);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = connect_tcp(&a);
        serving_put(fds[i], STR("POST / HTTP/1.1\r\n" HOST "Content-Length: 60000\r\n\r\n"));
        serving_turn();
    }
    good = connect_tcp(&a);
    serving_put(good, STR(GET_CLOSE("/")));
    serving_until(good, &in, (struct str){ 0 });
    check_has(buf_str(&in), "hello");
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 3);
    CHECK_INT(s.turned_away, 0);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
    close(good);
    serving_stop();
}

TEST(an_authenticated_connection_moves_to_its_callers_share)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    struct sockaddr_in a;
    struct http_stats s;
    int first, second, other;

    start((struct http_config){ .strangers = 1, .per_address = 1, .per_caller = 1 });
    listen_tcp(&a);
    first = connect_tcp(&a);
    serving_put(first, STR(GET("/bill?a")));
    serving_turn();
    CHECK(held);
    http_server_stats(serving, &s);
    CHECK_INT(s.strangers, 0);
    second = connect_tcp(&a); /* the address has room again, the caller has not */
    serving_put(second, STR(GET("/bill?a")));
    serving_until(second, &in, (struct str){ 0 });
    check_has(buf_str(&in), "HTTP/1.1 429 ");
    check_has(buf_str(&in), "limits.connections_per_owner");
    check_has(buf_str(&in), "Connection: close\r\n");
    text(held, 200, STR("done")); /* idle now: its end makes room */
    serving_turn();
    other = connect_tcp(&a);
    serving_put(other, STR(GET("/bill?a")));
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.connections, 1);
    CHECK_INT(s.evicted, 2); /* the first, and the second, which was answered */
    CHECK_INT(s.turned_away, 1);
    close(first);
    close(second);
    close(other);
    serving_turn();
    serving_stop();
}

/* Without a turn of the loop: the server is to find it by itself. */
static void put_unseen(int fd, struct str bytes)
{
    CHECK_INT(send(fd, bytes.p, bytes.n, MSG_NOSIGNAL), (ssize_t)bytes.n);
}

static bool is_closed(int fd)
{
    ssize_t n = recv(fd, (char[1]){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void connect_silent(const struct sockaddr_in *a, int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fds[i] = connect_tcp(a);
        serving_turn();
    }
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    serving_turn();
}

TEST(a_request_that_waits_is_read_before_its_connection_makes_room)
{
    struct sockaddr_in a;
    struct http_stats s;
    int fds[3];

    start((struct http_config){ .strangers = 4, .per_address = 2 });
    listen_tcp(&a);
    connect_silent(&a, fds, 2);
    fds[2] = connect_tcp(&a);                /* the loop comes to this one first … */
    put_unseen(fds[0], STR(GET("/bill?a"))); /* … and this would have been the oldest idle one */
    serving_turn();
    CHECK(held);
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 0); /* the first has left the place to the new one */
    CHECK_INT(s.strangers, 2);
    CHECK(!is_closed(fds[0]) && !is_closed(fds[1]) && !is_closed(fds[2]));
    close_all(fds, COUNT_OF(fds));
    serving_stop();
}

TEST(a_request_that_a_handler_works_on_keeps_its_connection)
{
    struct sockaddr_in a;
    struct http_stats s;
    int fds[3];

    start((struct http_config){ .strangers = 4, .per_address = 2 });
    listen_tcp(&a);
    connect_silent(&a, fds, 2);
    fds[2] = connect_tcp(&a);
    put_unseen(fds[0], STR(GET("/hold")));
    serving_turn();
    CHECK(held && gone == 0);
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 1); /* the next one, which has sent nothing */
    CHECK(is_closed(fds[1]) && !is_closed(fds[2]));
    close_all(fds, COUNT_OF(fds));
    serving_stop();
}

TEST(a_client_without_a_token_is_answered_and_makes_room)
{
    static const char *const sent[] = { GET("/"), "GET / HTTP/1.1\r\nHost: ", "no request\r\n\r\n",
                                        GET("/") GET("/") "POST / HTTP/1.1\r\n" };
    struct sockaddr_in a;
    struct http_stats s;
    int fds[3];

    start((struct http_config){ .strangers = 4, .per_address = 2 });
    listen_tcp(&a);
    for (unsigned i = 0; i < COUNT_OF(sent); i++) {
        AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);

        connect_silent(&a, fds, 2);
        fds[2] = connect_tcp(&a);
        put_unseen(fds[0], str_from(sent[i]));
        serving_turn();
        http_server_stats(serving, &s);
        CHECK_INT(s.evicted, i + 1);
        CHECK_INT(s.strangers, 2);
        serving_until(fds[0], &in, (struct str){ 0 });
        if (i != 1)
            check_has(buf_str(&in), "HTTP/1.1 ");
        CHECK(!is_closed(fds[1]) && !is_closed(fds[2]));
        close_all(fds, COUNT_OF(fds));
    }
    serving_stop();
}

TEST(a_client_that_left_makes_room_by_itself)
{
    struct sockaddr_in a;
    struct http_stats s;
    int fds[3];

    start((struct http_config){ .strangers = 4, .per_address = 2 });
    listen_tcp(&a);
    connect_silent(&a, fds, 2);
    fds[2] = connect_tcp(&a);
    close(fds[0]);
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 0);
    CHECK_INT(s.strangers, 2);
    close_all(fds + 1, 2);
    serving_stop();
}

/* The server reads from 16 connections for a new one. */
TEST(the_search_for_room_is_bounded)
{
    enum { PLACES = 20, READ_FOR_ONE = 16 };
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    struct sockaddr_in a;
    struct http_stats s;
    int fds[PLACES], next;

    start((struct http_config){ .strangers = 2 * PLACES, .per_address = PLACES });
    listen_tcp(&a);
    connect_silent(&a, fds, PLACES);
    next = connect_tcp(&a);
    for (size_t i = 0; i < PLACES; i++)
        put_unseen(fds[i], STR(GET("/hold-open")));
    CHECK_OK(loop_run_once(&serving_loop, 0, &e), e);
    serving_until(next, &in, (struct str){ 0 });
    check_has(buf_str(&in), "HTTP/1.1 503 ");
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 0);
    CHECK_INT(s.turned_away, 1);
    CHECK_INT(s.exchanges, PLACES);
    close(next);
    next = connect_tcp(&a); /* all are at work: nothing is read, nothing ends */
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.turned_away, 2);
    CHECK_INT(s.exchanges, PLACES);
    close(next);
    close_all(fds, PLACES);
    CHECK_INT(parts_gone, PLACES);
    serving_stop();
}

TEST(an_address_is_looked_at_when_another_one_needs_room)
{
    struct sockaddr_in a, other = { .sin_family = AF_INET, .sin_addr = { htonl(0x7f000002) } };
    struct http_stats s;
    int fds[3];

    start((struct http_config){ .strangers = 2, .per_address = 2 });
    listen_tcp(&a);
    connect_silent(&a, fds, 2);
    fds[2] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(fds[2], (struct sockaddr *)&other, sizeof other), 0);
    CHECK_INT(connect(fds[2], (struct sockaddr *)&a, sizeof a), 0);
    put_unseen(fds[0], STR(GET("/bill?a")));
    serving_turn();
    CHECK(held);
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 0);
    CHECK(!is_closed(fds[0]) && !is_closed(fds[1]) && !is_closed(fds[2]));
    close_all(fds, COUNT_OF(fds));
    serving_stop();
}

TEST(a_family_at_its_part_ends_no_connection_of_another)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    struct http_stats s;
    int fds[5];

    start((struct http_config){ .per_caller = 8, .per_token = 2 });
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = serving_connect();
    serving_put(fds[0], STR(GET("/token?b1"))); /* idle from now on */
    serving_until(fds[0], &in, STR("done"));
    serving_put(fds[1], STR(GET("/hold-token?a1")));
    serving_put(fds[2], STR(GET("/hold-token?a2")));
    serving_turn();
    for (int i = 3; i < 5; i++) {
        buf_clear(&in);
        serving_put(fds[i], i == 3 ? STR(GET("/hold-token?a1")) : STR(GET("/hold-token?a3")));
        serving_until(fds[i], &in, (struct str){ 0 });
        check_has(buf_str(&in), "HTTP/1.1 429 ");
        check_has(buf_str(&in), "2 of 2 connections");
        check_has(buf_str(&in), "seven eighths of limits.connections_per_owner");
    }
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 0);
    buf_clear(&in);
    serving_put(fds[0], STR(GET("/token?b1")));
    serving_until(fds[0], &in, STR("done"));
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
    serving_turn();
    serving_stop();
}

static bool is_test_user(void *user, const struct http_peer *p)
{
    return p->cred.uid == getuid();
}

TEST(privileged_peers_have_a_reserve)
{
    struct http_stats s;
    int fds[4];

    start((struct http_config){
        .connections = 4, .reserve = 3, .per_caller = 1, .privileged = is_test_user });
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = serving_connect();
        serving_put(fds[i], STR("GET /hold HTTP/1.1\r\n")); /* not idle, and never a request */
        serving_turn();
    }
    http_server_stats(serving, &s);
    CHECK_INT(s.connections, 4);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        CHECK(read(fds[i], (char[1]){ 0 }, 1) < 0);
    serving_stop();
}

TEST(bytes_in_memory_are_shared)
{
    static char body[90000];
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 20);
    struct http_stats s;
    int first, second;

    memset(body, 'x', sizeof(body));
    start((struct http_config){ .buffered = { .total = 200000, .share = 100000 } });
    first = serving_connect();
    second = serving_connect();
    serving_put(first, STR("POST /collect HTTP/1.1\r\n" HOST "Content-Length: 90001\r\n\r\n"));
    serving_put(first, (struct str){ body, sizeof(body) });
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.buffered, sizeof(body));
    serving_put(second, STR("POST /collect HTTP/1.1\r\n" HOST "Content-Length: 90000\r\n\r\n"));
    (void)!write(second, body, sizeof(body));
    serving_until(second, &in, (struct str){ 0 });
    check_has(buf_str(&in), "HTTP/1.1 503 ");
    check_has(buf_str(&in), "Retry-After: 1\r\n");
    check_has(buf_str(&in), "limits.buffered_bytes");
    buf_clear(&in);
    serving_put(first, STR("y"));
    serving_until(first, &in, STR("xy"));
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.buffered, 0);
    CHECK_INT(s.out_of_bytes, 1);
    close(first);
    close(second);
    serving_turn();
    serving_stop();
}

TEST(answers_that_nobody_reads_count_as_memory)
{
    static char body[8 << 20];
    int fd;
    struct http_stats s;

    start((struct http_config){ .buffered = { .total = 1 << 20 } });
    fd = serving_connect();
    serving_put(fd, STR(GET("/hold")));
    serving_turn();
    text(held, 200, (struct str){ body, sizeof(body) });
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.connections, 0);
    CHECK_INT(s.buffered, 0);
    CHECK_INT(s.out_of_bytes, 1);
    held = NULL;
    close(fd);
    serving_stop();
}

TEST(a_streamed_body_must_keep_up_a_rate)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;
    int64_t began = clock_mono();

    start((struct http_config){ .body_ns = 300 * NS_PER_MS, .body_rate = 1 << 20 });
    fd = serving_connect();
    serving_put(fd, STR("POST /stream HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n"));
    while (!gone && clock_mono() - began < 10 * NS_PER_S) {
        (void)!send(fd, "x", 1, MSG_NOSIGNAL); /* well within body_ns, far below the rate */
        loop_run_once(&serving_loop, 20 * NS_PER_MS, &e);
    }
    CHECK_INT(gone, 1);
    CHECK(clock_mono() - began >= 300 * NS_PER_MS);
    CHECK(streamed.n > 1);
    serving_until(fd, &in, (struct str){ 0 });
    check_has(buf_str(&in), "HTTP/1.1 408 ");
    serving_stop();
}

TEST(a_lack_of_descriptors_is_survived)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    struct rlimit limit;
    struct sockaddr_un a;
    struct http_stats s;
    int n, busy, client, next;

    start((struct http_config){ 0 });
    n = listen_unix(&a);
    busy = connect_unix(&a, n);
    serving_put(busy, STR(GET("/hold")));
    serving_turn();
    CHECK(held);
    client = connect_unix(&a, n);
    next = dup(0);
    close(next);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)next;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    serving_turn(); /* the held exchange is not sacrificed */
    http_server_stats(serving, &s);
    CHECK_INT(s.accept_paused, 1);
    CHECK(held && gone == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    serving_put(client, STR(GET_CLOSE("/")));
    serving_until(client, &in, (struct str){ 0 });
    check_has(buf_str(&in), "hello");
    close(busy);
    close(client);
    serving_turn();
    serving_stop();
}

TEST(a_lack_of_descriptors_ends_no_connection_with_a_request)
{
    struct rlimit limit;
    struct sockaddr_in a;
    struct http_stats s;
    int fds[3], next;

    start((struct http_config){ 0 });
    listen_tcp(&a);
    connect_silent(&a, fds, 2);
    fds[2] = connect_tcp(&a);
    put_unseen(fds[0], STR(GET("/bill?a")));
    next = dup(0);
    close(next);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)next;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    serving_turn();
    CHECK(held && gone == 0);
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 1);
    CHECK(is_closed(fds[1]) && !is_closed(fds[2]));
    close_all(fds, COUNT_OF(fds));
    serving_stop();
}

TEST(the_longest_waiting_connection_makes_room)
{
    int fds[3];
    struct http_stats s;

    start((struct http_config){ .connections = 2 });
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = serving_connect();
    serving_turn();
    http_server_stats(serving, &s);
    CHECK_INT(s.evicted, 1);
    CHECK_INT(read(fds[0], (char[1]){ 0 }, 1), 0);
    CHECK(read(fds[1], (char[1]){ 0 }, 1) < 0);
    serving_stop();
}

TEST(too_many_exchanges_are_refused)
{
    AUTO_CLOSE int fd = -1;

    start((struct http_config){ .exchanges = 1 });
    fd = serving_connect();
    serving_put(fd, STR(GET("/hold")));
    serving_turn();
    check_has(serving_ask(STR(GET("/"))), "HTTP/1.1 503 ");
    serving_stop();
    CHECK_INT(gone, 1);
}

static void stopped(struct http_server *s, void *user)
{
    CHECK(s == serving);
    ++*(int *)user;
}

TEST(stopping_lets_exchanges_finish)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1, idle = -1;
    int told = 0;

    start((struct http_config){ .user = &told });
    fd = serving_connect();
    idle = serving_connect();
    serving_put(fd, STR(GET("/hold")));
    serving_turn();
    http_server_stop(serving, clock_mono() + 60 * NS_PER_S, stopped);
    serving_turn();
    CHECK_INT(read(idle, (char[1]){ 0 }, 1), 0);
    CHECK_INT(told, 0);
    text(held, 200, STR("done"));
    serving_until(fd, &in, (struct str){ 0 });
    check_has(buf_str(&in), "Connection: close\r\n\r\ndone");
    close(take_fd(&fd));
    serving_turn();
    CHECK_INT(told, 1);
    serving_stop();
}

TEST(stopping_has_a_deadline)
{
    AUTO_CLOSE int fd = -1;
    int told = 0;

    start((struct http_config){ .user = &told });
    fd = serving_connect();
    serving_put(fd, STR(GET("/hold")));
    serving_turn();
    http_server_stop(serving, clock_mono(), stopped);
    serving_turn();
    CHECK_INT(gone, 1);
    CHECK_INT(told, 1);
    serving_stop();
}

TEST(large_answers_arrive_whole)
{
    AUTO(buf_done) struct buf in = BUF_INIT(64 << 20);
    AUTO_CLOSE int fd = -1;
    static char body[5 << 20];

    start((struct http_config){ 0 });
    fd = serving_connect();
    serving_put(fd, STR(GET_CLOSE("/hold")));
    serving_turn();
    memset(body, 'x', sizeof(body));
    text(held, 200, (struct str){ body, sizeof(body) });
    serving_until(fd, &in, (struct str){ 0 });
    check_has(buf_str(&in), "Content-Length: 5242880\r\n");
    CHECK(in.n > sizeof(body));
    CHECK(memcmp(in.p + in.n - sizeof(body), body, sizeof(body)) == 0);
    serving_stop();
}
