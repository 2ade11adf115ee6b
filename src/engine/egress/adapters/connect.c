/* CONNECT host:port: a head, a decision, a tunnel. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/own.h"
#include "egress/adapters/adapters.h"
#include "egress/audit.h"
#include "egress/refuse.h"
#include "egress/relays/relays.h"
#include "http/h1.h"
#include "loop/fd.h"
#include "loop/timer.h"

static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

struct asker {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    struct egress_intent intent;
    struct h1_scan scan;
    struct buf in; /* the head as far as it came; then what came behind it */
    struct loop_fd socket;
    struct loop_timer timer;
    struct authorization authorization;
    struct loop_later later;
};

static void asker_free(struct loop_later *l)
{
    free(container_of(l, struct asker, later));
}

/* Leaves; the descriptor is closed unless it was taken. */
static void asker_end(struct asker *a)
{
    egress_open_leave(a->box, &a->open);
    loop_fd_stop(&a->socket);
    loop_timer_stop(&a->timer);
    authorize_cancel(&a->authorization);
    drop_fd(&a->fd);
    buf_done(&a->in);
    loop_later(a->box->egress->loop, &a->later, asker_free, NULL);
}

static void on_close(struct egress_open *o, const char *how)
{
    (void)how;
    asker_end(container_of(o, struct asker, open));
}

/* The decision itself notices. */
static void on_reconsider(struct egress_open *o)
{
    (void)o;
}

static void refuse(struct asker *a, int status, const char *code, const char *text)
{
    struct egress_reason why;

    refuse_reason(&why, code, "Write the request as RFC 9110 has it.", "%s", text);
    audit_malformed(a->box->audit, EGRESS_BY_CONNECT, text);
    loop_fd_stop(&a->socket);
    refuse_http(a->box, take_fd(&a->fd), status, NULL, NULL, &why);
    asker_end(a);
}

static void on_time(struct loop_timer *t)
{
    refuse(container_of(t, struct asker, timer), 408, "request_timeout",
           "The request took too long.");
}

/* The Host field names the same place; without a port it says nothing about that. Only HTTP/1.0 may
 * have none. */
static bool host_agrees(const struct h1_request *q, const struct egress_intent *i)
{
    struct host host;

    if (q->host.name.n == 0)
        return true;
    return host_parse(q->host.name, q->host.is_ipv6, &host, NULL) >= 0 &&
           strcmp(host.name, i->host.name) == 0 && (!q->host.port || q->host.port == i->port);
}

static void on_decided(struct authorization *z)
{
    struct asker *a = container_of(z, struct asker, authorization);
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
    asker_end(a);
}

static void ask(struct asker *a, const struct h1_request *q, size_t head)
{
    struct err e;

    if (q->method != H1_CONNECT || q->form != H1_AUTHORITY) {
        refuse(a, 400, "bad_request", "This is not a CONNECT request.");
        return;
    }
    if (authority_parse(q->target, 0, &a->intent.host, &a->intent.port, &e) < 0) {
        refuse(a, 400, "bad_request", e.msg);
        return;
    }
    if (!host_agrees(q, &a->intent)) {
        refuse(a, 400, "request_authority_mismatch", "The Host field names another place.");
        return;
    }
    loop_fd_stop(&a->socket);
    loop_timer_stop(&a->timer);
    buf_drop(&a->in, head);
    authorize_start(&a->authorization, a->box, &a->intent, on_decided);
}

/* False if there is more to come. */
static bool read_head(struct asker *a)
{
    static struct h1_request q; /* 3 KB of slices that nobody keeps */
    struct h1_limits limits = { EGRESS_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };
    struct err e;
    int status, r = h1_parse_request(&a->scan, buf_str(&a->in), &limits, &q, &status, &e);

    if (r == 0)
        return false;
    if (r < 0)
        refuse(a, status, "bad_request", e.msg);
    else
        ask(a, &q, (size_t)r);
    return true;
}

static void on_bytes(struct loop_fd *s, unsigned events)
{
    struct asker *a = container_of(s, struct asker, socket);
    size_t room = a->in.n < EGRESS_HEAD_MAX ? EGRESS_HEAD_MAX - a->in.n : 0;
    char *to;
    ssize_t n;

    (void)events;
    if (room == 0 || buf_room(&a->in, room, &to) < 0) {
        refuse(a, 431, "bad_request", "The request's head is too long.");
        return;
    }
    n = recv(a->fd, to, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        asker_end(a);
        return;
    }
    buf_grew(&a->in, (size_t)n);
    read_head(a);
}

void connect_accept(struct egress_box *b, int fd, const struct address *client,
                    uint16_t client_port, struct str read)
{
    struct loop *l = b->egress->loop;
    struct asker *a = calloc(1, sizeof *a);

    if (!a)
        abort();
    a->open = (struct egress_open){ .reconsider = on_reconsider, .close = on_close };
    a->box = b;
    a->fd = fd;
    a->intent = (struct egress_intent){ .adapter = EGRESS_BY_CONNECT,
                                        .client = *client,
                                        .client_port = client_port };
    buf_init(&a->in, EGRESS_READ_MAX);
    egress_open_join(b, &a->open);
    if (buf_add(&a->in, read) < 0) {
        asker_end(a);
        return;
    }
    if (read_head(a))
        return;
    if (loop_fd_start(l, &a->socket, fd, LOOP_READ, on_bytes, NULL) < 0 ||
        loop_timer_start(l, &a->timer, clock_mono() + EGRESS_HEAD_NS, on_time, NULL) < 0)
        asker_end(a);
}
