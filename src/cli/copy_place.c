/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/copy_place.h"

#include <string.h>

#include "base/str.h"

/* An id, a part of one, or a name. The text behind s ends with NUL. */
static bool is_sandbox_id(struct str s)
{
    return s.n > 0 && s.n < COPY_SANDBOX_MAX && s.p[0] != '.' &&
           strspn(s.p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") >= s.n;
}

int copy_end(const char *text, struct copy_end *ret, struct err *e)
{
    struct str id, path = str_cut(str_from(text), ':', &id);

    *ret = (struct copy_end){ .path = text };
    if (!text[0])
        return err_set(e, ERR_INVALID, "an empty path");
    if (strcmp(text, "-") == 0) {
        ret->stream = true;
        return 0;
    }
    if (path.p && !id.n)
        return err_set(e, ERR_INVALID,
                       "'%s': the id of the sandbox is empty (is a variable unset?); a file here "
                       "whose name begins with a colon is ./%s",
                       text, text);
    if (!path.p || !is_sandbox_id(id))
        return 0;
    if (path.n == 0 || path.p[0] != '/')
        return err_set(
            e, ERR_INVALID,
            "'%s': a path in a sandbox is absolute (ID:/PATH); a file here whose name has "
            "a colon is ./%s",
            text, text);
    str_copy(id, ret->sandbox, sizeof ret->sandbox);
    ret->path = path.p;
    return 0;
}

/* Without slashes at the end, unless it is the root directory. */
static struct str without_slashes(struct str s)
{
    while (s.n > 1 && s.p[s.n - 1] == '/')
        s.n--;
    return s;
}

/* Cuts the last component off: *dir is what is before it, "." or "/" where nothing is. */
static struct str last_component(const char *path, struct str *dir)
{
    struct str s = without_slashes(str_from(path)), name;
    size_t at = s.n;

    while (at > 0 && s.p[at - 1] != '/')
        at--;
    name = (struct str){ s.p + at, s.n - at };
    if (dir)
        *dir = at == 0 ? STR(".") : without_slashes((struct str){ s.p, at });
    return name;
}

/* "x/.", "..", "/": paths without a name. */
static bool has_no_name(struct str name)
{
    return name.n == 0 || str_eq(name, STR(".")) || str_eq(name, STR("..")) ||
           str_eq(name, STR("/"));
}

static int set_copy_place(struct copy_place *ret, struct str dir, struct str top, struct err *e)
{
    if (str_copy(dir, ret->dir, sizeof ret->dir) && str_copy(top, ret->top, sizeof ret->top))
        return 0;
    return err_set(e, ERR_TOO_BIG, "'%.80s…': the path has more than %zu bytes, or its name %zu",
                   dir.p, sizeof ret->dir - 1, sizeof ret->top - 1);
}

/* The target's last component becomes the name of the copy. */
static int place_as(const struct copy_target *t, struct copy_place *ret, struct err *e)
{
    struct str dir, name = last_component(t->path, &dir);

    if (has_no_name(name))
        return err_set(e, ERR_INVALID, "'%s' is not a directory", t->path);
    return set_copy_place(ret, dir, name, e);
}

int copy_place(const struct copy_source *s, const struct copy_target *t, struct copy_place *ret,
               struct err *e)
{
    struct str name = last_component(s->path, NULL), target = str_from(t->path);
    bool slash = target.n && target.p[target.n - 1] == '/';

    if (t->kind == COPY_DIR)
        return set_copy_place(ret, target, has_no_name(name) ? STR("") : name, e);
    if (t->several)
        return err_set(e, ERR_INVALID, "several sources, but '%s' is not a directory", t->path);
    if (t->kind == COPY_FILE && s->is_dir)
        return err_set(e, ERR_INVALID, "'%s' is a directory, but '%s' is a file", s->path, t->path);
    if (slash && !s->is_dir)
        return err_set(e, ERR_INVALID, "'%s' is not a directory", t->path);
    return place_as(t, ret, e);
}
