/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gzip/gzip.h"
#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

/* printf 'hello hello hello' | gzip -n */
static const char packed[] = { '\x1f', '\x8b', '\x08', '\x00', '\x00', '\x00', '\x00',
                               '\x00', '\x02', '\x03', '\xcb', '\x48', '\xcd', '\xc9',
                               '\xc9', '\x57', '\xc8', '\x40', '\x90', '\x00', '\x80',
                               '\x88', '\xf9', '\xe5', '\x11', '\x00', '\x00', '\x00' };

/* "" for what is damaged; `over`: its end was seen. */
static void unpack(struct str in, size_t step, size_t cap, struct buf *out, bool *over)
{
    struct gunzip *g = gunzip_new();
    char room[64];
    struct err e;

    for (size_t at = 0; at < in.n;) {
        struct str piece = { in.p + at, in.n - at < step ? in.n - at : step };
        ssize_t n;

        at += piece.n;
        do {
            n = gunzip_some(g, &piece, room, cap, &e);
            if (n > 0)
                buf_add(out, (struct str){ room, (size_t)n });
        } while (n > 0 || (n == 0 && piece.n && !gunzip_is_finished(g)));
        if (n < 0) {
            buf_clear(out);
            break;
        }
    }
    *over = gunzip_is_finished(g);
    gunzip_free(g);
}

TEST(pieces_of_every_size)
{
    for (size_t step = 1; step <= sizeof packed; step++)
        for (size_t cap = 1; cap < 20; cap++) {
            struct buf out AUTO(buf_done) = BUF_INIT(4096);
            bool over;

            unpack((struct str){ packed, sizeof packed }, step, cap, &out, &over);
            CHECK_STR(buf_str(&out), "hello hello hello");
            CHECK(over);
        }
}

TEST(what_is_damaged_or_breaks_off)
{
    char bad[sizeof packed + 1];
    struct buf out AUTO(buf_done) = BUF_INIT(4096);
    bool over;

    unpack((struct str){ packed, sizeof packed - 1 }, 4096, 64, &out, &over);
    CHECK(!over);
    memcpy(bad, packed, sizeof packed);
    bad[sizeof packed - 5] ^= 1; /* of the checksum */
    unpack((struct str){ bad, sizeof packed }, 4096, 64, &out, &over);
    CHECK(!over);
    memcpy(bad, packed, sizeof packed);
    bad[sizeof packed] = 'x';
    buf_clear(&out);
    unpack((struct str){ bad, sizeof bad }, 1, 64, &out, &over);
    CHECK_INT(out.n, 0);
    unpack(STR("this is no gzip"), 4096, 64, &out, &over);
    CHECK(!over && out.n == 0);
}
