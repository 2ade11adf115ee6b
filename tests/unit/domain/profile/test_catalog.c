/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/catalog.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

enum { DIRS = 3 };

/* Some directories of profiles, gone with the test. */
struct shelf {
    char top[32];
    char paths[DIRS][48];
    const char *list[DIRS];
};

static void shelf_make(struct shelf *s)
{
    snprintf(s->top, sizeof s->top, "/tmp/catalog-XXXXXX");
    CHECK(mkdtemp(s->top) != NULL);
    for (int i = 0; i < DIRS; i++) {
        snprintf(s->paths[i], sizeof s->paths[i], "%s/%d", s->top, i);
        CHECK(mkdir(s->paths[i], 0755) == 0);
        s->list[i] = s->paths[i];
    }
}

static void shelf_done(struct shelf *s)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s", s->top);
    if (system(command) != 0)
        FAIL("cannot remove %s", s->top);
}

static void put(const struct shelf *s, int dir, const char *name, const char *text)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", s->paths[dir], name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void put_profile(const struct shelf *s, int dir, const char *name, const char *id,
                        int version, const char *rest)
{
    char text[256];

    snprintf(text, sizeof text, "id: %s\nversion: %d\ndescription: dir %d\n%s", id, version, dir,
             rest);
    put(s, dir, name, text);
}

static struct catalog *load(const struct shelf *s)
{
    struct catalog *c = NULL;
    struct err e;

    CHECK_OK(catalog_load((struct json_strs){ s->list, DIRS }, &c, &e), e);
    return c;
}

static void check_find(const struct catalog *c, const char *name, unsigned version,
                       const char *description)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct err e;

    CHECK_OK(catalog_find(c, str_from(name), &p, &e), e);
    CHECK_INT(p->version, version);
    CHECK_STR(str_from(p->description), description);
}

static void check_missing(const struct catalog *c, const char *name, int code, const char *message)
{
    struct profile *p;
    struct err e;

    CHECK_INT(catalog_find(c, str_from(name), &p, &e), -code);
    if (!strstr(e.msg, message))
        FAIL("'%s' says '%s', not '%s'", name, e.msg, message);
}

TEST(later_directories_win_by_id_and_version)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;

    shelf_make(&s);
    put_profile(&s, 0, "a.yaml", "profile.a", 1, "");
    put_profile(&s, 0, "a2.yaml", "profile.a", 2, "");
    put_profile(&s, 1, "other.yaml", "profile.a", 1, "");
    put_profile(&s, 2, "b.yaml", "profile.b", 10, "");
    put_profile(&s, 1, "b.yaml", "profile.b", 9, "");
    put_profile(&s, 0, "ab.yaml", "profile.a-b", 7, "");
    put(&s, 0, "notes.txt", "not a profile");
    put(&s, 0, ".hidden.yaml", "not a profile");
    c = load(&s);
    CHECK_INT(c->problem_count, 0);
    CHECK_INT(c->n, 5);
    check_find(c, "profile.a", 2, "dir 0");
    check_find(c, "profile.a@1", 1, "dir 1");
    check_find(c, "profile.a@2", 2, "dir 0");
    check_find(c, "profile.b", 10, "dir 2");
    check_find(c, "profile.b@9", 9, "dir 1");
    check_find(c, "profile.a-b", 7, "dir 0");
}

TEST(names_that_are_not_there)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;

    shelf_make(&s);
    put_profile(&s, 0, "b.yaml", "profile.b", 2, "");
    c = load(&s);
    check_missing(c, "profile.a", ERR_NOT_FOUND, "there is no profile.a");
    check_missing(c, "profile.c", ERR_NOT_FOUND, "there is no profile.c");
    check_missing(c, "profile.b@1", ERR_NOT_FOUND, "there is no ");
    check_missing(c, "profile.b@3", ERR_NOT_FOUND, "there is no version 3 of profile.b");
    check_missing(c, "b@3", ERR_NOT_FOUND, "there is no version 3 of profile.b");
    check_missing(c, "other", ERR_NOT_FOUND,
                  "there is no profile.other; `sandboxer profiles list`");
    check_missing(c, "a b", ERR_INVALID, "must be NAME, profile.NAME");
    check_missing(c, "", ERR_INVALID, "must be NAME, profile.NAME");
    check_missing(c, "profile.b@", ERR_INVALID, "version");
    check_missing(c, "profile.b@0", ERR_INVALID, "version");
    check_missing(c, "profile.b@x", ERR_INVALID, "version");
    check_missing(c, "profile.b@99999999999", ERR_INVALID, "version");
}

TEST(a_short_name_and_a_similar_one)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;
    struct profile *p = NULL;

    shelf_make(&s);
    put_profile(&s, 0, "b.yaml", "profile.build", 2, "");
    c = load(&s);
    CHECK_INT(catalog_find(c, STR("build"), &p, NULL), 0);
    CHECK_STR(str_from(p->id), "profile.build");
    profile_unref(p);
    CHECK_INT(catalog_find(c, STR("build@2"), &p, NULL), 0);
    profile_unref(p);
    check_missing(c, "biuld", ERR_NOT_FOUND, "(did you mean profile.build?)");
    check_missing(c, "profile.bulid@1", ERR_NOT_FOUND, "(did you mean profile.build?)");
    check_missing(c, "bx", ERR_NOT_FOUND, "list` shows them");
}

TEST(a_wrong_file_is_its_own_problem)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;

    shelf_make(&s);
    put_profile(&s, 0, "a.yaml", "profile.a", 1, "");
    put_profile(&s, 0, "b.yaml", "profile.b", 1, "");
    put_profile(&s, 1, "b.yaml", "profile.b", 1, "ttl: {max: 0}\n");
    put(&s, 1, "c.yaml", "{{{");
    c = load(&s);
    CHECK_INT(c->problem_count, 2);
    CHECK(strstr(c->problems[0].file, "/1/b.yaml"));
    CHECK(strstr(c->problems[0].err.msg, "line 4: ttl.max: "));
    CHECK(strstr(c->problems[1].file, "/1/c.yaml"));
    check_find(c, "profile.a", 1, "dir 0");
    /* Not the recipe of the earlier directory: it was to be replaced. */
    check_missing(c, "profile.b", ERR_INVALID, "/1/b.yaml: line 4: ttl.max");
}

TEST(two_files_of_one_directory_with_one_name)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;

    shelf_make(&s);
    put_profile(&s, 0, "x.yaml", "profile.a", 1, "scope_default: agent\n");
    put_profile(&s, 0, "y.yaml", "profile.a", 1, "");
    c = load(&s);
    CHECK_INT(c->problem_count, 1);
    CHECK(strstr(c->problems[0].file, "y.yaml") && strstr(c->problems[0].err.msg, "x.yaml"));
    CHECK_INT(c->entries[0].profile->scope_default, SCOPE_AGENT);
}

TEST(a_reload_takes_no_profile_away_from_its_users)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;
    AUTO(profile_unrefp_) struct profile *old = NULL;
    const char *many[CATALOG_DIRS_MAX + 1];
    struct err e;

    shelf_make(&s);
    put_profile(&s, 0, "a.yaml", "profile.a", 1, "");
    c = load(&s);
    CHECK_OK(catalog_find(c, STR("profile.a"), &old, &e), e);
    put_profile(&s, 0, "a.yaml", "profile.a", 2, "");
    CHECK_OK(catalog_reload(&c, (struct json_strs){ s.list, DIRS }, &e), e);
    check_find(c, "profile.a", 2, "dir 0");
    check_missing(c, "profile.a@1", ERR_NOT_FOUND, "");
    CHECK_INT(old->version, 1);
    CHECK_STR(str_from(old->description), "dir 0");
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = s.list[0];
    CHECK_INT(catalog_reload(&c, (struct json_strs){ many, COUNT_OF(many) }, &e), -ERR_TOO_BIG);
    check_find(c, "profile.a", 2, "dir 0");
}

TEST(hostile_files_and_directories)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;
    char path[128];

    shelf_make(&s);
    put_profile(&s, 0, "good.yaml", "profile.good", 1, "");
    put_profile(&s, 0, "open.yaml", "profile.open", 1, "");
    snprintf(path, sizeof path, "%s/open.yaml", s.paths[0]);
    CHECK(chmod(path, 0666) == 0);
    snprintf(path, sizeof path, "%s/link.yaml", s.paths[0]);
    CHECK(symlink("/etc/passwd", path) == 0);
    snprintf(path, sizeof path, "%s/fifo.yaml", s.paths[0]);
    CHECK(mkfifo(path, 0644) == 0);
    snprintf(path, sizeof path, "%s/dir.yaml", s.paths[0]);
    CHECK(mkdir(path, 0755) == 0);
    snprintf(path, sizeof path, "%s/zero.yaml", s.paths[0]);
    CHECK(symlink("/dev/zero", path) == 0);
    snprintf(path, sizeof path, "%s/huge.yaml", s.paths[0]);
    put(&s, 0, "huge.yaml", "#");
    CHECK(truncate(path, (off_t)1 << 40) == 0);
    put_profile(&s, 1, "evil.yaml", "profile.evil", 1, "");
    CHECK(chmod(s.paths[1], 0777) == 0);
    c = load(&s);
    CHECK_INT(c->problem_count, 7);
    CHECK_INT(c->n, 1);
    check_find(c, "profile.good", 1, "dir 0");
    check_missing(c, "profile.evil", ERR_NOT_FOUND, "");
}

TEST(there_is_a_most_of_files)
{
    AUTO(shelf_done) struct shelf s = { 0 };
    AUTO(catalog_freep_) struct catalog *c = NULL;

    shelf_make(&s);
    for (int i = 0; i <= CATALOG_FILES_MAX; i++) {
        char name[32], id[32];

        snprintf(name, sizeof name, "%04d.yaml", i);
        snprintf(id, sizeof id, "profile.p%d", i);
        put_profile(&s, 0, name, id, 1, "");
    }
    put_profile(&s, 1, "x.yaml", "profile.x", 1, "");
    c = load(&s);
    CHECK_INT(c->n, CATALOG_FILES_MAX);
    CHECK_INT(c->problem_count, 2);
    CHECK(strstr(c->problems[0].err.msg, "'1024.yaml' and later files are not read"));
    check_find(c, "profile.p1023", 1, "dir 0");
    check_missing(c, "profile.p1024", ERR_NOT_FOUND, "");
}

TEST(no_directories_no_profiles)
{
    static const char *const nowhere = "/nonexistent/profiles";
    AUTO(catalog_freep_) struct catalog *c = NULL;
    struct err e;

    CHECK_OK(catalog_load((struct json_strs){ &nowhere, 1 }, &c, &e), e);
    CHECK_INT(c->n, 0);
    CHECK_INT(c->problem_count, 0);
    check_missing(c, CATALOG_DEFAULT_PROFILE, ERR_NOT_FOUND, "");
}
