#include "egress/adapters/dns_tcp.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "loop/fd.h"
#include "loop/timer.h"

enum {
    ACCEPTS_A_BATCH = 8,
    LENGTH = 2,
    READ_MAX = 4096,
    UNREAD_MAX = 4096, /* of answers: no more questions are read before they are */
    OUT_MAX = UNREAD_MAX + (EGRESS_DNS_PIPELINED_MAX + 1) * (LENGTH + NAMES_ANSWER_MAX),
    IN_MAX = READ_MAX + LENGTH + EGRESS_DNS_QUERY_MAX,
};

#define ACCEPT_AGAIN_NS (100 * NS_PER_MS)

struct dns_tcp {
    struct names *names;
    struct loop *loop;
    struct loop_fd listener;
    struct loop_timer accept_again;
    struct list connections;
    size_t n;
};

struct connection {
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
    bool ended, dead; /* the client asks no more; nobody listens any more */
};

struct waiting {
    struct names_waiter waiter;
    struct link link;
    struct connection *connection;
};

/* --- The end of a connection --- */

static void free_connection(struct connection *c)
{
    loop_fd_stop(&c->source);
    loop_timer_stop(&c->idle);
    loop_later_stop(&c->free_later);
    for (struct link *m; (m = list_take(&c->waiting));) {
        struct waiting *w = container_of(m, struct waiting, link);

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

static void on_free(struct loop_later *s)
{
    free_connection(container_of(s, struct connection, free_later));
}

static void end(struct connection *c)
{
    c->dead = true;
    loop_fd_stop(&c->source);
    loop_timer_stop(&c->idle);
    loop_later(c->tcp->loop, &c->free_later, on_free, NULL); /* pending already is fine */
}

static void on_idle(struct loop_timer *t);

static void went_on(struct connection *c)
{
    loop_timer_stop(&c->idle);
    loop_timer_start(c->tcp->loop, &c->idle, clock_mono() + EGRESS_DNS_IDLE_NS, on_idle, NULL);
}

static void on_idle(struct loop_timer *t)
{
    struct connection *c = container_of(t, struct connection, idle);

    if (c->n_waiting > 0 && c->out.n == 0)
        went_on(c); /* it is we who are slow */
    else
        end(c);
}

/* --- Bytes --- */

static void add_answer(struct connection *c, struct str answer)
{
    const char length[LENGTH] = { (char)(answer.n >> 8), (char)answer.n };

    if (c->out.n + LENGTH + answer.n > c->out.max) {
        end(c);
        return;
    }
    buf_add(&c->out, (struct str){ length, LENGTH });
    buf_add(&c->out, answer);
}

static bool is_full(const struct connection *c)
{
    return c->n_waiting >= EGRESS_DNS_PIPELINED_MAX || c->out.n >= UNREAD_MAX;
}

static void flush(struct connection *c)
{
    while (c->out.n > 0) {
        ssize_t n = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            end(c);
            return;
        }
        buf_drop(&c->out, (size_t)n);
        went_on(c);
    }
    buf_done(&c->out);
}

static void ask(struct connection *c, struct str message);

/* The questions that are there, as many as may be asked. */
static void take_questions(struct connection *c)
{
    while (!c->dead && !is_full(c) && c->in.n >= LENGTH) {
        size_t length = (size_t)((uint8_t)c->in.p[0] << 8 | (uint8_t)c->in.p[1]);

        if (length == 0 || length > EGRESS_DNS_QUERY_MAX) {
            end(c);
            return;
        }
        if (c->in.n - LENGTH < length)
            return;
        ask(c, (struct str){ c->in.p + LENGTH, length });
        buf_drop(&c->in, LENGTH + length);
        went_on(c);
    }
}

/* Asks what can be asked, says what can be said, and waits for the rest. */
static void go_on(struct connection *c)
{
    unsigned want = 0;

    take_questions(c);
    if (!c->dead)
        flush(c);
    if (c->dead)
        return;
    if (c->in.n == 0)
        buf_done(&c->in);
    if (c->ended && c->n_waiting == 0 && c->out.n == 0) {
        end(c); /* half a question is none */
        return;
    }
    if (!c->ended && !is_full(c))
        want |= LOOP_READ;
    if (c->out.n > 0)
        want |= LOOP_WRITE;
    if (want != c->source.want && loop_fd_want(&c->source, want, NULL) < 0)
        end(c);
}

static void on_answer(struct names_waiter *waiter, struct str answer)
{
    struct waiting *w = container_of(waiter, struct waiting, waiter);
    struct connection *c = w->connection;

    link_leave(&w->link);
    free(w);
    c->n_waiting--;
    if (c->dead)
        return;
    add_answer(c, answer);
    go_on(c);
}

static void ask(struct connection *c, struct str message)
{
    uint8_t out[NAMES_ANSWER_MAX];
    struct dns_query q;
    int n = names_ask(c->tcp->names, message, &c->from, &q, out);
    struct waiting *w;

    if (n >= 0) {
        if (n > 0)
            add_answer(c, (struct str){ (const char *)out, (size_t)n });
        return;
    }
    w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->connection = c;
    list_append(&c->waiting, &w->link);
    c->n_waiting++;
    names_wait(c->tcp->names, &w->waiter, &q, &c->from, on_answer);
}

static void fill(struct connection *c)
{
    char bytes[READ_MAX];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->ended = n == 0;
    if (n < 0 || buf_add(&c->in, (struct str){ bytes, (size_t)n }) < 0)
        end(c);
}

static void on_event(struct loop_fd *s, unsigned events)
{
    struct connection *c = container_of(s, struct connection, source);

    if (events & LOOP_ERROR) {
        end(c);
        return;
    }
    if (events & LOOP_READ && !is_full(c))
        fill(c);
    if (events & LOOP_HUP)
        c->ended = true;
    if (!c->dead)
        go_on(c);
}

/* --- Connections --- */

static void admit(struct dns_tcp *t, int fd, const struct sockaddr *from)
{
    struct connection *c;

    if (t->n >= EGRESS_DNS_CONNECTIONS_MAX) {
        close(fd);
        return;
    }
    c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->tcp = t;
    c->fd = fd;
    address_from_sockaddr(from, &c->from.address, &c->from.port);
    buf_init(&c->in, IN_MAX);
    buf_init(&c->out, OUT_MAX);
    list_append(&t->connections, &c->link);
    t->n++;
    went_on(c);
    if (loop_fd_start(t->loop, &c->source, fd, LOOP_READ, on_event, NULL) < 0)
        end(c);
}

static void on_accept_again(struct loop_timer *timer)
{
    struct dns_tcp *t = container_of(timer, struct dns_tcp, accept_again);

    loop_fd_want(&t->listener, LOOP_READ, NULL);
}

/* Nothing to accept with: the connections wait in the backlog. */
static void pause_accepting(struct dns_tcp *t)
{
    loop_fd_want(&t->listener, 0, NULL);
    loop_timer_start(t->loop, &t->accept_again, clock_mono() + ACCEPT_AGAIN_NS, on_accept_again,
                     NULL);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_acceptable(struct loop_fd *s, unsigned events)
{
    struct dns_tcp *t = container_of(s, struct dns_tcp, listener);

    (void)events;
    for (int i = 0; i < ACCEPTS_A_BATCH; i++) {
        struct sockaddr_storage from = { 0 };
        socklen_t n = sizeof from;
        int fd = accept4(s->fd, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            admit(t, fd, (struct sockaddr *)&from);
            continue;
        }
        if (is_shortage(errno))
            pause_accepting(t);
        if (is_shortage(errno) || errno == EAGAIN)
            return;
    }
}

int dns_tcp_new(struct names *n, struct loop *l, int fd, struct dns_tcp **ret, struct err *e)
{
    struct dns_tcp *t = calloc(1, sizeof *t);
    int r;

    if (!t)
        abort();
    t->names = n;
    t->loop = l;
    r = loop_fd_start(l, &t->listener, fd, LOOP_READ, on_acceptable, e);
    if (r < 0) {
        free(t);
        return r;
    }
    *ret = t;
    return 0;
}

void dns_tcp_free(struct dns_tcp *t)
{
    if (!t)
        return;
    loop_fd_stop(&t->listener);
    loop_timer_stop(&t->accept_again);
    for (struct link *m; (m = list_first(&t->connections));)
        free_connection(container_of(m, struct connection, link));
    free(t);
}
