/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/sse.h"

#include "base/buf.h"
#include "base/own.h"

enum { FIELDS_MAX = 32 };

int sse_begin(struct http_exchange *x, const struct h1_field *fields, size_t n, struct err *e)
{
    struct h1_field all[FIELDS_MAX] = {
        { STR("Content-Type"), STR("text/event-stream") },
        { STR("Cache-Control"), STR("no-store") },
        { STR("X-Accel-Buffering"), STR("no") }, /* nginx would hold events back */
    };

    if (n > FIELDS_MAX - 3)
        return err_set(e, ERR_BUG, "more than %d fields for an event stream", FIELDS_MAX - 3);
    if (n > 0)
        memcpy(all + 3, fields, n * sizeof(*fields));
    return http_begin(x, 200, all, n + 3, HTTP_UNKNOWN, e);
}

static bool is_line(struct str s)
{
    return s.n == 0 ||
           (!memchr(s.p, '\n', s.n) && !memchr(s.p, '\r', s.n) && !memchr(s.p, '\0', s.n));
}

static int add_sse_line(struct buf *out, struct str name, struct str value)
{
    return buf_add(out, name) | buf_add(out, value) | buf_add_c(out, '\n');
}

/* Takes a line off the front; its end is LF, CR or both, as a reader sees it. */
static struct str take_sse_line(struct str *text)
{
    struct str line = { text->p, 0 };
    size_t end;

    while (line.n < text->n && line.p[line.n] != '\n' && line.p[line.n] != '\r')
        line.n++;
    end = line.n;
    if (end < text->n)
        end += end + 1 < text->n && text->p[end] == '\r' && text->p[end + 1] == '\n' ? 2 : 1;
    *text = (struct str){ text->p + end, text->n - end };
    return line;
}

static int add_sse_data(struct buf *out, struct str data)
{
    char last = data.n ? data.p[data.n - 1] : '\n';
    bool open_end = last == '\n' || last == '\r'; /* an empty line is a line too */
    int r = 0;

    while (data.n > 0)
        r |= add_sse_line(out, STR("data: "), take_sse_line(&data));
    return open_end ? r | add_sse_line(out, STR("data: "), (struct str){ 0 }) : r;
}

int sse_send(struct http_exchange *x, const struct sse_event *v, struct err *e)
{
    AUTO(buf_done) struct buf out = BUF_INIT(HTTP_QUEUE_HARD);
    int r = 0;

    if (!is_line(v->id) || !is_line(v->event))
        return err_set(e, ERR_INVALID, "an event's id and name are one line each");
    if (v->id.n > 0)
        r |= add_sse_line(&out, STR("id: "), v->id);
    if (v->event.n > 0)
        r |= add_sse_line(&out, STR("event: "), v->event);
    if (v->retry_ms > 0)
        r |= buf_addf(&out, "retry: %lld\n", (long long)v->retry_ms);
    r |= add_sse_data(&out, v->data);
    r |= buf_add_c(&out, '\n');
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "an event is larger than %zu bytes", out.max);
    return http_write(x, buf_str(&out), e);
}

int sse_heartbeat(struct http_exchange *x, struct err *e)
{
    return http_write(x, STR(":\n\n"), e);
}
