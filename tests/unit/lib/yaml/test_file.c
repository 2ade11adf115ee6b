/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/yaml/reader.h"

static const struct json_limits limits = { .bytes = 100, .depth = 8 };
static struct arena arena = ARENA_INIT(1 << 20);

/* A directory of our own, and an end to it. */
struct place {
    char path[32];
    int fd;
};

static void place_make(struct place *p)
{
    snprintf(p->path, sizeof p->path, "/tmp/yaml-file-XXXXXX");
    CHECK(mkdtemp(p->path) != NULL);
    p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(p->fd >= 0);
}

static void place_done(struct place *p)
{
    static const char *const names[] = { "f", "link", "fifo" };

    for (size_t i = 0; i < COUNT_OF(names); i++)
        unlinkat(p->fd, names[i], 0);
    unlinkat(p->fd, "d", AT_REMOVEDIR);
    close(p->fd);
    rmdir(p->path);
}

static void put(const struct place *p, const char *text, mode_t mode)
{
    int fd = openat(p->fd, "f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(fchmod(fd, mode) == 0);
    close(fd);
}

static int read_it(const struct place *p, const char *name, unsigned flags, struct err *e)
{
    const struct json *v;

    return yaml_file_read(p->fd, name, flags, limits, &arena, &v, e);
}

TEST(reads_a_file)
{
    AUTO(place_done) struct place p = { 0 };
    const struct json *v;
    struct err e;

    place_make(&p);
    put(&p, "a: 1\n", 0644);
    CHECK_OK(yaml_file_read(p.fd, "f", 0, limits, &arena, &v, &e), e);
    CHECK_INT(json_get(v, STR("a"))->i, 1);
}

TEST(only_regular_files_and_without_waiting)
{
    AUTO(place_done) struct place p = { 0 };
    struct err e;

    place_make(&p);
    put(&p, "a: 1\n", 0644);
    CHECK(mkfifoat(p.fd, "fifo", 0600) == 0 && mkdirat(p.fd, "d", 0700) == 0);
    CHECK(symlinkat("f", p.fd, "link") == 0);
    CHECK_INT(read_it(&p, "fifo", 0, &e), -ERR_INVALID);
    CHECK_INT(read_it(&p, "d", 0, &e), -ERR_INVALID);
    CHECK_INT(read_it(&p, "nothing", 0, &e), -ERR_NOT_FOUND);
    CHECK_INT(read_it(&p, "link", YAML_FILE_NO_LINK, &e), -ERR_DENIED);
    CHECK_OK(read_it(&p, "link", 0, &e), e);
}

TEST(a_file_has_at_most_as_many_bytes_as_allowed)
{
    AUTO(place_done) struct place p = { 0 };
    char text[102];
    struct err e;

    place_make(&p);
    memset(text, '#', sizeof text);
    text[100] = '\0';
    put(&p, text, 0644);
    CHECK_OK(read_it(&p, "f", 0, &e), e);
    text[100] = '#';
    text[101] = '\0';
    put(&p, text, 0644);
    CHECK_INT(read_it(&p, "f", 0, &e), -ERR_TOO_BIG);
    CHECK(strstr(e.msg, "100 bytes"));
}

TEST(what_everybody_may_write_is_not_obeyed)
{
    AUTO(place_done) struct place p = { 0 };
    struct err e;

    place_make(&p);
    put(&p, "a: 1\n", 0666);
    CHECK_INT(read_it(&p, "f", 0, &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "0666"));
    CHECK_OK(read_it(&p, "f", YAML_FILE_ANY_OWNER, &e), e);
}

TEST(root_obeys_only_root)
{
    AUTO(place_done) struct place p = { 0 };
    struct err e;

    if (geteuid() != 0)
        SKIP("only root has this rule");
    place_make(&p);
    put(&p, "a: 1\n", 0664);
    CHECK_INT(read_it(&p, "f", 0, &e), -ERR_DENIED);
    put(&p, "a: 1\n", 0644);
    CHECK(fchownat(p.fd, "f", 1000, 1000, 0) == 0);
    CHECK_INT(read_it(&p, "f", 0, &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "user 1000"));
}

TEST(complaints_name_line_and_field)
{
    static const struct {
        const char *path, *message;
    } rows[] = {
        { "a", "line 1: a: bad 7" },           { "b.c", "line 3: b.c: bad 7" },
        { "b.c.x", "line 3: b.c.x: bad 7" },   { "b.none", "line 2: b.none: bad 7" },
        { "d[1].e", "line 6: d[1].e: bad 7" }, { "d[9].e", "line 4: d[9].e: bad 7" },
        { "d[x]", "line 4: d[x]: bad 7" },     { "none", "line 1: none: bad 7" },
        { "a\033", "line 1: a\\x1b: bad 7" },
    };
    const struct json *v;
    struct err e;

    CHECK_OK(yaml_read(STR("a: 1\nb:\n  c: 2\nd:\n- e: 3\n- e: 4\n"), limits, &arena, &v, &e), e);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(yaml_file_fail(v, rows[i].path, &e, "bad %d", 7), -ERR_INVALID);
        CHECK_STR(str_from(e.msg), rows[i].message);
    }
}
