/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/refuse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/own.h"
#include "lib/http/h1.h"
#include "lib/json/writer.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

enum {
    PATH_SHOWN = 256,        /* bytes of a path */
    DISCARD_MAX = 256 << 10, /* bytes of a client that are still discarded */
    HEAD_ROOM = 256,
};
#define PART_NS (1 * NS_PER_S)

static void write_refusal_text(struct json_writer *w, const char *key, struct str value)
{
    if (value.n == 0)
        return;
    json_key(w, str_from(key));
    json_put_lossy(w, value);
}

static void write_refusal_host(struct json_writer *w, const struct egress_intent *i)
{
    if (!i || !i->port)
        return;
    write_refusal_text(w, "host", str_from(i->host.name));
    json_field_uint(w, "port", i->port);
}

static void write_refusal_next(struct json_writer *w, const struct egress_reason *why)
{
    json_field_begin_array(w, "next_steps");
    if (why->next[0])
        json_put_lossy(w, str_from(why->next));
    json_end_array(w);
}

static int write_refusal_body(struct buf *out, const struct egress_intent *i,
                              const struct egress_decision *d, const struct egress_reason *why,
                              struct str method, struct str path)
{
    struct json_writer w;

    if (path.n > PATH_SHOWN)
        path.n = PATH_SHOWN;
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    write_refusal_text(&w, "error", str_from(why->code ? why->code : "policy_denied"));
    write_refusal_text(&w, "detail", str_from(why->text));
    write_refusal_text(&w, "reason", str_from(why->text));
    write_refusal_text(&w, "policy", d ? d->match.policy : STR(""));
    write_refusal_text(&w, "rule", why->rule);
    write_refusal_text(&w, "layer", method.n ? STR("l7") : STR("l4"));
    write_refusal_text(&w, "method", method);
    write_refusal_text(&w, "path", path);
    write_refusal_host(&w, i);
    write_refusal_text(&w, "binary", d && d->who.known ? str_from(d->who.binary) : STR(""));
    write_refusal_next(&w, why);
    json_end_object(&w);
    return json_writer_finish(&w, NULL);
}

size_t refuse_render(int status, const struct egress_intent *i, const struct egress_decision *d,
                     const struct egress_reason *why, struct str method, struct str path, char *out,
                     size_t cap)
{
    struct buf body AUTO(buf_done) = BUF_INIT(REFUSE_MAX - HEAD_ROOM);
    int n;

    if (write_refusal_body(&body, i, d, why, method, path) < 0)
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

/* A client whose final answer was sent. Closing the socket with unread bytes would reset the
 * connection, and the client might not see the answer. */
struct lingering_client {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    size_t discarded;
    struct loop_fd socket;
    struct loop_timer timer;
    struct loop_later later;
};

static void on_lingering_free(struct loop_later *l)
{
    free(container_of(l, struct lingering_client, later));
}

static void lingering_client_end(struct lingering_client *p)
{
    egress_open_leave(p->box, &p->open);
    loop_fd_stop(&p->socket);
    loop_timer_stop(&p->timer);
    drop_fd(&p->fd);
    loop_later(p->box->egress->loop, &p->later, on_lingering_free, NULL);
}

static void on_lingering_close(struct egress_open *o, const char *how)
{
    lingering_client_end(container_of(o, struct lingering_client, open));
}

static void on_lingering_reconsider(struct egress_open *o)
{
    /* nothing is forwarded from here */
}

static void on_lingering_timeout(struct loop_timer *t)
{
    lingering_client_end(container_of(t, struct lingering_client, timer));
}

/* Returns false at the end of the input. */
static bool discard_client_bytes(int fd, size_t *discarded)
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

static void on_lingering_bytes(struct loop_fd *s, unsigned events)
{
    struct lingering_client *p = container_of(s, struct lingering_client, socket);

    if (!discard_client_bytes(s->fd, &p->discarded))
        lingering_client_end(p);
}

void refuse_send(struct egress_box *b, int fd, struct str answer)
{
    struct lingering_client *p = NULL;
    size_t discarded = 0;

    /* Fits into an empty socket buffer; a client that filled the buffer does not read answers. */
    (void)!send(fd, answer.p, answer.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (shutdown(fd, SHUT_WR) < 0 || !discard_client_bytes(fd, &discarded) ||
        !(p = calloc(1, sizeof *p))) {
        close(fd);
        return;
    }
    *p = (struct lingering_client){ .open = { .reconsider = on_lingering_reconsider,
                                              .close = on_lingering_close },
                                    .box = b,
                                    .fd = fd,
                                    .discarded = discarded };
    egress_open_join(b, &p->open);
    if (loop_fd_start(b->egress->loop, &p->socket, fd, LOOP_READ, on_lingering_bytes, NULL) < 0 ||
        loop_timer_start(b->egress->loop, &p->timer, clock_mono() + PART_NS, on_lingering_timeout,
                         NULL) < 0)
        lingering_client_end(p);
}

void refuse_http(struct egress_box *b, int fd, int status, const struct egress_intent *i,
                 const struct egress_decision *d, const struct egress_reason *why)
{
    char answer[REFUSE_MAX];
    size_t n = refuse_render(status, i, d, why, STR(""), STR(""), answer, sizeof answer);

    refuse_send(b, fd, (struct str){ answer, n });
}
