/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_CAPTURE and LAYERS_TAKE: make a layer from the writable layer of a frozen sandbox. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "engine/layers/ahead.h"
#include "engine/layers/copy.h"
#include "engine/layers/count.h"
#include "engine/layers/worker.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"
#include "engine/storage/driver.h"
#include "engine/storage/subvolume.h"

const char *const layer_worker_skipped_names[] = { "dev", "proc", "sys", "run", ".empty", NULL };

/* Keeps a twentieth of the disk free, or the configured amount if that is more. Checked for a tmpfs
 * only: its copy is at most as large as the memory it uses. */
static int check_capture_space(const struct layer_worker *k, struct err *e)
{
    struct statfs from, to;
    uint64_t used, room, kept;

    if (k->box >= 0)
        return 0; /* a clone may take less than its size */
    if (fstatfs(k->fds[0], &from) < 0 || fstatfs(k->storage.tmp, &to) < 0)
        return err_sys(e, "reading the free disk space");
    if (from.f_type != TMPFS_MAGIC)
        return 0;
    used = (from.f_blocks - from.f_bfree) * (uint64_t)from.f_bsize;
    room = (uint64_t)to.f_bavail * (uint64_t)to.f_bsize;
    kept = to.f_blocks / 20 * (uint64_t)to.f_bsize;
    if (kept < k->job.free_min)
        kept = k->job.free_min;
    if (used + kept > room)
        return err_set(
            e, ERR_FULL,
            "the disk of the state directory is nearly full: %llu MiB are free, up to %llu MiB are "
            "needed, and %llu MiB must stay free (images.free_min, or a twentieth)",
            (unsigned long long)(room >> 20), (unsigned long long)(used >> 20) + 1,
            (unsigned long long)(kept >> 20));
    return 0;
}

/* True if files have to be copied or cloned one by one. */
static bool is_copied_by_file(const struct layer_worker *k)
{
    return k->box < 0 || !((k->job.flags & LAYERS_KEEP) || subvolume_is(k->box));
}

static int open_capture_source(const struct layer_worker *k, struct err *e)
{
    int fd = k->box >= 0 ? at_open(k->box, STORAGE_FS, O_RDONLY | O_DIRECTORY, 0)
                         : at_open(k->fds[0], ".", O_RDONLY | O_DIRECTORY, 0);

    return fd < 0 ? err_sys(e, "opening the writable layer of the sandbox") : fd;
}

static struct copy_options capture_options(struct layer_worker *k)
{
    return (struct copy_options){ .bytes_max = k->job.bytes_max,
                                  .entries_max = k->job.entries_max,
                                  .free_min = k->job.free_min,
                                  .skip = layer_worker_skipped_names,
                                  .ahead = k->ahead,
                                  .progress = layer_worker_on_progress,
                                  .user = k };
}

/* Limits the pre-copy to the space that the file system uses now, however many files change
 * meanwhile. */
static int copy_ahead(struct layer_worker *k, struct err *e)
{
    uint64_t max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT, used = 0;
    const struct copy_options o = capture_options(k);
    AUTO_CLOSE int source = open_capture_source(k, e);
    struct statfs from;

    if (source < 0)
        return source;
    k->ahead = staging_make_dir(&k->staging, "ahead", e);
    if (k->ahead < 0)
        return k->ahead;
    if (fstatfs(source, &from) == 0)
        used = (from.f_blocks - from.f_bfree) * (uint64_t)from.f_bsize;
    ahead_copy(source, k->ahead, used < max ? used : max, &o);
    fault_point("layers.ahead");
    return 0;
}

static int prepare_copy(struct layer_worker *k, struct err *e)
{
    int r = check_capture_space(k, e);

    if (r >= 0)
        r = staging_begin(&k->staging, &k->storage, k->job.name, e);
    k->unfinished = &k->staging;
    return r < 0 || (k->job.flags & LAYERS_FROZEN) ? r : copy_ahead(k, e);
}

/* Syncs the data on disk early, so that little is left to write while the sandbox is frozen. */
static int open_captured_box(struct layer_worker *k, struct err *e)
{
    if (!k->job.box[0])
        return 0;
    k->box = storage_open_box(&k->storage, k->job.box, e);
    if (k->box == -(int)ERR_NOT_FOUND)
        return k->fds[0] >= 0 ? 0 : k->box;
    if (k->box < 0)
        return k->box;
    return syncfs(k->box) < 0 ? err_sys(e, "syncing the writable layer of the sandbox") : 0;
}

/* Does all work that is possible while the sandbox runs. */
int layer_worker_capture_prepare(struct layer_worker *k, struct err *e)
{
    int r = open_captured_box(k, e);

    if (r >= 0 && is_copied_by_file(k))
        r = prepare_copy(k, e);
    return err_wrap(e, r, "capturing the writable layer of the sandbox");
}

static int capture_copy(struct layer_worker *k, struct layer_info *ret, struct err *e)
{
    const struct copy_options o = capture_options(k);
    AUTO_CLOSE int source = open_capture_source(k, e), links = -1;
    struct copy_report report = { 0 };
    int r = source < 0 ? source : (links = staging_make_dir(&k->staging, "links", e));

    if (r >= 0)
        r = layers_copy(source, k->staging.fs, links, &o, &report, e);
    if (r < 0)
        return r;
    layer_worker_report_taken(k);
    *ret = (struct layer_info){ .bytes = report.bytes, .entries = report.entries };
    r = storage_remove_own_names(k->staging.fs, e);
    return r < 0 ? r : staging_publish(&k->staging, k->job.name, ret, e);
}

/* Snapshots the subvolume and counts its files after the sandbox was thawed. A snapshot adds no
 * data, so it is allowed on a full disk. */
static int capture_snapshot(struct layer_worker *k, struct layer_info *ret, struct err *e)
{
    struct staging *g = &k->staging;
    int r = staging_snapshot(g, &k->storage, k->job.name, k->box, e);

    if (r < 0)
        return r;
    layer_worker_report_taken(k);
    r = storage_remove_own_names(g->fs, e);
    if (r >= 0)
        r = layers_count(k, g->fs, ret, e);
    return r < 0 ? r : staging_publish(g, k->job.name, ret, e);
}

/* Leaves the data where the sandbox writes it; if the sandbox ends, LAYERS_TAKE makes a layer of
 * it. */
static int keep_box_in_place(struct layer_worker *k, struct layer_info *ret, struct err *e)
{
    AUTO_CLOSE int fs = at_open(k->box, STORAGE_FS, O_RDONLY | O_DIRECTORY, 0);

    if (fs < 0 || syncfs(k->box) < 0)
        return err_sys(e, "syncing the writable layer of the sandbox");
    layer_worker_report_taken(k);
    snprintf(k->done.text, sizeof k->done.text, "kept");
    return layers_count(k, fs, ret, e);
}

int layer_worker_capture(struct layer_worker *k, struct err *e)
{
    struct layer_info info = { 0 };
    int r = is_copied_by_file(k)         ? capture_copy(k, &info, e)
            : k->job.flags & LAYERS_KEEP ? keep_box_in_place(k, &info, e)
                                         : capture_snapshot(k, &info, e);

    k->done.bytes = info.bytes;
    k->done.entries = info.entries;
    return err_wrap(e, r, "capturing the writable layer of the sandbox");
}

static int take_writable_layer(struct layer_worker *k, struct err *e)
{
    AUTO_CLOSE int box = storage_open_box(&k->storage, k->job.box, e);
    AUTO_CLOSE int fs = -1;
    struct layer_info info = { 0 };
    int r;

    if (box < 0)
        return box;
    fs = at_open(box, STORAGE_FS, O_RDONLY | O_DIRECTORY, 0);
    if (fs < 0)
        return err_sys(e, "opening the writable layer of the sandbox");
    r = layers_count(k, fs, &info, e);
    drop_fd(&box); /* releases its lock */
    if (r >= 0)
        r = storage_take_box(&k->storage, k->job.box, k->job.name, &info, e);
    return err_wrap(e, r, "taking over the writable layer of the sandbox");
}

static bool is_layer_taken(const struct layer_worker *k)
{
    AUTO_CLOSE int layer = storage_open_layer(&k->storage, k->job.name, NULL);

    return layer >= 0;
}

int layer_worker_take(struct layer_worker *k, struct err *e)
{
    int r;

    if (is_layer_taken(k)) { /* before; a sandbox that runs there now uses it as a lower layer */
        r = storage_clear_box(&k->storage, k->job.box, e);
        return r == -(int)ERR_BUSY ? 0 : r;
    }
    r = take_writable_layer(k, e);
    /* A worker that was cancelled may have finished meanwhile. */
    return r == -(int)ERR_NOT_FOUND && is_layer_taken(k) ? 0 : r;
}
