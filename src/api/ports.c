/* /v1/sandboxes/{id}/ports/{port}: whether something listens there, and connections to it.
 *
 * With `Upgrade: sandboxer-tcp` the request becomes the connection. On the unix socket the client
 * gets the descriptor itself, and its bytes do not pass us; elsewhere we copy. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "api/inside.h"
#include "api/route.h"
#include "control/dial.h"

enum { CHUNK = 64 << 10, PENDING_MAX = 1 << 20 };

struct port {
    struct call *call;
    struct dial_op dial;
    bool connects;        /* the client wants the connection, not only to know */
    bool in_use;          /* the sandbox is attached to */
    struct loop_fd inner; /* .fd is -1: none */
    bool client_full;     /* takes no more until it has drained */
    struct buf pending;   /* for the inner end, which is full */
};

/* --- what is copied --- */

static void want(struct port *p)
{
    loop_fd_want(&p->inner, (p->client_full ? 0u : LOOP_READ) | (p->pending.n ? LOOP_WRITE : 0u),
                 NULL);
}

static void cut(struct port *p)
{
    loop_fd_stop(&p->inner);
    http_cut(call_take_exchange(p->call));
}

static void from_inside(struct port *p)
{
    static char piece[CHUNK];
    ssize_t n = recv(p->inner.fd, piece, sizeof piece, 0);
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        loop_fd_stop(&p->inner);
        if (n < 0)
            http_cut(call_take_exchange(p->call));
        else
            http_end(call_take_exchange(p->call));
        return;
    }
    r = http_write(p->call->x, (struct str){ piece, (size_t)n }, NULL);
    if (r < 0)
        cut(p);
    else
        p->client_full = r > 0;
}

/* What the inner end takes of data; -1 if it is gone. */
static ssize_t put(struct port *p, struct str data)
{
    ssize_t n = send(p->inner.fd, data.p, data.n, MSG_NOSIGNAL);

    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void flush(struct port *p)
{
    ssize_t n = put(p, buf_str(&p->pending));

    if (n < 0) {
        cut(p);
        return;
    }
    buf_drop(&p->pending, (size_t)n);
    if (!p->pending.n)
        http_body_resume(p->call->x);
}

static void on_inner(struct loop_fd *f, unsigned events)
{
    struct port *p = container_of(f, struct port, inner);

    if ((events & LOOP_WRITE) && p->pending.n)
        flush(p);
    if (p->call->x && (events & (LOOP_READ | LOOP_HUP | LOOP_ERROR)))
        from_inside(p);
    if (p->call->x)
        want(p);
}

static void from_client(struct http_exchange *x, struct str data)
{
    struct port *p = ((struct call *)http_state(x))->state;
    ssize_t n = p->pending.n ? 0 : put(p, data);

    if (n < 0 || buf_add(&p->pending, (struct str){ data.p + n, data.n - (size_t)n }) < 0) {
        cut(p);
        return;
    }
    if (p->pending.n)
        http_body_pause(x);
    want(p);
}

static void client_drained(struct http_exchange *x)
{
    struct port *p = ((struct call *)http_state(x))->state;

    p->client_full = false;
    want(p);
}

/* --- the connection is there --- */

static const struct h1_field upgrade[] = { { { "Upgrade", 7 }, { "sandboxer-tcp", 13 } } };

static int begin_copy(struct port *p, int fd, struct err *e)
{
    struct http_exchange *x = p->call->x;
    int r = loop_fd_start(p->call->loop, &p->inner, fd, LOOP_READ, on_inner, e);

    if (r < 0)
        p->inner.fd = fd;
    else
        r = http_upgrade(x, upgrade, 1, from_client, e);
    if (r >= 0)
        http_on_drain(x, client_drained);
    return r;
}

static void ignore(struct http_exchange *x, struct str data)
{
    (void)x;
    (void)data;
}

/* The exchange stays as long as the client has the descriptor: the sandbox is in use. */
static int hand_over(struct port *p, int fd, struct err *e)
{
    AUTO_CLOSE int ours = fd;
    int r = http_upgrade(p->call->x, upgrade, 1, ignore, e);

    return r < 0 ? r : http_write_fds(p->call->x, STR("\n"), &ours, 1, e);
}

static void connected(struct port *p, int fd)
{
    struct err e;
    int r;

    sandbox_attach(p->call->sandbox);
    p->in_use = true;
    r = http_peer(p->call->x)->is_unix ? hand_over(p, fd, &e) : begin_copy(p, fd, &e);
    if (r < 0)
        http_fail(call_take_exchange(p->call), 500, str_from(e.msg));
}

static void write_port(struct json_writer *w, const void *what)
{
    const struct port *p = what;

    json_begin_object(w);
    json_key(w, STR("sandbox_id"));
    json_put_str(w, str_from(sandbox_view(p->call->sandbox).record->id));
    json_key(w, STR("port"));
    json_put_uint(w, p->dial.port);
    json_key(w, STR("open"));
    json_put_bool(w, p->inner.fd >= 0);
    json_end_object(w);
}

static void dialled(struct dial_op *op, int r, const struct err *e, int fd)
{
    struct port *p = container_of(op, struct port, dial);

    if (p->connects && r >= 0) {
        connected(p, fd);
    } else if (r < 0 && (p->connects || r != -(int)ERR_UPSTREAM)) {
        call_fail(p->call, e);
    } else {
        p->inner.fd = fd;
        call_answer(p->call, 200, write_port, p);
    }
}

/* --- the request --- */

static void port_gone(struct call *c)
{
    struct port *p = c->state;

    dial_op_cancel(&p->dial);
    loop_fd_stop(&p->inner);
}

static void port_end(struct call *c)
{
    struct port *p = c->state;

    port_gone(c);
    drop_fd(&p->inner.fd);
    if (p->in_use)
        sandbox_detach(c->sandbox);
    buf_done(&p->pending);
    free(p);
}

static bool wants_connection(struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    return h->upgrade && str_eq(h->proto, STR("sandboxer-tcp"));
}

static void serve(struct call *c)
{
    struct port *p;
    uint64_t number;

    if (!str_to_u64(c->params[1], &number) || number == 0 || number > UINT16_MAX) {
        call_fail_with(c, 400, "invalid", "a port is a number from 1 to 65535");
        return;
    }
    p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (struct port){ .call = c, .inner.fd = -1, .connects = wants_connection(c) };
    p->dial = (struct dial_op){ .port = (uint16_t)number, .done = dialled };
    buf_init(&p->pending, PENDING_MAX);
    c->state = p;
    c->on_gone = port_gone;
    c->on_end = port_end;
    sandbox_dial(c->sandbox, &p->dial);
}

const struct route routes_ports[] = {
    { H1_GET, VERB_EXEC, "/v1/sandboxes/{id}/ports/{port}", ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_LONG,
      serve, "Connect to a port inside, or see whether something listens there", .answer = "Port" },
    { .path = NULL },
};
