/* SPDX-License-Identifier: Apache-2.0 */
#include "control/layer/layer_worker.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "control/layer/layer_slots.h"
#include "control/plane/plane.h"
#include "lib/ipc/channel.h"

/* Timeout for the first message of a layer worker, which it sends before it changes anything;
 * longer than the supervisor needs to start one, or to give up. */
#define FIRST_MESSAGE_NS (30 * NS_PER_S)

static void on_layer_socket(struct loop_fd *f, unsigned events);
static void on_first_message_timeout(struct loop_timer *t);
static void end_layer_job(struct layer_job *j, int r, const struct err *e,
                          const struct layers_said *said);

static int64_t find_first_message_timeout(void)
{
    const char *seconds = SANDBOXER_TEST_HOOKS ? getenv("SANDBOXER_TEST_DEADLINE") : NULL;
    uint64_t n;

    return seconds && str_to_u64(str_from(seconds), &n) ? (int64_t)n * 2 * NS_PER_S
                                                        : FIRST_MESSAGE_NS;
}

/* Sends the job of `j`, which has its events and its kind, to a new layer worker. */
static int send_layer_job(struct control *c, struct layer_job *j, const struct layers_job *job,
                          const int *fds, size_t n, struct err *e)
{
    AUTO_CLOSE int sock = -1;
    int flags, r = c->supervisor.layer_worker(c->supervisor.user, &sock, e);

    r = r < 0 ? r : ipc_send(sock, job, sizeof *job, fds, n, e);
    if (r < 0)
        return err_wrap(e, r, "starting sandboxer-layers");
    flags = fcntl(sock, F_GETFL);
    if (flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(e, "preparing the connection to sandboxer-layers");
    r = loop_fd_start(c->loop, &j->fd_, sock, LOOP_READ, on_layer_socket, e);
    if (r < 0)
        return r;
    loop_timer_start(c->loop, &j->first_message_, clock_mono() + find_first_message_timeout(),
                     on_first_message_timeout, NULL);
    j->sock_ = take_fd(&sock);
    return 0;
}

int layer_worker_start(struct control *c, struct layer_job *j,
                       const struct layer_worker_events *events, const struct layers_job *job,
                       const int *fds, size_t n, struct err *e)
{
    int r;

    *j = (struct layer_job){ .events = events, .kind = job->kind, .sock_ = -1 };
    r = send_layer_job(c, j, job, fds, n, e);
    j->running = r >= 0;
    return r;
}

static void on_layer_turn(struct turn *t)
{
    struct layer_slot *s = container_of(t, struct layer_slot, turn);
    struct layer_job *j = s->job;
    struct err e;
    int r = send_layer_job(s->control, j, s->message, s->fds, s->n_fds, &e);

    layer_slot_drop_message(s);
    if (r < 0)
        end_layer_job(j, r, &e, NULL);
}

int layer_worker_queue(struct control *c, const struct layer_charge *charge, struct layer_job *j,
                       const struct layer_worker_events *events, const struct layers_job *job,
                       const int *fds, size_t n, struct err *e)
{
    int r;

    *j = (struct layer_job){ .events = events, .kind = job->kind, .sock_ = -1 };
    r = layer_slot_new(c, charge, on_layer_turn, job, fds, n, &j->slot_, e);
    if (r < 0)
        return r;
    j->slot_->job = j;
    j->running = true;
    return 0;
}

void layer_worker_go(struct layer_job *j)
{
    struct layers_said go;

    layers_said_fill(&go, LAYERS_GO);
    if (j->running) /* if the worker is gone, the loop reports it */
        (void)ipc_send(j->sock_, &go, sizeof go, NULL, 0, NULL);
}

void layer_worker_cancel(struct layer_job *j)
{
    struct layer_slot *slot = take_ptr(j->slot_);

    if (!j->running)
        return;
    j->running = false;
    loop_timer_stop(&j->first_message_);
    loop_fd_stop(&j->fd_);
    if (slot && j->sock_ >= 0)
        layer_slot_linger(slot, take_fd(&j->sock_));
    else
        layer_slot_free(slot);
    drop_fd(&j->sock_);
}

/* The worker has ended, is about to, or was not started. */
static void end_layer_job(struct layer_job *j, int r, const struct err *e,
                          const struct layers_said *said)
{
    struct layer_slot *slot = take_ptr(j->slot_);

    layer_worker_cancel(j);
    layer_slot_free(slot);
    j->events->done(j, r, e, said);
}

/* The worker is at fault. */
static void fail_layer_job(struct layer_job *j, int r, const struct err *e)
{
    layer_worker_cancel(j);
    j->events->done(j, r, e, NULL);
}

/* Closing the socket ends a layer worker that starts after all. */
static void on_first_message_timeout(struct loop_timer *t)
{
    struct layer_job *j = container_of(t, struct layer_job, first_message_);
    struct err e;

    fail_layer_job(j,
                   err_set(&e, ERR_TIMEOUT, "sandboxer-layers did not begin its job within %lld s",
                           (long long)(find_first_message_timeout() / NS_PER_S)),
                   &e);
}

/* False: no message now, or the job has ended. */
static bool receive_layer_message(struct layer_job *j)
{
    const struct layer_worker_events *on = j->events;
    struct layers_said said;
    struct err e;
    ssize_t n = ipc_recv(j->sock_, &said, sizeof said, NULL, &e);
    int r = n <= 0 ? (int)n : layers_said_check(&said, (size_t)n, &e);

    if (r == -(int)ERR_BUSY)
        return false;
    if (n == 0) {
        r = err_set(&e, ERR_UPSTREAM, "sandboxer-layers died during its job");
        end_layer_job(j, r, &e, NULL);
        return false;
    }
    if (r < 0) {
        fail_layer_job(j, r, &e);
        return false;
    }
    loop_timer_stop(&j->first_message_);
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
        end_layer_job(j, said.r, &said.err, said.r < 0 ? NULL : &said);
        return false;
    default:
        fail_layer_job(j, err_set(&e, ERR_UPSTREAM, "unexpected message from sandboxer-layers"),
                       &e);
        return false;
    }
}

static void on_layer_socket(struct loop_fd *f, unsigned events)
{
    enum { AT_ONCE = 64 };
    struct layer_job *j = container_of(f, struct layer_job, fd_);

    for (int i = 0; i < AT_ONCE && receive_layer_message(j); i++)
        ;
}
