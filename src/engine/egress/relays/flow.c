/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/flow.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/limits.h"
#include "lib/tls/hello.h"

static struct {
    struct pipe_ends kept[PIPES_KEPT];
    size_t n;
    size_t large; /* number of large pipes, in use or kept */
} pool;           /* without locks: a process has one loop, its only user */

bool pipes_take(struct pipe_ends *ret)
{
    struct pipe_ends made;
    int fd[2];

    if (pool.n > 0) {
        *ret = pool.kept[--pool.n];
        return true;
    }
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    made = (struct pipe_ends){ .read = fd[0], .write = fd[1] };
    /* Fails beyond the user's limit; a smaller pipe works as well. */
    made.large = pool.large < PIPES_LARGE && fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES) >= 0;
    pool.large += made.large;
    *ret = made;
    return true;
}

void pipes_give(struct pipe_ends *p, bool empty)
{
    if (empty && pool.n < PIPES_KEPT) {
        pool.kept[pool.n++] = *p;
    } else {
        close(p->read);
        close(p->write);
        pool.large -= p->large;
    }
    *p = PIPE_NONE;
}

enum {
    COPY_BYTES = 32 << 10, /* a read that fills this is bulk */
    FULL_BYTES = 64 << 10, /* a shorter splice has emptied its source */
    TURNS = 2,             /* rounds of splicing before yielding to other sources */
    HELD_MAX = EGRESS_BUFFER + COPY_BYTES + TLS_HELLO_BYTES,
};

void flow_init(struct flow *f)
{
    *f = (struct flow){ .held = BUF_INIT(HELD_MAX), .pipe = PIPE_NONE };
}

static void give_pipe(struct flow *f)
{
    if (f->pipe.read >= 0)
        pipes_give(&f->pipe, f->piped == 0);
    f->piped = 0;
}

void flow_done(struct flow *f)
{
    give_pipe(f);
    buf_done(&f->held);
}

void flow_add(struct flow *f, struct str bytes)
{
    if (buf_add(&f->held, bytes) < 0)
        abort(); /* callers never read more than the limit */
}

bool flow_wants_write(const struct flow *f)
{
    return f->held.n > f->held_at || f->piped > 0;
}

bool flow_wants_read(const struct flow *f)
{
    return !f->ended && !flow_wants_write(f);
}

/* Whether the failed call can be retried later. */
static bool is_retryable_errno(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static enum flow_result send_held(struct flow *f, int to)
{
    while (f->held.n > f->held_at) {
        ssize_t n =
            send(to, f->held.p + f->held_at, f->held.n - f->held_at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0)
            return is_retryable_errno() ? FLOW_WAIT : FLOW_BROKEN;
        f->bytes += (uint64_t)n;
        f->held_at += (size_t)n;
    }
    buf_done(&f->held);
    f->held_at = 0;
    return FLOW_WAIT;
}

static enum flow_result send_piped(struct flow *f, int to)
{
    while (f->piped > 0) {
        ssize_t n =
            splice(f->pipe.read, NULL, to, NULL, f->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

        if (n < 0)
            return is_retryable_errno() ? FLOW_WAIT : FLOW_BROKEN;
        f->bytes += (uint64_t)n;
        f->piped -= (size_t)n;
    }
    return FLOW_WAIT;
}

/* Returns the number of bytes moved into the pipe; 0: none available. */
static ssize_t fill_pipe(struct flow *f, int from)
{
    ssize_t n =
        splice(from, NULL, f->pipe.write, NULL, PIPE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

    if (n < 0 && is_retryable_errno())
        return 0;
    if (n == 0)
        f->ended = true;
    f->piped = n > 0 ? (size_t)n : 0;
    return n;
}

static enum flow_result move_bulk(struct flow *f, int from, int to)
{
    enum flow_result r = FLOW_WAIT;
    size_t moved = 0;
    ssize_t n = FULL_BYTES;

    for (int i = 0; i < TURNS && n >= FULL_BYTES && r == FLOW_WAIT && f->piped == 0; i++) {
        n = fill_pipe(f, from);
        moved += n > 0 ? (size_t)n : 0;
        r = n < 0 ? FLOW_BROKEN : send_piped(f, to);
    }
    f->bulk = moved >= FULL_BYTES;
    return r;
}

/* The usual case: forwards one message in one piece, together with the end of the source, if that
 * has been seen. */
static enum flow_result copy_once(struct flow *f, int from, int to)
{
    static char room[COPY_BYTES];
    char next;
    ssize_t n = recv(from, room, sizeof room, MSG_DONTWAIT), sent;

    if (n < 0)
        return is_retryable_errno() ? FLOW_WAIT : FLOW_BROKEN;
    f->ended = n == 0 || (f->ending && recv(from, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0);
    if (n == 0)
        return FLOW_WAIT;
    sent = send(to, room, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | (f->ended ? MSG_MORE : 0));
    if (sent < 0 && !is_retryable_errno())
        return FLOW_BROKEN;
    sent = sent < 0 ? 0 : sent;
    f->bytes += (uint64_t)sent;
    if (sent < n)
        flow_add(f, (struct str){ room + sent, (size_t)(n - sent) });
    if (n == sizeof room)
        f->bulk = true;
    return FLOW_WAIT;
}

enum flow_result flow_move(struct flow *f, int from, int to, bool may_read)
{
    enum flow_result r = f->held.n > f->held_at ? send_held(f, to) : FLOW_WAIT;

    if (r == FLOW_WAIT && f->held.n == 0)
        r = send_piped(f, to);
    if (r == FLOW_WAIT && may_read && flow_wants_read(f))
        r = f->bulk && (f->pipe.read >= 0 || pipes_take(&f->pipe)) ? move_bulk(f, from, to)
                                                                   : copy_once(f, from, to);
    if (f->piped == 0)
        give_pipe(f);
    if (r != FLOW_WAIT || !f->ended || f->passed || flow_wants_write(f))
        return r;
    f->passed = true;
    return !f->last && shutdown(to, SHUT_WR) < 0 ? FLOW_BROKEN : FLOW_WAIT;
}
