#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/own.h"
#include "egress/adapters/adapters.h"
#include "egress/adapters/rejects.h"
#include "egress/audit.h"
#include "egress/egress.h"
#include "egress/mapping.h"
#include "egress/refuse.h"
#include "loop/fd.h"
#include "loop/timer.h"

enum {
    PAUSE_MS = 100, /* without descriptors, or at a limit */
    SILENT_S = 1,   /* how long the kernel keeps a connection on which nothing was said */
};

#define COMPLAIN_NS (60 * NS_PER_S)
#define EXPIRY_NS   (60 * NS_PER_S) /* at the latest: the wall clock may be set */

struct acceptor {
    struct egress_box *box;
    bool captures;
    struct loop_fd fd;
    struct loop_timer pause;
};

static const struct {
    enum listener_slot slot;
    bool captures;
} doors[] = {
    { LISTENER_PROXY4, false },
    { LISTENER_PROXY6, false },
    { LISTENER_CAPTURE4, true },
    { LISTENER_CAPTURE6, true },
};

/* What a box has that only this file knows. */
struct inside {
    struct egress_box box;
    struct acceptor acceptors[COUNT_OF(doors)];
    struct dns_adapter *dns;
    struct rejects *rejects;
};

void egress_open_join(struct egress_box *b, struct egress_open *o)
{
    list_append(&b->open, &o->link);
    b->n_open++;
    b->egress->n_open++;
}

void egress_open_leave(struct egress_box *b, struct egress_open *o)
{
    if (!link_joined(&o->link))
        return;
    link_leave(&o->link);
    b->n_open--;
    b->egress->n_open--;
}

/* ---- shares ---- */

enum { FILES_A_CONNECTION = 2 };

/* Connections that there are descriptors for. */
static unsigned count_places(const struct egress *g)
{
    unsigned kept = EGRESS_FILES_SPARE + EGRESS_FILES_BOX * g->n_boxes;

    if (!g->files)
        return UINT_MAX;
    return g->files > kept ? (g->files - kept) / FILES_A_CONNECTION : 0;
}

unsigned egress_box_share(const struct egress_box *b)
{
    const struct egress *g = b->egress;
    unsigned most = g->standalone ? EGRESS_OPEN_ALONE_MAX : EGRESS_OPEN_MAX;
    unsigned share = count_places(g) / (g->standalone ? 1 : g->n_boxes + 1);

    if (share < EGRESS_OPEN_MIN)
        share = EGRESS_OPEN_MIN;
    return share < most ? share : most;
}

static struct egress_box *find_largest(struct egress *g)
{
    struct egress_box *found = NULL;

    for (struct link *m = list_first(&g->boxes); m; m = list_after(&g->boxes, m)) {
        struct egress_box *b = container_of(m, struct egress_box, link);

        if (!found || b->n_open > found->n_open)
            found = b;
    }
    return found;
}

/* A box that came later has a share, too: it takes it from one that has more than its own, which
 * loses its oldest connection. */
static void make_place(const struct egress_box *for_whom)
{
    struct egress *g = for_whom->egress;
    unsigned places = count_places(g);
    struct egress_box *from;
    struct egress_open *o;
    struct link *oldest;

    if (g->n_open < places - places / (g->n_boxes + 1))
        return;
    from = find_largest(g);
    if (!from || from == for_whom || from->n_open <= egress_box_share(from))
        return;
    oldest = list_first(&from->open);
    if (!oldest)
        return;
    o = container_of(oldest, struct egress_open, link);
    o->close(o, "share");
}

/* ---- accepting ---- */

static void on_pause_over(struct loop_timer *t)
{
    struct acceptor *a = container_of(t, struct acceptor, pause);

    if (loop_fd_want(&a->fd, LOOP_READ, NULL) < 0)
        loop_timer_start(t->loop, t, clock_mono() + PAUSE_MS * NS_PER_MS, on_pause_over, NULL);
}

/* Said now and then: whoever opens connections must not fill the log. */
static void complain(const struct egress_box *b, int error)
{
    static int64_t said;
    int64_t now = clock_mono();

    if (said && now - said < COMPLAIN_NS)
        return;
    said = now;
    LOG(WARN, "egress.accept_paused", LOG_S("sandbox", b->id), LOG_I("errno", error));
}

/* Connections wait in the backlog. A listener that stays readable must not keep us awake. */
static void pause_accepting(struct acceptor *a)
{
    loop_fd_want(&a->fd, 0, NULL);
    if (!loop_timer_started(&a->pause))
        loop_timer_start(a->fd.loop, &a->pause, clock_mono() + PAUSE_MS * NS_PER_MS, on_pause_over,
                         NULL);
}

static void accept_captured(struct egress_box *b, int fd, const struct address *from, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    struct address to;
    uint16_t to_port;

    if (getsockname(fd, (struct sockaddr *)&sa, &n) < 0 ||
        !address_from_sockaddr((const struct sockaddr *)&sa, &to, &to_port)) {
        refuse_reset(fd);
        return;
    }
    transparent_accept(b, fd, from, port, &to, to_port);
}

static void accept_one(struct acceptor *a)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    struct address from;
    uint16_t port;
    int fd = accept4(a->fd.fd, (struct sockaddr *)&sa, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        /* A connection that died in the backlog is an error, too: the next one's turn comes. */
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
            return;
        complain(a->box, errno);
        pause_accepting(a);
        return;
    }
    if (!address_from_sockaddr((const struct sockaddr *)&sa, &from, &port))
        refuse_reset(fd);
    else if (a->captures)
        accept_captured(a->box, fd, &from, port);
    else
        proxy_accept(a->box, fd, &from, port);
}

static void wait_for_share(struct acceptor *a)
{
    char text[160];

    snprintf(text, sizeof text,
             "The sandbox has %u connections open, which is its share of the worker's descriptors; "
             "more wait until one ends.",
             a->box->n_open);
    audit_wait(a->box->audit, text);
    pause_accepting(a);
}

/* One a turn: asking whether there is another costs more than being told. */
static void on_connections(struct loop_fd *s, unsigned events)
{
    struct acceptor *a = container_of(s, struct acceptor, fd);

    (void)events;
    if (a->box->n_open >= egress_box_share(a->box)) {
        wait_for_share(a);
    } else {
        make_place(a->box);
        accept_one(a);
    }
}

static bool is_local(int fd)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    struct address at;
    uint16_t port;

    return getsockname(fd, (struct sockaddr *)&sa, &n) == 0 &&
           address_from_sockaddr((const struct sockaddr *)&sa, &at, &port) &&
           address_classify(&at) == ADDRESS_LOOPBACK;
}

/* Accepted sockets inherit what is set here. What a relay writes is complete and shall not wait. On
 * one machine nothing is lost or late, and pacing (BBR) only costs. Who asks a proxy speaks first,
 * so a connection comes with its first bytes; where a kernel has not the one or the other, it is
 * slower. */
static int open_door(struct acceptor *a, int fd, struct err *e)
{
    int yes = 1, silent = SILENT_S;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) < 0)
        return err_sys(e, "preparing a listener");
    if (is_local(fd))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, EGRESS_LOCAL_TCP,
                         sizeof EGRESS_LOCAL_TCP - 1);
    if (!a->captures)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent, sizeof silent);
    return loop_fd_start(a->box->egress->loop, &a->fd, fd, LOOP_READ, on_connections, e);
}

static int open_doors(struct inside *in, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < COUNT_OF(doors); i++) {
        int fd = in->box.listeners.fd[doors[i].slot];

        in->acceptors[i] = (struct acceptor){ .box = &in->box, .captures = doors[i].captures };
        if (fd >= 0)
            r = open_door(&in->acceptors[i], fd, e);
    }
    return r;
}

/* ---- a box ---- */

static bool has(const struct egress_box *b, enum listener_slot slot)
{
    return b->listeners.fd[slot] >= 0;
}

static int serve(struct inside *in, struct err *e)
{
    int r = open_doors(in, e);

    if (r >= 0 && has(&in->box, LISTENER_DNS_UDP4))
        r = dns_adapter_new(&in->box, &in->dns, e);
    if (r >= 0 && has(&in->box, LISTENER_REJECTS))
        r = rejects_new(&in->box, &in->rejects, e);
    return r;
}

int egress_box_new(struct egress *g, const char *id, struct listeners *listeners, int audit_fd,
                   struct egress_box **ret, struct err *e)
{
    struct inside *in = calloc(1, sizeof *in);
    struct egress_box *b;
    int r;

    if (!in)
        abort();
    b = &in->box;
    b->egress = g;
    b->expires = INT64_MAX;
    snprintf(b->id, sizeof b->id, "%s", id);
    b->listeners = *listeners;
    listeners_init(listeners);
    b->audit = audit_new(g->loop, b->id, audit_fd);
    b->mapping = mapping_new();
    list_append(&g->boxes, &b->link);
    g->n_boxes++;
    r = serve(in, e);
    if (r < 0) {
        egress_box_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

static void close_doors(struct inside *in)
{
    for (size_t i = 0; i < COUNT_OF(doors); i++) {
        loop_fd_stop(&in->acceptors[i].fd);
        loop_timer_stop(&in->acceptors[i].pause);
    }
}

static void close_open(struct egress_box *b)
{
    for (struct link *m; (m = list_first(&b->open));) {
        struct egress_open *o = container_of(m, struct egress_open, link);

        o->close(o, "sandbox ended");
        egress_open_leave(b, o); /* it has: this only makes sure that the loop ends */
    }
}

void egress_box_free(struct egress_box *b)
{
    struct inside *in;

    if (!b)
        return;
    in = container_of(b, struct inside, box);
    loop_timer_stop(&b->expiry);
    close_doors(in);
    close_open(b);
    dns_adapter_free(in->dns);
    rejects_free(in->rejects);
    link_leave(&b->link);
    b->egress->n_boxes--;
    listeners_done(&b->listeners);
    egress_snapshot_unref(b->snapshot);
    mapping_free(b->mapping);
    audit_free(b->audit);
    free(in);
}

/* One may end others: each is taken from the list of those not asked yet. */
static void reconsider_all(struct egress_box *b)
{
    struct list todo = { 0 };

    list_move(&b->open, &todo);
    for (struct link *m; (m = list_take(&todo));) {
        struct egress_open *o = container_of(m, struct egress_open, link);

        list_append(&b->open, m);
        o->reconsider(o);
    }
}

void egress_box_expire(struct egress_box *b)
{
    if (b->snapshot && b->expires < INT64_MAX && b->expires <= clock_wall())
        b->expires = egress_snapshot_expire(b->snapshot, clock_wall());
}

static void watch_expiry(struct egress_box *b);

static void on_expiry(struct loop_timer *t)
{
    struct egress_box *b = container_of(t, struct egress_box, expiry);

    egress_box_expire(b);
    reconsider_all(b);
    watch_expiry(b);
}

static void watch_expiry(struct egress_box *b)
{
    int64_t left = b->expires - clock_wall();

    loop_timer_stop(&b->expiry);
    if (b->expires == INT64_MAX)
        return;
    if (left < 0)
        left = 0;
    loop_timer_start(b->egress->loop, &b->expiry,
                     clock_mono() + (left < EXPIRY_NS ? left : EXPIRY_NS), on_expiry, NULL);
}

void egress_box_set_policy(struct egress_box *b, struct egress_snapshot *s)
{
    struct egress_snapshot *old = b->snapshot;

    b->snapshot = s ? egress_snapshot_ref(s) : NULL;
    b->generation = s ? egress_snapshot_generation(s) : 0;
    b->expires = s ? egress_snapshot_expire(s, clock_wall()) : INT64_MAX;
    watch_expiry(b);
    if (s)
        audit_policy(b->audit, b->generation);
    reconsider_all(b);
    egress_snapshot_unref(old);
}
