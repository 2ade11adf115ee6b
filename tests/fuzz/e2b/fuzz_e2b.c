/* SPDX-License-Identifier: Apache-2.0 */
/* What E2B's clients send, by the first byte: envelopes, parts of a body, filters, packed bytes,
 * what they take, whom they call. A
 * body that comes in pieces is the same as one that comes at once. */
#include <stdio.h>
#include <stdlib.h>

#include "edge/core/domain.h"
#include "edge/code/code_output.h"
#include "edge/code/message.h"
#include "edge/e2b/envelope.h"
#include "edge/core/metadata.h"
#include "edge/core/multipart.h"
#include "edge/e2b/signature.h"
#include "base/own.h"
#include "lib/gzip/gzip.h"
#include "lib/http/coding.h"
#include "lib/json/reader.h"

enum { TOLD_MAX = 4 << 20, UNPACKED_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_envelope(struct str in)
{
    struct str message;

    if (envelope_read(in, &message, NULL) < 0)
        return;
    must(message.n + ENVELOPE_HEAD == in.n);
    must(!message.n || message.p == in.p + ENVELOPE_HEAD);
}

/* False: it was refused. */
static bool tell(struct multipart *m, struct buf *left, struct buf *told)
{
    struct multipart_event v;
    ssize_t n;

    do {
        n = multipart_next(m, buf_str(left), &v, NULL);
        if (n < 0)
            return false;
        must((size_t)n <= left->n);
        if (v.kind == MULTIPART_PART)
            buf_addf(told, "\n(%s|%s)\n", m->name, m->filename);
        if (v.kind == MULTIPART_DATA) {
            must(v.data.n > 0 && v.data.n == (size_t)n);
            buf_add(told, v.data);
        }
        if (v.kind == MULTIPART_PART_END)
            buf_add(told, STR("\nend\n"));
        buf_drop(left, (size_t)n);
    } while (n > 0 && v.kind != MULTIPART_END);
    return true;
}

static bool tell_in_pieces(struct str body, size_t step, struct buf *told)
{
    struct buf left AUTO(buf_done) = BUF_INIT(TOLD_MAX);
    static struct multipart m;

    must(multipart_init(&m, STR("multipart/form-data; boundary=b"), NULL) >= 0);
    for (size_t at = 0; at < body.n; at += step) {
        buf_add(&left, (struct str){ body.p + at, body.n - at < step ? body.n - at : step });
        if (!tell(&m, &left, told))
            return false;
    }
    return true;
}

static void check_multipart(struct str in)
{
    struct buf whole AUTO(buf_done) = BUF_INIT(TOLD_MAX),
                     pieces AUTO(buf_done) = BUF_INIT(TOLD_MAX);
    static struct multipart m;
    bool good;

    if (in.n > 64 << 10)
        return;
    (void)multipart_init(&m, in, NULL);
    good = tell_in_pieces(in, in.n + 1, &whole);
    must(tell_in_pieces(in, 3, &pieces) == good);
    must(!good || str_eq(buf_str(&whole), buf_str(&pieces)));
}

static void check_metadata(struct str in)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    struct buf text AUTO(buf_done) = BUF_INIT(1 << 20);
    struct json_map got;
    struct json_writer w;

    if (metadata_filter(in, &a, &got, NULL) < 0)
        return;
    json_writer_init(&w, &text, JSON_COMPACT);
    metadata_write(&w, &got);
    must(json_writer_finish(&w, NULL) >= 0);
}

static void check_gzip(struct str in)
{
    struct gunzip *g = gunzip_new();
    char room[4096];
    size_t total = 0;
    ssize_t n;

    do {
        size_t before = in.n;

        n = gunzip_some(g, &in, room, sizeof room, NULL);
        total += n > 0 ? (size_t)n : 0;
        must(in.n <= before);
    } while (n > 0 && total < UNPACKED_MAX);
    gunzip_free(g);
}

static void check_signature(struct str in)
{
    struct signed_link l = { .operation = "read" };
    char text[SIGNATURE_TEXT];
    struct str rest = str_cut(in, '\n', &l.path);

    rest = str_cut(rest, '\n', &l.user);
    l.expires = rest;
    (void)signature_expired(&l, 0);
    if (signature_make(&l, STR("token"), text))
        must(signature_good(&l, STR("token"), str_from(text)) &&
             !signature_good(&l, STR("other"), str_from(text)));
}

/* What is passed on are whole lines, each a message. */
static void check_code_lines(struct str lines)
{
    while (lines.n) {
        size_t n = str_find(lines, '\n');

        must(n < lines.n && message_is_object((struct str){ lines.p, n + 1 }));
        lines = (struct str){ lines.p + n + 1, lines.n - n - 1 };
    }
}

/* What the reader of JSON takes for an object is a message. */
static void check_code_message(struct str in)
{
    const struct json_limits limits = { .bytes = 1 << 20, .depth = MESSAGE_DEPTH_MAX - 1 };
    struct buf line AUTO(buf_done) = BUF_INIT(1 << 20);
    AUTO(arena_done) struct arena a = ARENA_INIT(16 << 20);
    const struct json *v;
    bool good;

    if (buf_add(&line, in) < 0 || buf_add_c(&line, '\n') < 0)
        return;
    good = message_is_object(buf_str(&line));
    if (json_read(in, limits, &a, &v, NULL) >= 0)
        must(good == (v->type == JSON_OBJECT));
}

/* Of a session of code: a byte says the channel and the length of what came at once. */
static void check_session(struct str in)
{
    struct code_output o;
    int r = 0;

    check_code_message(in);
    code_output_init(&o, "run_00000000000000000000", true);
    o.now_ns = (int64_t)in.n;
    while (in.n && r == 0) {
        unsigned char head = (unsigned char)in.p[0];
        size_t n = (head >> 1) + 1u < in.n ? (head >> 1) + 1u : in.n;

        r = code_output_take(&o, 1 + (head & 1), (struct str){ in.p + 1, n - 1 });
        check_code_lines(buf_str(&o.json_lines));
        in = (struct str){ in.p + n, in.n - n };
    }
    code_output_done(&o);
}

/* Nothing that is said behind it makes gzip of what was not to be packed at all. */
static void check_coding(struct str in)
{
    struct buf text AUTO(buf_done) = BUF_INIT(1 << 20);

    (void)http_coding(in);
    if (buf_add(&text, in) < 0 || buf_add(&text, STR(",gzip;q=0,identity")) < 0)
        return;
    must(http_coding(buf_str(&text)) == HTTP_AS_IT_IS);
}

/* A name leads to a port of an id, or to ourselves, and never further than its first part. */
/* An id is all that comes before the domain, or followed by a suffix. */
static void check_domain(struct str in)
{
    struct buf below AUTO(buf_done) = BUF_INIT(1 << 20);
    const char *end = in.p + in.n - 15;
    struct domain_port p;

    if (domain_read(in, STR("sandboxes.test"), &p) && p.id.p) {
        must(p.port && p.id.n && p.id.p > in.p && p.id.p + p.id.n <= end);
        must(p.id.p + p.id.n == end || p.id.p[p.id.n] == '-');
    }
    if (buf_add(&below, in) < 0 || buf_add(&below, STR(".evil.test")) < 0)
        return;
    must(!domain_read(buf_str(&below), STR("sandboxes.test"), &p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(
        struct str in) = { check_gzip,     check_signature, check_envelope, check_multipart,
                           check_metadata, check_session,   check_coding,   check_domain };

    if (size)
        checks[(uint8_t)(data[0] - '0') % COUNT_OF(checks)](
            (struct str){ (const char *)data + 1, size - 1 });
    return 0;
}
