/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/dirs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "domain/profile/catalog.h"
#include "domain/profile/shipped.h"

struct dir_list {
    const char *p[CATALOG_DIRS_MAX];
    size_t n;
    struct arena *arena;
    struct err *e;
};

static int add_profile_dir(struct dir_list *l, struct str dir)
{
    const char *copy;

    if (dir.n == 0 || dir.p[0] != '/')
        return err_set(l->e, ERR_INVALID,
                       "'" STR_FMT "' is not a profile directory: give an absolute path",
                       STR_ARG(dir));
    if (l->n == CATALOG_DIRS_MAX)
        return err_set(l->e, ERR_TOO_BIG, "more than %d profile directories", CATALOG_DIRS_MAX);
    copy = arena_dup(l->arena, dir);
    if (!copy)
        return err_set(l->e, ERR_TOO_BIG,
                       "the paths of the profile directories need more memory than is allowed");
    l->p[l->n++] = copy;
    return 0;
}

/* Of a program in a build directory, and of one in the tree that it was installed or unpacked to. */
static const struct {
    const char *program, *profiles;
} shipped_beside[] = {
    { "", "/profiles" },
    { "/libexec/sandboxer", "/share/sandboxer/profiles" },
    { "/bin", "/share/sandboxer/profiles" },
};

bool dirs_beside(struct str program, char *out, size_t cap)
{
    const char *slash = program.n ? memrchr(program.p, '/', program.n) : NULL;
    struct str dir = { program.p, slash ? (size_t)(slash - program.p) : 0 };
    struct stat st;

    for (size_t i = 0; slash && i < COUNT_OF(shipped_beside); i++) {
        struct str end = str_from(shipped_beside[i].program);

        if (!str_ends(dir, end))
            continue;
        if (snprintf(out, cap, "%.*s%s", (int)(dir.n - end.n), dir.p, shipped_beside[i].profiles) <
                (int)cap &&
            stat(out, &st) == 0 && S_ISDIR(st.st_mode))
            return true;
    }
    return false;
}

void dirs_shipped(char *out, size_t cap)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self);

    if (!dirs_beside((struct str){ self, n > 0 ? (size_t)n : 0 }, out, cap))
        snprintf(out, cap, "%s", PROFILE_SHIPPED_DIR);
}

static int add_user(struct dir_list *l)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];

    if (geteuid() == 0)
        return 0; /* root uses /etc, and its HOME may belong to another user */
    if (config && config[0] == '/')
        snprintf(path, sizeof path, "%s/sandboxer/profiles", config);
    else if (home && home[0] == '/')
        snprintf(path, sizeof path, "%s/.config/sandboxer/profiles", home);
    else
        return 0;
    return add_profile_dir(l, str_from(path));
}

int dirs_list(struct json_strs more, struct arena *a, struct json_strs *ret, struct err *e)
{
    struct str named = str_from(getenv("SANDBOXER_PROFILES")), dir;
    struct dir_list l = { .arena = a, .e = e };
    char shipped[PATH_MAX];
    const char **copy;
    int r = 0;

    if (!named.n) {
        dirs_shipped(shipped, sizeof shipped);
        r = add_profile_dir(&l, str_from(shipped));
        if (r >= 0)
            r = add_profile_dir(&l, STR("/etc/sandboxer/profiles"));
        if (r >= 0)
            r = add_user(&l);
    }
    while (named.n && r >= 0) {
        named = str_cut(named, ':', &dir);
        r = err_wrap(e, add_profile_dir(&l, dir), "SANDBOXER_PROFILES");
    }
    for (size_t i = 0; i < more.n && r >= 0; i++)
        r = add_profile_dir(&l, str_from(more.p[i]));
    if (r < 0)
        return r;
    copy = arena_array(a, l.n, sizeof *copy);
    if (!copy)
        return err_set(e, ERR_TOO_BIG,
                       "the paths of the profile directories need more memory than is allowed");
    memcpy(copy, l.p, l.n * sizeof *copy);
    *ret = (struct json_strs){ copy, l.n };
    return 0;
}
