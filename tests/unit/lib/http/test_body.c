/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/body.h"

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

static struct err e;

/* Reads `in` in pieces of `step` bytes; the data ends up in `out`. Returns BODY_END with *used, or
 * BODY_MORE, or an error. */
static int read_in_steps(struct str in, enum h1_framing f, uint64_t length, size_t step,
                         struct buf *out, size_t *used)
{
    struct body b;
    int r = BODY_MORE;

    body_start(&b, f, length);
    for (size_t at = 0; at < in.n || at == 0;) {
        struct str piece = { in.p + at, in.n - at < step ? in.n - at : step }, data;
        size_t before = piece.n;

        while ((r = body_next(&b, &piece, &data, &e)) == BODY_DATA)
            CHECK(buf_add(out, data) == 0);
        at += before - piece.n;
        *used = at;
        if (r != BODY_MORE || in.n == 0)
            break;
    }
    return r;
}

static const struct {
    const char *want; /* NULL: refused */
    size_t rest;      /* bytes that belong to the next message */
    struct str in;
} chunked[] = {
    { "", 0, STR("0\r\n\r\n") },
    { "", 0, STR("000\r\n\r\n") },
    { "hello", 0, STR("5\r\nhello\r\n0\r\n\r\n") },
    { "hello world", 0, STR("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n") },
    { "0123456789", 3, STR("A\r\n0123456789\r\n0\r\n\r\nGET") },
    { "0123456789", 0, STR("a\r\n0123456789\r\n0\r\n\r\n") },
    { "\r\n0\r\n\r\n", 0, STR("7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n") },
    { "x", 0, STR("1;a;c=d\r\nx\r\n0;e\r\n\r\n") },
    { "x", 0, STR("1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\n") },
    { NULL, 0, STR("\r\n") },
    { NULL, 0, STR("+5\r\nhello\r\n0\r\n\r\n") },
    { NULL, 0, STR("-5\r\n") },
    { NULL, 0, STR("0x5\r\nhello\r\n0\r\n\r\n") },
    { NULL, 0, STR("5_0\r\n") },
    { NULL, 0, STR(" 5\r\nhello\r\n0\r\n\r\n") },
    { NULL, 0, STR("5 \r\nhello\r\n0\r\n\r\n") },
    { NULL, 0, STR("5\nhello\r\n0\r\n\r\n") },
    { NULL, 0, STR("5\rxhello\r\n0\r\n\r\n") },
    { NULL, 0, STR("5\r\nhello0\r\n\r\n") },
    { NULL, 0, STR("5\r\nhello\n0\r\n\r\n") },
    { NULL, 0, STR("5\r\nhello!\r\n0\r\n\r\n") },
    { NULL, 0, STR("5\r\nhello\r\n0\r\n\n") },
    { NULL, 0, STR("5\r\nhello\r\n0\n\n") },
    { NULL, 0, STR("00000000000000005\r\nhello\r\n0\r\n\r\n") },
    { NULL, 0, STR("8000000000000000\r\n") },
    { NULL, 0, STR("ffffffffffffffff\r\n") },
    { NULL, 0, STR("1;a\x01\r\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("1;a\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("1;\r\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("1;a=\r\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("1;a=b=c\r\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("1;a=b;c\r\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("1; a\r\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("1;a=\"b\"\r\nx\r\n0\r\n\r\n") },
    { NULL, 0, STR("0\r\nContent-Length: 5\r\n\r\n") },
    { NULL, 0, STR("0\r\ntransfer-ENCODING: chunked\r\n\r\n") },
    { NULL, 0, STR("0\r\n: a\r\n\r\n") },
    { NULL, 0, STR("0\r\nA : b\r\n\r\n") },
    { NULL, 0, STR("0\r\nA\r\n\r\n") },
    { NULL, 0, STR("0\r\nA: b\r\n c\r\n\r\n") },
    { NULL, 0, STR("0\r\nA: b\0\r\n\r\n") },
};

TEST(chunks_are_the_same_in_any_pieces)
{
    for (size_t i = 0; i < COUNT_OF(chunked); i++)
        for (size_t step = 1; step <= chunked[i].in.n; step++) {
            AUTO(buf_done) struct buf out = BUF_INIT(256);
            size_t used = 0;
            int r = read_in_steps(chunked[i].in, H1_CHUNKED, 0, step, &out, &used);

            if (!chunked[i].want) {
                if (r >= 0)
                    FAIL("case %zu in steps of %zu gives %d", i, step, r);
                continue;
            }
            if (r != BODY_END || !str_eq(buf_str(&out), str_from(chunked[i].want)) ||
                used != chunked[i].in.n - chunked[i].rest)
                FAIL("case %zu in steps of %zu gives %d, '%s', %zu bytes", i, step, r, out.p, used);
        }
}

TEST(a_body_cut_off_anywhere_is_no_body)
{
    struct str whole = STR("5;x\r\nhello\r\n0\r\nA: b\r\n\r\n");

    for (size_t n = 0; n < whole.n; n++) {
        struct str in = { whole.p, n }, data;
        struct body b;

        body_start(&b, H1_CHUNKED, 0);
        while (body_next(&b, &in, &data, &e) == BODY_DATA)
            ;
        CHECK_INT(body_finish(&b, &e), -ERR_UPSTREAM);
    }
}

static int read_repeated(struct str start, char fill, size_t n)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 20), out = BUF_INIT(16);
    size_t used;

    buf_add(&in, start);
    while (n-- > 0)
        buf_add_c(&in, fill);
    return read_in_steps(buf_str(&in), H1_CHUNKED, 0, in.n, &out, &used);
}

TEST(extensions_and_trailers_are_bounded)
{
    CHECK_INT(read_repeated(STR("1;"), 'a', BODY_EXTENSION_MAX), BODY_MORE);
    CHECK(read_repeated(STR("1;"), 'a', BODY_EXTENSION_MAX + 1) < 0);
    CHECK_INT(read_repeated(STR("0\r\nA:"), 'a', BODY_TRAILER_MAX - 2), BODY_MORE);
    CHECK(read_repeated(STR("0\r\nA:"), 'a', BODY_TRAILER_MAX) < 0);
}

TEST(other_framings)
{
    AUTO(buf_done) struct buf out = BUF_INIT(64);
    struct body b;
    size_t used;

    CHECK_INT(read_in_steps(STR("helloGET"), H1_LENGTH, 5, 2, &out, &used), BODY_END);
    CHECK_STR(buf_str(&out), "hello");
    CHECK_INT(used, 5);
    buf_clear(&out);
    CHECK_INT(read_in_steps(STR("hell"), H1_LENGTH, 5, 2, &out, &used), BODY_MORE);
    CHECK_INT(read_in_steps(STR(""), H1_LENGTH, 0, 2, &out, &used), BODY_END);
    CHECK_INT(read_in_steps(STR("GET"), H1_EMPTY, 0, 2, &out, &used), BODY_END);
    CHECK_INT(used, 0);
    body_start(&b, H1_UNTIL_CLOSE, 0);
    CHECK_INT(body_finish(&b, &e), 0);
    body_start(&b, H1_LENGTH, 1);
    CHECK_INT(body_finish(&b, &e), -ERR_UPSTREAM);
}

TEST(chunk_lines)
{
    char line[BODY_CHUNK_LINE_MAX];

    CHECK_STR(body_chunk_line(line, 1), "1\r\n");
    CHECK_STR(body_chunk_line(line, 0xabc0), "abc0\r\n");
    CHECK_INT(body_chunk_line(line, SIZE_MAX).n, BODY_CHUNK_LINE_MAX);
}
