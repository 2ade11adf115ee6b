/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says which side reads, and in what pieces. The messages are the same in any
 * pieces; each, written by the other side and read again, is the same once more. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "lib/http/frame.h"

enum { MAX_MESSAGE = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

/* Everything that was read, as a text to compare. */
static int read_in_steps(struct str in, bool from_client, size_t step, struct buf *log)
{
    struct frame_reader r;
    int got = 0;

    frame_reader_init(&r, from_client, MAX_MESSAGE);
    while (in.n > 0 && got >= 0) {
        struct str piece = { in.p, in.n < step ? in.n : step };
        size_t before = piece.n;
        struct frame_message m;

        while ((got = frame_read(&r, &piece, &m, NULL)) > 0) {
            must(m.data.n <= MAX_MESSAGE);
            must(m.op != FRAME_TEXT || str_is_utf8(m.data));
            buf_addf(log, "%d %d %zu:", m.op, m.code, m.data.n);
            buf_add(log, m.data);
        }
        in = (struct str){ in.p + (before - piece.n), in.n - (before - piece.n) };
    }
    if (got < 0)
        must(r.code == FRAME_PROTOCOL_ERROR || r.code == FRAME_BAD_DATA || r.code == FRAME_TOO_BIG);
    frame_reader_done(&r);
    return got < 0 ? r.code : 0;
}

static void check_anew(struct str data, bool from_client)
{
    static const unsigned char mask[4] = { 1, 0xff, 3, 0x80 };
    AUTO(buf_done) struct buf wire = BUF_INIT(1 << 16), log = BUF_INIT(1 << 16);
    unsigned char head[FRAME_HEAD_MAX];
    size_t n;

    if (data.n > MAX_MESSAGE)
        data.n = MAX_MESSAGE;
    n = frame_head(head, FRAME_BINARY, true, data.n, from_client ? mask : NULL);
    buf_add(&wire, (struct str){ (const char *)head, n });
    buf_add(&wire, data);
    if (from_client)
        frame_mask(wire.p + n, data.n, mask, 0);
    must(read_in_steps(buf_str(&wire), from_client, wire.n, &log) == 0);
    must(log.n >= data.n && memcmp(log.p + log.n - data.n, data.p, data.n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_done) struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);
    struct str in = { (const char *)data + 1, size - 1 };
    bool from_client;

    if (size < 2 || size > 65536)
        return 0;
    from_client = data[0] & 1;
    must(read_in_steps(in, from_client, in.n, &whole) ==
         read_in_steps(in, from_client, (size_t)(data[0] >> 1) % 16 + 1, &pieces));
    must(str_eq(buf_str(&whole), buf_str(&pieces)));
    check_anew(in, from_client);
    return 0;
}
