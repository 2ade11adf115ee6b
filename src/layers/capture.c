/* The writable layer of a sandbox, which stands still meanwhile, as a layer of its own. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/own.h"
#include "layers/copy.h"
#include "layers/keeper.h"
#include "tree/at.h"
#include "tree/remove.h"

/* What the runtime puts there for every sandbox anew. */
static const char *const made_anew[] = { "dev", "proc", "sys", "run", ".empty", NULL };

static void tell(void *user, uint64_t bytes, uint64_t entries)
{
    keeper_progress(user, bytes, entries);
}

static int copy(struct keeper *k, struct growth *g, struct copy_report *ret, struct err *e)
{
    const struct copy_options o = { .bytes_max = k->job.bytes_max,
                                    .entries_max = k->job.entries_max,
                                    .skip = made_anew,
                                    .progress = tell,
                                    .user = k };
    AUTO_CLOSE int links = -1;

    if (mkdirat(g->dir, "links", 0700) < 0 ||
        (links = at_open(g->dir, "links", O_RDONLY | O_DIRECTORY, 0)) < 0)
        return err_sys(e, "making a place for links");
    return layers_copy(k->fds[0], g->fs, links, &o, ret, e);
}

int keeper_capture(struct keeper *k, struct err *e)
{
    AUTO(growth_done) struct growth g = GROWTH_NONE;
    struct copy_report report = { 0 };
    struct layer_info info;
    int r = growth_begin(&g, &k->storage, k->job.name, e);

    if (r >= 0)
        r = copy(k, &g, &report, e);
    if (r < 0)
        return err_wrap(e, r, "capturing what the sandbox wrote");
    keeper_taken(k);
    info = (struct layer_info){ .bytes = report.bytes, .entries = report.entries };
    r = tree_remove(g.dir, "links", e);
    if (r >= 0)
        r = growth_publish(&g, k->job.name, &info, e);
    k->done.bytes = report.bytes;
    k->done.entries = report.entries;
    return r;
}
