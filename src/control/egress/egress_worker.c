#include "control/egress_worker.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "egress/wire.h"
#include "ipc/channel.h"

#define PAUSE_MIN_NS (50 * NS_PER_MS)
#define PAUSE_MAX_NS (10 * NS_PER_S)
#define PING_NS      (2 * NS_PER_S)
enum {
    SILENT_MAX = 5, /* looks without an answer: then it hangs */
    MESSAGES = 64,  /* before it is others' turn */
    KEPT_MAX = 4096 /* messages that it does not take: one that asks and does not listen is left */
};

struct packet {
    struct link link;
    int fds[IPC_FDS_MAX];
    size_t n_fds, n;
    char bytes[];
};

static void packet_free(struct packet *p)
{
    for (size_t i = 0; i < p->n_fds; i++)
        drop_fd(&p->fds[i]);
    free(p);
}

static void on_again(struct loop_timer *t);

static void start_after(struct egress_worker *w, int64_t pause_ns)
{
    loop_timer_start(w->loop, &w->again, clock_mono() + pause_ns, on_again, NULL);
}

static void hang_up(struct egress_worker *w)
{
    loop_fd_stop(&w->fd);
    loop_timer_stop(&w->ping);
    drop_fd(&w->sock);
    for (struct link *l; (l = list_take(&w->out));)
        packet_free(container_of(l, struct packet, link));
    w->kept = 0;
}

/* A worker ends with its socket; one that hangs, or was taken over, may not. One that lived for a
 * while has earned a quick successor. */
static void died(struct egress_worker *w, const char *why)
{
    bool lived = clock_mono() - w->up_ns > PAUSE_MAX_NS;

    LOG(ERROR, "egress.worker.died", LOG_S("reason", why));
    if (w->sock >= 0 && w->end)
        w->end(w->user, w->id);
    hang_up(w);
    w->pause_ns = lived || !w->pause_ns ? PAUSE_MIN_NS : w->pause_ns * 2;
    if (w->pause_ns > PAUSE_MAX_NS)
        w->pause_ns = PAUSE_MAX_NS;
    start_after(w, w->pause_ns);
    w->events->down(w);
}

/* ---- sending ---- */

static void keep(struct egress_worker *w, const void *message, size_t n, const int *fds,
                 size_t n_fds)
{
    struct packet *p = calloc(1, sizeof *p + n);

    if (!p)
        abort();
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
        keep(w, message, n, fds, n_fds);
    else if (r < 0) /* its end is told by the loop: never from inside a call */
        shutdown(w->sock, SHUT_RDWR);
}

static int send_kept(struct egress_worker *w, struct err *e)
{
    for (struct link *l; (l = list_first(&w->out));) {
        struct packet *p = container_of(l, struct packet, link);
        int r = ipc_send(w->sock, p->bytes, p->n, p->fds, p->n_fds, e);

        if (r < 0)
            return r == -(int)ERR_BUSY ? 0 : r;
        link_leave(l);
        packet_free(p);
        w->kept--;
    }
    return loop_fd_want(&w->fd, LOOP_READ, e);
}

/* ---- receiving ---- */

/* 1: there may be more. What comes is from a process that hostile bytes may have taken over. */
static int receive(struct egress_worker *w, struct err *e)
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
        return n < 0 ? (int)n : err_set(e, ERR_UPSTREAM, "it ended");
    r = wire_check(&message, (size_t)n, e);
    if (r < 0)
        return r;
    if (message.head.type == WIRE_PONG)
        w->silent = 0;
    else
        w->events->message(w, &message);
    return 1;
}

static void on_socket(struct loop_fd *f, unsigned events)
{
    struct egress_worker *w = container_of(f, struct egress_worker, fd);
    struct err e;
    int r = events & LOOP_WRITE ? send_kept(w, &e) : 0;

    for (int i = 0; r >= 0 && i < MESSAGES; i++) {
        r = receive(w, &e);
        if (r == 0)
            return;
    }
    if (r < 0)
        died(w, e.msg);
}

/* ---- whether it hangs ---- */

static void on_ping(struct loop_timer *t)
{
    struct egress_worker *w = container_of(t, struct egress_worker, ping);
    struct wire_head m;

    if (w->silent == SILENT_MAX) {
        died(w, "it does not answer");
        return;
    }
    if (!w->silent++) {
        wire_fill(&m, WIRE_PING, 0, sizeof m);
        egress_worker_send(w, &m, sizeof m, NULL, 0);
    }
    loop_timer_start(w->loop, t, clock_mono() + PING_NS, on_ping, NULL);
}

/* ---- starting ---- */

static int begin(struct egress_worker *w, struct err *e)
{
    int r = w->start ? w->start(w->user, &w->sock, &w->id, e)
                     : err_set(e, ERR_UNSUPPORTED, "nobody starts egress workers here");

    if (r >= 0 && fcntl(w->sock, F_SETFL, O_NONBLOCK) < 0)
        r = err_sys(e, "preparing the worker's socket");
    if (r >= 0)
        r = loop_fd_start(w->loop, &w->fd, w->sock, LOOP_READ, on_socket, e);
    w->silent = 0;
    if (r >= 0)
        r = loop_timer_start(w->loop, &w->ping, clock_mono() + PING_NS, on_ping, e);
    return r;
}

static void on_again(struct loop_timer *t)
{
    struct egress_worker *w = container_of(t, struct egress_worker, again);
    struct err e;

    w->up_ns = clock_mono();
    if (begin(w, &e) < 0) {
        died(w, e.msg);
        return;
    }
    w->starts++;
    w->events->up(w);
}

void egress_worker_open(struct egress_worker *w)
{
    w->sock = -1;
    start_after(w, 0);
}

void egress_worker_close(struct egress_worker *w)
{
    loop_timer_stop(&w->again);
    hang_up(w);
}

bool egress_worker_is_up(const struct egress_worker *w)
{
    return w->sock >= 0;
}
