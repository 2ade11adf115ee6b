/* The writable layer of a sandbox, which stands still meanwhile, as a layer of its own. */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/own.h"
#include "layers/copy.h"
#include "layers/keeper.h"
#include "tree/at.h"
#include "tree/remove.h"

const char *const keeper_unwanted[] = { "dev", "proc", "sys", "run", ".empty", NULL };

static void tell(void *user, uint64_t bytes, uint64_t entries)
{
    keeper_progress(user, bytes, entries);
}

/* The disk is everybody's: a twentieth of it stays free. What is in memory is no larger than the
 * memory it takes. */
static int check_room(const struct keeper *k, struct err *e)
{
    struct statfs from, to;
    uint64_t used, room, kept;

    if (fstatfs(k->fds[0], &from) < 0 || fstatfs(k->storage.tmp, &to) < 0)
        return err_sys(e, "asking how much room there is");
    if (from.f_type != TMPFS_MAGIC)
        return 0;
    used = (from.f_blocks - from.f_bfree) * (uint64_t)from.f_bsize;
    room = (uint64_t)to.f_bavail * (uint64_t)to.f_bsize;
    kept = to.f_blocks / 20 * (uint64_t)to.f_bsize;
    if (used + kept > room)
        return err_set(e, ERR_BUSY,
                       "the disk of the state directory is nearly full: %llu MiB are free, and up "
                       "to %llu are needed besides the %llu that stay free",
                       (unsigned long long)(room >> 20), (unsigned long long)(used >> 20) + 1,
                       (unsigned long long)(kept >> 20));
    return 0;
}

static int copy(struct keeper *k, struct growth *g, struct copy_report *ret, struct err *e)
{
    const struct copy_options o = { .bytes_max = k->job.bytes_max,
                                    .entries_max = k->job.entries_max,
                                    .skip = keeper_unwanted,
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
    int r = check_room(k, e);

    if (r >= 0)
        r = growth_begin(&g, &k->storage, k->job.name, e);
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
