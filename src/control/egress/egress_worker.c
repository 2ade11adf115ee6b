/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/egress_worker.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "engine/egress/wire.h"
#include "lib/ipc/channel.h"

#define PAUSE_MIN_NS (50 * NS_PER_MS)
#define PAUSE_MAX_NS (10 * NS_PER_S)
#define PING_NS      (2 * NS_PER_S)
enum {
    SILENT_MAX = 5, /* ping intervals without an answer, then it hangs */
    MESSAGES = 64,  /* per turn of the loop */
    KEPT_MAX = 4096 /* queued messages: a worker that sends requests and does not read is dropped */
};

struct kept_packet {
    struct link link;
    int fds[IPC_FDS_MAX];
    size_t n_fds, n;
    char bytes[];
};

static void kept_packet_free(struct kept_packet *p)
{
    for (size_t i = 0; i < p->n_fds; i++)
        drop_fd(&p->fds[i]);
    free(p);
}

static void on_worker_restart(struct loop_timer *t);

static void schedule_worker_start(struct egress_worker *w, int64_t pause_ns)
{
    loop_timer_start(w->loop, &w->restart, clock_mono() + pause_ns, on_worker_restart, NULL);
}

static void close_worker_socket(struct egress_worker *w)
{
    loop_fd_stop(&w->fd);
    loop_timer_stop(&w->ping);
    drop_fd(&w->sock);
    for (struct link *l; (l = list_take(&w->out));)
        kept_packet_free(container_of(l, struct kept_packet, link));
    w->kept = 0;
}

/* A worker exits with its socket; one that hangs, or was taken over, may not. After a worker that
 * ran for a while, the next one starts quickly. */
static void handle_worker_death(struct egress_worker *w, const char *why)
{
    bool lived = clock_mono() - w->up_ns > PAUSE_MAX_NS;

    LOG(ERROR, "egress.worker.died", LOG_S("reason", why));
    if (w->sock >= 0 && w->end)
        w->end(w->user, w->id);
    close_worker_socket(w);
    w->pause_ns = lived || !w->pause_ns ? PAUSE_MIN_NS : w->pause_ns * 2;
    if (w->pause_ns > PAUSE_MAX_NS)
        w->pause_ns = PAUSE_MAX_NS;
    schedule_worker_start(w, w->pause_ns);
    w->events->down(w);
}

/* ---- sending ---- */

static void keep_packet(struct egress_worker *w, const void *message, size_t n, const int *fds,
                        size_t n_fds)
{
    struct kept_packet *p = new0(sizeof *p + n);

    p->n = n;
    memcpy(p->bytes, message, n);
    for (; p->n_fds < n_fds; p->n_fds++)
        p->fds[p->n_fds] = fcntl(fds[p->n_fds], F_DUPFD_CLOEXEC, 3);
    list_append(&w->out, &p->link);
    if (++w->kept > KEPT_MAX)
        shutdown(w->sock, SHUT_RDWR);
    loop_fd_want(&w->fd, LOOP_READ | LOOP_WRITE, NULL);
}

void egress_worker_send(struct egress_worker *w, const void *message, size_t n, const int *fds,
                        size_t n_fds)
{
    int r;

    if (!egress_worker_is_up(w))
        return;
    r = list_first(&w->out) ? -(int)ERR_BUSY : ipc_send(w->sock, message, n, fds, n_fds, NULL);
    if (r == -(int)ERR_BUSY)
        keep_packet(w, message, n, fds, n_fds);
    else if (r < 0) /* its end is reported from the loop, never from inside a call */
        shutdown(w->sock, SHUT_RDWR);
}

static int send_kept_packets(struct egress_worker *w, struct err *e)
{
    for (struct link *l; (l = list_first(&w->out));) {
        struct kept_packet *p = container_of(l, struct kept_packet, link);
        int r = ipc_send(w->sock, p->bytes, p->n, p->fds, p->n_fds, e);

        if (r < 0)
            return r == -(int)ERR_BUSY ? 0 : r;
        link_leave(l);
        kept_packet_free(p);
        w->kept--;
    }
    return loop_fd_want(&w->fd, LOOP_READ, e);
}

/* ---- receiving ---- */

/* 1: there may be more. The sender may have been taken over by hostile input. */
static int receive_message(struct egress_worker *w, struct err *e)
{
    static union {
        struct wire_head head;
        struct wire_box box;
        struct wire_failed failed;
        struct wire_who who;
        struct wire_used used;
    } message;
    ssize_t n = ipc_recv(w->sock, &message, sizeof message, NULL, e);
    int r;

    if (n == -(ssize_t)ERR_BUSY)
        return 0;
    if (n <= 0)
        return n < 0 ? (int)n : err_set(e, ERR_UPSTREAM, "the process exited");
    r = wire_check(&message, (size_t)n, e);
    if (r < 0)
        return r;
    if (message.head.type == WIRE_PONG)
        w->silent = 0;
    else
        w->events->message(w, &message);
    return 1;
}

static void on_egress_worker_socket(struct loop_fd *f, unsigned events)
{
    struct egress_worker *w = container_of(f, struct egress_worker, fd);
    struct err e;
    int r = events & LOOP_WRITE ? send_kept_packets(w, &e) : 0;

    for (int i = 0; r >= 0 && i < MESSAGES; i++) {
        r = receive_message(w, &e);
        if (r == 0)
            return;
    }
    if (r < 0)
        handle_worker_death(w, e.msg);
}

/* ---- detecting a hang ---- */

static void on_worker_ping(struct loop_timer *t)
{
    struct egress_worker *w = container_of(t, struct egress_worker, ping);
    struct wire_head m;

    if (w->silent == SILENT_MAX) {
        handle_worker_death(w, "no answer to pings");
        return;
    }
    if (!w->silent++) {
        wire_fill(&m, WIRE_PING, 0, sizeof m);
        egress_worker_send(w, &m, sizeof m, NULL, 0);
    }
    loop_timer_start(w->loop, t, clock_mono() + PING_NS, on_worker_ping, NULL);
}

/* ---- starting ---- */

static void on_worker_restart(struct loop_timer *t)
{
    struct egress_worker *w = container_of(t, struct egress_worker, restart);
    struct err e;
    int r = w->start ? w->start(w->user, &w->sock, &w->id, &e)
                     : err_set(&e, ERR_UNSUPPORTED, "this daemon cannot start egress workers");

    w->up_ns = clock_mono();
    w->silent = 0;
    if (r >= 0 && fcntl(w->sock, F_SETFL, O_NONBLOCK) < 0)
        r = err_sys(&e, "preparing the worker's socket");
    if (r >= 0)
        r = loop_fd_start(w->loop, &w->fd, w->sock, LOOP_READ, on_egress_worker_socket, &e);
    if (r >= 0)
        r = loop_timer_start(w->loop, &w->ping, clock_mono() + PING_NS, on_worker_ping, &e);
    if (r < 0) {
        handle_worker_death(w, e.msg);
        return;
    }
    w->starts++;
    w->events->up(w);
}

void egress_worker_open(struct egress_worker *w)
{
    w->sock = -1;
    schedule_worker_start(w, 0);
}

void egress_worker_close(struct egress_worker *w)
{
    loop_timer_stop(&w->restart);
    close_worker_socket(w);
}

bool egress_worker_is_up(const struct egress_worker *w)
{
    return w->sock >= 0;
}
