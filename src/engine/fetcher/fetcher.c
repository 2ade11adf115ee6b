/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fetcher/fetcher.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "lib/ipc/channel.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define PAUSE_MIN_NS    (50 * NS_PER_MS)
#define PAUSE_MAX_NS    (10 * NS_PER_S)
#define HEALTH_CHECK_NS (5 * NS_PER_S)

enum {
    SILENT_MAX = 3, /* looks without an answer: then it hangs */
    IDLE_MAX = 12,  /* looks without a request: then it ends */
    MESSAGES = 64,  /* before it is others' turn */
    CREDIT_STEP = FETCHER_WINDOW / 4,
    DETAILS_MAX = FETCH_URL_MAX + FETCHER_HEADERS_MAX + FETCHER_BODY_MAX +
                  FETCH_ADDRESSES_MAX * (int)sizeof(struct fetcher_address),
};

enum call_state {
    CALL_WAITING,   /* for a process, or for a place in it */
    CALL_SENT,      /* no answer yet */
    CALL_ANSWERED,  /* pieces may come */
    CALL_CANCELLED, /* cancelled: the process has not ended it yet */
};

/* A request on its way. */
struct fetcher_call_ {
    struct fetcher *fetcher;
    struct fetcher_share *share;   /* NULL if CALL_LEFT, as the next */
    struct fetch_request *request; /* whose exchange_ this is */
    enum call_state state;
    uint64_t id;
    struct link link, in_share;
    struct loop_timer deadline;
    struct list packets; /* to be sent: REQUEST and MORE */
    bool held;
    uint64_t window;    /* bytes that may still come */
    uint64_t used;      /* bytes that no credit was given for */
    struct buf message; /* ANSWER */
    struct fetch_header *headers;
    struct fetch_answer answer;
    struct buf body;
};

struct fetch_packet {
    struct link link;
    int fd; /* -1: none */
    size_t n;
    char bytes[];
};

static void on_restart_timer(struct loop_timer *t);
static void on_call_deadline(struct loop_timer *t);
static void on_health_timer(struct loop_timer *t);
static void send_waiting(struct fetcher *f);

/* ---- packets ---- */

/* Requests hold secrets. */
static void free_packet(struct fetch_packet *p)
{
    drop_fd(&p->fd);
    explicit_bzero(p->bytes, p->n);
    free(p);
}

static void drop_packets(struct list *l)
{
    for (struct link *m; (m = list_take(l));)
        free_packet(container_of(m, struct fetch_packet, link));
}

static struct fetch_packet *new_packet(size_t n)
{
    struct fetch_packet *p = new0(sizeof *p + n);

    p->fd = -1;
    p->n = n;
    return p;
}

static int send_packets(struct fetcher *f, struct err *e)
{
    for (struct link *l; (l = list_first(&f->out));) {
        struct fetch_packet *p = container_of(l, struct fetch_packet, link);
        int r = ipc_send(f->sock, p->bytes, p->n, &p->fd, p->fd < 0 ? 0 : 1, e);

        if (r == -(int)ERR_BUSY)
            return loop_fd_want(&f->fd, LOOP_READ | LOOP_WRITE, e);
        if (r < 0)
            return r;
        link_leave(l);
        free_packet(p);
    }
    return loop_fd_want(&f->fd, LOOP_READ, e);
}

/* The loop reports its end, never a call from inside. */
static void push_packets(struct fetcher *f)
{
    if (send_packets(f, NULL) < 0)
        shutdown(f->sock, SHUT_RDWR);
}

static void send_to_process(struct fetcher *f, const void *message, size_t n)
{
    struct fetch_packet *p = new_packet(n);

    memcpy(p->bytes, message, n);
    list_append(&f->out, &p->link);
    push_packets(f);
}

static void send_plain(struct fetcher *f, enum fetcher_type type, uint64_t id)
{
    struct fetcher_head m;

    fetcher_fill(&m, type, id, sizeof m);
    send_to_process(f, &m, sizeof m);
}

/* ---- calls ---- */

static void wipe_fetched(struct buf *b)
{
    if (b->p)
        explicit_bzero(b->p, b->n);
    buf_done(b);
}

/* The request is its owner's again. */
static void release_request(struct fetcher_call_ *c)
{
    if (c->request)
        c->request->exchange_ = NULL;
    if (c->share)
        c->share->running--;
    link_leave(&c->in_share);
    loop_timer_stop(&c->deadline);
    c->request = NULL;
    c->share = NULL;
}

static void free_call(struct fetcher_call_ *c)
{
    release_request(c);
    if (c->state != CALL_WAITING)
        c->fetcher->sent--;
    link_leave(&c->link);
    drop_packets(&c->packets);
    wipe_fetched(&c->message); /* an answer may hold a token */
    wipe_fetched(&c->body);
    free(c->headers);
    free(c);
}

/* The callback may start and cancel requests, this one too, so the call is detached before. A
 * cancelled call has no request. */
static void finish_call(struct fetcher_call_ *c, const struct err *why)
{
    struct fetch_request *r = c->request;
    struct fetch_answer a = c->answer;

    if (!r) {
        free_call(c);
        return;
    }
    if (why->code != ERR_OK)
        a = (struct fetch_answer){ .err = *why };
    else
        a.body = buf_str(&c->body);
    release_request(c);
    link_leave(&c->link); /* lookups no longer find it */
    r->done(r, &a);
    free_call(c);
}

static void cancel_sent_call(struct fetcher_call_ *c)
{
    release_request(c);
    c->state = CALL_CANCELLED;
    loop_timer_start(c->fetcher->loop, &c->deadline, clock_mono() + c->fetcher->look_ns,
                     on_call_deadline, NULL);
    send_plain(c->fetcher, FETCHER_CANCEL, c->id);
}

/* ---- the process ---- */

/* Landlock lets the process read the files that had these names when it started. */
static uint64_t stamp_settings(const struct fetcher *f)
{
    static const char *const usual[] = { "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
                                         NULL };
    uint64_t stamp = 0;

    for (const char *const *path = f->settings ? f->settings : usual; *path; path++) {
        struct stat st = { 0 };

        (void)stat(*path, &st);
        stamp = stamp * 1000003 + (uint64_t)st.st_ino;
        stamp = stamp * 1000003 + (uint64_t)st.st_mtim.tv_sec;
        stamp = stamp * 1000003 + (uint64_t)st.st_mtim.tv_nsec;
    }
    return stamp;
}

static bool has_process(const struct fetcher *f)
{
    return f->sock >= 0;
}

static void close_process(struct fetcher *f)
{
    loop_fd_stop(&f->fd);
    loop_timer_stop(&f->look);
    drop_fd(&f->sock);
    drop_packets(&f->out);
}

/* Callbacks may start requests, which wait, and cancel requests that were not called back yet. */
static void end_calls(struct fetcher *f, bool waiting_too, const struct err *why)
{
    struct list ended = { 0 };

    LIST_EACH_SAFE (struct fetcher_call_, c, &f->calls, link) {
        if (c->state == CALL_WAITING && !waiting_too)
            continue;
        link_leave(&c->link);
        list_append(&ended, &c->link);
    }
    for (struct link *m; (m = list_first(&ended));)
        finish_call(container_of(m, struct fetcher_call_, link), why);
}

static void start_later(struct fetcher *f)
{
    if (!loop_timer_started(&f->again))
        loop_timer_start(f->loop, &f->again, f->not_before_ns, on_restart_timer, NULL);
}

/* `never_ran`: those that wait would wait for the same reason again. */
static void on_process_died(struct fetcher *f, const char *reason, bool never_ran)
{
    bool lived = clock_mono() - f->up_ns > PAUSE_MAX_NS;
    struct err why = { 0 };

    f->deaths++;
    LOG(ERROR, "fetch.process.died", LOG_S("reason", reason));
    if (has_process(f) && f->end)
        f->end(f->user, f->process);
    close_process(f);
    f->pause_ns = lived || !f->pause_ns ? PAUSE_MIN_NS : f->pause_ns * 2;
    if (f->pause_ns > PAUSE_MAX_NS)
        f->pause_ns = PAUSE_MAX_NS;
    f->not_before_ns = clock_mono() + f->pause_ns;
    (void)err_set(&why, ERR_UPSTREAM,
                  "sandboxer-fetch, which makes requests for the daemon, ended: %s", reason);
    end_calls(f, never_ran, &why);
    if (list_first(&f->calls))
        start_later(f);
}

/* ---- messages from the process, which hostile bytes may have taken over ---- */

static struct fetcher_call_ *find_call(struct fetcher *f, uint64_t id)
{
    LIST_EACH (struct fetcher_call_, c, &f->calls, link)
        if (c->id == id && c->state != CALL_WAITING)
            return c;
    return NULL;
}

static int take_fetched_answer(struct fetcher_call_ *c, const struct fetcher_answer *m,
                               struct err *e)
{
    if (c->state == CALL_CANCELLED)
        return 0;
    if (c->state != CALL_SENT)
        return err_set(e, ERR_INVALID, "a request was answered twice");
    c->state = CALL_ANSWERED;
    c->headers = calloc(m->header_count ? m->header_count : 1, sizeof *c->headers);
    if (!c->headers || buf_add(&c->message, (struct str){ (const char *)m, m->head.size }) < 0)
        abort();
    fetcher_read_answer((const struct fetcher_answer *)(const void *)c->message.p, c->headers,
                        &c->answer);
    return 0;
}

static void give_credit(struct fetcher_call_ *c)
{
    struct fetcher_credit m = { .bytes = c->used };

    if (c->held || c->used < CREDIT_STEP)
        return;
    c->window += c->used;
    c->used = 0;
    fetcher_fill(&m.head, FETCHER_CREDIT, c->id, sizeof m);
    send_to_process(c->fetcher, &m, sizeof m);
}

/* An error of the consumer ends the request, not the process. */
static int take_fetched_piece(struct fetcher_call_ *c, const struct fetcher_bytes *m, struct err *e)
{
    struct str piece = { m->bytes, m->head.size - sizeof m->head };
    struct fetch_request *q = c->request;
    struct err why = { 0 };
    int r = FETCH_TAKEN;

    if (c->state == CALL_CANCELLED)
        return 0;
    if (c->state != CALL_ANSWERED || piece.n > c->window)
        return err_set(e, ERR_INVALID, "an unexpected piece of a body");
    c->window -= piece.n;
    c->used += piece.n;
    if (q->piece && (c->answer.status == 200 || c->answer.status == 206))
        r = q->piece(q, &c->answer, piece, &why);
    else if (buf_add(&c->body, piece) < 0)
        return err_set(e, ERR_INVALID, "a body exceeds its limit");
    if (r < 0) {
        cancel_sent_call(c);
        q->done(q, &(struct fetch_answer){ .err = why });
        return 0;
    }
    c->held |= r == FETCH_HOLD;
    give_credit(c);
    return 0;
}

static int take_fetch_end(struct fetcher_call_ *c, const struct fetcher_end *m, struct err *e)
{
    struct err why = { .code = m->code };
    struct fetcher *f = c->fetcher;

    memcpy(why.msg, m->msg, sizeof why.msg);
    if (c->state == CALL_SENT && m->code == ERR_OK)
        return err_set(e, ERR_INVALID, "a request ended without an answer");
    if (m->redirect_n)
        c->answer.redirect = (struct str){ m->redirect, m->redirect_n };
    finish_call(c, &why);
    send_waiting(f);
    return 0;
}

static int take_from_process(struct fetcher *f, const union fetcher_message *m, struct err *e)
{
    struct fetcher_call_ *c;

    if (m->head.type == FETCHER_FAILED)
        return err_set(e, ERR_UPSTREAM, "%s", m->end.msg);
    if (m->head.type == FETCHER_PONG) {
        if (!f->ping || m->head.id != f->ping)
            return err_set(e, ERR_INVALID, "a pong without a ping");
        f->ping = f->silent = 0;
        return 0;
    }
    c = find_call(f, m->head.id);
    if (!c)
        return err_set(e, ERR_INVALID, "a message for an unknown request");
    if (m->head.type == FETCHER_ANSWER)
        return take_fetched_answer(c, &m->answer, e);
    if (m->head.type == FETCHER_PIECE)
        return take_fetched_piece(c, &m->bytes, e);
    return take_fetch_end(c, &m->end, e);
}

/* 1: there may be more; 0: not now. */
static int receive_from_process(struct fetcher *f, bool *failed, struct err *e)
{
    static union fetcher_message m;
    ssize_t n = ipc_recv(f->sock, &m, sizeof m, NULL, e);
    int r;

    if (n == -(ssize_t)ERR_BUSY)
        return 0;
    if (n <= 0)
        return n < 0 ? (int)n : err_set(e, ERR_UPSTREAM, "it closed its socket");
    r = fetcher_check(&m, (size_t)n, FETCHER_FROM_PROCESS, e);
    *failed = r >= 0 && m.head.type == FETCHER_FAILED;
    if (r >= 0)
        r = take_from_process(f, &m, e);
    return r < 0 ? r : 1;
}

/* A callback may have closed everything. */
static void on_fetcher_socket(struct loop_fd *s, unsigned events)
{
    struct fetcher *f = container_of(s, struct fetcher, fd);
    bool failed = false;
    struct err e;
    int r = events & LOOP_WRITE ? send_packets(f, &e) : 0;

    for (int i = 0; r >= 0 && i < MESSAGES; i++) {
        if (!has_process(f))
            return;
        r = receive_from_process(f, &failed, &e);
        if (r == 0)
            return;
    }
    if (r < 0)
        on_process_died(f, e.msg, failed);
}

/* ---- whether it hangs, and whether it is needed ---- */

static void schedule_health_check(struct fetcher *f)
{
    loop_timer_start(f->loop, &f->look, clock_mono() + f->look_ns, on_health_timer, NULL);
}

static void on_health_timer(struct loop_timer *t)
{
    struct fetcher *f = container_of(t, struct fetcher, look);

    if (f->silent == SILENT_MAX) {
        on_process_died(f, "it does not answer", false);
        return;
    }
    f->idle = f->sent ? 0 : f->idle + 1;
    if (f->idle == IDLE_MAX) {
        close_process(f);
        return;
    }
    if (!f->silent++) {
        f->ping = ++f->last_id;
        send_plain(f, FETCHER_PING, f->ping);
    }
    schedule_health_check(f);
}

/* ---- starting ---- */

static void send_waiting(struct fetcher *f)
{
    LIST_EACH (struct fetcher_call_, c, &f->calls, link) {
        if (!has_process(f) || f->sent >= FETCHER_REQUESTS_MAX)
            return;
        if (c->state != CALL_WAITING)
            continue;
        c->state = CALL_SENT;
        f->sent++;
        f->idle = 0;
        list_move(&c->packets, &f->out);
        push_packets(f);
    }
}

static void on_restart_timer(struct loop_timer *t)
{
    struct fetcher *f = container_of(t, struct fetcher, again);
    struct err e;
    int r;

    f->up_ns = clock_mono();
    f->silent = f->idle = 0;
    f->ping = 0;
    f->stamp = stamp_settings(f);
    r = f->start ? f->start(f->user, &f->sock, &f->process, &e)
                 : err_set(&e, ERR_UNSUPPORTED, "this daemon cannot start sandboxer-fetch");
    if (r >= 0 && fcntl(f->sock, F_SETFL, O_NONBLOCK) < 0)
        r = err_sys(&e, "preparing the socket of sandboxer-fetch");
    if (r >= 0)
        r = loop_fd_start(f->loop, &f->fd, f->sock, LOOP_READ, on_fetcher_socket, &e);
    if (r < 0) {
        on_process_died(f, e.msg, true);
        return;
    }
    f->starts++;
    schedule_health_check(f);
    send_waiting(f);
}

/* A process ends requests in time; one that does not is not trusted with the others. */
static void on_call_deadline(struct loop_timer *t)
{
    struct fetcher_call_ *c = container_of(t, struct fetcher_call_, deadline);
    struct fetcher *f = c->fetcher;
    bool waited = c->state == CALL_WAITING;
    struct err why = { 0 };

    (void)err_set(&why, ERR_TIMEOUT, "sandboxer-fetch did not %s the request in time",
                  waited ? "get" : "end");
    finish_call(c, &why);
    if (!waited && has_process(f))
        on_process_died(f, why.msg, false);
}

/* ---- requests ---- */

static struct fetch_packet *add_packet(struct fetcher_call_ *c, enum fetcher_type type,
                                       struct str bytes)
{
    struct fetch_packet *p = new_packet(sizeof(struct fetcher_head) + bytes.n);
    struct fetcher_head h;

    fetcher_fill(&h, type, c->id, p->n);
    memcpy(p->bytes, &h, sizeof h);
    memcpy(p->bytes + sizeof h, bytes.p, bytes.n);
    list_append(&c->packets, &p->link);
    return p;
}

static int pack_request(struct fetcher_call_ *c, const struct fetch_request *r, struct err *e)
{
    AUTO_CLOSE int certificates =
        r->ca_file ? open(r->ca_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    AUTO(wipe_fetched) struct buf details = BUF_INIT(DETAILS_MAX);
    struct fetch_packet *first;
    struct fetcher_request m;
    int bad = r->ca_file && certificates < 0
                  ? err_sys(e, "opening the certificates in %s", r->ca_file)
                  : fetcher_write_details(r, &m, &details, e);

    if (bad < 0)
        return bad;
    m.flags |= certificates >= 0 ? FETCHER_HAS_CERTIFICATES : 0;
    first = add_packet(c, FETCHER_REQUEST,
                       (struct str){ (const char *)&m + sizeof m.head, sizeof m - sizeof m.head });
    first->fd = take_fd(&certificates);
    for (size_t at = 0; at < details.n; at += FETCHER_PIECE_MAX) {
        size_t left = details.n - at;

        (void)add_packet(
            c, FETCHER_MORE,
            (struct str){ details.p + at, left < FETCHER_PIECE_MAX ? left : FETCHER_PIECE_MAX });
    }
    return 0;
}

static struct fetcher_call_ *new_call(struct fetcher_share *s, const struct fetch_request *r)
{
    struct fetcher_call_ *c = new0(sizeof *c);

    c->fetcher = s->fetcher;
    c->id = ++s->fetcher->last_id;
    c->window = FETCHER_WINDOW;
    buf_init(&c->message, FETCHER_ANSWER_MAX);
    buf_init(&c->body, r->max_body);
    return c;
}

int fetcher_start(struct fetcher_share *s, struct fetch_request *r, struct err *e)
{
    struct fetcher *f = s->fetcher;
    struct fetcher_call_ *c;
    int bad;

    if (r->exchange_)
        return err_set(e, ERR_CONFLICT, "the request is running");
    if (s->running >= s->max)
        return err_set(e, ERR_BUSY, "%u requests are running already", s->running);
    bad = fetch_request_check(r, e);
    if (bad < 0)
        return bad;
    c = new_call(s, r);
    bad = pack_request(c, r, e);
    if (bad < 0) {
        free_call(c);
        return bad;
    }
    c->request = r;
    r->exchange_ = c;
    c->share = s;
    s->running++;
    list_append(&s->calls, &c->in_share);
    list_append(&f->calls, &c->link);
    loop_timer_start(f->loop, &c->deadline, clock_mono() + r->timeout + f->look_ns,
                     on_call_deadline, NULL);
    if (has_process(f) && !f->sent && f->stamp != stamp_settings(f))
        close_process(f);
    if (has_process(f))
        send_waiting(f);
    else
        start_later(f);
    return 0;
}

void fetcher_cancel(struct fetch_request *r)
{
    struct fetcher_call_ *c = r->exchange_;

    if (!c)
        return;
    if (c->state == CALL_WAITING || !has_process(c->fetcher))
        free_call(c);
    else
        cancel_sent_call(c);
}

void fetcher_resume(struct fetch_request *r)
{
    struct fetcher_call_ *c = r->exchange_;

    if (!c || !c->held)
        return;
    c->held = false;
    if (has_process(c->fetcher))
        give_credit(c);
}

void fetcher_share_init(struct fetcher_share *s, struct fetcher *f, unsigned max)
{
    *s = (struct fetcher_share){ .fetcher = f, .max = max };
}

void fetcher_share_done(struct fetcher_share *s)
{
    for (struct link *m; (m = list_first(&s->calls));)
        fetcher_cancel(container_of(m, struct fetcher_call_, in_share)->request);
}

void fetcher_init(struct fetcher *f)
{
    f->sock = -1;
    if (!f->look_ns)
        f->look_ns = HEALTH_CHECK_NS;
}

void fetcher_done(struct fetcher *f)
{
    if (!f->loop)
        return;
    loop_timer_stop(&f->again);
    close_process(f);
    for (struct link *m; (m = list_first(&f->calls));)
        free_call(container_of(m, struct fetcher_call_, link));
}
