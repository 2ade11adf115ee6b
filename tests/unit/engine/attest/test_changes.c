/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/changes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"
#include "lib/tar/remove.h"

static char path[] = "/tmp/changes-XXXXXX";

static void end(void)
{
    AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);

    tree_remove(tmp, path + 5, NULL);
}

static int begin(void)
{
    static const char *const dirs[] = { "lower",    "lower/usr",    "lower/usr/dir", "layer",
                                        "layer/up", "layer/up/dir", "layer/tmp" };
    int dir;

    CHECK(mkdtemp(path) != NULL);
    atexit(end);
    dir = open(path, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < COUNT_OF(dirs); i++)
        CHECK_INT(mkdirat(dir, dirs[i], 0755), 0);
    return dir;
}

static void put(int dir, const char *name, const char *text)
{
    AUTO_CLOSE int file = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
}

static void mark(int dir, const char *name, const char *what)
{
    AUTO_CLOSE int file = openat(dir, name, O_RDONLY);

    CHECK_INT(fsetxattr(file, what, "y", 1, 0), 0);
}

static void parse(const char *text, struct attest_parts *ret)
{
    struct err e = { 0 };

    CHECK_OK(attest_parts_parse(str_from(text), ret, &e), e);
}

TEST(parts_are_read)
{
    struct attest_parts p;

    parse("root=,usr-upper+=usr,shm=dev/shm", &p);
    CHECK_INT(p.n, 3);
    CHECK_STR(str_from(p.p[0].dir), "root");
    CHECK_STR(str_from(p.p[0].at), "");
    CHECK(!p.p[0].has_lower && p.p[1].has_lower);
    CHECK_STR(str_from(p.p[1].dir), "usr-upper");
    CHECK_STR(str_from(p.p[2].at), "dev/shm");
    parse("upper+usr+bin=,x+=y", &p);
    CHECK_STR(str_from(p.p[0].dir), "upper");
    CHECK_STR(str_from(p.p[0].below), "usr+bin");
    CHECK(p.p[0].has_lower && p.p[1].has_lower && !p.p[1].below[0]);
}

TEST(what_is_no_part_is_refused)
{
    static const char *const texts[] = {
        "",      "root",    "=x",  "+=x",
        "a/b=x", "a+b/c=x", "x=,", "a=0123456789012345678901234567890123456789",
    };
    struct attest_parts p;

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        CHECK_INT(attest_parts_parse(str_from(texts[i]), &p, NULL), -(int)ERR_INVALID);
}

/* The difference as "path=change " for each. */
static void tell(const struct attest_files *before, const struct attest_files *after, int lower,
                 struct buf *out)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 16);
    const struct json *list;
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    attest_changes_write(before, after, lower, &w);
    CHECK_INT(json_writer_finish(&w, NULL), 0);
    CHECK_INT(json_read(buf_str(&text), (struct json_limits){ .bytes = 1 << 16, .depth = 8 }, &a,
                        &list, NULL),
              0);
    for (const struct json *c = json_first(list); c != json_end(list); c++)
        CHECK_INT(buf_addf(out, STR_FMT "=" STR_FMT " ", STR_ARG(json_get(c, STR("path"))->s),
                           STR_ARG(json_get(c, STR("change"))->s)),
                  0);
}

static void read_layer(int dir, struct attest_files *ret)
{
    AUTO_CLOSE int layer = openat(dir, "layer", O_RDONLY | O_DIRECTORY);
    struct attest_parts parts;
    struct err e = { 0 };

    parse("up+=usr,tmp=tmp,not-there=x", &parts);
    CHECK_OK(attest_layer_read(ret, layer, &parts, &e), e);
}

TEST(an_upper_directory_is_understood)
{
    AUTO(attest_files_done) struct attest_files before = { 0 }, after = { 0 };
    AUTO(buf_done) struct buf said = BUF_INIT(4096);
    AUTO_CLOSE int dir = begin(), lower = openat(dir, "lower", O_RDONLY | O_DIRECTORY);

    put(dir, "lower/usr/changed", "a");
    put(dir, "lower/usr/gone", "a");
    put(dir, "lower/usr/dir/x", "a");
    put(dir, "layer/tmp/same", "a");
    put(dir, "layer/tmp/edited", "a");
    put(dir, "layer/tmp/gone", "a");
    read_layer(dir, &before);
    put(dir, "layer/up/changed", "b");
    put(dir, "layer/up/new", "b");
    CHECK_INT(mknodat(dir, "layer/up/gone", S_IFCHR, 0), 0);
    put(dir, "layer/up/gone-too", "");
    mark(dir, "layer/up/gone-too", "user.overlay.whiteout");
    put(dir, "layer/up/dir/y", "b");
    put(dir, "layer/tmp/edited", "b");
    CHECK_INT(unlinkat(dir, "layer/tmp/gone", 0), 0);
    read_layer(dir, &after);
    tell(&before, &after, lower, &said);
    CHECK_STR(buf_str(&said),
              "tmp/edited=changed tmp/gone=deleted usr/changed=changed "
              "usr/dir/y=added usr/gone=deleted usr/gone-too=deleted usr/new=added ");
}

/* Anybody can make these where there is no overlay: there they mean nothing. */
TEST(marks_count_in_upper_directories_only)
{
    AUTO(attest_files_done) struct attest_files before = { 0 }, after = { 0 };
    AUTO(buf_done) struct buf said = BUF_INIT(4096);
    AUTO_CLOSE int dir = begin(), lower = openat(dir, "lower", O_RDONLY | O_DIRECTORY);

    read_layer(dir, &before);
    CHECK_INT(mknodat(dir, "layer/tmp/device", S_IFCHR, 0), 0);
    put(dir, "layer/tmp/file", "");
    mark(dir, "layer/tmp/file", "user.overlay.whiteout");
    read_layer(dir, &after);
    tell(&before, &after, lower, &said);
    CHECK_STR(buf_str(&said), "tmp/device=added tmp/file=added ");
}

TEST(a_directory_that_was_made_anew_says_so)
{
    AUTO(attest_files_done) struct attest_files before = { 0 }, after = { 0 };
    AUTO(buf_done) struct buf said = BUF_INIT(4096);
    AUTO_CLOSE int dir = begin(), lower = openat(dir, "lower", O_RDONLY | O_DIRECTORY);

    CHECK_INT(unlinkat(dir, "layer/up/dir", AT_REMOVEDIR), 0);
    read_layer(dir, &before);
    CHECK_INT(mkdirat(dir, "layer/up/dir", 0755), 0);
    mark(dir, "layer/up/dir", "user.overlay.opaque");
    read_layer(dir, &after);
    tell(&before, &after, lower, &said);
    CHECK_STR(buf_str(&said), "usr/dir=changed ");
}

TEST(files_of_holes_are_not_read)
{
    AUTO(attest_files_done) struct attest_files f = { 0 };
    AUTO_CLOSE int dir = begin(), file = openat(dir, "layer/tmp/holes", O_WRONLY | O_CREAT, 0644);

    CHECK_INT(ftruncate(file, INT64_C(1) << 40), 0);
    read_layer(dir, &f);
    CHECK_INT(f.read, 0);
    CHECK_STR(str_from(f.p[f.n - 3].path), "tmp/holes");
    CHECK_STR(str_from(f.p[f.n - 3].sha256), "");
}
