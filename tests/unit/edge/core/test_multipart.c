/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/multipart.h"
#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

#define TYPE "multipart/form-data; boundary=xyz"
#define PART "Content-Disposition: form-data; name=\"file\"; filename=\"a;b.txt\"\r\n"

/* Parses a body in pieces of `step` bytes and writes "(name|filename)data." for each part, "!" at
 * the end, "?" for a refusal, "…" for a truncated body. */
static void tell(const char *type, struct str body, size_t step, struct buf *out)
{
    struct buf left AUTO(buf_done) = BUF_INIT(64 << 10);
    static struct multipart m;
    struct multipart_event v;
    struct err e;

    if (multipart_init(&m, str_from(type), &e) < 0) {
        buf_add_c(out, '?');
        return;
    }
    for (size_t at = 0; at < body.n || left.n;) {
        size_t n = body.n - at < step ? body.n - at : step;
        ssize_t used;

        buf_add(&left, (struct str){ body.p + at, n });
        at += n;
        do {
            used = multipart_next(&m, buf_str(&left), &v, &e);
            if (used < 0) {
                buf_add_c(out, '?');
                return;
            }
            if (v.kind == MULTIPART_PART)
                buf_addf(out, "(%s|%s)", m.name, m.has_filename ? m.filename : "-");
            if (v.kind == MULTIPART_DATA)
                buf_add(out, v.data);
            if (v.kind == MULTIPART_PART_END)
                buf_add_c(out, '.');
            buf_drop(&left, (size_t)used);
            if (v.kind == MULTIPART_END) {
                buf_add_c(out, '!');
                return;
            }
        } while (used > 0);
        if (at == body.n)
            break;
    }
    buf_add(out, m.state == MULTIPART_OVER ? STR("!") : STR("~"));
}

static const struct {
    const char *type, *body, *told;
} rows[] = {
    { TYPE, "--xyz\r\n" PART "\r\nhello\r\n--xyz--\r\n", "(file|a;b.txt)hello.!" },
    { "multipart/form-data;boundary=\"xyz\"", "--xyz\r\n" PART "\r\nhello\r\n--xyz--",
      "(file|a;b.txt)hello.!" },
    { TYPE, "--xyz\r\n" PART "\r\n\r\n--xyz--\r\n", "(file|a;b.txt).!" },
    { TYPE, "--xyz\r\n" PART "\r\na\r\n--xy\r\nb\r\n--xyz\r\n" PART "\r\nc\r\n--xyz--",
      "(file|a;b.txt)a\r\n--xy\r\nb.(file|a;b.txt)c.!" },
    { TYPE, "--xyz\r\nX: y\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\nq\r\n--xyz--",
      "(file|-)q.!" },
    { TYPE, "--xyz--\r\n", "!" },
    { TYPE, "--xyz\r\n" PART "\r\nhello", "(file|a;b.txt)hello~" },
    { TYPE, "--xyz\r\n" PART "\r\nhello\r\n--xyz", "(file|a;b.txt)hello~" },
    { TYPE, "--xyz\r\n" PART, "~" },
    { TYPE, "--abc\r\n", "?" },
    { TYPE, "--xyzz\r\n", "?" },
    { TYPE, "--xyz\r\n\r\nno name\r\n--xyz--", "?" },
    { TYPE, "--xyz\r\nContent-Disposition: form-data; name=file; name=\"b\"\r\n\r\n\r\n--xyz--",
      "?" },
    { TYPE, "--xyz\r\nContent-Disposition: attachment; name=\"file\"\r\n\r\n\r\n--xyz--", "?" },
    { TYPE, "--xyz\r\nContent-Disposition: form-data; name=\"fi\r\n\r\n\r\n--xyz--", "?" },
    { TYPE, "--xyz\r\n" PART PART "\r\n\r\n--xyz--", "?" },
    { "multipart/form-data", "", "?" },
    { "multipart/form-data; boundary=", "", "?" },
    { "multipart/form-data; boundary=a b", "", "?" },
};

TEST(bodies_in_pieces_of_every_size)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 80; step++) {
            struct buf told AUTO(buf_done) = BUF_INIT(64 << 10);

            tell(rows[i].type, str_from(rows[i].body), step, &told);
            CHECK_STR(buf_str(&told), rows[i].told);
        }
}

TEST(a_head_without_end_is_refused)
{
    static char body[MULTIPART_HEAD_MAX + 64] = "--xyz\r\nX: ";
    struct buf told AUTO(buf_done) = BUF_INIT(64 << 10);

    memset(body + 10, 'a', sizeof body - 10);
    tell(TYPE, (struct str){ body, sizeof body }, 4096, &told);
    CHECK_STR(buf_str(&told), "?");
}
