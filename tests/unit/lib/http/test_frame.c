/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/frame.h"

#include "base/own.h"
#include "harness/tap.h"

static struct err e;
static const unsigned char key[4] = { 0x37, 0xfa, 0x21, 0x3d };

static void add_frame(struct buf *out, unsigned first, bool masked, struct str data)
{
    unsigned char head[FRAME_HEAD_MAX];
    size_t n = frame_head(head, FRAME_TEXT, true, data.n, masked ? key : NULL), at;

    head[0] = (unsigned char)first;
    CHECK(buf_add(out, (struct str){ (const char *)head, n }) == 0);
    at = out->n;
    CHECK(buf_add(out, data) == 0);
    if (masked)
        frame_mask(out->p + at, data.n, key, 0);
}

TEST(the_rfc_s_examples)
{
    AUTO(frame_reader_done) struct frame_reader r;
    struct str in = STR("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
    struct frame_message m;

    frame_reader_init(&r, true, 64);
    CHECK_INT(frame_read(&r, &in, &m, &e), 1);
    CHECK_INT(m.op, FRAME_TEXT);
    CHECK_STR(m.data, "Hello");
    CHECK_INT(in.n, 0);
    CHECK_INT(frame_read(&r, &in, &m, &e), 0);
}

/* Two messages, one of them in fragments with a ping between, in pieces of every size. */
TEST(fragments_are_joined_in_any_pieces)
{
    AUTO(buf_done) struct buf wire = BUF_INIT(1 << 20);
    AUTO_FREE char *large = calloc(1, 70000);

    add_frame(&wire, 0x01, true, STR("Hel"));
    add_frame(&wire, 0x89, true, STR("ping"));
    add_frame(&wire, 0x00, true, STR(""));
    add_frame(&wire, 0x80, true, STR("lo"));
    add_frame(&wire, 0x82, true, (struct str){ large, 300 });
    add_frame(&wire, 0x82, true, (struct str){ large, 70000 });
    add_frame(&wire, 0x88, true,
              STR("\x03\xe8"
                  "bye"));
    for (size_t step = 1; step < wire.n; step = step * 3 + 1) {
        AUTO(frame_reader_done) struct frame_reader r;
        enum frame_op ops[8];
        int n = 0;
        size_t sizes[8];

        frame_reader_init(&r, true, 70000);
        for (size_t at = 0; at < wire.n;) {
            struct str in = { wire.p + at, wire.n - at < step ? wire.n - at : step };
            size_t before = in.n;
            struct frame_message m;
            int got;

            while ((got = frame_read(&r, &in, &m, &e)) > 0) {
                CHECK(n < 8);
                ops[n] = m.op;
                sizes[n++] = m.data.n;
                if (n == 2)
                    CHECK_STR(m.data, "Hello");
                if (m.op == FRAME_CLOSE)
                    CHECK_INT(m.code, 1000);
            }
            CHECK_OK(got, e);
            at += before - in.n;
        }
        CHECK_INT(n, 5);
        CHECK(ops[0] == FRAME_PING && ops[1] == FRAME_TEXT && ops[4] == FRAME_CLOSE);
        CHECK(sizes[2] == 300 && sizes[3] == 70000 && sizes[4] == 3);
    }
}

static const struct {
    int code;
    struct str in;
} violations[] = {
    { FRAME_PROTOCOL_ERROR, STR("\xc1\x80") }, /* reserved bit */
    { FRAME_PROTOCOL_ERROR, STR("\x81\x05") }, /* not masked */
    { FRAME_PROTOCOL_ERROR, STR("\x83\x80") }, /* unknown opcodes */
    { FRAME_PROTOCOL_ERROR, STR("\x8b\x80") },
    { FRAME_PROTOCOL_ERROR, STR("\x80\x80") },             /* continues nothing */
    { FRAME_PROTOCOL_ERROR, STR("\x01\x80....\x81\x80") }, /* begins in between */
    { FRAME_PROTOCOL_ERROR, STR("\x09\x80") },             /* fragmented control frame */
    { FRAME_PROTOCOL_ERROR, STR("\x89\xfe") },             /* long control frame */
    { FRAME_PROTOCOL_ERROR, STR("\x82\xfe\x00\x05....") }, /* not the shortest length */
    { FRAME_PROTOCOL_ERROR, STR("\x82\xff\0\0\0\0\0\0\xff\xff....") },
    { FRAME_TOO_BIG, STR("\x82\xff\x80\0\0\0\0\0\0\0....") },
    { FRAME_TOO_BIG, STR("\x82\xfe\x01\x01....") },
    { FRAME_BAD_DATA, STR("\x81\x81\0\0\0\0\xff") },
    { FRAME_PROTOCOL_ERROR, STR("\x88\x81\0\0\0\0\x03") },
    { FRAME_PROTOCOL_ERROR, STR("\x88\x82\0\0\0\0\x03\xed") }, /* 1005 may not be sent */
    { FRAME_PROTOCOL_ERROR, STR("\x88\x82\0\0\0\0\x00\x01") },
    { FRAME_BAD_DATA, STR("\x88\x83\0\0\0\0\x03\xe8\xff") },
};

TEST(violations_have_their_code)
{
    for (size_t i = 0; i < COUNT_OF(violations); i++) {
        AUTO(frame_reader_done) struct frame_reader r;
        struct str in = violations[i].in;
        struct frame_message m;

        frame_reader_init(&r, true, 256);
        if (frame_read(&r, &in, &m, &e) >= 0 || r.code != violations[i].code)
            FAIL("case %zu: code %d, not %d", i, r.code, violations[i].code);
        CHECK(frame_read(&r, &in, &m, &e) < 0);
    }
}

TEST(the_limit_is_for_the_whole_message)
{
    AUTO(frame_reader_done) struct frame_reader r;
    AUTO(buf_done) struct buf wire = BUF_INIT(64);
    struct frame_message m;
    struct str in;

    add_frame(&wire, 0x02, false, STR("12345"));
    add_frame(&wire, 0x80, false, STR("6789"));
    frame_reader_init(&r, false, 8);
    in = buf_str(&wire);
    CHECK_INT(frame_read(&r, &in, &m, &e), -ERR_TOO_BIG);
    CHECK_INT(r.code, FRAME_TOO_BIG);
}

TEST(masking_at_any_offset)
{
    char a[11] = "hello world", b[11];

    memcpy(b, a, sizeof(a));
    frame_mask(a, 11, key, 0);
    frame_mask(a, 3, key, 0);
    frame_mask(a + 3, 8, key, 3);
    CHECK(memcmp(a, b, sizeof(a)) == 0);
}

TEST(close_reasons_are_cut_between_characters)
{
    char out[FRAME_CONTROL_MAX], text[130];

    CHECK_INT(frame_close(out, FRAME_NO_CODE, STR("x")), 0);
    CHECK_INT(frame_close(out, FRAME_NORMAL, STR("x")), 3);
    memset(text, 'a', sizeof(text));
    memcpy(text + 122, "\xc3\xa4", 2);
    CHECK_INT(frame_close(out, FRAME_NORMAL, (struct str){ text, sizeof(text) }), 124);
}
