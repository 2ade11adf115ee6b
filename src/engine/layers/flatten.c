/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_FLATTEN: merges several layers into one that gives the same view on top of the lower
 * ones: the layers of an image, the host's /usr, or nothing. */

#include <fcntl.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "engine/layers/copy.h"
#include "engine/layers/worker.h"
#include "engine/storage/share.h"
#include "lib/tar/at.h"
#include "lib/tar/remove.h"

struct flattening {
    struct layer_worker *layer_worker;
    struct staging staging;
    struct floor floor;
    int trees[LAYERS_STACK_MAX]; /* of the floor; open until the process ends */
    uint64_t bytes, entries;     /* of the layers copied so far */
};

static void on_flatten_progress(void *user, uint64_t bytes, uint64_t entries)
{
    struct flattening *f = user;

    layer_worker_report_progress(f->layer_worker, f->bytes + bytes, f->entries + entries);
}

/* Uses a new `links` directory for each layer: inode numbers of different layers are unrelated. */
static int flatten_layer(struct flattening *f, const char *name, struct err *e)
{
    const struct copy_options o = { .bytes_max = f->layer_worker->job.bytes_max,
                                    .entries_max = f->layer_worker->job.entries_max,
                                    .free_min = f->layer_worker->job.free_min,
                                    .ahead = -1,
                                    .onto = true,
                                    .floor = f->floor,
                                    .progress = on_flatten_progress,
                                    .user = f };
    AUTO_CLOSE int tree = storage_open_layer(&f->layer_worker->storage, name, e), links = -1;
    struct copy_report report = { 0 };
    int r;

    if (tree < 0)
        return tree;
    links = staging_make_dir(&f->staging, "links", e);
    if (links < 0)
        return links;
    r = layers_copy(tree, f->staging.fs, links, &o, &report, e);
    if (r >= 0)
        r = tree_remove(f->staging.dir, "links", e);
    f->bytes += report.bytes;
    f->entries += report.entries;
    return r;
}

/* The merged layer takes the place of those below it in the share of their owner. */
static int charge_merged_layer(const struct flattening *f, const char *uppermost, struct err *e)
{
    AUTO_CLOSE int dir =
        at_open(f->layer_worker->storage.layers, uppermost, O_RDONLY | O_DIRECTORY, 0);

    return dir < 0 ? err_sys(e, "opening a layer") : share_copy_note(dir, f->staging.dir, e);
}

int layer_worker_flatten(struct layer_worker *k, struct err *e)
{
    static struct flattening f;
    struct layer_info info;
    int r = 0;

    f = (struct flattening){ .layer_worker = k, .floor = { .trees = f.trees } };
    if (k->fds[0] >= 0)
        f.floor = (struct floor){ .trees = k->fds, .n = 1, .top = "usr" };
    else
        for (size_t *n = &f.floor.n; r >= 0 && *n < k->job.n_against; ++*n)
            r = f.trees[*n] = storage_open_layer(&k->storage, k->job.against[*n], e);
    if (r >= 0)
        r = staging_begin(&f.staging, &k->storage, k->job.name, e);
    for (size_t i = k->job.n_below; r >= 0 && i > 0; i--) {
        fault_point("layers.flatten");
        r = flatten_layer(&f, k->job.below[i - 1], e);
    }
    info = (struct layer_info){ .bytes = f.bytes, .entries = f.entries };
    if (r >= 0 && k->job.n_below)
        r = charge_merged_layer(&f, k->job.below[0], e);
    if (r >= 0)
        r = staging_publish(&f.staging, k->job.name, &info, e);
    staging_done(&f.staging);
    k->done.bytes = f.bytes;
    k->done.entries = f.entries;
    return err_wrap(e, r, "flattening %llu layers", (unsigned long long)k->job.n_below);
}
