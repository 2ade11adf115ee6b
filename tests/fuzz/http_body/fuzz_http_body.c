/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says how large the pieces are in which the rest arrives. A chunked body is the
 * same in any pieces, ends at the same byte, and chunked anew it is the same again. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "lib/http/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

struct result {
    int end;
    size_t used;
    struct buf data;
};

static void read_in_steps(struct str in, size_t step, struct result *ret)
{
    struct body b;

    *ret = (struct result){ .data = BUF_INIT(1 << 20) };
    body_start(&b, H1_CHUNKED, 0);
    while (ret->used < in.n && ret->end == BODY_MORE) {
        size_t left = in.n - ret->used;
        struct str piece = { in.p + ret->used, left < step ? left : step }, data;
        size_t before = piece.n;

        while ((ret->end = body_next(&b, &piece, &data, NULL)) == BODY_DATA)
            must(buf_add(&ret->data, data) == 0);
        ret->used += before - piece.n;
    }
    must(ret->end != BODY_END || body_finish(&b, NULL) == 0);
    must(ret->end == BODY_END || body_finish(&b, NULL) < 0);
}

static void check_anew(struct str data)
{
    AUTO(buf_done) struct buf wire = BUF_INIT(1 << 20);
    char line[BODY_CHUNK_LINE_MAX];
    struct result r;

    if (data.n > 0) {
        buf_add(&wire, body_chunk_line(line, data.n));
        buf_add(&wire, data);
        buf_add(&wire, BODY_CHUNK_AFTER);
    }
    buf_add(&wire, BODY_LAST_CHUNK);
    read_in_steps(buf_str(&wire), wire.n, &r);
    must(r.end == BODY_END && r.used == wire.n && str_eq(buf_str(&r.data), data));
    buf_done(&r.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = { (const char *)data + 1, size - 1 };
    struct result whole, pieces;

    if (size < 2)
        return 0;
    read_in_steps(in, in.n, &whole);
    read_in_steps(in, (size_t)(data[0] % 16) + 1, &pieces);
    must((whole.end < 0) == (pieces.end < 0));
    if (whole.end >= 0) {
        must(whole.end == pieces.end && whole.used == pieces.used);
        must(str_eq(buf_str(&whole.data), buf_str(&pieces.data)));
    }
    if (whole.end == BODY_END)
        check_anew(buf_str(&whole.data));
    buf_done(&whole.data);
    buf_done(&pieces.data);
    return 0;
}
