/* Several layers as one that shows the same on what is below them: the layers of an image, the
 * host's /usr, or nothing. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/hook.h"
#include "base/own.h"
#include "layers/copy.h"
#include "layers/keeper.h"
#include "tree/at.h"
#include "tree/remove.h"

struct flattening {
    struct keeper *keeper;
    struct growth growth;
    struct floor floor;
    int trees[LAYERS_STACK_MAX]; /* its; ours to the end of the process */
    uint64_t bytes, entries;     /* of the layers before */
};

static void tell(void *user, uint64_t bytes, uint64_t entries)
{
    struct flattening *f = user;

    keeper_progress(f->keeper, f->bytes + bytes, f->entries + entries);
}

/* Its files wait for their other names in a place of their own: other layers have other numbers. */
static int add_layer(struct flattening *f, const char *name, struct err *e)
{
    const struct copy_options o = { .bytes_max = f->keeper->job.bytes_max,
                                    .entries_max = f->keeper->job.entries_max,
                                    .free_min = f->keeper->job.free_min,
                                    .ahead = -1,
                                    .onto = true,
                                    .floor = f->floor,
                                    .progress = tell,
                                    .user = f };
    AUTO_CLOSE int tree = -1, links = -1;
    struct copy_report report = { 0 };
    char path[LAYER_NAME_MAX + 4];
    int r;

    snprintf(path, sizeof path, "%s/fs", name);
    tree = at_open(f->keeper->storage.layers, path, O_RDONLY | O_DIRECTORY, 0);
    if (tree < 0)
        return err_sys(e, "opening the layer %s", name);
    if (mkdirat(f->growth.dir, "links", 0700) < 0 ||
        (links = at_open(f->growth.dir, "links", O_RDONLY | O_DIRECTORY, 0)) < 0)
        return err_sys(e, "making a place for links");
    r = layers_copy(tree, f->growth.fs, links, &o, &report, e);
    if (r >= 0)
        r = tree_remove(f->growth.dir, "links", e);
    f->bytes += report.bytes;
    f->entries += report.entries;
    return r;
}

static int open_floor(struct flattening *f, struct err *e)
{
    struct keeper *k = f->keeper;
    size_t n = 0;

    if (k->fds[0] >= 0) {
        f->floor = (struct floor){ .trees = k->fds, .n = 1, .top = "usr" };
        return 0;
    }
    for (; n < k->job.n_against; n++) {
        f->trees[n] = storage_open_layer(&k->storage, k->job.against[n], e);
        if (f->trees[n] < 0)
            return f->trees[n];
    }
    f->floor = (struct floor){ .trees = f->trees, .n = n };
    return 0;
}

int keeper_flatten(struct keeper *k, struct err *e)
{
    static struct flattening f;
    struct layer_info info;
    int r;

    f = (struct flattening){ .keeper = k };
    r = open_floor(&f, e);
    if (r >= 0)
        r = growth_begin(&f.growth, &k->storage, k->job.name, e);
    for (size_t i = k->job.n_below; r >= 0 && i > 0; i--) {
        hook_point("layers.flatten");
        r = add_layer(&f, k->job.below[i - 1], e);
    }
    info = (struct layer_info){ .bytes = f.bytes, .entries = f.entries };
    if (r >= 0)
        r = growth_publish(&f.growth, k->job.name, &info, e);
    growth_done(&f.growth);
    k->done.bytes = f.bytes;
    k->done.entries = f.entries;
    return err_wrap(e, r, "making one layer of %llu", (unsigned long long)k->job.n_below);
}
