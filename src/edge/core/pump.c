/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/pump.h"

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

static void update_pump_interest(struct pump *p)
{
    loop_fd_want(&p->inner, (p->client_full ? 0u : LOOP_READ) | (p->pending.n ? LOOP_WRITE : 0u),
                 NULL);
}

static void end_pump(struct pump *p, bool in_order)
{
    struct http_exchange *x = call_take_exchange(p->call);

    loop_fd_stop(&p->inner);
    if (in_order)
        http_end(x);
    else
        http_cut(x);
}

/* --- to the client --- */

static void send_to_client(struct pump *p, struct str data)
{
    int r = http_write(p->call->x, data, NULL);

    if (r < 0)
        end_pump(p, false);
    else
        p->client_full = r > 0;
}

static void receive_from_inner(struct pump *p)
{
    static char piece[PUMP_CHUNK];
    ssize_t n = recv(p->inner.fd, piece, sizeof piece, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        send_to_client(p, (struct str){ piece, (size_t)n });
    else
        end_pump(p, n == 0);
}

static void on_pump_drain(struct http_exchange *x)
{
    struct pump *p = ((struct call *)http_state(x))->state;

    p->client_full = false;
    update_pump_interest(p);
}

/* --- from the client --- */

/* The number of bytes that the inner socket accepted; -1 if it is closed. */
static ssize_t send_to_inner(struct pump *p, struct str data)
{
    ssize_t n = send(p->inner.fd, data.p, data.n, MSG_NOSIGNAL);

    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void on_pump_client_data(struct http_exchange *x, struct str data)
{
    struct pump *p = ((struct call *)http_state(x))->state;
    ssize_t n = p->pending.n ? 0 : send_to_inner(p, data);

    if (n < 0 || buf_add(&p->pending, (struct str){ data.p + n, data.n - (size_t)n }) < 0) {
        end_pump(p, false);
        return;
    }
    if (p->pending.n)
        http_body_pause(x);
    update_pump_interest(p);
}

static void flush_pump(struct pump *p)
{
    ssize_t n = send_to_inner(p, buf_str(&p->pending));

    if (n < 0) {
        end_pump(p, false);
        return;
    }
    buf_drop(&p->pending, (size_t)n);
    if (!p->pending.n)
        http_body_resume(p->call->x);
}

static void on_pump_socket(struct loop_fd *f, unsigned events)
{
    struct pump *p = container_of(f, struct pump, inner);

    if ((events & LOOP_WRITE) && p->pending.n)
        flush_pump(p);
    if (p->call->x && (events & (LOOP_READ | LOOP_HUP | LOOP_ERROR)))
        receive_from_inner(p);
    if (p->call->x)
        update_pump_interest(p);
}

/* --- the beginning --- */

int pump_start(struct pump *p, int fd, const struct h1_field *fields, size_t n, struct str first,
               struct err *e)
{
    int r = loop_fd_start(p->call->loop, &p->inner, fd, LOOP_READ, on_pump_socket, e);

    p->inner.fd = fd; /* also on failure */
    if (r >= 0)
        r = http_upgrade(p->call->x, fields, n, on_pump_client_data, e);
    if (r < 0)
        return r;
    http_on_drain(p->call->x, on_pump_drain);
    if (first.n)
        send_to_client(p, first);
    if (p->call->x)
        update_pump_interest(p);
    return 0;
}
