/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_DIFF: lists the changes in a sandbox's writable layer, against its lower layers.
 *
 * The sandbox may run meanwhile, so names that vanish are left out. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "engine/layers/changes.h"
#include "engine/layers/view.h"
#include "engine/storage/skeleton.h"
#include "lib/tar/at.h"
#include "lib/tar/walk.h"

struct diff {
    struct layer_worker *layer_worker;
    int below[LAYERS_STACK_MAX]; /* the trees of the layers, uppermost first */
    char path[TREE_PATH_MAX];
    struct walk walk;
    size_t lengths[TREE_DEPTH_MAX]; /* of the path at each level */
    struct change_records changes;
};

/* Reports a changed file; of a directory that existed before only the contents count. */
static int report_change(struct diff *d, const struct stat *st, struct err *e)
{
    struct stat below;
    bool there = view_shows(d->below, d->layer_worker->job.n_below, d->path, &below);

    if (changes_is_rewritten(d->path))
        return 0;
    if (view_is_whiteout(st))
        return changes_add(&d->changes, CHANGE_DELETED, st, d->path, e);
    if (there)
        return S_ISDIR(st->st_mode) ? 0 : changes_add(&d->changes, CHANGE_CHANGED, st, d->path, e);
    return skeleton_has(d->path) ? 0 : changes_add(&d->changes, CHANGE_ADDED, st, d->path, e);
}

static int diff_entry(struct diff *d, const char *name, struct err *e)
{
    size_t at = d->lengths[d->walk.depth - 1];
    struct stat st;
    int n, r, fd;

    if (fstatat(walk_top(&d->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    n = snprintf(d->path + at, sizeof d->path - at, "%s%s", at ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof d->path - at)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (changes_is_skipped(d->path))
        return 0;
    layer_worker_report_progress(d->layer_worker, 0, d->changes.entries);
    r = report_change(d, &st, e);
    if (r < 0 || !S_ISDIR(st.st_mode))
        return r;
    fd = at_open_here(walk_top(&d->walk)->fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return 0;
    r = walk_enter(&d->walk, fd, name, e);
    if (r >= 0)
        d->lengths[d->walk.depth - 1] = at + (size_t)n;
    return r;
}

int layer_worker_diff(struct layer_worker *k, struct err *e)
{
    static struct diff d; /* large, and there is one job a process */
    const char *name;
    int r;

    d = (struct diff){ .layer_worker = k, .changes = { .layer_worker = k } };
    walk_init(&d.walk);
    if (!k->job.entries_max)
        k->job.entries_max = TREE_ENTRIES_DEFAULT;
    r = changes_open_source(k, e);
    for (size_t i = 0; r >= 0 && i < k->job.n_below; i++)
        r = d.below[i] = storage_open_layer(&k->storage, k->job.below[i], e);
    if (r >= 0)
        r = err_wrap(e, walk_begin(&d.walk, k->fds[0], e), "the writable layer of the sandbox");
    while (r >= 0 && (r = walk_next_any(&d.walk, &name, e)) > 0)
        r = diff_entry(&d, name, e);
    if (r >= 0)
        r = changes_flush(&d.changes, e);
    walk_done(&d.walk);
    k->done.entries = d.changes.entries;
    return r;
}
