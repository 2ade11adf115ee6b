/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes tell Daytona's clients, by the first byte: output of sessions, git's status.
 * Output that comes in pieces is the same as what comes at once. */
#include <stdint.h>
#include <stdlib.h>

#include "edge/daytona/git_status.h"
#include "edge/daytona/session_scan.h"
#include "base/own.h"

enum { TOLD_MAX = 8 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void note(void *user, const struct session_event *v)
{
    struct buf *told = user;

    must(v->kind != SESSION_DATA || v->text.n);
    if (v->kind == SESSION_BEGIN)
        buf_addf(told, "[%s>", v->id);
    if (v->kind == SESSION_END)
        buf_addf(told, "[%s<%d]", v->id, v->status);
    else
        buf_add(told, v->text);
}

static void scan(struct str in, size_t step, struct buf *told)
{
    struct session_scan s;

    session_scan_init(&s);
    for (size_t at = 0; at < in.n; at += step)
        session_scan(&s, (struct str){ in.p + at, in.n - at < step ? in.n - at : step }, note,
                     told);
    session_scan_done(&s);
}

static void check_session(struct str in)
{
    struct buf whole AUTO(buf_done) = BUF_INIT(TOLD_MAX),
                     pieces AUTO(buf_done) = BUF_INIT(TOLD_MAX);

    scan(in, in.n + 1, &whole);
    scan(in, 3, &pieces);
    must(str_eq(buf_str(&whole), buf_str(&pieces)));
}

static void check_code(struct str in)
{
    struct buf line AUTO(buf_done) = BUF_INIT(TOLD_MAX), back AUTO(buf_done) = BUF_INIT(TOLD_MAX);

    must(session_encode(in, &line) >= 0 && session_decode(buf_str(&line), &back) >= 0);
    must(str_eq(buf_str(&back), in));
    buf_clear(&back);
    must(session_decode(in, &back) >= 0 && back.n <= in.n);
}

static void check_status(struct str in)
{
    struct buf text AUTO(buf_done) = BUF_INIT(TOLD_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    git_status_write(&w, in);
    must(json_writer_finish(&w, NULL) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct str in) = { check_session, check_code, check_status };

    if (size && size < 64 << 10)
        checks[data[0] % COUNT_OF(checks)]((struct str){ (const char *)data + 1, size - 1 });
    return 0;
}
