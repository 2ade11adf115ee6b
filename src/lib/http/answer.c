/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/connection.h"

static int check_field(const struct h1_field *f, struct err *e)
{
    static const char *const ours[] = { "content-length", "transfer-encoding", "connection",
                                        "date" };

    if (!h1_is_token(f->name) || !h1_is_value(f->value))
        return err_set(e, ERR_INVALID, "a field of an answer is not one line of a head");
    for (size_t k = 0; k < COUNT_OF(ours); k++)
        if (h1_same(f->name, str_from(ours[k])))
            return err_set(e, ERR_INVALID, "%s is written by the connection", ours[k]);
    return 0;
}

static int check_answer_fields(const struct answer_head *h, struct err *e)
{
    int r = h->also.name.n ? check_field(&h->also, e) : 0;

    if (h->status < 101 || (h->status > 102 && h->status < 200) || h->status > 599)
        return err_set(e, ERR_INVALID, "%d is no status to answer with", h->status);
    for (size_t i = 0; i < h->n && r >= 0; i++)
        r = check_field(&h->fields[i], e);
    return r;
}

/* Once a second is enough. */
static struct str date_now(struct http_server *s)
{
    int64_t now = clock_wall() / NS_PER_S;
    time_t t = (time_t)now;
    struct tm tm;

    if (now != s->date_s && gmtime_r(&t, &tm)) {
        strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        s->date_s = now;
    }
    return str_from(s->date);
}

static int write_field(const struct h1_field *f, struct buf *out)
{
    int r = buf_add(out, f->name);

    r |= buf_add(out, STR(": "));
    r |= buf_add(out, f->value);
    return r | buf_add(out, STR("\r\n"));
}

int answer_write_head(struct http_server *s, const struct answer_head *h, struct buf *out,
                      struct err *e)
{
    int r = check_answer_fields(h, e);

    if (r < 0)
        return r;
    r = buf_addf(out, "HTTP/1.1 %d %s\r\nDate: ", h->status, h1_reason(h->status));
    r |= buf_add(out, date_now(s));
    r |= buf_add(out, STR("\r\n"));
    if (h->also.name.n)
        r |= write_field(&h->also, out);
    for (size_t i = 0; i < h->n; i++)
        r |= write_field(&h->fields[i], out);
    if (h->chunked)
        r |= buf_add(out, STR("Transfer-Encoding: chunked\r\n"));
    else if (h->length >= 0)
        r |= buf_addf(out, "Content-Length: %lld\r\n", (long long)h->length);
    if (h->upgrade)
        r |= buf_add(out, STR("Connection: upgrade\r\n"));
    else if (h->close)
        r |= buf_add(out, STR("Connection: close\r\n"));
    r |= buf_add(out, STR("\r\n"));
    return r < 0
               ? err_set(e, ERR_TOO_BIG, "the head of an answer is longer than %zu bytes", out->max)
               : 0;
}

/* Names of problems, stable: part of the API. */
static const char *problem_code(int status)
{
    static const struct {
        int status;
        const char *code;
    } codes[] = {
        { 400, "bad_request" },     { 408, "request_timeout" },    { 413, "body_too_large" },
        { 414, "target_too_long" }, { 417, "expectation_failed" }, { 431, "head_too_large" },
        { 501, "method_unknown" },  { 503, "overloaded" },         { 505, "version_unsupported" },
    };

    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return status < 500 ? "refused" : "internal";
}

static void write_json_text(struct str s, struct buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            buf_addf(out, "\\u%04x", c); /* not UTF-8 on purpose: no byte passes unread */
        else
            buf_add_c(out, (char)c);
    }
}

void answer_error(struct http_server *s, int status, struct str why, bool with_body,
                  struct buf *out)
{
    static const struct h1_field fields[] = {
        { { "Content-Type", 12 }, { "application/problem+json", 24 } },
        { { "Retry-After", 11 }, { "1", 1 } }, /* of what may pass */
    };
    AUTO(buf_done) struct buf body = BUF_INIT(8192);
    struct answer_head h = { .status = status, .fields = fields, .close = true };

    h.n = status == 503 || status == 429 ? 2 : 1;
    buf_addf(&body, "{\"status\":%d,\"code\":\"%s\",\"title\":\"%s\",\"detail\":\"", status,
             problem_code(status), h1_reason(status));
    if (why.n > 512)
        why.n = 512;
    write_json_text(why, &body);
    buf_add(&body, STR("\"}\n"));
    h.length = (int64_t)body.n;
    answer_write_head(s, &h, out, NULL);
    if (with_body)
        buf_add(out, buf_str(&body));
}
