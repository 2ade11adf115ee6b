/* The writable layer of a sandbox, which stands still meanwhile, as a layer of its own. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/hook.h"
#include "base/own.h"
#include "layers/ahead.h"
#include "layers/copy.h"
#include "layers/count.h"
#include "layers/keeper.h"
#include "tree/at.h"
#include "tree/tree.h"
#include "uppers/driver.h"
#include "uppers/subvolume.h"

const char *const keeper_unwanted[] = { "dev", "proc", "sys", "run", ".empty", NULL };

static void tell(void *user, uint64_t bytes, uint64_t entries)
{
    keeper_progress(user, bytes, entries);
}

/* The disk is everybody's: a twentieth of it stays free, and as much as is asked for. What is in
 * memory is no larger than the memory it takes. */
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
    if (kept < k->job.free_min)
        kept = k->job.free_min;
    if (used + kept > room)
        return err_set(e, ERR_BUSY,
                       "the disk of the state directory is nearly full: %llu MiB are free, and up "
                       "to %llu are needed besides the %llu that stay free (images.free_min, or a "
                       "twentieth)",
                       (unsigned long long)(room >> 20), (unsigned long long)(used >> 20) + 1,
                       (unsigned long long)(kept >> 20));
    return 0;
}

/* Its files have to be copied, or cloned, one by one. */
static bool is_copied(const struct keeper *k)
{
    return k->box < 0 || !((k->job.flags & LAYERS_KEEP) || subvolume_is(k->box));
}

static int open_source(const struct keeper *k, struct err *e)
{
    int fd = k->box >= 0 ? at_open(k->box, UPPERS_FS, O_RDONLY | O_DIRECTORY, 0)
                         : at_open(k->fds[0], ".", O_RDONLY | O_DIRECTORY, 0);

    return fd < 0 ? err_sys(e, "opening what the sandbox wrote") : fd;
}

static int make_place(const struct growth *g, const char *name, struct err *e)
{
    int fd =
        mkdirat(g->dir, name, 0700) < 0 ? -1 : at_open(g->dir, name, O_RDONLY | O_DIRECTORY, 0);

    return fd < 0 ? err_sys(e, "making a place for %s", name) : fd;
}

static struct copy_options options(struct keeper *k)
{
    return (struct copy_options){ .bytes_max = k->job.bytes_max,
                                  .entries_max = k->job.entries_max,
                                  .free_min = k->job.free_min,
                                  .skip = keeper_unwanted,
                                  .ahead = k->ahead,
                                  .progress = tell,
                                  .user = k };
}

/* However fast files come and go meanwhile, no more is copied than the file system had. */
static uint64_t most_ahead(const struct keeper *k, int source)
{
    uint64_t max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT, used;
    struct statfs from;

    if (fstatfs(source, &from) < 0)
        return 0;
    used = (from.f_blocks - from.f_bfree) * (uint64_t)from.f_bsize;
    return used < max ? used : max;
}

static int copy_ahead(struct keeper *k, struct err *e)
{
    const struct copy_options o = options(k);
    AUTO_CLOSE int source = open_source(k, e);

    if (source < 0)
        return source;
    k->ahead = make_place(&k->growth, "ahead", e);
    if (k->ahead < 0)
        return k->ahead;
    ahead_copy(source, k->ahead, most_ahead(k, source), &o);
    hook_point("layers.ahead");
    return 0;
}

static int prepare_copy(struct keeper *k, struct err *e)
{
    int r = check_room(k, e);

    if (r >= 0)
        r = growth_begin(&k->growth, &k->storage, k->job.name, e);
    k->growing = &k->growth;
    return r < 0 || (k->job.flags & LAYERS_STILL) ? r : copy_ahead(k, e);
}

/* What it writes to disk is synchronised: little of it is left to be forced there while the sandbox
 * stands still. */
static int open_box(struct keeper *k, struct err *e)
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

/* Whatever can be done while it still runs. */
int keeper_capture_prepare(struct keeper *k, struct err *e)
{
    int r = open_box(k, e);

    if (r >= 0 && is_copied(k))
        r = prepare_copy(k, e);
    return err_wrap(e, r, "capturing what the sandbox wrote");
}

static int copy(struct keeper *k, struct copy_report *ret, struct err *e)
{
    const struct copy_options o = options(k);
    AUTO_CLOSE int source = open_source(k, e);
    AUTO_CLOSE int links = -1;

    if (source < 0)
        return source;
    links = make_place(&k->growth, "links", e);
    return links < 0 ? links : layers_copy(source, k->growth.fs, links, &o, ret, e);
}

static int capture_copy(struct keeper *k, struct layer_info *ret, struct err *e)
{
    struct copy_report report = { 0 };
    int r = copy(k, &report, e);

    if (r < 0)
        return r;
    keeper_taken(k);
    *ret = (struct layer_info){ .bytes = report.bytes, .entries = report.entries };
    r = storage_forget_names(k->growth.fs, e);
    return r < 0 ? r : growth_publish(&k->growth, k->job.name, ret, e);
}

/* What was not copied is counted when the sandbox goes on again. It adds no data, and is taken
 * however little of the disk is left. */
static int capture_snapshot(struct keeper *k, struct layer_info *ret, struct err *e)
{
    struct growth *g = &k->growth;
    int r = growth_snapshot(g, &k->storage, k->job.name, k->box, e);

    if (r < 0)
        return r;
    keeper_taken(k);
    r = storage_forget_names(g->fs, e);
    if (r >= 0)
        r = layers_count(k, g->fs, ret, e);
    return r < 0 ? r : growth_publish(g, k->job.name, ret, e);
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
    if (is_copied(k))
        return capture_copy(k, ret, e);
    return k->job.flags & LAYERS_KEEP ? keep(k, ret, e) : capture_snapshot(k, ret, e);
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
