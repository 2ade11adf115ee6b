/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/verb.h"

enum {
    SPLICE_MAX = 1 << 20,
    LARGE_PIPE = 1 << 20,
    LARGE_AFTER = 256 << 10, /* small outputs do not pay for a large pipe */
    SAFE_WRITE = 4096,       /* a descriptor that polls writable takes this much without blocking */
    ROUNDS = 16,             /* before the other streams get their turn */
};

void stream_init(struct stream *s, int from, int to, bool owns_from, char *data)
{
    *s = (struct stream){ .from = from, .to = to, .owns_from = owns_from, .data = data };
}

bool stream_open(const struct stream *s)
{
    return s->from >= 0;
}

void stream_close(struct stream *s)
{
    if (stream_open(s))
        close(s->owns_from ? s->from : s->to);
    s->from = s->to = -1;
}

bool streams_connect(struct stream s[static STREAMS], int *fds, size_t n, bool tty, bool stdin_)
{
    static char room[STREAMS][STREAM_BUFFER];
    size_t at = 0;

    if (n != (tty ? 1 : stdin_ ? 3 : 2))
        return false;
    if (tty || stdin_)
        stream_init(&s[STREAM_IN], STDIN_FILENO,
                    tty ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : take_fd(&fds[at++]), false,
                    room[STREAM_IN]);
    stream_init(&s[STREAM_OUT], take_fd(&fds[at++]), STDOUT_FILENO, true, room[STREAM_OUT]);
    if (!tty)
        stream_init(&s[STREAM_ERR], take_fd(&fds[at]), STDERR_FILENO, true, room[STREAM_ERR]);
    return true;
}

bool streams_lost(const struct stream s[static STREAMS], const char *verb)
{
    for (int i = STREAM_OUT; i < STREAMS; i++)
        if (s[i].error)
            cli_report("%s%swriting to %s: %s", verb ? verb : "", verb ? ": " : "",
                       i == STREAM_OUT ? "stdout" : "stderr", strerror(s[i].error));
    return s[STREAM_OUT].error || s[STREAM_ERR].error;
}

void stream_poll(const struct stream *s, struct pollfd *ret)
{
    *ret = (struct pollfd){ .fd = -1 };
    if (!stream_open(s))
        return;
    if (s->wait_out || s->n)
        *ret = (struct pollfd){ .fd = s->to, .events = POLLOUT };
    else
        *ret = (struct pollfd){ .fd = s->from, .events = POLLIN };
}

/* A closed reader is not an error: the program gets SIGPIPE, as it would without us. Neither is
 * EIO, which a terminal returns after its last user has closed it. */
static void end_stream_with_error(struct stream *s, int error)
{
    if (error != EPIPE && error != EIO && error != ECONNRESET)
        s->error = error;
    s->cut = error == EPIPE || error == ECONNRESET;
    stream_close(s);
}

/* A pipe at its default size makes a copier switch context every 64 KiB. */
static void widen_pipe(struct stream *s, size_t more)
{
    bool was_small = s->moved < LARGE_AFTER;

    s->moved += more;
    if (was_small && s->moved >= LARGE_AFTER) {
        fcntl(s->from, F_SETPIPE_SZ, LARGE_PIPE);
        fcntl(s->to, F_SETPIPE_SZ, LARGE_PIPE);
    }
}

static bool is_stream_readable(const struct stream *s)
{
    struct pollfd in = { .fd = s->from, .events = POLLIN };

    return poll(&in, 1, 0) == 1;
}

/* True if there may be more to do at once. */
static bool move_pages(struct stream *s)
{
    ssize_t n;

    /* The caller's descriptors may block even with SPLICE_F_NONBLOCK, and their flags must not be
     * changed. */
    if (!s->owns_from && !is_stream_readable(s))
        return false;
    n = splice(s->from, NULL, s->to, NULL, SPLICE_MAX, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0) {
        widen_pipe(s, (size_t)n);
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        /* Either side can be the reason. */
        s->wait_out = is_stream_readable(s);
        return false;
    }
    if (n < 0 && errno == EINVAL) {
        s->no_splice = true;
        return true;
    }
    if (n < 0 && errno == EINTR)
        return true;
    end_stream_with_error(s, n < 0 ? errno : 0);
    return false;
}

static bool fill_stream(struct stream *s)
{
    ssize_t n;

    if (!is_stream_readable(s))
        return false;
    n = read(s->from, s->data, STREAM_BUFFER);
    if (n > 0) {
        s->at = 0;
        s->n = (size_t)n;
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    stream_close(s);
    return false;
}

static bool drain_stream(struct stream *s)
{
    struct pollfd out = { .fd = s->to, .events = POLLOUT };
    ssize_t n;

    if (poll(&out, 1, 0) != 1)
        return false;
    n = write(s->to, s->data + s->at, s->n < SAFE_WRITE ? s->n : SAFE_WRITE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0) {
        end_stream_with_error(s, errno);
        return false;
    }
    s->at += (size_t)n;
    s->n -= (size_t)n;
    return true;
}

void stream_move(struct stream *s)
{
    s->wait_out = false;
    for (int i = 0; i < ROUNDS && stream_open(s); i++)
        if (!(s->no_splice ? (s->n ? drain_stream(s) : fill_stream(s)) : move_pages(s)))
            return;
}
