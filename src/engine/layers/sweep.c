/* What there is, and what should not be. */
#include <fcntl.h>

#include "base/own.h"

#include "layers/keeper.h"
#include "tree/at.h"
#include "tree/walk.h"

int keeper_sweep(struct keeper *k, struct err *e)
{
    return storage_sweep(&k->storage, e);
}

static int list(struct keeper *k, int dir, bool (*valid)(const char *name), struct err *e)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    int r, fd = at_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    if (fd < 0)
        return err_sys(e, "opening it");
    r = walk_enter(&w, fd, "", e);
    while (r >= 0 && (r = walk_next(&w, &name, e)) > 0)
        if (valid(name))
            keeper_line(k, name);
    return r;
}

int keeper_list(struct keeper *k, struct err *e)
{
    int r = list(k, k->storage.layers, layer_name_valid, e);

    if (r >= 0)
        r = list(k, k->storage.boxes, box_name_valid, e);
    return err_wrap(e, r, "looking through the storage");
}

/* Each for itself: what is stuck today is tried again at the next start. */
int keeper_clear(struct keeper *k, struct err *e)
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
