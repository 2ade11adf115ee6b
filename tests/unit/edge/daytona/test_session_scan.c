/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/daytona/session_scan.h"
#include "base/own.h"
#include "harness/tap.h"

#define ID    "cmd_00000000000000000000"
#define OTHER "cmd_11111111111111111111"

/* What was told, as text: "[id>text]", data as it is, "[id<status]". */
static void note(void *user, const struct session_event *v)
{
    struct buf *told = user;

    if (v->kind == SESSION_BEGIN)
        buf_addf(told, "[%s>" STR_FMT "]", v->id, STR_ARG(v->text));
    else if (v->kind == SESSION_END)
        buf_addf(told, "[%s<%d]", v->id, v->status);
    else
        buf_addf(told, "%s" STR_FMT, v->id[0] ? "" : "?", STR_ARG(v->text));
}

static void scan(const char *text, size_t step, struct buf *told)
{
    struct session_scan s;
    size_t n = strlen(text);

    session_scan_init(&s);
    for (size_t at = 0; at < n; at += step)
        session_scan(&s, (struct str){ text + at, n - at < step ? n - at : step }, note, told);
    session_scan_done(&s);
}

TEST(marks_are_told_from_output)
{
    static const struct {
        const char *in, *told;
    } rows[] = {
        { "\036" ID ">ls\nout\n\036" ID "<0\n", "[" ID ">ls]out\n[" ID "<0]" },
        { "\036" ID ">\nno end\036" ID "<255\n\036" OTHER ">x\n",
          "[" ID ">]no end[" ID "<255][" OTHER ">x]" },
        { "\036" ID ">a\n\036 \036\036cmd_\n\036" ID "=\n",
          "[" ID ">a]\036 \036\036cmd_\n\036" ID "=\n" },
        { "\036" ID ">a\n\036" ID "<256\n\036" ID "<-1\n",
          "[" ID ">a]\036" ID "<256\n\036" ID "<-1\n" },
        { "\036" ID ">a\n\036" ID "\036" ID "<7\n", "[" ID ">a]\036" ID "[" ID "<7]" },
        { "\036" ID ">a\n\036" ID "0<7\n", "[" ID ">a]\036" ID "0<7\n" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf told AUTO(buf_done) = BUF_INIT(4096);

        scan(rows[i].in, 4096, &told);
        CHECK_STR(buf_str(&told), rows[i].told);
        for (size_t step = 1; step < 9; step++) {
            struct buf again AUTO(buf_done) = BUF_INIT(4096);

            scan(rows[i].in, step, &again);
            CHECK_STR(buf_str(&again), rows[i].told);
        }
    }
}

TEST(text_is_one_line_and_read_back)
{
    struct buf line AUTO(buf_done) = BUF_INIT(4096), back AUTO(buf_done) = BUF_INIT(4096);
    const struct str text = STR("echo 'a b' \\n \\0101\n\xc3\xbc $x\t\001");

    CHECK(session_encode(text, &line) >= 0);
    CHECK(!memchr(line.p, '\n', line.n) && !memchr(line.p, '\036', line.n));
    CHECK(session_decode(buf_str(&line), &back) >= 0);
    CHECK(str_eq(buf_str(&back), text));
}
