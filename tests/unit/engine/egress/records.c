/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/engine/egress/records.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "engine/egress/limits.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

static struct arena arena = ARENA_INIT(256 << 20);

int records_open(struct records *r)
{
    char path[64];
    int fd = memfd_create("records", MFD_CLOEXEC);

    CHECK(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *r = (struct records){ .fd = fd };
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void check_bytes(struct str line)
{
    CHECK(line.n < EGRESS_AUDIT_LINE_MAX);
    CHECK(str_is_utf8(line));
    for (size_t i = 0; i < line.n; i++)
        CHECK((unsigned char)line.p[i] >= ' ' && line.p[i] != 0x7f);
}

void records_take(struct records *r, struct str bytes)
{
    const struct json_limits limits = { .depth = 16, .bytes = EGRESS_AUDIT_LINE_MAX };
    struct str line;
    struct err e;

    while (bytes.n > 0) {
        bytes = str_cut(bytes, '\n', &line);
        CHECK(bytes.p); /* the last line ends, too */
        CHECK(r->n < RECORDS_MAX);
        check_bytes(line);
        r->text[r->n] = (struct str){ arena_dup(&arena, line), line.n };
        CHECK_OK(json_read(line, limits, &arena, &r->line[r->n++], &e), e);
    }
}

void records_read(struct records *r)
{
    AUTO(buf_done) struct buf all = BUF_INIT(64 << 20);
    char piece[65536];
    off_t at = 0;
    ssize_t n;

    while ((n = pread(r->fd, piece, sizeof piece, at)) > 0) {
        buf_add(&all, (struct str){ piece, (size_t)n });
        at += n;
    }
    r->n = 0;
    records_take(r, buf_str(&all));
}

const struct json *record_at(const struct json *line, const char *path)
{
    struct str rest = str_from(path), key;

    while (line && rest.p) {
        rest = str_cut(rest, '.', &key);
        line = line->type == JSON_OBJECT ? json_get(line, key) : NULL;
    }
    return line;
}

const char *record_text(const struct json *line, const char *path)
{
    const struct json *v = record_at(line, path);

    return v && v->type == JSON_STR ? arena_dup(&arena, v->s) : "";
}

int64_t record_int(const struct json *line, const char *path)
{
    const struct json *v = record_at(line, path);

    return v && v->type == JSON_INT ? v->i : -1;
}

uint64_t records_count(const struct records *r, const char *code)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < r->n; i++) {
        int64_t count = record_int(r->line[i], "count");

        if (!code || strcmp(record_text(r->line[i], "status_code"), code) == 0)
            sum += count < 0 ? 1 : (uint64_t)count;
    }
    return sum;
}

size_t records_lines(const struct records *r, const char *code)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += strcmp(record_text(r->line[i], "status_code"), code) == 0;
    return n;
}
