/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fetcher/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/own.h"
#include "lib/fetch/fetch.h"
#include "engine/fetcher/confine.h"
#include "engine/fetcher/wire.h"
#include "lib/ipc/channel.h"
#include "lib/loop/fd.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { MESSAGES = 32 /* before it is others' turn */ };

struct fetch_server {
    struct loop loop;
    struct fetch fetch;
    int sock;
    struct loop_fd fd;
    struct list errands;    /* struct errand */
    size_t n;               /* of them */
    struct errand *arrives; /* whose details are not complete */
    struct list out;        /* struct reply that the control plane has not taken yet */
    bool stopped;
};

/* A request that we make for the control plane. */
struct errand {
    struct fetch_server *server;
    struct link link;
    uint64_t id;
    struct fetcher_request asked;
    struct buf details; /* holds secrets, as the next */
    char url[FETCH_URL_MAX + 1];
    int certificates; /* a file in memory; -1: those of the system */
    char ca_file[32];
    struct fetch_header headers[FETCH_HEADERS_MAX];
    struct address addresses[FETCH_ADDRESSES_MAX];
    struct fetch_request request;
    uint64_t window; /* bytes that may be sent */
    uint64_t kept;   /* bytes of a body that the control plane collects */
    bool answered, held;
    struct err refused; /* before it began */
};

struct reply {
    struct link link;
    size_t n;
    char bytes[];
};

/* ---- sending ---- */

static void stop_serving(struct fetch_server *s)
{
    s->stopped = true;
    loop_stop(&s->loop);
}

/* The queue is bounded by the window of each request, plus an ANSWER and an END for each. */
static void send_reply(struct fetch_server *s, const void *message, size_t n)
{
    int r = list_first(&s->out) ? -(int)ERR_BUSY : ipc_send(s->sock, message, n, NULL, 0, NULL);

    if (r == -(int)ERR_BUSY) {
        struct reply *p = new0(sizeof *p + n);

        p->n = n;
        memcpy(p->bytes, message, n);
        list_append(&s->out, &p->link);
        loop_fd_want(&s->fd, LOOP_READ | LOOP_WRITE, NULL);
    } else if (r < 0) {
        stop_serving(s);
    }
}

static void send_queued_replies(struct fetch_server *s)
{
    for (struct link *l; (l = list_first(&s->out));) {
        struct reply *p = container_of(l, struct reply, link);
        int r = ipc_send(s->sock, p->bytes, p->n, NULL, 0, NULL);

        if (r == -(int)ERR_BUSY)
            return;
        if (r < 0) {
            stop_serving(s);
            return;
        }
        link_leave(l);
        explicit_bzero(p->bytes, p->n);
        free(p);
    }
    loop_fd_want(&s->fd, LOOP_READ, NULL);
}

static void send_failed(int sock, const struct err *e)
{
    struct fetcher_end m;

    (void)ipc_send(sock, &m, fetcher_write_end(&m, FETCHER_FAILED, 0, e, STR("")), NULL, 0, NULL);
}

/* ---- errands ---- */

static void free_errand(struct errand *x)
{
    fetch_cancel(&x->request);
    link_leave(&x->link);
    x->server->n--;
    if (x->details.p)
        explicit_bzero(x->details.p, x->details.n);
    buf_done(&x->details);
    drop_fd(&x->certificates);
    explicit_bzero(x, sizeof *x);
    free(x);
}

static void end_errand(struct errand *x, const struct err *e, struct str redirect)
{
    struct fetcher_end m;

    send_reply(x->server, &m, fetcher_write_end(&m, FETCHER_END, x->id, e, redirect));
    free_errand(x);
}

static void send_errand_answer(struct errand *x, const struct fetch_answer *a)
{
    AUTO(buf_done) struct buf m = BUF_INIT(FETCHER_ANSWER_MAX);

    if (x->answered)
        return;
    x->answered = true;
    if (fetcher_write_answer(a, x->id, &m) < 0)
        abort(); /* the engine bounds heads */
    send_reply(x->server, m.p, m.n);
}

static void send_bytes(struct errand *x, struct str bytes)
{
    struct fetcher_bytes m;

    for (; bytes.n;
         bytes.p += m.head.size - sizeof m.head, bytes.n -= m.head.size - sizeof m.head) {
        size_t n = bytes.n < FETCHER_PIECE_MAX ? bytes.n : FETCHER_PIECE_MAX;

        fetcher_fill(&m.head, FETCHER_PIECE, x->id, sizeof m.head + n);
        memcpy(m.bytes, bytes.p, n);
        send_reply(x->server, &m, sizeof m.head + n);
    }
}

static bool errand_wants_pieces(const struct errand *x, int status)
{
    return (x->asked.flags & FETCHER_WANTS_PIECES) && (status == 200 || status == 206);
}

static int on_fetch_piece(struct fetch_request *q, const struct fetch_answer *head,
                          struct str piece, struct err *e)
{
    struct errand *x = container_of(q, struct errand, request);

    if (!errand_wants_pieces(x, head->status) && piece.n > q->max_body - x->kept)
        return err_set(e, ERR_TOO_BIG, "the answer is longer than %zu bytes", q->max_body);
    send_errand_answer(x, head);
    if (piece.n > x->window) {
        x->held = true;
        return FETCH_HOLD;
    }
    if (!errand_wants_pieces(x, head->status))
        x->kept += piece.n;
    x->window -= piece.n;
    send_bytes(x, piece);
    return FETCH_TAKEN;
}

static void on_fetch_done(struct fetch_request *q, const struct fetch_answer *a)
{
    struct errand *x = container_of(q, struct errand, request);

    if (a->err.code == ERR_OK)
        send_errand_answer(x, a);
    end_errand(x, &a->err, a->redirect);
}

/* In memory, since libcurl wants a file and we may open none of the operator's. */
static int keep_certificates(struct errand *x, int from, struct err *e)
{
    AUTO_CLOSE int copy = memfd_create("certificates", MFD_CLOEXEC);
    size_t total = 0;
    char part[16384];
    ssize_t n;

    if (copy < 0)
        return err_sys(e, "creating memory for certificates");
    while ((n = pread(from, part, sizeof part, (off_t)total)) > 0) {
        total += (size_t)n;
        if (total > FETCHER_AUTHORITY_MAX)
            return err_set(e, ERR_TOO_BIG, "the certificates to trust have more than %d bytes",
                           FETCHER_AUTHORITY_MAX);
        if (write(copy, part, (size_t)n) != n)
            return err_sys(e, "copying certificates");
    }
    if (n < 0)
        return err_sys(e, "reading certificates");
    x->certificates = take_fd(&copy);
    snprintf(x->ca_file, sizeof x->ca_file, "/proc/self/fd/%d", x->certificates);
    return 0;
}

static int begin_errand(struct errand *x, struct err *e)
{
    struct str url;
    int r = fetcher_read_details(&x->asked, buf_str(&x->details), x->headers, x->addresses, &url,
                                 &x->request, e);

    if (r < 0)
        return r;
    memcpy(x->url, url.p, url.n);
    x->request.url = x->url;
    x->request.piece = on_fetch_piece;
    x->request.every_piece = true;
    x->request.done = on_fetch_done;
    if (x->certificates >= 0)
        x->request.ca_file = x->ca_file;
    return fetch_start(&x->server->fetch, &x->request, e);
}

/* ---- messages ---- */

static struct errand *find_errand(struct fetch_server *s, uint64_t id)
{
    LIST_EACH (struct errand, x, &s->errands, link)
        if (x->id == id)
            return x;
    return NULL;
}

static int take_errand(struct fetch_server *s, const struct fetcher_request *m,
                       const struct ipc_fds *fds, struct err *e)
{
    struct errand *x;
    char *room;

    if (s->arrives || s->n == FETCHER_REQUESTS_MAX || find_errand(s, m->head.id) ||
        fds->n != (m->flags & FETCHER_HAS_CERTIFICATES ? 1 : 0))
        return err_set(e, ERR_INVALID, "an unexpected request");
    x = new0(sizeof *x);
    x->server = s;
    x->id = m->head.id;
    x->asked = *m;
    x->window = FETCHER_WINDOW;
    x->certificates = -1;
    buf_init(&x->details, fetcher_details_size(m));
    if (buf_room(&x->details, fetcher_details_size(m), &room) < 0) /* at once: no copy is left */
        abort();
    list_append(&s->errands, &x->link);
    s->n++;
    s->arrives = x;
    if (fds->n && keep_certificates(x, fds->fd[0], &x->refused) < 0)
        x->certificates = -1;
    return 0;
}

/* A request that is wrong ends; only a broken protocol ends the process. */
static int take_details(struct fetch_server *s, const struct fetcher_bytes *m, struct err *e)
{
    struct errand *x = s->arrives;

    if (!x || x->id != m->head.id ||
        buf_add(&x->details, (struct str){ m->bytes, m->head.size - sizeof m->head }) < 0)
        return err_set(e, ERR_INVALID, "details for an unknown request");
    if (x->details.n < fetcher_details_size(&x->asked))
        return 0;
    s->arrives = NULL;
    if (x->refused.code != ERR_OK || begin_errand(x, &x->refused) < 0)
        end_errand(x, &x->refused, STR(""));
    return 0;
}

/* The request may have ended meanwhile: END is on its way. */
static int take_credit(struct fetch_server *s, const struct fetcher_credit *m, struct err *e)
{
    struct errand *x = find_errand(s, m->head.id);

    if (!x)
        return 0;
    if (x == s->arrives || m->bytes > FETCHER_WINDOW - x->window)
        return err_set(e, ERR_INVALID, "a credit beyond the window");
    x->window += m->bytes;
    if (!x->held)
        return 0;
    x->held = false;
    fetch_resume(&x->request); /* it may be over by now */
    return 0;
}

static int take_cancel(struct fetch_server *s, const struct fetcher_head *m, struct err *e)
{
    struct errand *x = find_errand(s, m->id);

    if (x && x == s->arrives)
        return err_set(e, ERR_INVALID, "a request was cancelled before it was complete");
    if (x)
        end_errand(x, &(struct err){ .code = ERR_UPSTREAM, .msg = "cancelled" }, STR(""));
    return 0;
}

static int take_from_plane(struct fetch_server *s, const union fetcher_message *m,
                           const struct ipc_fds *fds, struct err *e)
{
    struct fetcher_head pong;

    if (fds->n && m->head.type != FETCHER_REQUEST)
        return err_set(e, ERR_INVALID, "a descriptor without a request");
    switch ((enum fetcher_type)m->head.type) {
    case FETCHER_REQUEST:
        return take_errand(s, &m->request, fds, e);
    case FETCHER_MORE:
        return take_details(s, &m->bytes, e);
    case FETCHER_CREDIT:
        return take_credit(s, &m->credit, e);
    case FETCHER_CANCEL:
        return take_cancel(s, &m->head, e);
    default: /* PING: others were refused */
        fetcher_fill(&pong, FETCHER_PONG, m->head.id, sizeof pong);
        send_reply(s, &pong, sizeof pong);
        return 0;
    }
}

/* 1: there may be more; 0: not now. */
static int receive_from_plane(struct fetch_server *s, struct err *e)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    static union fetcher_message m;
    ssize_t n = ipc_recv(s->sock, &m, sizeof m, &fds, e);
    int r;

    if (n == -(ssize_t)ERR_BUSY)
        return 0;
    if (n <= 0) {
        stop_serving(s);
        return 0;
    }
    r = fetcher_check(&m, (size_t)n, FETCHER_TO_PROCESS, e);
    if (r >= 0)
        r = take_from_plane(s, &m, &fds, e);
    explicit_bzero(&m, (size_t)n);
    return r < 0 ? r : 1;
}

static void on_plane_socket(struct loop_fd *f, unsigned events)
{
    struct fetch_server *s = container_of(f, struct fetch_server, fd);
    struct err e;
    int r = 1;

    if (events & LOOP_WRITE)
        send_queued_replies(s);
    for (int i = 0; r > 0 && !s->stopped && i < MESSAGES; i++)
        r = receive_from_plane(s, &e);
    if (r < 0) {
        send_failed(s->sock, &e);
        stop_serving(s);
    }
}

int fetcher_serve(int sock)
{
    const struct fetch_limits limits = { .requests = FETCHER_REQUESTS_MAX,
                                         .connections = FETCHER_REQUESTS_MAX,
                                         .per_host = FETCHER_REQUESTS_MAX };
    static struct fetch_server s;
    struct err e;
    int r;

    signal(SIGPIPE, SIG_IGN);
    s.sock = sock;
    r = loop_init(&s.loop, &e);
    if (r >= 0 && fcntl(sock, F_SETFL, O_NONBLOCK) < 0)
        r = err_sys(&e, "preparing the socket");
    if (r >= 0)
        r = fetch_init(&s.fetch, &s.loop, limits, &e);
    if (r >= 0)
        r = fetcher_confine(&e);
    if (r >= 0)
        r = loop_fd_start(&s.loop, &s.fd, sock, LOOP_READ, on_plane_socket, &e);
    if (r >= 0)
        r = loop_run(&s.loop, &e);
    if (r < 0)
        send_failed(sock, &e);
    return r < 0 ? 1 : 0;
}
