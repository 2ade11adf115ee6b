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

int keeper_list(struct keeper *k, struct err *e)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    int r, fd = at_open(k->storage.layers, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    if (fd < 0)
        return err_sys(e, "opening layers/");
    r = walk_enter(&w, fd, "layers", e);
    while (r >= 0 && (r = walk_next(&w, &name, e)) > 0)
        if (layer_name_valid(name))
            keeper_line(k, name);
    return r;
}
