/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tar_rename.h"

#include <stdio.h>

#include "base/own.h"
#include "base/io.h"
#include "lib/tar/path.h"
#include "lib/tar/tar.h"

struct tar_rename {
    struct tar_reader in;
    int out;
    const char *top;
    bool begun;
    char old[TREE_NAME_MAX + 1]; /* the archive's own top; "" if that is "." */
    char head[TAR_HEAD_MAX];
};

/* The first component, and what is behind it. */
static struct str first_component(struct str path, struct str *rest)
{
    struct str first;

    *rest = str_cut(path, '/', &first);
    return first;
}

/* A path of the archive, in place, as it shall be. */
static int rename_path(const struct tar_rename *t, char path[static TREE_PATH_MAX], struct err *e)
{
    struct tree_path clean;
    struct str rest, below;
    int r = tree_path(str_from(path), &clean, e);

    if (r < 0)
        return r;
    below = (struct str){ clean.text, clean.n };
    if (t->old[0]) {
        if (!str_eq(first_component(below, &rest), str_from(t->old)))
            return err_set(e, ERR_INVALID, "it is not below '%s'", t->old);
        below = rest;
    }
    if (!t->top[0] && below.n == 0)
        below = STR(".");
    if (snprintf(path, TREE_PATH_MAX, "%s%s" STR_FMT, t->top, t->top[0] && below.n ? "/" : "",
                 STR_ARG(below)) >= TREE_PATH_MAX)
        return err_set(e, ERR_TOO_BIG, "its new path has more than %d bytes", TREE_PATH_MAX - 1);
    return 0;
}

/* The first entry names the top directory. */
static int read_old_top(struct tar_rename *t, struct err *e)
{
    struct tree_path clean;
    struct str rest, top;
    int r = tree_path(str_from(t->in.entry.path), &clean, e);

    if (r < 0)
        return r;
    top = first_component((struct str){ clean.text, clean.n }, &rest);
    if (!str_copy(top, t->old, sizeof t->old))
        return err_set(e, ERR_TOO_BIG, "its name has more than %zu bytes", sizeof t->old - 1);
    if (!t->top[0] && (rest.p || t->in.entry.type != TAR_DIR))
        return err_set(e, ERR_INVALID, "it is not a directory, so it has no content to copy");
    t->begun = true;
    return 0;
}

static int copy_tar_entry(struct tar_rename *t, struct err *e)
{
    static const char zeros[TAR_BLOCK];
    struct tar_entry *entry = &t->in.entry;
    size_t head, padding = tar_padding(entry->size);
    struct str piece;
    int r = t->begun ? 0 : read_old_top(t, e);

    if (r >= 0)
        r = rename_path(t, entry->path, e);
    if (r >= 0 && entry->type == TAR_HARDLINK)
        r = rename_path(t, entry->link, e);
    if (r < 0)
        return tar_wrap(&t->in, r, e);
    head = tar_encode(entry, t->head);
    r = write_all(t->out, (struct str){ t->head, head }, e);
    while (r >= 0 && (r = tar_data(&t->in, &piece, e)) > 0)
        r = write_all(t->out, piece, e);
    return r < 0 ? r : write_all(t->out, (struct str){ zeros, padding }, e);
}

int tar_rename(tar_read_fn *read, void *ctx, int out_fd, const char *top, struct err *e)
{
    static const char end[2 * TAR_BLOCK];
    AUTO_FREE struct tar_rename *t = new0(sizeof *t);
    int r;

    t->out = out_fd;
    t->top = top;
    tar_reader_init(&t->in, read, ctx);
    while ((r = tar_next(&t->in, e)) > 0) {
        r = copy_tar_entry(t, e);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : write_all(out_fd, (struct str){ end, sizeof end }, e);
}
