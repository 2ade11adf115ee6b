#include "egress/refuse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/own.h"
#include "http/h1.h"
#include "json/writer.h"
#include "loop/fd.h"
#include "loop/timer.h"

enum {
    PATH_SHOWN = 256,        /* bytes of a path */
    DISCARD_MAX = 256 << 10, /* what a client may still send */
    HEAD_ROOM = 256,
};
#define PART_NS (1 * NS_PER_S)

static void put(struct json_writer *w, const char *key, struct str value)
{
    if (value.n == 0)
        return;
    json_key(w, str_from(key));
    json_put_lossy(w, value);
}

static void put_place(struct json_writer *w, const struct egress_intent *i)
{
    if (!i || !i->port)
        return;
    put(w, "host", str_from(i->host.name));
    json_key(w, STR("port"));
    json_put_uint(w, i->port);
}

static void put_next(struct json_writer *w, const struct egress_reason *why)
{
    json_key(w, STR("next_steps"));
    json_begin_array(w);
    if (why->next[0])
        json_put_lossy(w, str_from(why->next));
    json_end_array(w);
}

static int put_body(struct buf *out, const struct egress_intent *i, const struct egress_decision *d,
                    const struct egress_reason *why, struct str method, struct str path)
{
    struct json_writer w;

    if (path.n > PATH_SHOWN)
        path.n = PATH_SHOWN;
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    put(&w, "error", str_from(why->code ? why->code : "policy_denied"));
    put(&w, "detail", str_from(why->text));
    put(&w, "reason", str_from(why->text));
    put(&w, "policy", d ? d->match.policy : STR(""));
    put(&w, "rule", why->rule);
    put(&w, "layer", method.n ? STR("l7") : STR("l4"));
    put(&w, "method", method);
    put(&w, "path", path);
    put_place(&w, i);
    put(&w, "binary", d && d->who.known ? str_from(d->who.binary) : STR(""));
    put_next(&w, why);
    json_end_object(&w);
    return json_writer_finish(&w, NULL);
}

size_t refuse_render(int status, const struct egress_intent *i, const struct egress_decision *d,
                     const struct egress_reason *why, struct str method, struct str path, char *out,
                     size_t cap)
{
    struct buf body AUTO(buf_done) = BUF_INIT(REFUSE_MAX - HEAD_ROOM);
    int n;

    if (put_body(&body, i, d, why, method, path) < 0)
        buf_add(&body, STR("{\"error\":\"policy_denied\"}"));
    n = snprintf(out, cap,
                 "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                 "Connection: close\r\n\r\n%s",
                 status, h1_reason(status), body.n, str_eq(method, STR("HEAD")) ? "" : body.p);
    return n < 0 || (size_t)n >= cap ? 0 : (size_t)n;
}

void refuse_reason(struct egress_reason *ret, const char *code, const char *next, const char *fmt,
                   ...)
{
    va_list ap;

    *ret = (struct egress_reason){ .code = code };
    va_start(ap, fmt);
    vsnprintf(ret->text, sizeof ret->text, fmt, ap);
    va_end(ap);
    snprintf(ret->next, sizeof ret->next, "%s", next);
}

void refuse_reset(int fd)
{
    struct linger now = { .l_onoff = 1, .l_linger = 0 };

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

/* A socket whose last words are sent. Closing it with bytes unread would reset the connection, and
 * the client might never see them. */
struct parting {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    size_t discarded;
    struct loop_fd socket;
    struct loop_timer timer;
    struct loop_later later;
};

static void parting_free(struct loop_later *l)
{
    free(container_of(l, struct parting, later));
}

static void parting_end(struct parting *p)
{
    egress_open_leave(p->box, &p->open);
    loop_fd_stop(&p->socket);
    loop_timer_stop(&p->timer);
    drop_fd(&p->fd);
    loop_later(p->box->egress->loop, &p->later, parting_free, NULL);
}

static void on_close(struct egress_open *o, const char *how)
{
    (void)how;
    parting_end(container_of(o, struct parting, open));
}

static void on_reconsider(struct egress_open *o)
{
    (void)o; /* nothing goes anywhere from here */
}

static void on_time(struct loop_timer *t)
{
    parting_end(container_of(t, struct parting, timer));
}

/* False when there is no more to come. */
static bool discard(int fd, size_t *discarded)
{
    char waste[4096];

    for (;;) {
        ssize_t n = recv(fd, waste, sizeof waste, MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        *discarded += (size_t)n;
        if (n == 0 || *discarded > DISCARD_MAX)
            return false;
    }
}

static void on_bytes(struct loop_fd *s, unsigned events)
{
    struct parting *p = container_of(s, struct parting, socket);

    (void)events;
    if (!discard(s->fd, &p->discarded))
        parting_end(p);
}

void refuse_send(struct egress_box *b, int fd, struct str answer)
{
    struct parting *p = NULL;
    size_t discarded = 0;

    /* It fits any socket buffer; who has stuffed that does not read answers anyway. */
    (void)!send(fd, answer.p, answer.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (shutdown(fd, SHUT_WR) < 0 || !discard(fd, &discarded) || !(p = calloc(1, sizeof *p))) {
        close(fd);
        return;
    }
    *p = (struct parting){ .open = { .reconsider = on_reconsider, .close = on_close },
                           .box = b,
                           .fd = fd,
                           .discarded = discarded };
    egress_open_join(b, &p->open);
    if (loop_fd_start(b->egress->loop, &p->socket, fd, LOOP_READ, on_bytes, NULL) < 0 ||
        loop_timer_start(b->egress->loop, &p->timer, clock_mono() + PART_NS, on_time, NULL) < 0)
        parting_end(p);
}

void refuse_http(struct egress_box *b, int fd, int status, const struct egress_intent *i,
                 const struct egress_decision *d, const struct egress_reason *why)
{
    char answer[REFUSE_MAX];
    size_t n = refuse_render(status, i, d, why, STR(""), STR(""), answer, sizeof answer);

    refuse_send(b, fd, (struct str){ answer, n });
}
