/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/http/websocket.h"
#include "unit/lib/http/serving.h"

static struct err e;

/* --- Against bytes that a test wrote before: what a server could say --- */

static struct http_client client;
static int far_end = -1;

static void say(struct str answer)
{
    int fds[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_INT(send(fds[1], answer.p, answer.n, 0), answer.n);
    shutdown(fds[1], SHUT_WR);
    far_end = fds[1];
    http_client_init(&client, fds[0], 5 * NS_PER_S);
}

static const struct http_client_request get = { .method = { "GET", 3 }, .target = { "/", 1 } };

/* The body, or the error's code. */
static int ask(struct str answer, struct buf *out)
{
    const struct h1_response *p;
    struct str piece;
    int r;

    say(answer);
    r = http_client_send(&client, &get, &e);
    if (r >= 0)
        r = http_client_head(&client, &p, &e);
    while (r >= 0 && (r = http_client_read(&client, &piece, &e)) > 0)
        CHECK(buf_add(out, piece) == 0);
    return r;
}

static const struct {
    const char *want; /* NULL: refused, or cut off */
    bool reusable;
    struct str answer;
} answers[] = {
    { "abc", true, STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc") },
    { "abc", true,
      STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n") },
    { "abc", false, STR("HTTP/1.1 200 OK\r\n\r\nabc") },
    { "abc", false, STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc") },
    { "abc", false, STR("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n") },
    { "abc", true,
      STR("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n"
          "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc") },
    { "", true, STR("HTTP/1.1 204 No Content\r\n\r\n") },
    { NULL, false, STR("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc") },
    { NULL, false, STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n") },
    { NULL, false, STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n") },
    { NULL, false, STR("HTTP/1.1 101 Switching\r\n\r\n") },
    { NULL, false, STR("HTTP/1.1 200 OK\r\nContent-Le") },
    { NULL, false, STR("SSH-2.0-OpenSSH_9.2\r\n") },
    { NULL, false, STR("") },
};

TEST(a_piece_that_is_not_there_is_not_waited_for)
{
    static const struct str head =
        STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r");
    const struct h1_response *p;
    struct str piece;
    int fds[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_INT(send(fds[1], head.p, head.n, 0), head.n);
    http_client_init(&client, fds[0], 0);
    CHECK_OK(http_client_send(&client, &get, &e), e);
    CHECK_OK(http_client_head(&client, &p, &e), e);
    CHECK_INT(http_client_try(&client, &piece, &e), 1);
    CHECK_STR(piece, "abc");
    CHECK_INT(http_client_try(&client, &piece, &e), -ERR_BUSY);
    CHECK_INT(http_client_try(&client, &piece, &e), -ERR_BUSY);
    CHECK_INT(send(fds[1], "\n1\r\nd\r\n0\r\n\r\n", 13, 0), 13);
    CHECK_INT(http_client_try(&client, &piece, &e), 1);
    CHECK_STR(piece, "d");
    CHECK_INT(http_client_try(&client, &piece, &e), 0);
    http_client_done(&client);
    close(fds[0]);
    close(fds[1]);
}

TEST(answers_are_whole_or_errors)
{
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        AUTO(buf_done) struct buf out = BUF_INIT(1024);
        int r = ask(answers[i].answer, &out);

        if ((r >= 0) != !!answers[i].want)
            FAIL("case %zu: %d", i, r);
        if (r >= 0 && (!str_eq(buf_str(&out), str_from(answers[i].want)) ||
                       client.reusable != answers[i].reusable))
            FAIL("case %zu: '%s', reusable %d", i, out.p, client.reusable);
        if (!client.reusable)
            CHECK_INT(http_client_send(&client, &get, &e), -ERR_CONFLICT);
        http_client_done(&client);
        close(client.fd);
        close(far_end);
    }
}

static unsigned news;

static void on_interim(void *user, const struct h1_response *head)
{
    CHECK(user == &news);
    CHECK_INT(head->status, 102);
    CHECK_STR(h1_value(&head->head, STR("Progress-Step")), "probe");
    news++;
}

TEST(heads_before_the_answer_are_told_to_who_asks)
{
    static const char one[] = "HTTP/1.1 102 Processing\r\nProgress-Step: probe\r\n\r\n";
    AUTO(buf_done) struct buf all = BUF_INIT(1 << 16);
    const struct h1_response *p;

    for (int i = 0; i < 100; i++)
        CHECK(buf_add(&all, str_from(one)) == 0);
    CHECK(buf_add(&all, STR("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) == 0);
    for (int listens = 0; listens < 2; listens++) {
        say(buf_str(&all));
        client.interim = listens ? on_interim : NULL;
        client.interim_user = &news;
        CHECK_OK(http_client_send(&client, &get, &e), e);
        CHECK_INT(http_client_head(&client, &p, &e), listens ? 0 : -ERR_UPSTREAM);
        http_client_done(&client);
    }
    CHECK_INT(news, 100);
}

TEST(a_silent_server_is_not_waited_for_forever)
{
    const struct h1_response *p;
    int fds[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    http_client_init(&client, fds[0], 10 * NS_PER_MS);
    CHECK_OK(http_client_send(&client, &get, &e), e);
    CHECK_INT(http_client_head(&client, &p, &e), -ERR_TIMEOUT);
    http_client_done(&client);
}

TEST(requests_cannot_be_injected)
{
    const struct h1_field bad = { STR("A"), STR("b\r\nC: d") };
    struct http_client_request q = get;

    say(STR(""));
    q.target = STR("/ HTTP/1.1\r\nX: y");
    CHECK_INT(http_client_send(&client, &q, &e), -ERR_INVALID);
    q.target = STR("/a b");
    CHECK_INT(http_client_send(&client, &q, &e), -ERR_INVALID);
    q = get;
    q.fields = &bad;
    q.n = 1;
    CHECK_INT(http_client_send(&client, &q, &e), -ERR_INVALID);
    http_client_done(&client);
}

/* --- Against our server, in a process of its own --- */

static int pass_fd = -1;
static struct ws ws;

static void echo(struct http_exchange *x, struct str body)
{
    CHECK_OK(http_respond(x, 200, NULL, 0, body, &e), e);
}

static void ws_echo(struct ws *w, enum frame_op op, struct str data)
{
    CHECK_OK(ws_send(w, op, data, &e), e);
}

static void ws_over(struct ws *w, int code)
{
}

static void give(struct http_exchange *x)
{
    CHECK_OK(http_begin(x, 200, NULL, 0, HTTP_UNKNOWN, &e), e);
    CHECK_OK(http_write_fds(x, STR("here"), &pass_fd, 1, &e), e);
    http_end(x);
}

static void on_request(struct http_exchange *x)
{
    struct str path = http_request(x)->path;

    if (str_eq(path, STR("/echo")))
        http_collect(x, 1 << 20, echo);
    else if (str_eq(path, STR("/fd")))
        give(x);
    else if (str_eq(path, STR("/ws")))
        CHECK_OK(ws_accept(&ws, x,
                           &(struct ws_config){ .on_message = ws_echo, .on_closed = ws_over }, &e),
                 e);
    else
        http_fail(x, 404, STR("no such thing"));
}

/* The child serves one connection until it closes. */
static int serve_from_child(void)
{
    int fds[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    if (fork() == 0) {
        struct http_stats s;

        close(fds[1]);
        serving_start(&(struct http_config){ .on_request = on_request });
        CHECK_OK(http_server_adopt(serving, fds[0], &e), e);
        do {
            CHECK_OK(loop_run_once(&serving_loop, -1, &e), e);
            http_server_stats(serving, &s);
        } while (s.connections > 0);
        _exit(0);
    }
    close(fds[0]);
    http_client_init(&client, fds[1], 20 * NS_PER_S);
    return fds[1];
}

static void read_all(struct buf *out)
{
    struct str piece;
    int r;

    buf_clear(out);
    while ((r = http_client_read(&client, &piece, &e)) > 0)
        CHECK(buf_add(out, piece) == 0);
    CHECK_OK(r, e);
}

static int three_times(void *user, char *out, size_t cap, struct err *err)
{
    memset(out, 'z', cap);
    return ++*(int *)user <= 3 ? (int)cap : 0;
}

TEST(bodies_go_there_and_back)
{
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 20);
    AUTO_CLOSE int fd = serve_from_child();
    const struct h1_response *p;
    int calls = 0;
    struct http_client_request q = { .method = STR("POST"), .target = STR("/echo") };

    q.body = STR("some bytes");
    CHECK_OK(http_client_send(&client, &q, &e), e);
    CHECK_OK(http_client_head(&client, &p, &e), e);
    CHECK_INT(p->status, 200);
    read_all(&out);
    CHECK_STR(buf_str(&out), "some bytes");
    q.more = three_times;
    q.user = &calls;
    CHECK_OK(http_client_send(&client, &q, &e), e);
    CHECK_OK(http_client_head(&client, &p, &e), e);
    read_all(&out);
    CHECK_INT(calls, 4);
    CHECK(out.n > 0 && out.n % 3 == 0);
    CHECK(client.reusable);
    http_client_done(&client);
    close(take_fd(&fd));
    wait(NULL);
}

TEST(descriptors_arrive)
{
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 20);
    struct http_client_request q = { .method = STR("GET"), .target = STR("/fd") };
    const struct h1_response *p;
    int ends[2], got = -1;
    AUTO_CLOSE int fd = -1;

    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    pass_fd = ends[1];
    fd = serve_from_child();
    CHECK_OK(http_client_send(&client, &q, &e), e);
    CHECK_OK(http_client_head(&client, &p, &e), e);
    read_all(&out);
    CHECK_STR(buf_str(&out), "here");
    CHECK_INT(http_client_take_fds(&client, &got, 1), 1);
    CHECK_INT(http_client_take_fds(&client, &got, 1), 0);
    CHECK_INT(write(got, "x", 1), 1);
    CHECK_INT(read(ends[0], &(char){ 0 }, 1), 1);
    http_client_done(&client);
    close(take_fd(&fd));
    wait(NULL);
}

TEST(a_websocket_from_end_to_end)
{
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 20);
    AUTO_CLOSE int fd = serve_from_child();
    struct http_client_request q = { .target = STR("/nothing") };
    const struct h1_response *p;
    struct frame_message m;
    static char big[100000];

    CHECK_INT(http_client_websocket(&client, &q, 1 << 20, &p, &e), -ERR_DENIED);
    CHECK_INT(p->status, 404);
    read_all(&out);
    CHECK(has(buf_str(&out), "no such thing"));
    http_client_done(&client);
    close(take_fd(&fd));
    wait(NULL);

    fd = serve_from_child();
    q.target = STR("/ws");
    CHECK_OK(http_client_websocket(&client, &q, 1 << 20, &p, &e), e);
    CHECK_OK(http_client_ws_send(&client, FRAME_TEXT, STR("hi"), &e), e);
    CHECK_INT(http_client_ws_read(&client, &m, &e), 1);
    CHECK_STR(m.data, "hi");
    CHECK_OK(http_client_ws_send(&client, FRAME_BINARY, (struct str){ big, sizeof(big) }, &e), e);
    CHECK_INT(http_client_ws_read(&client, &m, &e), 1);
    CHECK(m.op == FRAME_BINARY && m.data.n == sizeof(big));
    CHECK_OK(http_client_ws_send(&client, FRAME_CLOSE, STR("\x03\xe8"), &e), e);
    CHECK_INT(http_client_ws_read(&client, &m, &e), 0);
    CHECK_INT(m.code, FRAME_NORMAL);
    http_client_done(&client);
    close(take_fd(&fd));
    wait(NULL);
}
