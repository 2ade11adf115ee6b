/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_DIFF: lists the changes in a sandbox's writable layer, against its lower layers.
 *
 * The sandbox may run meanwhile, so names that vanish are left out. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"
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

static bool was_present_below(const struct diff *d)
{
    for (size_t i = 0; i < d->layer_worker->job.n_below; i++) {
        struct stat st;
        enum view v = view_look_up(d->below[i], d->path, &st);

        if (v != VIEW_UNMENTIONED)
            return v == VIEW_PRESENT;
    }
    return false;
}

/* --- the walk --- */

static int enter_changed_dir(struct diff *d, const char *name, size_t length, struct err *e)
{
    int fd = at_open_here(walk_top(&d->walk)->fd, name, O_RDONLY | O_DIRECTORY), r;

    if (fd < 0)
        return 0;
    r = walk_enter(&d->walk, fd, name, e);
    if (r >= 0)
        d->lengths[d->walk.depth - 1] = length;
    return r;
}

/* Reports a changed file; of a directory that existed before only the contents count. */
static int report_change(struct diff *d, const struct stat *st, struct err *e)
{
    bool there = was_present_below(d);

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
    int n, r;

    if (fstatat(walk_top(&d->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    n = snprintf(d->path + at, sizeof d->path - at, "%s%s", at ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof d->path - at)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (changes_is_skipped(d->path))
        return 0;
    layer_worker_report_progress(d->layer_worker, 0, d->changes.entries);
    r = report_change(d, &st, e);
    return r < 0 || !S_ISDIR(st.st_mode) ? r : enter_changed_dir(d, name, at + (size_t)n, e);
}

static int walk_all(struct diff *d, struct err *e)
{
    const char *name;
    int r = err_wrap(e, walk_begin(&d->walk, d->layer_worker->fds[0], e),
                     "the writable layer of the sandbox");

    d->lengths[0] = 0;
    while (r >= 0 && (r = walk_next_any(&d->walk, &name, e)) > 0)
        r = diff_entry(d, name, e);
    return r < 0 ? r : changes_flush(&d->changes, e);
}

static int open_lower_layers(struct diff *d, struct err *e)
{
    for (size_t i = 0; i < d->layer_worker->job.n_below; i++) {
        d->below[i] =
            storage_open_layer(&d->layer_worker->storage, d->layer_worker->job.below[i], e);
        if (d->below[i] < 0)
            return d->below[i];
    }
    return 0;
}

int layer_worker_diff(struct layer_worker *k, struct err *e)
{
    static struct diff d; /* large, and there is one job a process */
    int r;

    d = (struct diff){ .layer_worker = k, .changes = { .layer_worker = k } };
    walk_init(&d.walk);
    if (!k->job.entries_max)
        k->job.entries_max = TREE_ENTRIES_DEFAULT;
    r = changes_open_source(k, e);
    if (r >= 0)
        r = open_lower_layers(&d, e);
    if (r >= 0)
        r = walk_all(&d, e);
    walk_done(&d.walk);
    k->done.entries = d.changes.entries;
    return r;
}
