/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/requests.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "engine/fetcher/wire.h"
#include "lib/ipc/channel.h"
#include "engine/layers/job.h"
#include "engine/runtime/launch.h"

enum { ANSWERS_AT_ONCE = 64 };

/* The monitor has its own deadline; this one is for a monitor that does not keep it. */
static int64_t answer_ns(void)
{
    return monitor_request_deadline_ns() + monitor_request_deadline_ns() / 2;
}

/* --- sending --- */

int requests_notify(struct requests *q, struct monitor_request *message, const int *fds, size_t n,
                    struct err *e)
{
    int r;

    if (q->silent)
        return err_set(e, ERR_BUSY, "the monitor does not answer; try again later");
    message->id = ++q->last;
    r = ipc_send(q->sock, message, sizeof *message, fds, n, e);
    return err_wrap(e, r, "sending a request to the monitor");
}

static void on_requests_deadline(struct loop_timer *t);

static void arm_deadline(struct requests *q)
{
    struct link *first = list_first(&q->waiting);

    loop_timer_stop(&q->timer);
    if (first)
        loop_timer_start(q->loop, &q->timer,
                         container_of(first, struct control_request, link_)->deadline_,
                         on_requests_deadline, NULL);
}

int requests_send(struct requests *q, struct monitor_request *message, const int *fds, size_t n,
                  struct control_request *r, struct err *e)
{
    int sent;

    if (q->n == REQUESTS_MAX)
        return err_set(e, ERR_BUSY, "%d requests wait for the monitor; try again later",
                       REQUESTS_MAX);
    sent = requests_notify(q, message, fds, n, e);
    if (sent < 0)
        return sent;
    r->id_ = message->id;
    r->deadline_ = clock_mono() + answer_ns();
    list_append(&q->waiting, &r->link_);
    if (q->n++ == 0)
        arm_deadline(q);
    return 0;
}

void requests_cancel(void *requests, struct control_request *r)
{
    struct requests *q = requests;

    q->n -= link_joined(&r->link_) && !r->lingers;
    link_leave(&r->link_);
}

/* --- answers --- */

static void finish_request(struct requests *q, struct control_request *r, int result,
                           const struct err *e, int *fd, bool lingers)
{
    requests_cancel(q, r);
    r->lingers = lingers && r->ended;
    if (r->lingers)
        list_append(&q->lingering, &r->link_);
    r->done(r, result, e, fd);
}

/* The answer to a request that was cancelled, or is late, has no place. */
static void pass_answer(struct requests *q, const struct monitor_answer *answer, int *fd)
{
    LIST_EACH (struct control_request, r, &q->lingering, link_)
        if (r->id_ == answer->id) {
            link_leave(&r->link_);
            r->ended(r);
            return;
        }
    LIST_EACH (struct control_request, r, &q->waiting, link_)
        if (r->id_ == answer->id) {
            finish_request(q, r, answer->r, &answer->err, fd, answer->lingers);
            return;
        }
}

/* 1: there may be more; 0: not now; negative: the monitor has ended. */
static int read_monitor_answer(struct requests *q)
{
    struct ipc_fds got AUTO(ipc_fds_done) = { .n = 0 };
    struct monitor_answer answer;
    struct err e;
    ssize_t n = ipc_recv(q->sock, &answer, sizeof answer, &got, &e);
    int none = -1;

    if (n == -(ssize_t)ERR_BUSY)
        return 0;
    if (n != (ssize_t)sizeof answer)
        return -(int)ERR_UPSTREAM;
    if (q->silent)
        LOG(INFO, "daemon.supervisor_answers", LOG_I("waiting", (int64_t)q->n));
    q->silent = false;
    answer.err.msg[sizeof answer.err.msg - 1] = 0;
    pass_answer(q, &answer, got.n ? &got.fd[0] : &none);
    return 1;
}

static void on_requests_deadline(struct loop_timer *t)
{
    struct requests *q = container_of(t, struct requests, timer);
    struct control_request *r;
    int none = -1;

    for (struct link *m; (m = list_first(&q->waiting));) {
        struct err e;
        int result;

        r = container_of(m, struct control_request, link_);
        if (r->deadline_ > clock_mono())
            break;
        if (!q->silent)
            LOG(ERROR, "daemon.supervisor_silent", LOG_I("waiting", (int64_t)q->n));
        q->silent = true;
        result = err_set(&e, ERR_TIMEOUT, "the monitor did not answer within %lld s",
                         (long long)(answer_ns() / NS_PER_S));
        finish_request(q, r, result, &e, &none, false);
    }
    arm_deadline(q);
}

static void on_answers(struct loop_fd *f, unsigned events)
{
    struct requests *q = container_of(f, struct requests, fd);
    int r = 1;

    for (int i = 0; i < ANSWERS_AT_ONCE && r > 0; i++)
        r = read_monitor_answer(q);
    if (r < 0) {
        loop_fd_stop(&q->fd);
        q->on_gone(q);
        return;
    }
    arm_deadline(q);
}

int requests_open(struct requests *q, struct loop *l, int sock, void (*on_gone)(struct requests *q),
                  struct err *e)
{
    *q = (struct requests){ .loop = l, .sock = sock, .on_gone = on_gone };
    if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(e, "preparing the socket to the monitor");
    return loop_fd_start(l, &q->fd, sock, LOOP_READ, on_answers, e);
}

/* --- programs --- */

struct program_start {
    struct control_request request;
    enum monitor_kind kind;
    int theirs; /* the program's end, to report a failed start on */
};

/* Sends the failure as the program would. */
static void send_program_failure(const struct program_start *s, int r, const struct err *e)
{
    struct launch_failed launcher = { .err = *e, .step = "launcher" };
    struct layers_said layers;
    struct fetcher_end fetch;
    char byte;

    /* A socket that is closed with unread messages resets its peer, which would lose the report. */
    while (recv(s->theirs, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC) > 0)
        ;
    if (s->kind == MONITOR_LAUNCHER) {
        launch_fill(&launcher.head, LAUNCH_FAILED, sizeof launcher);
        (void)ipc_send(s->theirs, &launcher, sizeof launcher, NULL, 0, NULL);
    } else if (s->kind == MONITOR_LAYER_WORKER) {
        layers_said_fill(&layers, LAYERS_DONE);
        layers.r = r;
        layers.err = *e;
        (void)ipc_send(s->theirs, &layers, sizeof layers, NULL, 0, NULL);
    } else if (s->kind == MONITOR_FETCH) {
        size_t n = fetcher_write_end(&fetch, FETCHER_FAILED, 0, e, STR(""));

        (void)ipc_send(s->theirs, &fetch, n, NULL, 0, NULL);
    }
}

/* The monitor is done with this end, and nothing was sent from it before, so the message fits. */
static void on_program_answer(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct program_start *s = container_of(q, struct program_start, request);

    if (r < 0) {
        LOG(ERROR, "daemon.program_failed", LOG_S("error", e->msg));
        send_program_failure(s, r, e);
    }
    drop_fd(&s->theirs);
    free(s);
}

int requests_program(struct requests *q, enum monitor_kind kind, int *ret, uint64_t *ret_id,
                     struct err *e)
{
    struct monitor_request message = { .kind = kind };
    AUTO_CLOSE int ours = -1, theirs = -1;
    struct program_start *s;
    int pair[2], r = ipc_pair(pair, e);

    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    s = new0(sizeof *s);
    *s = (struct program_start){ .request = { .done = on_program_answer }, .kind = kind };
    r = requests_send(q, &message, &theirs, 1, &s->request, e);
    if (r < 0) {
        free(s);
        return r;
    }
    s->theirs = take_fd(&theirs);
    *ret = take_fd(&ours);
    if (ret_id)
        *ret_id = message.id;
    return 0;
}

/* --- before the loop runs --- */

struct awaited {
    struct control_request request;
    bool done;
    int r, fd;
    struct err e;
};

static void on_awaited(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct awaited *a = container_of(q, struct awaited, request);

    a->done = true;
    a->r = r;
    if (r < 0)
        a->e = *e;
    a->fd = take_fd(fd);
}

int requests_await(struct requests *q, enum monitor_kind kind, int *ret, struct err *e)
{
    struct awaited a = { .request = { .done = on_awaited }, .fd = -1 };
    struct monitor_request message = { .kind = kind };
    struct pollfd wait = { .fd = q->sock, .events = POLLIN };
    int r = requests_send(q, &message, NULL, 0, &a.request, e);

    while (r >= 0 && !a.done) {
        int64_t deadline = a.request.deadline_;

        if (clock_mono() >= deadline)
            r = err_set(e, ERR_TIMEOUT, "the monitor does not answer");
        else if (poll(&wait, 1, clock_poll_ms(deadline)) > 0 && read_monitor_answer(q) < 0)
            r = err_set(e, ERR_UPSTREAM, "the monitor has ended");
    }
    if (r < 0) {
        requests_cancel(q, &a.request);
        return r;
    }
    arm_deadline(q);
    if (a.r < 0) {
        *e = a.e;
        return a.r;
    }
    if (a.fd < 0)
        return err_set(e, ERR_UPSTREAM, "the monitor answered without a descriptor");
    *ret = a.fd;
    return 0;
}
