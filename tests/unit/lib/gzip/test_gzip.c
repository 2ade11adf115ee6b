/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gzip/gzip.h"
#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

enum { ROOM = 8 << 20 };

static void pack(struct str in, size_t step, size_t cap, struct buf *out)
{
    struct gzip *g = gzip_new();
    char room[512];
    bool last;

    do {
        struct str piece = { in.p, in.n < step ? in.n : step };
        size_t n;

        in = (struct str){ in.p + piece.n, in.n - piece.n };
        last = in.n == 0;
        do {
            n = gzip_some(g, &piece, last, room, cap);
            buf_add(out, (struct str){ room, n });
        } while (n == cap);
        CHECK_INT(piece.n, 0);
    } while (!last);
    gzip_free(g);
}

static void check_same(struct str in, struct str packed)
{
    struct buf out AUTO(buf_done) = BUF_INIT(ROOM);
    struct gunzip *g = gunzip_new();
    char room[4096];
    ssize_t n;

    do {
        n = gunzip_some(g, &packed, room, sizeof room, NULL);
        CHECK(n >= 0);
        buf_add(&out, (struct str){ room, (size_t)n });
    } while (n > 0);
    CHECK(gunzip_is_finished(g));
    CHECK_INT(packed.n, 0);
    CHECK(str_eq(buf_str(&out), in));
    gunzip_free(g);
}

TEST(pieces_of_every_size)
{
    const struct str in = STR("hello hello hello, hello hello hello");

    for (size_t step = 1; step <= in.n; step++)
        for (size_t cap = 1; cap < 70; cap++) {
            struct buf packed AUTO(buf_done) = BUF_INIT(ROOM);

            pack(in, step, cap, &packed);
            check_same(in, buf_str(&packed));
        }
}

TEST(nothing_at_all)
{
    struct buf packed AUTO(buf_done) = BUF_INIT(ROOM);

    pack(STR(""), 1, 7, &packed);
    CHECK(packed.n > 0);
    check_same(STR(""), buf_str(&packed));
}

/* What repeats gets small, what does not hardly grows, and one may follow the other. */
TEST(long_ones)
{
    static char data[5 << 20];
    static const size_t caps[] = { 1, 100, 512 };
    struct buf small AUTO(buf_done) = BUF_INIT(ROOM);
    uint32_t x = 1;

    memset(data, 'a', sizeof data);
    pack((struct str){ data, sizeof data }, 65536, 512, &small);
    CHECK(small.n < 50000);
    check_same((struct str){ data, sizeof data }, buf_str(&small));
    for (size_t i = 1 << 20; i < 4 << 20; i++)
        data[i] = (char)((x = x * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < COUNT_OF(caps); i++) {
        struct buf mixed AUTO(buf_done) = BUF_INIT(ROOM);

        pack((struct str){ data, sizeof data }, i ? 16384 : 30000, caps[i], &mixed);
        CHECK(mixed.n > 3 << 20 && mixed.n < (4 << 20) + 200000);
        check_same((struct str){ data, sizeof data }, buf_str(&mixed));
    }
}
