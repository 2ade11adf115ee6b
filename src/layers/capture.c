/* The writable layer of a sandbox, which stands still meanwhile, as a layer of its own. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/own.h"
#include "layers/copy.h"
#include "layers/count.h"
#include "layers/keeper.h"
#include "tree/at.h"
#include "uppers/driver.h"
#include "uppers/subvolume.h"

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

    if (k->box >= 0)
        return 0; /* as far as it is copied at all, it may take less than it seems */
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

/* What it writes to disk was synchronised just now: little of it is left to be forced there while
 * the sandbox stands still. */
int keeper_capture_prepare(struct keeper *k, struct err *e)
{
    if (!k->job.box[0])
        return 0;
    k->box = storage_open_box(&k->storage, k->job.box, e);
    if (k->box == -(int)ERR_NOT_FOUND)
        return k->fds[0] >= 0 ? 0 : k->box;
    if (k->box < 0)
        return k->box;
    return syncfs(k->box) < 0 ? err_sys(e, "forcing what the sandbox wrote to disk") : 0;
}

static int copy(struct keeper *k, struct growth *g, struct copy_report *ret, struct err *e)
{
    const struct copy_options o = { .bytes_max = k->job.bytes_max,
                                    .entries_max = k->job.entries_max,
                                    .free_min = k->job.free_min,
                                    .skip = keeper_unwanted,
                                    .progress = tell,
                                    .user = k };
    AUTO_CLOSE int links = -1, fs = -1;

    if (k->box >= 0 && (fs = at_open(k->box, UPPERS_FS, O_RDONLY | O_DIRECTORY, 0)) < 0)
        return err_sys(e, "opening what the sandbox wrote");
    if (mkdirat(g->dir, "links", 0700) < 0 ||
        (links = at_open(g->dir, "links", O_RDONLY | O_DIRECTORY, 0)) < 0)
        return err_sys(e, "making a place for links");
    return layers_copy(fs >= 0 ? fs : k->fds[0], g->fs, links, &o, ret, e);
}

static int capture_copy(struct keeper *k, struct growth *g, struct layer_info *ret, struct err *e)
{
    struct copy_report report = { 0 };
    int r = check_room(k, e);

    if (r >= 0)
        r = growth_begin(g, &k->storage, k->job.name, e);
    if (r >= 0)
        r = copy(k, g, &report, e);
    if (r < 0)
        return r;
    keeper_taken(k);
    *ret = (struct layer_info){ .bytes = report.bytes, .entries = report.entries };
    return storage_forget_names(g->fs, e);
}

/* What was not copied is counted when the sandbox goes on again. It adds no data, and is taken
 * however little of the disk is left. */
static int capture_snapshot(struct keeper *k, struct growth *g, struct layer_info *ret,
                            struct err *e)
{
    int r = growth_snapshot(g, &k->storage, k->job.name, k->box, e);

    if (r < 0)
        return r;
    keeper_taken(k);
    r = storage_forget_names(g->fs, e);
    return r < 0 ? r : layers_count(k, g->fs, ret, e);
}

/* It stays what the sandbox writes to; should that end, it is taken as it is. */
static int keep(struct keeper *k, struct layer_info *ret, struct err *e)
{
    AUTO_CLOSE int fs = at_open(k->box, UPPERS_FS, O_RDONLY | O_DIRECTORY, 0);

    if (fs < 0 || syncfs(k->box) < 0)
        return err_sys(e, "forcing what the sandbox wrote to disk");
    keeper_taken(k);
    snprintf(k->done.text, sizeof k->done.text, "kept");
    return layers_count(k, fs, ret, e);
}

static int capture(struct keeper *k, struct layer_info *ret, struct err *e)
{
    AUTO(growth_done) struct growth g = GROWTH_NONE;
    int r;

    if (k->box >= 0 && (k->job.flags & LAYERS_KEEP))
        return keep(k, ret, e);
    r = k->box >= 0 && subvolume_is(k->box) ? capture_snapshot(k, &g, ret, e)
                                            : capture_copy(k, &g, ret, e);
    return r < 0 ? r : growth_publish(&g, k->job.name, ret, e);
}

int keeper_capture(struct keeper *k, struct err *e)
{
    struct layer_info info = { 0 };
    int r = capture(k, &info, e);

    k->done.bytes = info.bytes;
    k->done.entries = info.entries;
    return err_wrap(e, r, "capturing what the sandbox wrote");
}

int keeper_take(struct keeper *k, struct err *e)
{
    AUTO_CLOSE int layer = storage_open_layer(&k->storage, k->job.name, e);
    AUTO_CLOSE int box = -1, fs = -1;
    struct layer_info info = { 0 };
    int r;

    if (layer >= 0) { /* taken before; whoever writes there now stands on it */
        r = storage_clear_box(&k->storage, k->job.box, e);
        return r == -(int)ERR_BUSY ? 0 : r;
    }
    box = storage_open_box(&k->storage, k->job.box, e);
    if (box < 0)
        return box;
    fs = at_open(box, UPPERS_FS, O_RDONLY | O_DIRECTORY, 0);
    if (fs < 0)
        return err_sys(e, "opening what the sandbox wrote");
    r = layers_count(k, fs, &info, e);
    drop_fd(&box); /* its lock is of whoever opens it next */
    if (r >= 0)
        r = storage_take_box(&k->storage, k->job.box, k->job.name, &info, e);
    return err_wrap(e, r, "keeping what the sandbox wrote");
}
