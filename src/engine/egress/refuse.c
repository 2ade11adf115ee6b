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

enum {
    PATH_SHOWN = 256,        /* bytes of a path */
    DISCARD_MAX = 256 << 10, /* bytes of a client that are still discarded */
    HEAD_ROOM = 256,
};
#define PART_NS (1 * NS_PER_S)

static void write_refusal_text(struct json_writer *w, const char *key, struct str value)
{
    if (value.n > 0)
        json_field_lossy(w, key, value);
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
    if (i && i->port) {
        write_refusal_text(&w, "host", str_from(i->host.name));
        json_field_uint(&w, "port", i->port);
    }
    write_refusal_text(&w, "binary", d && d->who.known ? str_from(d->who.binary) : STR(""));
    json_field_begin_array(&w, "next_steps");
    if (why->next[0])
        json_put_lossy(&w, str_from(why->next));
    json_end_array(&w);
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
    struct egress_client client;
    size_t discarded;
};

/* Returns false at the end of the input. */
static bool drain_client_bytes(int fd, size_t *discarded)
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
    struct lingering_client *p = container_of(s, struct lingering_client, client.socket);

    if (!drain_client_bytes(s->fd, &p->discarded))
        egress_client_end(&p->client);
}

void refuse_send(struct egress_box *b, int fd, struct str answer)
{
    struct lingering_client *p;
    size_t discarded = 0;

    /* Fits into an empty socket buffer; a client that filled the buffer does not read answers. */
    (void)!send(fd, answer.p, answer.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (shutdown(fd, SHUT_WR) < 0 || !drain_client_bytes(fd, &discarded)) {
        close(fd);
        return;
    }
    p = new0(sizeof *p);
    p->discarded = discarded;
    egress_client_join(&p->client, b, fd, NULL);
    if (!egress_client_wait(&p->client, PART_NS, on_lingering_bytes, NULL))
        egress_client_end(&p->client);
}

void refuse_http(struct egress_box *b, int fd, int status, const struct egress_intent *i,
                 const struct egress_decision *d, const struct egress_reason *why)
{
    char answer[REFUSE_MAX];
    size_t n = refuse_render(status, i, d, why, STR(""), STR(""), answer, sizeof answer);

    refuse_send(b, fd, (struct str){ answer, n });
}
