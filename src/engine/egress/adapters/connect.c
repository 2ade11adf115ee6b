/* SPDX-License-Identifier: Apache-2.0 */
/* The CONNECT adapter: reads the head of a CONNECT request, requests a decision, starts a
 * tunnel. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/audit.h"
#include "engine/egress/refuse.h"
#include "engine/egress/relays/relays.h"
#include "lib/http/h1.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

struct connect_request {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    struct egress_intent intent;
    struct h1_scan scan;
    struct buf in; /* the head received so far; after it the bytes that follow the head */
    struct loop_fd socket;
    struct loop_timer timer;
    struct authorization authorization;
    struct loop_later later;
};

static void on_connect_request_free(struct loop_later *l)
{
    free(container_of(l, struct connect_request, later));
}

/* Removes the request from the box and closes the descriptor, unless it was taken. */
static void connect_request_end(struct connect_request *a)
{
    egress_open_leave(a->box, &a->open);
    loop_fd_stop(&a->socket);
    loop_timer_stop(&a->timer);
    authorize_cancel(&a->authorization);
    drop_fd(&a->fd);
    buf_done(&a->in);
    loop_later(a->box->egress->loop, &a->later, on_connect_request_free, NULL);
}

static void on_connect_close(struct egress_open *o, const char *how)
{
    connect_request_end(container_of(o, struct connect_request, open));
}

/* authorize.h notices a new policy by itself. */
static void on_connect_reconsider(struct egress_open *o)
{
}

static void refuse_connect(struct connect_request *a, int status, const char *code,
                           const char *text)
{
    struct egress_reason why;

    refuse_reason(&why, code, "Send a CONNECT request as RFC 9110 describes it.", "%s", text);
    audit_malformed(a->box->audit, EGRESS_BY_CONNECT, text);
    loop_fd_stop(&a->socket);
    refuse_http(a->box, take_fd(&a->fd), status, NULL, NULL, &why);
    connect_request_end(a);
}

static void on_connect_timeout(struct loop_timer *t)
{
    refuse_connect(container_of(t, struct connect_request, timer), 408, "request_timeout",
                   "The request took too long.");
}

/* Whether the Host field names the intent's host. A port that is left out is not compared. Only
 * HTTP/1.0 may leave out the field. */
static bool host_field_agrees(const struct h1_request *q, const struct egress_intent *i)
{
    struct host host;

    if (q->host.name.n == 0)
        return true;
    return host_parse(q->host.name, q->host.is_ipv6, &host, NULL) >= 0 &&
           strcmp(host.name, i->host.name) == 0 && (!q->host.port || q->host.port == i->port);
}

static void on_connect_decided(struct authorization *z)
{
    struct connect_request *a = container_of(z, struct connect_request, authorization);
    struct lease *l = z->lease;
    const struct egress_decision *d = &l->decision;
    struct relay_start s = {
        .box = a->box, .lease = l, .read = buf_str(&a->in), .greeting = STR(established)
    };

    s.client = take_fd(&a->fd);
    if (d->verdict == EGRESS_DENIED) {
        refuse_http(a->box, s.client, d->status, &a->intent, d, &d->why);
    } else {
        z->lease = NULL;
        relay_begin(&s);
    }
    connect_request_end(a);
}

static void authorize_connect(struct connect_request *a, const struct h1_request *q, size_t head)
{
    struct err e;

    if (q->method != H1_CONNECT || q->form != H1_AUTHORITY) {
        refuse_connect(a, 400, "bad_request", "This is not a CONNECT request.");
        return;
    }
    if (authority_parse(q->target, 0, &a->intent.host, &a->intent.port, &e) < 0) {
        refuse_connect(a, 400, "bad_request", e.msg);
        return;
    }
    if (!host_field_agrees(q, &a->intent)) {
        refuse_connect(a, 400, "request_authority_mismatch",
                       "The Host field differs from the target of the CONNECT request.");
        return;
    }
    loop_fd_stop(&a->socket);
    loop_timer_stop(&a->timer);
    buf_drop(&a->in, head);
    authorize_start(&a->authorization, a->box, &a->intent, on_connect_decided);
}

/* Returns false if the head is not complete. */
static bool read_connect_head(struct connect_request *a)
{
    static struct h1_request q; /* 3 KB of slices, only used during this call */
    struct h1_limits limits = { EGRESS_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };
    struct err e;
    int status, r = h1_parse_request(&a->scan, buf_str(&a->in), &limits, &q, &status, &e);

    if (r == 0)
        return false;
    if (r < 0)
        refuse_connect(a, status, "bad_request", e.msg);
    else
        authorize_connect(a, &q, (size_t)r);
    return true;
}

static void on_connect_bytes(struct loop_fd *s, unsigned events)
{
    struct connect_request *a = container_of(s, struct connect_request, socket);
    size_t room = a->in.n < EGRESS_HEAD_MAX ? EGRESS_HEAD_MAX - a->in.n : 0;
    char *to;
    ssize_t n;

    if (room == 0 || buf_room(&a->in, room, &to) < 0) {
        refuse_connect(a, 431, "bad_request", "The request head is too long.");
        return;
    }
    n = recv(a->fd, to, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        connect_request_end(a);
        return;
    }
    buf_grew(&a->in, (size_t)n);
    read_connect_head(a);
}

void connect_accept(struct egress_box *b, int fd, const struct address *client,
                    uint16_t client_port, struct str read)
{
    struct loop *l = b->egress->loop;
    struct connect_request *a = new0(sizeof *a);

    a->open =
        (struct egress_open){ .reconsider = on_connect_reconsider, .close = on_connect_close };
    a->box = b;
    a->fd = fd;
    a->intent = (struct egress_intent){ .adapter = EGRESS_BY_CONNECT,
                                        .client = *client,
                                        .client_port = client_port };
    buf_init(&a->in, EGRESS_READ_MAX);
    egress_open_join(b, &a->open);
    if (buf_add(&a->in, read) < 0) {
        connect_request_end(a);
        return;
    }
    if (read_connect_head(a))
        return;
    if (loop_fd_start(l, &a->socket, fd, LOOP_READ, on_connect_bytes, NULL) < 0 ||
        loop_timer_start(l, &a->timer, clock_mono() + EGRESS_HEAD_NS, on_connect_timeout, NULL) < 0)
        connect_request_end(a);
}
