/* SPDX-License-Identifier: Apache-2.0 */
/* A head means the same however it arrives, and written anew it means the same again: nothing in it
 * is seen by one reading and not by another. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "lib/http/h1.h"
#include "lib/http/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct h1_limits limits = { H1_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };
static struct h1_request whole, pieces;
static struct h1_response response;

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_same(const struct h1_request *a, const struct h1_request *b)
{
    must(a->method == b->method && a->form == b->form && str_eq(a->target, b->target));
    must(a->head.n == b->head.n && a->head.framing == b->head.framing);
    must(a->head.length == b->head.length && a->head.keep_alive == b->head.keep_alive);
    must(str_eq(a->host.name, b->host.name) && a->host.port == b->host.port);
    for (size_t i = 0; i < a->head.n; i++) {
        must(str_eq(a->head.fields[i].name, b->head.fields[i].name));
        must(str_eq(a->head.fields[i].value, b->head.fields[i].value));
    }
}

static void write_anew(const struct h1_request *q, struct buf *out)
{
    buf_addf(out, STR_FMT " " STR_FMT " HTTP/1.%d\r\n", STR_ARG(q->method_text), STR_ARG(q->target),
             q->head.minor);
    for (size_t i = 0; i < q->head.n; i++) {
        const struct h1_field *f = &q->head.fields[i];

        must(h1_is_token(f->name) && h1_is_value(f->value));
        buf_addf(out, STR_FMT ":" STR_FMT "\r\n", STR_ARG(f->name), STR_ARG(f->value));
    }
    buf_add(out, STR("\r\n"));
}

static void check_request(struct str in)
{
    AUTO(buf_done) struct buf again = BUF_INIT(2 * H1_HEAD_MAX);
    struct h1_scan s = { 0 }, t = { 0 }, u = { 0 };
    int status = 0, r = h1_parse_request(&s, in, &limits, &whole, &status, NULL), stepwise = 0;

    for (size_t n = 0; n <= in.n && stepwise == 0; n++)
        stepwise = h1_parse_request(&t, (struct str){ in.p, n }, &limits, &pieces, &status, NULL);
    must((r > 0) == (stepwise > 0) && (r == 0) == (stepwise == 0));
    if (r < 0)
        must(status >= 400 && status <= 505);
    if (r <= 0)
        return;
    must(r == stepwise && (size_t)r <= in.n);
    check_same(&whole, &pieces);
    must(!memchr(in.p, '\0', (size_t)r));
    write_anew(&whole, &again);
    must(h1_parse_request(&u, buf_str(&again), &limits, &pieces, &status, NULL) == (int)again.n);
    check_same(&whole, &pieces);
}

static void check_path(const struct h1_request *q)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    struct url u = url_split(q->path);
    struct url_path p;
    struct str value;

    url_query(u.query, STR("a"), &a, &value, NULL);
    if (url_path(u.path, &a, &p, NULL) < 0)
        return;
    for (size_t i = 0; i < p.n; i++)
        must(p.segments[i].n > 0 && !memchr(p.segments[i].p, '/', p.segments[i].n) &&
             !str_eq(p.segments[i], STR("..")) && str_is_utf8(p.segments[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = { (const char *)data, size };
    struct h1_scan s = { 0 };
    int status;

    if (size > 4096)
        return 0;
    check_request(in);
    if (h1_parse_request(&(struct h1_scan){ 0 }, in, &limits, &whole, &status, NULL) > 0)
        check_path(&whole);
    h1_parse_response(&s, in, &limits, H1_GET, &response, NULL);
    return 0;
}
