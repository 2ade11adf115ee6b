/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/reader.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "harness/tap.h"
#include "scratch.h"

struct memory {
    const char *p;
    size_t n;
    size_t step; /* bytes per read, 0: all */
};

static ssize_t read_memory(void *ctx, void *p, size_t n)
{
    struct memory *m = ctx;

    if (m->step && n > m->step)
        n = m->step;
    if (n > m->n)
        n = m->n;
    memcpy(p, m->p, n);
    m->p += n;
    m->n -= n;
    return (ssize_t)n;
}

static struct tar_reader tar;
static struct memory in;
static struct err e;

static void start(const struct archive *a, size_t n)
{
    in = (struct memory){ a->bytes, n, 0 };
    tar_reader_init(&tar, read_memory, &in);
}

static int read_all(void)
{
    struct str piece;
    int r;

    while ((r = tar_next(&tar, &e)) > 0)
        while ((r = tar_data(&tar, &piece, &e)) != 0)
            if (r < 0)
                return r;
    return r;
}

static int read_bytes(const char *p, size_t n)
{
    in = (struct memory){ p, n, 0 };
    tar_reader_init(&tar, read_memory, &in);
    return read_all();
}

static int first(const struct archive *a)
{
    start(a, a->n);
    return tar_next(&tar, &e);
}

#define CHECK_SAYS(text)                                                                           \
    do {                                                                                           \
        if (!strstr(e.msg, (text)))                                                                \
            FAIL("'%s' does not say '%s'", e.msg, (text));                                         \
    } while (0)

TEST(entries_and_their_content)
{
    struct archive *a = archive_new();
    struct str piece;

    archive_dir(a, "dir/");
    archive_file(a, "dir/hello", "Hello!");
    archive_link(a, '2', "link", "to/where");
    archive_end(a);
    start(a, a->n);
    in.step = 7; /* as a slow pipe would give it */
    CHECK_OK(tar_next(&tar, &e), e);
    CHECK_INT(tar.entry.type, TAR_DIR);
    CHECK_OK(tar_next(&tar, &e), e);
    CHECK_STR(str_from(tar.entry.path), "dir/hello");
    CHECK_INT(tar.entry.size, 6);
    CHECK_INT(tar.entry.mode, 0644);
    CHECK_INT(tar.entry.mtime.tv_sec, 1000000000);
    CHECK_INT(tar_data(&tar, &piece, &e), 1);
    CHECK_INT(tar_next(&tar, &e), 1); /* past what was not read */
    CHECK_STR(str_from(tar.entry.link), "to/where");
    CHECK_INT(tar_data(&tar, &piece, &e), 0);
    CHECK_INT(tar_next(&tar, &e), 0);
    CHECK_INT(in.n, 0); /* read to the end */
}

TEST(nothing_and_garbage_are_no_archives)
{
    static char garbage[2048];

    CHECK_INT(read_bytes("", 0), -ERR_INVALID);
    CHECK_SAYS("not a tar archive");
    CHECK_INT(read_bytes("hello", 5), -ERR_INVALID);
    CHECK_SAYS("not a tar archive");
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (char)(i * 7 + 1);
    CHECK_INT(read_bytes(garbage, sizeof garbage), -ERR_INVALID);
    CHECK_SAYS("not a tar archive");
    memset(garbage, 0, sizeof garbage); /* an archive of nothing */
    CHECK_INT(read_bytes(garbage, sizeof garbage), 0);
}

TEST(every_truncation_is_noticed)
{
    struct archive *a = archive_new();
    size_t whole;

    archive_pax(a, "path", "a/long/name");
    archive_file(a, "x", "content");
    archive_long(a, 'L', "another/long/name");
    archive_file(a, "y", "");
    whole = a->n; /* one block of zeros must follow */
    archive_end(a);
    for (size_t n = 0; n < whole + 512; n++) {
        start(a, n);
        if (read_all() != -ERR_INVALID)
            FAIL("cut after %zu bytes it reads as a whole archive", n);
    }
    start(a, whole + 512);
    CHECK_OK(read_all(), e);
}

/* The same archive in the middle of a file, whose content is not read but where it is wanted. */
TEST(a_part_of_a_file)
{
    struct archive *a = archive_new();
    FILE *f = tmpfile();
    struct tar_range range;
    struct str piece;

    archive_pax(a, "path", "a/long/name");
    archive_file(a, "x", "first");
    archive_file(a, "y", "second");
    archive_end(a);
    CHECK(f && fputs("in front", f) > 0 && fwrite(a->bytes, 1, a->n, f) == a->n && fflush(f) == 0);
    for (size_t n = 0; n < a->n; n += 256) {
        range = (struct tar_range){ fileno(f), 8, 8 + n };
        tar_reader_init_range(&tar, &range);
        if (n + 1024 <= a->n && read_all() != -ERR_INVALID)
            FAIL("cut after %zu bytes it reads as a whole archive", n);
    }
    range = (struct tar_range){ fileno(f), 8, 8 + a->n };
    tar_reader_init_range(&tar, &range);
    CHECK_INT(tar_next(&tar, &e), 1);
    CHECK_INT(tar_next(&tar, &e), 1);
    CHECK_INT(memcmp(a->bytes + tar.at, "second", 6), 0);
    CHECK_INT(tar_data(&tar, &piece, &e), 1);
    CHECK_STR(piece, "second");
    CHECK_INT(tar_next(&tar, &e), 0);
}

/* What is not read is gone past, which only the next header tells from a file that ends there. */
TEST(a_part_that_is_cut_in_content_nobody_reads)
{
    static char big[200000];
    struct archive *a = archive_new();
    FILE *f = tmpfile();
    struct tar_range range;

    memset(big, 'x', sizeof big - 1);
    archive_file(a, "big", big);
    archive_end(a);
    CHECK(f && fwrite(a->bytes, 1, a->n, f) == a->n && fflush(f) == 0);
    range = (struct tar_range){ fileno(f), 0, 150000 };
    tar_reader_init_range(&tar, &range);
    CHECK_INT(tar_next(&tar, &e), 1);
    CHECK_INT(tar_next(&tar, &e), -ERR_INVALID);
    range = (struct tar_range){ fileno(f), 0, a->n };
    tar_reader_init_range(&tar, &range);
    CHECK_INT(tar_next(&tar, &e), 1);
    CHECK_INT(tar_next(&tar, &e), 0);
}

TEST(what_follows_the_end_is_refused)
{
    struct archive *a = archive_new();

    archive_file(a, "x", "1");
    archive_end(a);
    archive_file(a, "y", "2");
    archive_end(a);
    start(a, a->n);
    CHECK_INT(read_all(), -ERR_INVALID);
    CHECK_SAYS("follows the end");
}

TEST(a_bad_checksum_names_the_entry)
{
    struct archive *a = archive_new();

    archive_file(a, "x", "");
    archive_file(a, "y", "");
    archive_end(a);
    a->bytes[512] = 'z';
    start(a, a->n);
    CHECK_INT(read_all(), -ERR_INVALID);
    CHECK_SAYS("entry 2");
    CHECK_SAYS("checksum");
}

TEST(pax_overrides)
{
    struct archive *a = archive_new();

    archive_pax(a, "path", "pax/path");
    archive_pax(a, "linkpath", "pax/link");
    archive_pax(a, "uid", "3000000");
    archive_pax(a, "gid", "4000000000");
    archive_pax(a, "mtime", "-5.5");
    archive_pax(a, "comment", "nobody cares");
    archive_link(a, '2', "plain", "plain");
    archive_file(a, "next", "");
    archive_end(a);
    CHECK_OK(first(a), e);
    CHECK_STR(str_from(tar.entry.path), "pax/path");
    CHECK_STR(str_from(tar.entry.link), "pax/link");
    CHECK_INT(tar.entry.uid, 3000000);
    CHECK_INT(tar.entry.gid, 4000000000);
    CHECK_INT(tar.entry.mtime.tv_sec, -6);
    CHECK_INT(tar_next(&tar, &e), 1); /* which they do not reach */
    CHECK_STR(str_from(tar.entry.path), "next");
    CHECK_STR(str_from(tar.entry.link), "");
    CHECK_INT(tar.entry.uid, 0);
}

TEST(an_empty_pax_value_takes_back)
{
    struct archive *a = archive_new();

    archive_pax(a, "path", "pax/path");
    archive_pax(a, "path", "");
    archive_file(a, "plain", "");
    archive_end(a);
    CHECK_OK(first(a), e);
    CHECK_STR(str_from(tar.entry.path), "plain");
}

TEST(pax_sizes_rule)
{
    struct archive *a = archive_new();

    archive_pax(a, "size", "3");
    archive_head(a, '0', "f", "", 77);
    archive_data(a, "abc", 3);
    archive_file(a, "g", "");
    archive_end(a);
    CHECK_OK(first(a), e);
    CHECK_INT(tar.entry.size, 3);
    CHECK_INT(tar_next(&tar, &e), 1);
    CHECK_STR(str_from(tar.entry.path), "g");
}

TEST(bad_pax_values)
{
    static const char *const bad[][2] = {
        { "size", "-1" }, { "size", "9223372036854775808" }, { "uid", "-1" },
        { "uid", "x" },   { "gid", "4294967295" },           { "mtime", "soon" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct archive *a = archive_new();

        archive_pax(a, bad[i][0], bad[i][1]);
        archive_file(a, "f", "");
        archive_end(a);
        if (first(a) != -ERR_INVALID)
            FAIL("accepted %s=%s", bad[i][0], bad[i][1]);
    }
}

TEST(pax_bombs)
{
    static char huge[TAR_META_MAX + 100];
    struct archive *a = archive_new();

    memset(huge, 'x', sizeof huge - 1);
    archive_pax(a, "comment", huge);
    archive_file(a, "f", "");
    archive_end(a);
    CHECK_INT(first(a), -ERR_TOO_BIG);

    a = archive_new();
    huge[TREE_PATH_MAX] = '\0';
    archive_pax(a, "path", huge);
    archive_file(a, "f", "");
    archive_end(a);
    CHECK_INT(first(a), -ERR_TOO_BIG);

    a = archive_new();
    for (int i = 0; i < 1000; i++)
        archive_pax(a, "path", "again");
    archive_end(a);
    CHECK_INT(first(a), -ERR_TOO_BIG);

    a = archive_new();
    archive_pax(a, "path", "of nothing");
    archive_end(a);
    CHECK_INT(first(a), -ERR_INVALID);
    CHECK_SAYS("no entry");
}

TEST(global_pax_headers)
{
    struct archive *a = archive_new();

    archive_pax(a, "comment", "0123456789");
    a->bytes[156] = 'g';
    archive_seal(a->bytes);
    archive_file(a, "f", "");
    archive_end(a);
    CHECK_OK(first(a), e);

    a = archive_new();
    archive_pax(a, "uid", "0");
    a->bytes[156] = 'g';
    archive_seal(a->bytes);
    archive_file(a, "f", "");
    archive_end(a);
    CHECK_INT(first(a), -ERR_UNSUPPORTED);
    CHECK_SAYS("'uid'");
}

TEST(gnu_long_names)
{
    static char name[TREE_PATH_MAX];
    struct archive *a = archive_new();

    memset(name, 'n', 3000);
    archive_long(a, 'L', name);
    archive_long(a, 'K', name);
    archive_link(a, '2', "short", "short");
    archive_end(a);
    CHECK_OK(first(a), e);
    CHECK_STR(str_from(tar.entry.path), name);
    CHECK_STR(str_from(tar.entry.link), name);
}

TEST(a_nul_in_a_name)
{
    struct archive *a = archive_new();

    archive_head(a, 'L', "././@LongLink", "", 4);
    archive_data(a, "a\0b", 4);
    archive_file(a, "f", "");
    archive_end(a);
    CHECK_INT(first(a), -ERR_INVALID);
    CHECK_SAYS("NUL");
}

TEST(ustar_prefix)
{
    struct archive *a = archive_new();

    archive_file(a, "name", "");
    memcpy(a->bytes + 345, "some/prefix", 11);
    archive_seal(a->bytes);
    archive_end(a);
    CHECK_OK(first(a), e);
    CHECK_STR(str_from(tar.entry.path), "some/prefix/name");
}

TEST(sparse_files_are_refused)
{
    struct archive *a = archive_new();

    archive_head(a, 'S', "f", "", 0);
    archive_end(a);
    CHECK_INT(first(a), -ERR_UNSUPPORTED);
    CHECK_SAYS("sparse");
    CHECK_SAYS("entry 1 'f'");

    a = archive_new();
    archive_pax(a, "GNU.sparse.major", "1");
    archive_file(a, "f", "");
    archive_end(a);
    CHECK_INT(first(a), -ERR_UNSUPPORTED);
}

TEST(types_nobody_can_store)
{
    static const char types[] = "VMDNAX8\x01\x80";

    for (size_t i = 0; i + 1 < sizeof types; i++) {
        struct archive *a = archive_new();

        archive_head(a, types[i], "f", "", 0);
        archive_end(a);
        CHECK_INT(first(a), -ERR_UNSUPPORTED);
    }
}

TEST(negative_and_impossible_numbers)
{
    static const struct {
        int offset, n;
    } fields[] = { { 108, 8 }, { 116, 8 }, { 124, 12 }, { 329, 8 }, { 337, 8 } };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct archive *a = archive_new();

        archive_file(a, "f", "");
        memset(a->bytes + fields[i].offset, 0xFF, (size_t)fields[i].n); /* -1 */
        archive_seal(a->bytes);
        archive_end(a);
        CHECK_INT(first(a), -ERR_INVALID);
    }
}

TEST(only_files_have_content)
{
    for (char type = '1'; type <= '6'; type++) {
        struct archive *a = archive_new();

        archive_head(a, type, "f", "target", 10);
        archive_data(a, "0123456789", 10);
        archive_end(a);
        CHECK_INT(first(a), -ERR_INVALID);
    }
}

TEST(a_slash_makes_a_directory)
{
    struct archive *a = archive_new();

    archive_head(a, '\0', "v7/", "", 0);
    archive_end(a);
    CHECK_OK(first(a), e);
    CHECK_INT(tar.entry.type, TAR_DIR);
}

TEST(names_in_messages_are_printable)
{
    struct archive *a = archive_new();

    archive_head(a, 'S', "\033[2Jevil\n", "", 0);
    archive_end(a);
    CHECK_INT(first(a), -ERR_UNSUPPORTED);
    CHECK(!strchr(e.msg, '\033') && !strchr(e.msg, '\n'));
}

TEST(read_errors_are_told)
{
    static struct tar_reader broken;

    tar_reader_init_fd(&broken, -1);
    CHECK_INT(tar_next(&broken, &e), -ERR_SYS);
    CHECK_INT(e.sys, EBADF);
}
