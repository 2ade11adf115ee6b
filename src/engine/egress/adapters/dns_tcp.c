/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

enum {
    ACCEPTS_A_BATCH = 8,
    LENGTH = 2,
    READ_MAX = 4096,
    UNREAD_MAX = 4096, /* bytes of unread answers above which no further questions are read */
    OUT_MAX = UNREAD_MAX + (EGRESS_DNS_PIPELINED_MAX + 1) * (LENGTH + NAMES_ANSWER_MAX),
    IN_MAX = READ_MAX + LENGTH + EGRESS_DNS_QUERY_MAX,
};

#define ACCEPT_AGAIN_NS (100 * NS_PER_MS)

struct dns_tcp {
    struct dns_names *names;
    struct loop *loop;
    struct loop_fd listener;
    struct loop_timer accept_again;
    struct list connections;
    size_t n;
};

struct dns_connection {
    struct dns_tcp *tcp;
    struct link link;
    int fd;
    struct names_client from;
    struct loop_fd source;
    struct loop_timer idle;
    struct loop_later free_later;
    struct buf in, out;
    struct list waiting;
    unsigned n_waiting;
    /* ended: the client sends no further questions; dead: nothing reads answers */
    bool ended, dead;
};

struct dns_tcp_waiter {
    struct names_waiter waiter;
    struct link link;
    struct dns_connection *connection;
};

/* --- The end of a connection --- */

static void free_dns_connection(struct dns_connection *c)
{
    loop_fd_stop(&c->source);
    loop_timer_stop(&c->idle);
    loop_later_stop(&c->free_later);
    for (struct link *m; (m = list_take(&c->waiting));) {
        struct dns_tcp_waiter *w = container_of(m, struct dns_tcp_waiter, link);

        names_forget(&w->waiter);
        free(w);
    }
    link_leave(&c->link);
    c->tcp->n--;
    drop_fd(&c->fd);
    buf_done(&c->in);
    buf_done(&c->out);
    free(c);
}

static void on_free_dns_connection(struct loop_later *s)
{
    free_dns_connection(container_of(s, struct dns_connection, free_later));
}

static void end_dns_connection(struct dns_connection *c)
{
    c->dead = true;
    loop_fd_stop(&c->source);
    loop_timer_stop(&c->idle);
    loop_later(c->tcp->loop, &c->free_later, on_free_dns_connection, NULL); /* may be pending */
}

static void on_dns_idle(struct loop_timer *t);

static void restart_dns_idle_timer(struct dns_connection *c)
{
    loop_timer_stop(&c->idle);
    loop_timer_start(c->tcp->loop, &c->idle, clock_mono() + EGRESS_DNS_IDLE_NS, on_dns_idle, NULL);
}

static void on_dns_idle(struct loop_timer *t)
{
    struct dns_connection *c = container_of(t, struct dns_connection, idle);

    if (c->n_waiting > 0 && c->out.n == 0)
        restart_dns_idle_timer(c); /* the delay is on our side */
    else
        end_dns_connection(c);
}

/* --- Bytes --- */

static void queue_dns_answer(struct dns_connection *c, struct str answer)
{
    const char length[LENGTH] = { (char)(answer.n >> 8), (char)answer.n };

    if (c->out.n + LENGTH + answer.n > c->out.max) {
        end_dns_connection(c);
        return;
    }
    buf_add(&c->out, (struct str){ length, LENGTH });
    buf_add(&c->out, answer);
}

static bool is_dns_connection_full(const struct dns_connection *c)
{
    return c->n_waiting >= EGRESS_DNS_PIPELINED_MAX || c->out.n >= UNREAD_MAX;
}

static void flush_dns_answers(struct dns_connection *c)
{
    while (c->out.n > 0) {
        ssize_t n = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            end_dns_connection(c);
        if (n < 0)
            return;
        buf_drop(&c->out, (size_t)n);
        restart_dns_idle_timer(c);
    }
    buf_done(&c->out);
}

static void resolve_tcp_question(struct dns_connection *c, struct str message);

/* Takes the complete questions from the input buffer, up to the limit of waiting questions. */
static void take_tcp_questions(struct dns_connection *c)
{
    while (!c->dead && !is_dns_connection_full(c) && c->in.n >= LENGTH) {
        size_t length = (size_t)((uint8_t)c->in.p[0] << 8 | (uint8_t)c->in.p[1]);

        if (length == 0 || length > EGRESS_DNS_QUERY_MAX)
            end_dns_connection(c);
        if (c->dead || c->in.n - LENGTH < length)
            return;
        resolve_tcp_question(c, (struct str){ c->in.p + LENGTH, length });
        buf_drop(&c->in, LENGTH + length);
        restart_dns_idle_timer(c);
    }
}

/* Processes questions, sends answers, and waits for the events that remain. */
static void advance_dns_connection(struct dns_connection *c)
{
    unsigned want = 0;

    take_tcp_questions(c);
    if (!c->dead)
        flush_dns_answers(c);
    if (c->dead)
        return;
    if (c->in.n == 0)
        buf_done(&c->in);
    if (c->ended && c->n_waiting == 0 && c->out.n == 0) {
        end_dns_connection(c); /* an incomplete question is dropped */
        return;
    }
    if (!c->ended && !is_dns_connection_full(c))
        want |= LOOP_READ;
    if (c->out.n > 0)
        want |= LOOP_WRITE;
    if (want != c->source.want && loop_fd_want(&c->source, want, NULL) < 0)
        end_dns_connection(c);
}

static void on_tcp_answer(struct names_waiter *waiter, struct str answer)
{
    struct dns_tcp_waiter *w = container_of(waiter, struct dns_tcp_waiter, waiter);
    struct dns_connection *c = w->connection;

    link_leave(&w->link);
    free(w);
    c->n_waiting--;
    if (c->dead)
        return;
    queue_dns_answer(c, answer);
    advance_dns_connection(c);
}

static void resolve_tcp_question(struct dns_connection *c, struct str message)
{
    uint8_t out[NAMES_ANSWER_MAX];
    struct dns_query q;
    int n = names_answer(c->tcp->names, message, &c->from, &q, out);
    struct dns_tcp_waiter *w;

    if (n > 0)
        queue_dns_answer(c, (struct str){ (const char *)out, (size_t)n });
    if (n >= 0)
        return;
    w = new0(sizeof *w);
    w->connection = c;
    list_append(&c->waiting, &w->link);
    c->n_waiting++;
    names_wait(c->tcp->names, &w->waiter, &q, &c->from, on_tcp_answer);
}

static void receive_tcp_questions(struct dns_connection *c)
{
    char bytes[READ_MAX];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->ended = n == 0;
    if (n < 0 || buf_add(&c->in, (struct str){ bytes, (size_t)n }) < 0)
        end_dns_connection(c);
}

static void on_dns_connection(struct loop_fd *s, unsigned events)
{
    struct dns_connection *c = container_of(s, struct dns_connection, source);

    if (events & LOOP_ERROR) {
        end_dns_connection(c);
        return;
    }
    if (events & LOOP_READ && !is_dns_connection_full(c))
        receive_tcp_questions(c);
    if (events & LOOP_HUP)
        c->ended = true;
    if (!c->dead)
        advance_dns_connection(c);
}

/* --- Connections --- */

static void add_dns_connection(struct dns_tcp *t, int fd, const struct sockaddr *from)
{
    struct dns_connection *c;

    if (t->n >= EGRESS_DNS_CONNECTIONS_MAX) {
        close(fd);
        return;
    }
    c = new0(sizeof *c);
    c->tcp = t;
    c->fd = fd;
    address_from_sockaddr(from, &c->from.address, &c->from.port);
    buf_init(&c->in, IN_MAX);
    buf_init(&c->out, OUT_MAX);
    list_append(&t->connections, &c->link);
    t->n++;
    restart_dns_idle_timer(c);
    if (loop_fd_start(t->loop, &c->source, fd, LOOP_READ, on_dns_connection, NULL) < 0)
        end_dns_connection(c);
}

static void on_dns_accept_again(struct loop_timer *timer)
{
    loop_fd_want(&container_of(timer, struct dns_tcp, accept_again)->listener, LOOP_READ, NULL);
}

static void on_dns_acceptable(struct loop_fd *s, unsigned events)
{
    struct dns_tcp *t = container_of(s, struct dns_tcp, listener);

    for (int i = 0; i < ACCEPTS_A_BATCH; i++) {
        struct sockaddr_storage from = { 0 };
        socklen_t n = sizeof from;
        int fd = accept4(s->fd, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            add_dns_connection(t, fd, (struct sockaddr *)&from);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            loop_fd_want(s, 0, NULL); /* connections wait in the backlog */
            loop_timer_start(t->loop, &t->accept_again, clock_mono() + ACCEPT_AGAIN_NS,
                             on_dns_accept_again, NULL);
            return;
        }
    }
}

int dns_tcp_new(struct dns_names *n, struct loop *l, int fd, struct dns_tcp **ret, struct err *e)
{
    struct dns_tcp *t = *ret = new0(sizeof *t);

    t->names = n;
    t->loop = l;
    return loop_fd_start(l, &t->listener, fd, LOOP_READ, on_dns_acceptable, e);
}

void dns_tcp_free(struct dns_tcp *t)
{
    if (!t)
        return;
    loop_fd_stop(&t->listener);
    loop_timer_stop(&t->accept_again);
    for (struct link *m; (m = list_first(&t->connections));)
        free_dns_connection(container_of(m, struct dns_connection, link));
    free(t);
}
