/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/report.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/tap.h"

static struct err e;
static int lines;
static struct sync_line last;
static char last_path[64], last_reason[SYNC_REASON_MAX];

static void on_line(void *ctx, const struct sync_line *line)
{
    lines++;
    last = *line;
    CHECK(str_copy(line->path, last_path, sizeof last_path));
    CHECK(str_copy(str_from(line->reason), last_reason, sizeof last_reason));
}

static const struct sync_line sample = { SYNC_CONFLICT, STR("a/b\n"), "both\x1b[1m" };

static struct str written(const struct sync_report_end *end)
{
    static char bytes[8192];
    int fd = memfd_create("report", MFD_CLOEXEC);
    ssize_t n;

    CHECK_OK(sync_report_line(fd, &sample, &e), e);
    CHECK_OK(sync_report_end(fd, end, &e), e);
    n = pread(fd, bytes, sizeof bytes, 0);
    CHECK(n > 0);
    return (struct str){ bytes, (size_t)n };
}

static int feed(struct str s, size_t step, struct sync_report_reader *r)
{
    sync_report_reader_init(r, on_line, NULL);
    while (s.n > 0) {
        size_t n = s.n < step ? s.n : step;
        int fed = sync_report_feed(r, (struct str){ s.p, n }, &e);

        if (fed < 0)
            return fed;
        s.p += n;
        s.n -= n;
    }
    return 0;
}

static uint64_t moved;

static void on_moved(void *ctx, uint64_t bytes)
{
    moved = bytes;
}

TEST(how_much_has_moved)
{
    struct sync_report_reader r;
    char bytes[64];
    int fd = memfd_create("report", MFD_CLOEXEC);
    ssize_t n;

    CHECK_OK(sync_report_moved(fd, UINT64_C(5) << 40, &e), e);
    n = pread(fd, bytes, sizeof bytes, 0);
    CHECK_INT(n, REPORT_HEAD + 8);
    for (int listens = 0; listens < 2; listens++) {
        sync_report_reader_init(&r, on_line, NULL);
        r.moved = listens ? on_moved : NULL;
        CHECK_OK(sync_report_feed(&r, (struct str){ bytes, 9 }, &e), e);
        CHECK_OK(sync_report_feed(&r, (struct str){ bytes + 9, (size_t)n - 9 }, &e), e);
        CHECK(moved == (listens ? UINT64_C(5) << 40 : 0));
        CHECK(!r.ended);
    }
    bytes[4] = 7; /* a reason that is no number */
    sync_report_reader_init(&r, on_line, NULL);
    CHECK_INT(sync_report_feed(&r, (struct str){ bytes, (size_t)n }, &e), -ERR_INVALID);
    close(fd);
}

TEST(any_pieces)
{
    struct sync_report_end end = { .r = -ERR_TOO_BIG,
                                   .e = { .code = ERR_TOO_BIG, .msg = "too\nbig" } };
    struct sync_report_reader r;

    end.report.count[SYNC_CONFLICT] = 7;
    for (size_t step = 1; step < 700; step++) {
        lines = 0;
        CHECK_OK(feed(written(&end), step, &r), e);
        CHECK_INT(lines, 1);
        CHECK_INT(last.action, SYNC_CONFLICT);
        CHECK_STR(str_from(last_path), "a/b\n");
        CHECK_STR(str_from(last_reason), "both?[1m");
        CHECK(r.ended && r.end.r == -ERR_TOO_BIG && r.end.report.count[SYNC_CONFLICT] == 7);
        CHECK_STR(str_from(r.end.e.msg), "too?big");
    }
}

static int spoiled(size_t at, char c)
{
    struct sync_report_end end = { 0 };
    struct str s = written(&end);
    static char bytes[8192];
    struct sync_report_reader r;

    memcpy(bytes, s.p, s.n);
    bytes[at] = c;
    return feed((struct str){ bytes, s.n }, 1000, &r);
}

TEST(what_nobody_writes)
{
    struct sync_report_end end = { .r = 1 };
    struct sync_report_reader r;

    CHECK_INT(spoiled(0, 9), -ERR_INVALID);
    CHECK_INT(spoiled(1, SYNC_ACTION_COUNT_), -ERR_INVALID);
    CHECK_INT(spoiled(3, 0x7f), -ERR_INVALID); /* a path of 32,000 bytes */
    CHECK_INT(spoiled(REPORT_HEAD, '/'), -ERR_INVALID);
    CHECK_INT(feed(written(&end), 1000, &r), -ERR_INVALID);
    end.r = -ERR_CODE_COUNT_;
    CHECK_INT(feed(written(&end), 1000, &r), -ERR_INVALID);
    end.r = 0;
    CHECK_OK(feed(written(&end), 1000, &r), e);
    CHECK_INT(sync_report_feed(&r, STR("more"), &e), -ERR_INVALID);
}

TEST(a_long_reason_is_cut)
{
    char reason[500];
    int fd = memfd_create("report", MFD_CLOEXEC);
    struct sync_report_reader r;
    char bytes[1024];
    ssize_t n;

    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    CHECK_OK(sync_report_line(fd, &(struct sync_line){ SYNC_FAILED, STR("a"), reason }, &e), e);
    n = pread(fd, bytes, sizeof bytes, 0);
    CHECK_OK(feed((struct str){ bytes, (size_t)n }, 10, &r), e);
    CHECK_INT(strlen(last_reason), SYNC_REASON_MAX - 1);
    CHECK_INT(sync_report_line(fd, &(struct sync_line){ SYNC_FAILED, STR(""), "" }, &e), -ERR_BUG);
}
