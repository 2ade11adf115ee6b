/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/upload.h"

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/control.h"

static struct buf in = BUF_INIT(64 << 20);

static void record(uint32_t kind, struct str data)
{
    struct upload_head h = { kind, (uint32_t)data.n };

    CHECK(buf_add(&in, (struct str){ (const char *)&h, sizeof h }) >= 0);
    CHECK(buf_add(&in, data) >= 0);
}

/* Everything, which comes in pieces, as text: 1 when all files came, 0 if more has to come. */
static int take_records(size_t piece, struct buf *seen, struct err *e)
{
    struct upload_records u = { 0 };
    size_t at = 0, came = 0;

    for (;;) {
        struct upload_event v;
        ssize_t n = upload_next(&u, (struct str){ in.p + at, came - at }, &v, e);

        if (n < 0)
            return (int)n;
        at += (size_t)n;
        if (v.kind == UPLOAD_FILE_BEGINS)
            CHECK(buf_addf(seen, "[" STR_FMT "]", STR_ARG(v.data)) >= 0);
        else if (v.kind == UPLOAD_FILE_BYTES)
            CHECK(buf_add(seen, v.data) >= 0);
        else if (v.kind == UPLOAD_ALL_CAME)
            return at == in.n ? 1 : (int)upload_next(&u, (struct str){ in.p + at, 1 }, &v, e);
        if (n)
            continue;
        if (came == in.n)
            return 0;
        came = in.n - came < piece ? in.n : came + piece;
    }
}

static void expect(const char *file, int line, int r, const char *text)
{
    for (size_t piece = 1; piece <= in.n + 1; piece += in.n < 100 ? 1 : in.n) {
        AUTO(buf_done) struct buf seen = BUF_INIT(1 << 20);
        int got = take_records(piece, &seen, NULL);

        if (got != r || (text && !str_eq(buf_str(&seen), str_from(text))))
            tap_fail(file, line, "in pieces of %zu: %d, '" STR_FMT "'", piece, got,
                     STR_ARG(buf_str(&seen)));
    }
    buf_clear(&in);
}
#define EXPECT(r, text) expect(__FILE__, __LINE__, (r), (text))

TEST(files_and_their_bytes)
{
    record(UPLOAD_FILE, STR("/a"));
    record(UPLOAD_DATA, STR("one"));
    record(UPLOAD_DATA, STR("two"));
    record(UPLOAD_FILE, STR("/b/empty"));
    record(UPLOAD_FILE, STR("/b/c"));
    record(UPLOAD_DATA, STR("three"));
    record(UPLOAD_COMMIT, STR(""));
    EXPECT(1, "[/a]onetwo[/b/empty][/b/c]three");
    record(UPLOAD_COMMIT, STR("")); /* of nothing */
    EXPECT(1, "");
}

/* Wherever it breaks off, it is not complete. */
TEST(what_breaks_off_is_not_complete)
{
    size_t whole;

    record(UPLOAD_FILE, STR("/a"));
    record(UPLOAD_DATA, STR("one"));
    record(UPLOAD_COMMIT, STR(""));
    whole = in.n;
    for (size_t n = 0; n < whole; n++) {
        AUTO(buf_done) struct buf seen = BUF_INIT(1 << 10);

        in.n = n;
        CHECK_INT(take_records(3, &seen, NULL), 0);
    }
    buf_clear(&in);
}

TEST(malformed_records)
{
    static char path[CONTROL_PATH_MAX];

    memset(path, '/', sizeof path);
    record(UPLOAD_DATA, STR("of no file"));
    EXPECT(-ERR_INVALID, "");
    record(UPLOAD_FILE, STR(""));
    EXPECT(-ERR_INVALID, "");
    record(UPLOAD_FILE, STR("relative"));
    EXPECT(-ERR_INVALID, "");
    record(UPLOAD_FILE, STR("/a\0b"));
    EXPECT(-ERR_INVALID, "");
    record(UPLOAD_FILE, (struct str){ path, sizeof path });
    EXPECT(-ERR_TOO_BIG, "");
    record(UPLOAD_FILE, (struct str){ path, sizeof path - 1 });
    record(UPLOAD_COMMIT, STR(""));
    EXPECT(1, NULL);
    record(UPLOAD_FILE, STR("/a"));
    record(UPLOAD_DATA, STR(""));
    EXPECT(-ERR_INVALID, "[/a]");
    record(UPLOAD_FILE, STR("/a"));
    record(UPLOAD_COMMIT, STR("x"));
    EXPECT(-ERR_INVALID, "[/a]");
    record(UPLOAD_FILE, STR("/a"));
    record(UPLOAD_COMMIT, STR(""));
    record(UPLOAD_FILE, STR("/b"));
    EXPECT(-ERR_INVALID, "[/a]");
    record(0, STR(""));
    EXPECT(-ERR_INVALID, "");
    record(UPLOAD_COMMIT + 1, STR(""));
    EXPECT(-ERR_INVALID, "");
}

TEST(files_and_paths_are_bounded)
{
    static char path[CONTROL_PATH_MAX - 1];

    memset(path, '/', sizeof path);
    for (size_t i = 0; i < UPLOAD_FILES_MAX; i++)
        record(UPLOAD_FILE, STR("/a"));
    record(UPLOAD_COMMIT, STR(""));
    EXPECT(1, NULL);
    for (size_t i = 0; i <= UPLOAD_FILES_MAX; i++)
        record(UPLOAD_FILE, STR("/a"));
    EXPECT(-ERR_TOO_BIG, NULL);
    for (size_t i = 0; i <= UPLOAD_TEXT_MAX / sizeof path; i++)
        record(UPLOAD_FILE, (struct str){ path, sizeof path });
    for (size_t piece = 1000; piece <= in.n; piece += in.n - 1000) {
        AUTO(buf_done) struct buf seen = BUF_INIT(8 << 20);

        CHECK_INT(take_records(piece, &seen, NULL), -ERR_TOO_BIG);
    }
    buf_clear(&in);
}
