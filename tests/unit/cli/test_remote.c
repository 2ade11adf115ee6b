/* SPDX-License-Identifier: Apache-2.0 */
/* exec against a daemon that knows its lines: the descriptors' way and the WebSocket's. */
#include "cli/remote.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "fake.h"
#include "harness/tap.h"
#include "lib/http/accept.h"
#include "lib/http/frame.h"
#include "lib/json/reader.h"

#define SWITCH                                                                                     \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: sandboxer-stdio\r\n\r\n"  \
    "{\"event\":\"started\",\"process\":{\"process\":7}}\n"

static int pipe_with(const char *text)
{
    int ends[2];

    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], text, strlen(text)) == (ssize_t)strlen(text));
    close(ends[1]);
    return ends[0];
}

static void tell(int connection, const char *text)
{
    if (write(connection, text, strlen(text)) != (ssize_t)strlen(text))
        _exit(1);
}

static void exit_three(int connection)
{
    tell(connection,
         "{\"event\":\"exited\",\"exit_code\":3,\"signal\":\"\",\"timed_out\":false}\n");
}

TEST(descriptors_are_handed_over)
{
    struct fake_reply reply = { .bytes = SWITCH,
                                .fds = { pipe_with("to stdout"), pipe_with("to stderr") },
                                .n_fds = 2,
                                .then = exit_three };
    const char *asked;

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "--timeout", "5s", "sbx_1", "--", "ls"), 3);
    CHECK_STR(buf_str(&fake_out), "to stdout");
    CHECK_STR(buf_str(&fake_err), "to stderr");
    asked = fake_requests();
    CHECK(strstr(asked, "Upgrade: sandboxer-stdio\r\n") != NULL);
    CHECK(strstr(asked, "{\"argv\":[\"ls\"],\"timeout\":5}") != NULL);
}

static void exit_late(int connection)
{
    tell(connection,
         "{\"event\":\"exited\",\"exit_code\":null,\"signal\":\"\",\"timed_out\":true}\n");
}

TEST(a_timeout_is_said)
{
    struct fake_reply reply = {
        .bytes = SWITCH, .fds = { pipe_with(""), pipe_with("") }, .n_fds = 2, .then = exit_late
    };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "--timeout", "2s", "sbx_1", "--", "ls"), EXIT_TIMED_OUT);
    CHECK_STR(buf_str(&fake_err), "sandboxer: timed out after 2000 ms\n");
    fake_requests();
}

static void exit_like_timeout(int connection)
{
    tell(connection,
         "{\"event\":\"exited\",\"exit_code\":124,\"signal\":\"\",\"timed_out\":false}\n");
}

TEST(a_status_of_124_is_no_timeout)
{
    struct fake_reply reply = { .bytes = SWITCH,
                                .fds = { pipe_with(""), pipe_with("") },
                                .n_fds = 2,
                                .then = exit_like_timeout };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "--timeout", "2s", "sbx_1", "--", "ls"), EXIT_TIMED_OUT);
    CHECK_STR(buf_str(&fake_err), "");
    fake_requests();
}

static void exit_out_of_memory(int connection)
{
    tell(connection,
         "{\"event\":\"exited\",\"exit_code\":null,\"signal\":\"KILL\",\"timed_out\":false,"
         "\"oom_kills\":1,\"memory_limit\":67108864}\n");
}

TEST(what_ran_out_of_memory_is_said)
{
    struct fake_reply reply = { .bytes = SWITCH,
                                .fds = { pipe_with(""), pipe_with(""), pipe_with("") },
                                .n_fds = 3,
                                .then = exit_out_of_memory };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "-i", "sbx_1", "ls"), EXIT_SIGNALLED + SIGKILL);
    CHECK_STR(buf_str(&fake_err), "sandboxer: killed: out of memory (limit 64M)\n");
    fake_requests();
}

static int stdin_end;

/* What comes on stdin goes back as the exit code. */
static void exit_with_stdin(int connection)
{
    char text[16] = "", line[128];

    if (read(stdin_end, text, sizeof text - 1) <= 0)
        _exit(1);
    snprintf(line, sizeof line, "{\"event\":\"exited\",\"exit_code\":%d,\"signal\":\"\"}\n",
             (int)strtol(text, NULL, 10));
    tell(connection, line);
}

TEST(stdin_is_passed_on)
{
    struct fake_reply reply = { .bytes = SWITCH, .n_fds = 3, .then = exit_with_stdin };
    int ends[2];

    CHECK(pipe(ends) == 0);
    stdin_end = ends[0];
    reply.fds[0] = ends[1];
    reply.fds[1] = pipe_with("");
    reply.fds[2] = pipe_with("");
    fake_serve(&reply, 1);
    CHECK_INT(fake_run_with("42\n", "exec", "-i", "sbx_1", "cat"), 42);
    fake_requests();
}

static void say_nothing(int connection)
{
}

TEST(a_lost_connection_is_no_exit_status)
{
    struct fake_reply reply = { .bytes = SWITCH,
                                .fds = { pipe_with("partial"), pipe_with("") },
                                .n_fds = 2,
                                .then = say_nothing };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "sbx_1", "ls"), EXIT_TOOL_FAILED);
    CHECK(strstr(fake_err.p, "lost") != NULL);
    fake_requests();
}

TEST(too_few_descriptors)
{
    struct fake_reply reply = { .bytes = SWITCH, .fds = { pipe_with("") }, .n_fds = 1 };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "sbx_1", "ls"), EXIT_TOOL_FAILED);
    CHECK(strstr(fake_err.p, "1 descriptors, not 2") != NULL);
    fake_requests();
}

static void not_there(int connection)
{
    tell(connection, "{\"event\":\"error\",\"code\":\"not_found\",\"step\":\"program\","
                     "\"detail\":\"nope: No such file\"}\n");
}

TEST(a_program_that_is_not_there)
{
    struct fake_reply reply = {
        .bytes = SWITCH, .fds = { pipe_with(""), pipe_with("") }, .n_fds = 2, .then = not_there
    };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "sbx_1", "nope"), EXIT_NOT_FOUND);
    CHECK(strstr(fake_err.p, "nope: No such file (not_found)") != NULL);
    fake_requests();
}

TEST(a_sandbox_that_is_not_there)
{
    struct fake_reply reply =
        fake_json("404 Not Found", "{\"code\":\"not_found\",\"detail\":\"no sandbox\"}");

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "sbx_1", "ls"), EXIT_TOOL_FAILED);
    CHECK_STR(buf_str(&fake_err), "sandboxer: exec: no sandbox (not_found)\n");
    fake_requests();
}

static int output_end;

/* The peer reads its output, so it is ready for signals: it gets one, and passes it on as a line on
 * the same connection. */
static void send_signal(int connection)
{
    static const char wanted[] = "{\"op\":\"signal\",\"signal\":\"TERM\"}\n";
    char line[sizeof wanted] = "";
    struct ucred peer;
    socklen_t n = sizeof peer;
    int unread;

    tell(output_end, "x");
    while (ioctl(output_end, FIONREAD, &unread) == 0 && unread)
        usleep(1000);
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 ||
        kill(peer.pid, SIGTERM) < 0 || read(connection, line, sizeof line - 1) <= 0)
        _exit(1);
    if (strcmp(line, wanted) == 0)
        tell(connection, "{\"event\":\"exited\",\"exit_code\":0,\"signal\":\"TERM\"}\n");
}

TEST(signals_are_passed_on)
{
    struct fake_reply reply = { .bytes = SWITCH, .n_fds = 2, .then = send_signal };
    int ends[2];

    CHECK(pipe(ends) == 0);
    output_end = ends[1];
    reply.fds[0] = ends[0];
    reply.fds[1] = pipe_with("");
    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "sbx_1", "sleep", "9"), EXIT_SIGNALLED + SIGTERM);
    CHECK_STR(buf_str(&fake_out), "x");
    fake_requests();
}

static int status_of(const char *json)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(65536);
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(json), (struct json_limits){ 65536, 16, false }, &a, &v, &e), e);
    return remote_status(v);
}

TEST(exit_statuses)
{
    CHECK_INT(status_of("{\"exit_code\":7,\"signal\":\"\"}"), 7);
    CHECK_INT(status_of("{\"exit_code\":0,\"signal\":\"KILL\"}"), 137);
    CHECK_INT(status_of("{\"signal\":\"TERM\",\"timed_out\":true}"), 124);
    CHECK_INT(status_of("{}"), EXIT_TOOL_FAILED);
    CHECK_INT(status_of("{\"exit_code\":256}"), EXIT_TOOL_FAILED);
    CHECK_INT(status_of("{\"exit_code\":-1}"), EXIT_TOOL_FAILED);
}

/* --- WebSocket --- */

static void send_frame(int connection, enum frame_op op, const char *data, size_t n)
{
    unsigned char head[FRAME_HEAD_MAX];
    size_t head_n = frame_head(head, op, true, n, NULL);

    if (write(connection, head, head_n) != (ssize_t)head_n ||
        write(connection, data, n) != (ssize_t)n)
        _exit(1);
}

static void read_frames(int connection, struct buf *texts, size_t wanted)
{
    struct frame_reader r;
    char bytes[4096];
    size_t seen = 0;

    frame_reader_init(&r, true, 1 << 20);
    while (seen < wanted) {
        ssize_t n = read(connection, bytes, sizeof bytes);
        struct str in = { bytes, n > 0 ? (size_t)n : 0 };
        struct frame_message m;

        if (n <= 0)
            _exit(1);
        while (seen < wanted && frame_read(&r, &in, &m, NULL) > 0) {
            buf_add(texts,
                    m.op == FRAME_BINARY ? (struct str){ m.data.p + 1, m.data.n - 1 } : m.data);
            buf_add_c(texts, '\n');
            seen++;
        }
    }
    frame_reader_done(&r);
}

/* A daemon on TCP for one WebSocket: it takes the request, stdin and its end, and answers. */
static _Noreturn void serve_websocket(int listener, int report)
{
    static char head[4096], answer[512], accept_text[ACCEPT_LENGTH + 1];
    static const char exited[] = "{\"event\":\"exited\",\"exit_code\":5,\"signal\":\"\"}";
    struct buf texts = BUF_INIT(65536);
    int connection = accept(listener, NULL, NULL);
    size_t n = 0;
    const char *key;

    while (!strstr(head, "\r\n\r\n")) /* nothing follows before our answer */
        n += (size_t)read(connection, head + n, sizeof head - 1 - n);
    key = strstr(head, "Sec-WebSocket-Key: ") + 19;
    accept_for_key((struct str){ key, ACCEPT_KEY_LENGTH }, accept_text);
    snprintf(answer, sizeof answer,
             "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Accept: %s\r\n\r\n",
             accept_text);
    tell(connection, answer);
    read_frames(connection, &texts, 3);
    send_frame(connection, FRAME_BINARY, "\001out", 4);
    send_frame(connection, FRAME_BINARY, "\002err", 4);
    send_frame(connection, FRAME_TEXT, exited, sizeof exited - 1);
    buf_add(&texts, str_from(head));
    if (write(report, texts.p, texts.n) != (ssize_t)texts.n)
        _exit(1);
    _exit(0);
}

TEST(websocket_on_tcp)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), report[2];
    char url[64], asked[8192] = "";
    pid_t pid;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &size) == 0 && pipe(report) == 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    pid = fork();
    if (pid == 0)
        serve_websocket(listener, report[1]);
    setenv("SANDBOXER_TOKEN", "sbt_secret", 1);
    CHECK_INT(fake_run_with("input", "exec", "--server", url, "-i", "sbx_1", "cat"), 5);
    CHECK_STR(buf_str(&fake_out), "out");
    CHECK_STR(buf_str(&fake_err), "err");
    CHECK(read(report[0], asked, sizeof asked - 1) > 0);
    CHECK(strstr(asked, "{\"argv\":[\"cat\"],\"stdin\":true}\ninput\n{\"op\":\"close_stdin\"}\n") !=
          NULL);
    CHECK(strstr(asked, "GET /v1/sandboxes/sbx_1/processes/new ") != NULL);
    CHECK(strstr(asked, "Authorization: Bearer sbt_secret\r\n") != NULL);
    CHECK(waitpid(pid, NULL, 0) == pid);
}
