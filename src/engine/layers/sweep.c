/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_LIST, LAYERS_REMOVE, LAYERS_SWEEP and LAYERS_CLEAR: list layers and boxes; remove them and
 * leftovers. */
#include "base/own.h"
#include "engine/layers/worker.h"
#include "lib/tar/walk.h"

int layer_worker_remove(struct layer_worker *k, struct err *e)
{
    return storage_remove(&k->storage, k->job.name, e);
}

int layer_worker_sweep(struct layer_worker *k, struct err *e)
{
    return storage_sweep(&k->storage, e);
}

static int report_names(struct layer_worker *k, int dir, bool (*valid)(const char *name),
                        struct err *e)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    int r = walk_begin(&w, dir, e);

    while (r >= 0 && (r = walk_next(&w, &name, e)) > 0)
        if (valid(name))
            layer_worker_report_line(k, name);
    return r;
}

int layer_worker_list(struct layer_worker *k, struct err *e)
{
    int r = report_names(k, k->storage.layers, layer_name_valid, e);

    if (r >= 0)
        r = report_names(k, k->storage.boxes, box_name_valid, e);
    return err_wrap(e, r, "listing the storage");
}

/* Clears each box independently; failures are retried at the next start of the daemon. */
int layer_worker_clear(struct layer_worker *k, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < k->job.n_below; i++) {
        struct err why;
        int one = storage_clear_box(&k->storage, k->job.below[i], &why);

        if (one >= 0)
            continue;
        r = one;
        *e = why;
    }
    return r;
}
