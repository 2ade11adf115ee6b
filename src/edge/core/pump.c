#include "api/pump.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/own.h"

void pump_init(struct pump *p, struct call *c)
{
    *p = (struct pump){ .call = c, .inner.fd = -1 };
    buf_init(&p->pending, PUMP_PENDING_MAX);
}

void pump_stop(struct pump *p)
{
    loop_fd_stop(&p->inner);
}

void pump_done(struct pump *p)
{
    pump_stop(p);
    drop_fd(&p->inner.fd);
    buf_done(&p->pending);
}

static void want(struct pump *p)
{
    loop_fd_want(&p->inner, (p->client_full ? 0u : LOOP_READ) | (p->pending.n ? LOOP_WRITE : 0u),
                 NULL);
}

static void end(struct pump *p, bool in_order)
{
    struct http_exchange *x = call_take_exchange(p->call);

    loop_fd_stop(&p->inner);
    if (in_order)
        http_end(x);
    else
        http_cut(x);
}

/* --- to the client --- */

static void tell_client(struct pump *p, struct str data)
{
    int r = http_write(p->call->x, data, NULL);

    if (r < 0)
        end(p, false);
    else
        p->client_full = r > 0;
}

static void from_inside(struct pump *p)
{
    static char piece[PUMP_CHUNK];
    ssize_t n = recv(p->inner.fd, piece, sizeof piece, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        tell_client(p, (struct str){ piece, (size_t)n });
    else
        end(p, n == 0);
}

static void client_drained(struct http_exchange *x)
{
    struct pump *p = ((struct call *)http_state(x))->state;

    p->client_full = false;
    want(p);
}

/* --- from the client --- */

/* What the inner end takes of data; -1 if it is gone. */
static ssize_t put(struct pump *p, struct str data)
{
    ssize_t n = send(p->inner.fd, data.p, data.n, MSG_NOSIGNAL);

    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void from_client(struct http_exchange *x, struct str data)
{
    struct pump *p = ((struct call *)http_state(x))->state;
    ssize_t n = p->pending.n ? 0 : put(p, data);

    if (n < 0 || buf_add(&p->pending, (struct str){ data.p + n, data.n - (size_t)n }) < 0) {
        end(p, false);
        return;
    }
    if (p->pending.n)
        http_body_pause(x);
    want(p);
}

static void flush(struct pump *p)
{
    ssize_t n = put(p, buf_str(&p->pending));

    if (n < 0) {
        end(p, false);
        return;
    }
    buf_drop(&p->pending, (size_t)n);
    if (!p->pending.n)
        http_body_resume(p->call->x);
}

static void on_inner(struct loop_fd *f, unsigned events)
{
    struct pump *p = container_of(f, struct pump, inner);

    if ((events & LOOP_WRITE) && p->pending.n)
        flush(p);
    if (p->call->x && (events & (LOOP_READ | LOOP_HUP | LOOP_ERROR)))
        from_inside(p);
    if (p->call->x)
        want(p);
}

/* --- the beginning --- */

int pump_start(struct pump *p, int fd, const struct h1_field *fields, size_t n, struct err *e)
{
    p->inner.fd = fd;
    return pump_go_on(p, fields, n, STR(""), e);
}

int pump_go_on(struct pump *p, const struct h1_field *fields, size_t n, struct str first,
               struct err *e)
{
    int r = loop_fd_start(p->call->loop, &p->inner, p->inner.fd, LOOP_READ, on_inner, e);

    if (r >= 0)
        r = http_upgrade(p->call->x, fields, n, from_client, e);
    if (r < 0)
        return r;
    http_on_drain(p->call->x, client_drained);
    if (first.n)
        tell_client(p, first);
    if (p->call->x)
        want(p);
    return 0;
}
