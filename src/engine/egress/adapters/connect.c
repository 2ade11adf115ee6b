/* SPDX-License-Identifier: Apache-2.0 */
/* The CONNECT adapter: reads the head of a CONNECT request, requests a decision, starts a
 * tunnel. */
#include <errno.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/audit.h"
#include "engine/egress/refuse.h"
#include "engine/egress/relays/relays.h"
#include "lib/http/h1.h"

static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

struct connect_request {
    struct egress_client client;
    struct egress_intent intent;
    struct h1_scan scan;
    struct buf in; /* the head received so far; after it the bytes that follow the head */
    struct authorization authorization;
};

static void connect_request_end(struct connect_request *a)
{
    authorize_cancel(&a->authorization);
    buf_done(&a->in);
    egress_client_end(&a->client);
}

static void on_connect_close(struct egress_open *o, const char *how)
{
    connect_request_end(container_of(o, struct connect_request, client.open));
}

static void refuse_connect(struct connect_request *a, int status, const char *code,
                           const char *text)
{
    struct egress_reason why;

    refuse_reason(&why, code, "Send a CONNECT request as RFC 9110 describes it.", "%s", text);
    audit_malformed(a->client.box->audit, EGRESS_BY_CONNECT, text);
    loop_fd_stop(&a->client.socket);
    refuse_http(a->client.box, take_fd(&a->client.fd), status, NULL, NULL, &why);
    connect_request_end(a);
}

static void on_connect_timeout(struct loop_timer *t)
{
    refuse_connect(container_of(t, struct connect_request, client.timer), 408, "request_timeout",
                   "The request head did not arrive within 10 s.");
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
    const struct egress_decision *d = &z->lease->decision;
    int fd = take_fd(&a->client.fd);

    if (d->verdict == EGRESS_DENIED)
        refuse_http(a->client.box, fd, d->status, &a->intent, d, &d->why);
    else
        relay_begin(&(struct relay_start){ .box = a->client.box,
                                           .client = fd,
                                           .lease = take_ptr(z->lease),
                                           .read = buf_str(&a->in),
                                           .greeting = STR(established) });
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
    loop_fd_stop(&a->client.socket);
    loop_timer_stop(&a->client.timer);
    buf_drop(&a->in, head);
    authorize_start(&a->authorization, a->client.box, &a->intent, on_connect_decided);
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
    struct connect_request *a = container_of(s, struct connect_request, client.socket);
    size_t room = a->in.n < EGRESS_HEAD_MAX ? EGRESS_HEAD_MAX - a->in.n : 0;
    char *to;
    ssize_t n;

    if (room == 0 || buf_room(&a->in, room, &to) < 0) {
        refuse_connect(a, 431, "bad_request",
                       "The request head is longer than 16 KiB, the most that the proxy accepts.");
        return;
    }
    n = recv(s->fd, to, room, MSG_DONTWAIT);
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
    struct connect_request *a = new0(sizeof *a);

    a->intent = (struct egress_intent){ .adapter = EGRESS_BY_CONNECT,
                                        .client = *client,
                                        .client_port = client_port };
    buf_init(&a->in, EGRESS_READ_MAX);
    egress_client_join(&a->client, b, fd, on_connect_close);
    if (buf_add(&a->in, read) < 0 ||
        (!read_connect_head(a) &&
         !egress_client_wait(&a->client, EGRESS_HEAD_NS, on_connect_bytes, on_connect_timeout)))
        connect_request_end(a);
}
