/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/lib/http/serving.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

struct loop serving_loop;
struct http_server *serving;
static struct err e;

void serving_start(const struct http_config *c)
{
    CHECK_OK(loop_init(&serving_loop, &e), e);
    CHECK_OK(http_server_new(&serving_loop, c, &serving, &e), e);
}

void serving_stop(void)
{
    struct http_stats s;

    http_server_stats(serving, &s);
    http_server_free(serving);
    serving_turn();
    loop_done(&serving_loop);
}

int serving_connect(void)
{
    int fds[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    CHECK_OK(http_server_adopt(serving, fds[0], &e), e);
    return fds[1];
}

void serving_turn(void)
{
    for (int quiet = 0; quiet < 3;)
        quiet = loop_run_once(&serving_loop, 0, &e) > 0 ? 0 : quiet + 1;
}

void serving_put(int fd, struct str s)
{
    while (s.n > 0) {
        ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);

        if (n > 0)
            s = (struct str){ s.p + n, s.n - (size_t)n };
        else if (errno != EAGAIN)
            return; /* the server has had enough; its answer is what the test looks at */
        CHECK_OK(loop_run_once(&serving_loop, 0, &e), e);
    }
}

bool has(struct str text, const char *part)
{
    return memmem(text.p, text.n, part, strlen(part)) != NULL;
}

void serving_until(int fd, struct buf *in, struct str end)
{
    int64_t deadline = clock_mono() + 10 * NS_PER_S;
    size_t from = in->n;

    while (clock_mono() < deadline) {
        char piece[65536];
        ssize_t n;

        CHECK_OK(loop_run_once(&serving_loop, NS_PER_MS, &e), e);
        while ((n = read(fd, piece, sizeof(piece))) > 0)
            CHECK(buf_add(in, (struct str){ piece, (size_t)n }) == 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            CHECK(end.n == 0);
            return;
        }
        if (end.n > 0 && in->n > from && memmem(in->p + from, in->n - from, end.p, end.n))
            return;
    }
    FAIL("nothing more came after '" STR_FMT "'", STR_ARG(buf_str(in)));
}

struct str serving_ask(struct str request)
{
    static struct buf in;
    AUTO_CLOSE int fd = serving_connect();

    in.max = (size_t)64 << 20;
    buf_clear(&in);
    serving_put(fd, request);
    serving_until(fd, &in, (struct str){ 0 });
    return buf_str(&in);
}
