/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/dirs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "domain/profile/catalog.h"

static struct arena arena = ARENA_INIT(1 << 20);

static struct json_strs list(struct json_strs more)
{
    struct json_strs dirs = { 0 };
    struct err e;

    CHECK_OK(dirs_list(more, &arena, &dirs, &e), e);
    return dirs;
}

TEST(the_variable_replaces_the_defaults)
{
    static const char *const more[] = { "/more" };
    struct json_strs dirs;

    setenv("SANDBOXER_PROFILES", "/a:/b", 1);
    dirs = list((struct json_strs){ more, 1 });
    CHECK_INT(dirs.n, 3);
    CHECK_STR(str_from(dirs.p[0]), "/a");
    CHECK_STR(str_from(dirs.p[1]), "/b");
    CHECK_STR(str_from(dirs.p[2]), "/more");
}

TEST(defaults_by_user)
{
    struct json_strs dirs;
    char shipped[PATH_MAX];

    unsetenv("SANDBOXER_PROFILES");
    setenv("XDG_CONFIG_HOME", "/x", 1);
    dirs_shipped(shipped, sizeof shipped);
    dirs = list((struct json_strs){ 0 });
    CHECK_STR(str_from(dirs.p[0]), shipped);
    CHECK_STR(str_from(dirs.p[1]), "/etc/sandboxer/profiles");
    if (geteuid() == 0) {
        CHECK_INT(dirs.n, 2);
        CHECK(seteuid(65534) == 0);
        dirs = list((struct json_strs){ 0 });
    }
    CHECK_INT(dirs.n, 3);
    CHECK_STR(str_from(dirs.p[2]), "/x/sandboxer/profiles");
    setenv("XDG_CONFIG_HOME", "relative", 1);
    setenv("HOME", "/home/u", 1);
    CHECK_STR(str_from(list((struct json_strs){ 0 }).p[2]), "/home/u/.config/sandboxer/profiles");
    CHECK(seteuid(getuid()) == 0); /* for the leak checker */
}

/* Makes DIR/NAME, and its parents. */
static void make_below(const char *dir, const char *name)
{
    char command[128];

    snprintf(command, sizeof command, "mkdir -p %s/%s", dir, name);
    CHECK(system(command) == 0);
}

TEST(profiles_move_with_their_program)
{
    static const struct {
        const char *program, *profiles;
    } rows[] = {
        { "build/sandboxer", "build/profiles" },
        { "tree/bin/sandboxer", "tree/share/sandboxer/profiles" },
        { "tree/libexec/sandboxer/sandboxerd", "tree/share/sandboxer/profiles" },
        { "tree/sandboxer", NULL },
        { "elsewhere/bin/sandboxer", NULL },
        { "tree/libexec/sandboxerd", NULL },
    };
    char top[] = "/tmp/dirs-XXXXXX", program[64], expected[64], found[PATH_MAX], command[32];

    CHECK(mkdtemp(top) != NULL);
    make_below(top, "build/profiles");
    make_below(top, "tree/share/sandboxer/profiles");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(program, sizeof program, "%s/%s", top, rows[i].program);
        snprintf(expected, sizeof expected, "%s/%s", top, rows[i].profiles ? rows[i].profiles : "");
        CHECK_INT(dirs_beside(str_from(program), found, sizeof found), rows[i].profiles != NULL);
        if (rows[i].profiles)
            CHECK_STR(str_from(found), expected);
        CHECK(!dirs_beside(str_from(program), found, 8));
    }
    snprintf(command, sizeof command, "rm -r %s", top);
    CHECK(system(command) == 0);
    CHECK(!dirs_beside(STR(""), found, sizeof found));
    CHECK(!dirs_beside(STR("sandboxer"), found, sizeof found));
}

TEST(bad_lists)
{
    struct json_strs dirs;
    struct err e;
    char many[CATALOG_DIRS_MAX * 3 + 3] = "/a";

    setenv("SANDBOXER_PROFILES", "/a:b", 1);
    CHECK_INT(dirs_list((struct json_strs){ 0 }, &arena, &dirs, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "SANDBOXER_PROFILES: 'b' is not a profile directory"));
    for (size_t i = 0; i < CATALOG_DIRS_MAX; i++)
        memcpy(many + 2 + i * 3, ":/a", 4);
    setenv("SANDBOXER_PROFILES", many, 1);
    CHECK_INT(dirs_list((struct json_strs){ 0 }, &arena, &dirs, &e), -ERR_TOO_BIG);
}
