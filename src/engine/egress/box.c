/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/adapters/rejects.h"
#include "engine/egress/audit.h"
#include "engine/egress/egress.h"
#include "engine/egress/fake_addresses.h"
#include "engine/egress/refuse.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

enum {
    PAUSE_MS = 100, /* when descriptors run out, or at a limit */
    SILENT_S = 1,   /* how long the kernel holds back a connection without data */
};

#define LOG_PAUSE_NS (60 * NS_PER_S)
#define EXPIRY_NS    (60 * NS_PER_S) /* at the latest, because the wall clock may be set */

struct acceptor {
    struct egress_box *box;
    bool captures;
    struct loop_fd fd;
    struct loop_timer pause;
};

static const struct {
    enum listener_slot slot;
    bool captures;
} acceptor_slots[] = {
    { LISTENER_PROXY4, false },
    { LISTENER_PROXY6, false },
    { LISTENER_CAPTURE4, true },
    { LISTENER_CAPTURE6, true },
};

/* A box with the members that only this file uses. */
struct egress_box_impl {
    struct egress_box box;
    struct acceptor acceptors[COUNT_OF(acceptor_slots)];
    struct dns_adapter *dns;
    struct rejects *rejects;
};

void egress_open_join(struct egress_box *b, struct egress_open *o)
{
    list_append(&b->open, &o->link);
    ranking_raise(&b->egress->crowded, &b->rank);
    b->egress->n_open++;
}

void egress_open_leave(struct egress_box *b, struct egress_open *o)
{
    if (!link_joined(&o->link))
        return;
    link_leave(&o->link);
    ranking_lower(&b->egress->crowded, &b->rank);
    b->egress->n_open--;
}

/* ---- clients without a relay ---- */

static void on_client_free(struct loop_later *l)
{
    free(container_of(l, struct egress_client, later_));
}

void egress_client_end(struct egress_client *c)
{
    egress_open_leave(c->box, &c->open);
    loop_fd_stop(&c->socket);
    loop_timer_stop(&c->timer);
    drop_fd(&c->fd);
    loop_later(c->box->egress->loop, &c->later_, on_client_free, NULL);
}

static void on_client_close(struct egress_open *o, const char *how)
{
    egress_client_end(container_of(o, struct egress_client, open));
}

static void on_client_timeout(struct loop_timer *t)
{
    egress_client_end(container_of(t, struct egress_client, timer));
}

void egress_client_join(struct egress_client *c, struct egress_box *b, int fd,
                        void (*close)(struct egress_open *o, const char *how))
{
    c->box = b;
    c->fd = fd;
    c->open.close = close ? close : on_client_close;
    egress_open_join(b, &c->open);
}

bool egress_client_wait(struct egress_client *c, int64_t ns, loop_fd_fn *bytes, loop_timer_fn *late)
{
    struct loop *l = c->box->egress->loop;

    return loop_fd_start(l, &c->socket, c->fd, LOOP_READ, bytes, NULL) >= 0 &&
           loop_timer_start(l, &c->timer, clock_mono() + ns, late ? late : on_client_timeout,
                            NULL) >= 0;
}

/* ---- shares ---- */

enum { FILES_A_CONNECTION = 2 };

/* Connections that the descriptor limit allows. */
static unsigned count_places(const struct egress_state *g)
{
    unsigned kept = EGRESS_FILES_SPARE + EGRESS_FILES_BOX * g->n_boxes;

    if (!g->files)
        return UINT_MAX;
    return g->files > kept ? (g->files - kept) / FILES_A_CONNECTION : 0;
}

unsigned egress_box_share(const struct egress_box *b)
{
    const struct egress_state *g = b->egress;
    unsigned most = g->standalone ? EGRESS_OPEN_ALONE_MAX : EGRESS_OPEN_MAX;
    unsigned share = count_places(g) / (g->standalone ? 1 : g->n_boxes + 1);

    if (share < EGRESS_OPEN_MIN)
        share = EGRESS_OPEN_MIN;
    return share < most ? share : most;
}

/* Makes room for a box that is below its share: closes the oldest connection of a box that has more
 * than its own share. */
static void reclaim_place(const struct egress_box *for_whom)
{
    struct egress_state *g = for_whom->egress;
    unsigned places = count_places(g);
    struct rank *most = ranking_highest(&g->crowded);
    struct egress_box *from;
    struct link *oldest;
    struct egress_open *o;

    if (g->n_open < places - places / (g->n_boxes + 1) || !most || most == &for_whom->rank)
        return;
    from = container_of(most, struct egress_box, rank);
    oldest = list_first(&from->open);
    if (!oldest || most->count <= egress_box_share(from))
        return;
    o = container_of(oldest, struct egress_open, link);
    o->close(o, "share");
}

/* ---- accepting ---- */

static void on_accept_pause_end(struct loop_timer *t)
{
    struct acceptor *a = container_of(t, struct acceptor, pause);

    if (loop_fd_want(&a->fd, LOOP_READ, NULL) < 0)
        loop_timer_start(t->loop, t, clock_mono() + PAUSE_MS * NS_PER_MS, on_accept_pause_end,
                         NULL);
}

/* Logs at most once a minute, so that a client cannot fill the log by opening connections. */
static void log_accept_pause(const struct egress_box *b, int error)
{
    static int64_t logged;
    int64_t now = clock_mono();

    if (logged && now - logged < LOG_PAUSE_NS)
        return;
    logged = now;
    LOG(WARN, "egress.accept_paused", LOG_S("sandbox", b->id), LOG_I("errno", error));
}

/* Connections wait in the backlog. A listener that stays readable must not wake the loop
 * continuously. */
static void pause_box_accepting(struct acceptor *a)
{
    loop_fd_want(&a->fd, 0, NULL);
    if (!loop_timer_started(&a->pause))
        loop_timer_start(a->fd.loop, &a->pause, clock_mono() + PAUSE_MS * NS_PER_MS,
                         on_accept_pause_end, NULL);
}

static void accept_one(struct acceptor *a)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    struct address from, to;
    uint16_t port, to_port;
    int fd = accept4(a->fd.fd, (struct sockaddr *)&sa, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        /* A connection that died in the backlog also fails here; the next wake-up takes the
         * next. */
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
            return;
        log_accept_pause(a->box, errno);
        pause_box_accepting(a);
        return;
    }
    if (!address_from_sockaddr((const struct sockaddr *)&sa, &from, &port) ||
        (a->captures && !address_of_socket(fd, false, &to, &to_port)))
        refuse_reset(fd);
    else if (a->captures)
        transparent_accept(a->box, fd, &from, port, &to, to_port);
    else
        proxy_accept(a->box, fd, &from, port);
}

/* Accepts one connection a turn: another accept() that fails with EAGAIN costs more than waking up
 * again. */
static void on_connections(struct loop_fd *s, unsigned events)
{
    struct acceptor *a = container_of(s, struct acceptor, fd);
    char text[160];

    if (a->box->rank.count >= egress_box_share(a->box)) {
        snprintf(text, sizeof text,
                 "The sandbox has %u connections open, which is its share of the worker's "
                 "descriptors; more wait until one ends.",
                 a->box->rank.count);
        audit_wait(a->box->audit, text);
        pause_box_accepting(a);
    } else {
        reclaim_place(a->box);
        accept_one(a);
    }
}

/* Sets options that accepted sockets inherit. TCP_NODELAY: relays write complete messages.
 * Congestion control: between processes of one machine no packets are lost or late, so pacing (BBR)
 * only costs. TCP_DEFER_ACCEPT: clients of a proxy speak first, so a connection is accepted
 * together with its first bytes. Kernels without one of these options work, but slower. */
static int open_acceptor(struct acceptor *a, int fd, struct err *e)
{
    int yes = 1, silent = SILENT_S;
    struct address at;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) < 0)
        return err_sys(e, "setting options of a listener");
    if (address_of_socket(fd, false, &at, NULL) && address_classify(&at) == ADDRESS_LOOPBACK)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, EGRESS_LOCAL_TCP,
                         sizeof EGRESS_LOCAL_TCP - 1);
    if (!a->captures)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent, sizeof silent);
    return loop_fd_start(a->box->egress->loop, &a->fd, fd, LOOP_READ, on_connections, e);
}

/* ---- a box ---- */

static int start_box_adapters(struct egress_box_impl *in, struct err *e)
{
    const int *fd = in->box.listeners.fd;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < COUNT_OF(acceptor_slots); i++) {
        struct acceptor *a = &in->acceptors[i];

        *a = (struct acceptor){ .box = &in->box, .captures = acceptor_slots[i].captures };
        if (fd[acceptor_slots[i].slot] >= 0)
            r = open_acceptor(a, fd[acceptor_slots[i].slot], e);
    }
    if (r >= 0 && fd[LISTENER_DNS_UDP4] >= 0)
        r = dns_adapter_new(&in->box, &in->dns, e);
    return r < 0 ? r : rejects_new(&in->box, &in->rejects, e);
}

int egress_box_new(struct egress_state *g, const char *id, struct listeners *listeners,
                   int audit_fd, struct egress_box **ret, struct err *e)
{
    struct egress_box_impl *in = new0(sizeof *in);
    struct egress_box *b;
    int r;

    b = &in->box;
    b->egress = g;
    b->expires = INT64_MAX;
    snprintf(b->id, sizeof b->id, "%s", id);
    b->listeners = *listeners;
    listeners_init(listeners);
    b->audit = audit_new(g->loop, b->id, audit_fd);
    b->mapping = fake_addresses_new();
    list_append(&g->boxes, &b->link);
    ranking_join(&g->crowded, &b->rank);
    g->n_boxes++;
    r = start_box_adapters(in, e);
    if (r < 0) {
        egress_box_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

void egress_box_free(struct egress_box *b)
{
    struct egress_box_impl *in;

    if (!b)
        return;
    in = container_of(b, struct egress_box_impl, box);
    loop_timer_stop(&b->expiry);
    for (size_t i = 0; i < COUNT_OF(acceptor_slots); i++) {
        loop_fd_stop(&in->acceptors[i].fd);
        loop_timer_stop(&in->acceptors[i].pause);
    }
    for (struct link *m; (m = list_first(&b->open));) {
        struct egress_open *o = container_of(m, struct egress_open, link);

        o->close(o, "sandbox ended");
        /* close() has removed it already; this only guarantees that the loop ends */
        egress_open_leave(b, o);
    }
    dns_adapter_free(in->dns);
    rejects_free(in->rejects);
    link_leave(&b->link);
    ranking_leave(&b->egress->crowded, &b->rank);
    b->egress->n_boxes--;
    listeners_done(&b->listeners);
    egress_snapshot_unref(b->snapshot);
    fake_addresses_free(b->mapping);
    audit_free(b->audit);
    free(in);
}

/* A callback may close other connections, so each is taken from the list of those not called
 * yet. */
static void reconsider_all(struct egress_box *b)
{
    struct list todo = { 0 };

    list_move(&b->open, &todo);
    for (struct link *m; (m = list_take(&todo));) {
        struct egress_open *o = container_of(m, struct egress_open, link);

        list_append(&b->open, m);
        if (o->reconsider)
            o->reconsider(o);
    }
}

void egress_box_expire(struct egress_box *b)
{
    if (b->snapshot && b->expires < INT64_MAX && b->expires <= clock_wall())
        b->expires = egress_snapshot_expire(b->snapshot, clock_wall());
}

static void watch_policy_expiry(struct egress_box *b);

static void on_policy_expiry(struct loop_timer *t)
{
    struct egress_box *b = container_of(t, struct egress_box, expiry);

    egress_box_expire(b);
    reconsider_all(b);
    watch_policy_expiry(b);
}

static void watch_policy_expiry(struct egress_box *b)
{
    int64_t left = b->expires - clock_wall();

    loop_timer_stop(&b->expiry);
    if (b->expires == INT64_MAX)
        return;
    if (left < 0)
        left = 0;
    loop_timer_start(b->egress->loop, &b->expiry,
                     clock_mono() + (left < EXPIRY_NS ? left : EXPIRY_NS), on_policy_expiry, NULL);
}

void egress_box_set_policy(struct egress_box *b, struct egress_snapshot *s)
{
    struct egress_snapshot *old = b->snapshot;

    b->snapshot = s ? egress_snapshot_ref(s) : NULL;
    b->flaw[0] = 0;
    b->generation = s ? egress_snapshot_generation(s) : 0;
    b->expires = s ? egress_snapshot_expire(s, clock_wall()) : INT64_MAX;
    watch_policy_expiry(b);
    if (s)
        audit_policy(b->audit, b->generation);
    reconsider_all(b);
    egress_snapshot_unref(old);
}

void egress_box_note_flaw(struct egress_box *b, const char *why)
{
    snprintf(b->flaw, sizeof b->flaw, "%s", why);
}

void egress_box_reason(const struct egress_box *b, struct egress_reason *ret)
{
    if (b->flaw[0])
        refuse_reason(ret, "policy_missing", "Set a valid policy: sandboxer egress set.",
                      "The egress policy is invalid, so nothing is allowed: %s", b->flaw);
    else
        refuse_reason(ret, "policy_missing", "Wait until a policy is set, or set one.",
                      "No egress policy is in force, so nothing is allowed.");
}
