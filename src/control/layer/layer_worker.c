#include "control/keeper.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "control/plane.h"
#include "ipc/channel.h"

/* For the first word of a keeper, which it says before it touches anything; longer than the
 * supervisor takes to start one, or to give it up. */
#define FIRST_WORD_NS (30 * NS_PER_S)

static void on_said(struct loop_fd *f, unsigned events);
static void on_no_word(struct loop_timer *t);

static int64_t first_word_ns(void)
{
    const char *seconds = SANDBOXER_TEST_HOOKS ? getenv("SANDBOXER_TEST_DEADLINE") : NULL;
    uint64_t n;

    return seconds && str_to_u64(str_from(seconds), &n) ? (int64_t)n * 2 * NS_PER_S : FIRST_WORD_NS;
}

int keeper_start(struct control *c, struct keeper_job *j, const struct keeper_events *events,
                 const struct layers_job *job, const int *fds, size_t n, struct err *e)
{
    AUTO_CLOSE int sock = -1;
    int flags, r = c->keeper(c->user, &sock, e);

    if (r >= 0)
        r = ipc_send(sock, job, sizeof *job, fds, n, e);
    if (r < 0)
        return err_wrap(e, r, "starting a job on layers");
    flags = fcntl(sock, F_GETFL);
    if (flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(e, "preparing the connection to a keeper");
    *j = (struct keeper_job){ .events = events, .kind = job->kind, .sock_ = sock };
    r = loop_fd_start(c->loop, &j->fd_, sock, LOOP_READ, on_said, e);
    if (r < 0)
        return r;
    loop_timer_start(c->loop, &j->first_word_, clock_mono() + first_word_ns(), on_no_word, NULL);
    j->running = true;
    take_fd(&sock);
    return 0;
}

void keeper_go(struct keeper_job *j)
{
    struct layers_said go;

    layers_said_fill(&go, LAYERS_GO);
    if (j->running) /* if it is gone, the loop tells */
        (void)ipc_send(j->sock_, &go, sizeof go, NULL, 0, NULL);
}

void keeper_cancel(struct keeper_job *j)
{
    if (!j->running)
        return;
    j->running = false;
    loop_timer_stop(&j->first_word_);
    loop_fd_stop(&j->fd_);
    drop_fd(&j->sock_);
}

static void finish(struct keeper_job *j, int r, const struct err *e, const struct layers_said *said)
{
    keeper_cancel(j);
    j->events->done(j, r, e, said);
}

/* Closing the socket ends a keeper that begins later after all. */
static void on_no_word(struct loop_timer *t)
{
    struct keeper_job *j = container_of(t, struct keeper_job, first_word_);
    struct err e;
    int r = err_set(&e, ERR_TIMEOUT, "sandboxer-layers did not begin its job within %lld s",
                    (long long)(first_word_ns() / NS_PER_S));

    finish(j, r, &e, NULL);
}

/* False: nothing more is to be heard now, or ever. */
static bool hear(struct keeper_job *j)
{
    const struct keeper_events *on = j->events;
    struct layers_said said;
    struct err e;
    ssize_t n = ipc_recv(j->sock_, &said, sizeof said, NULL, &e);
    int r = n <= 0 ? (int)n : layers_said_check(&said, (size_t)n, &e);

    if (r == -(int)ERR_BUSY)
        return false;
    if (n == 0)
        r = err_set(&e, ERR_UPSTREAM, "the keeper of layers died at its work");
    if (r < 0) {
        finish(j, r, &e, NULL);
        return false;
    }
    loop_timer_stop(&j->first_word_);
    switch ((enum layers_word)said.word) {
    case LAYERS_READY:
        if (layers_kind_waits(j->kind) && on->ready)
            on->ready(j);
        return j->running;
    case LAYERS_PROGRESS:
        if (on->progress)
            on->progress(j, said.bytes, said.entries);
        return j->running;
    case LAYERS_LINE:
        if (on->line)
            on->line(j, said.text);
        return j->running;
    case LAYERS_TAKEN:
        if (on->taken)
            on->taken(j);
        return j->running;
    case LAYERS_DONE:
        finish(j, said.r, &said.err, said.r < 0 ? NULL : &said);
        return false;
    default:
        finish(j, err_set(&e, ERR_UPSTREAM, "the keeper of layers said what it must not"), &e,
               NULL);
        return false;
    }
}

static void on_said(struct loop_fd *f, unsigned events)
{
    enum { AT_ONCE = 64 };
    struct keeper_job *j = container_of(f, struct keeper_job, fd_);

    (void)events;
    for (int i = 0; i < AT_ONCE && hear(j); i++)
        ;
}
