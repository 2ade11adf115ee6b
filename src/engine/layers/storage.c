/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "lib/proc/sys.h"
#include "lib/tar/at.h"
#include "lib/tar/remove.h"
#include "lib/tar/walk.h"
#include "engine/storage/driver.h"
#include "engine/storage/seed.h"
#include "engine/storage/share.h"
#include "engine/storage/subvolume.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* The processes of a destroyed sandbox may take a moment to exit. */
enum { LOCK_TRIES = 500, LOCK_WAIT_US = 10000 };

static int open_part(int dir, const char *name, int *ret, struct err *e)
{
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "making %s/", name);
    *ret = at_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
    return *ret < 0 ? err_sys(e, "opening %s/", name) : 0;
}

int storage_open(struct storage *s, int dir, struct err *e)
{
    int r;

    *s = STORAGE_NONE;
    s->dir = dir;
    r = open_part(dir, "layers", &s->layers, e);
    if (r >= 0)
        r = open_part(dir, STORAGE_BOXES, &s->boxes, e);
    if (r >= 0)
        r = open_part(dir, "tmp", &s->tmp, e);
    if (r < 0)
        storage_done(s);
    return err_wrap(e, r, "the storage of layers");
}

void storage_done(struct storage *s)
{
    drop_fd(&s->layers);
    drop_fd(&s->boxes);
    drop_fd(&s->tmp);
    s->dir = -1;
}

/* The kernel releases the lock when the process ends. */
static int lock_tmp_entry(const struct storage *s, const char *entry, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = at_open(s->tmp, entry, O_RDONLY | O_DIRECTORY, 0);
    struct stat named, held;

    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "tmp/%s does not exist", entry)
                               : err_sys(e, "opening tmp/%s", entry);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_BUSY, "tmp/%s is in use by another process", entry);
    if (fstatat(s->tmp, entry, &named, AT_SYMLINK_NOFOLLOW) < 0 || fstat(fd, &held) < 0 ||
        held.st_ino != named.st_ino || held.st_dev != named.st_dev)
        return err_set(e, ERR_NOT_FOUND, "tmp/%s was removed", entry);
    *ret = take_fd(&fd);
    return 0;
}

static void name_staging(struct staging *g, const struct storage *s, const char *name)
{
    *g = STAGING_NONE;
    g->storage = s;
    snprintf(g->entry, sizeof g->entry, "%s.%d", name, (int)getpid());
}

static int open_staging_fs(struct staging *g, struct err *e)
{
    g->fs = at_open(g->dir, STORAGE_FS, O_RDONLY | O_DIRECTORY, 0);
    return g->fs < 0 ? err_sys(e, "opening tmp/%s/fs", g->entry) : 0;
}

/* Makes a new directory, or a snapshot of a box. Retries: a sweep may remove the entry before it is
 * locked. */
static int make_entry(struct staging *g, int box, struct err *e)
{
    int tmp = g->storage->tmp, r = 0;
    struct stat st;

    for (int i = 0; i < LOCK_TRIES; i++) {
        bool there = fstatat(tmp, g->entry, &st, AT_SYMLINK_NOFOLLOW) == 0;

        r = 0;
        if (!there && box >= 0)
            r = subvolume_snapshot(box, tmp, g->entry, e);
        else if (!there && mkdirat(tmp, g->entry, 0700) < 0)
            r = err_sys(e, "making tmp/%s", g->entry);
        if (r < 0) {
            g->entry[0] = '\0';
            return r;
        }
        r = lock_tmp_entry(g->storage, g->entry, &g->dir, e);
        if (r >= 0 || (r != -(int)ERR_BUSY && r != -(int)ERR_NOT_FOUND))
            return r;
        usleep(LOCK_WAIT_US);
    }
    return r;
}

int staging_begin(struct staging *g, const struct storage *s, const char *name, struct err *e)
{
    int r;

    name_staging(g, s, name);
    r = make_entry(g, -1, e);
    if (r >= 0 && mkdirat(g->dir, STORAGE_FS, 0755) < 0)
        r = err_sys(e, "making tmp/%s/fs", g->entry);
    return r < 0 ? r : open_staging_fs(g, e);
}

int staging_make_dir(const struct staging *g, const char *name, struct err *e)
{
    int fd =
        mkdirat(g->dir, name, 0700) < 0 ? -1 : at_open(g->dir, name, O_RDONLY | O_DIRECTORY, 0);

    return fd < 0 ? err_sys(e, "creating the directory %s", name) : fd;
}

/* Removes everything but fs/ and the note of its owner from a box: the work directories belong to
 * overlayfs. */
static int strip_box(int dir, struct err *e)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    int r = err_wrap(e, walk_begin(&w, dir, e), "a box");

    while (r >= 0 && (r = walk_next(&w, &name, e)) > 0) {
        char copy[TREE_NAME_MAX + 1];

        snprintf(copy, sizeof copy, "%s", name);
        if (strcmp(copy, STORAGE_FS) != 0 && strcmp(copy, SHARE_NOTE) != 0)
            r = tree_remove(dir, copy, e);
    }
    return r;
}

const char *const storage_own_names[] = { "hosts", "hostname", "machine-id", "resolv.conf", NULL };

/* A file that cannot be removed is hidden by the runtime's own anyway. */
int storage_remove_own_names(int fs, struct err *e)
{
    AUTO_CLOSE int etc = at_open(fs, "etc", O_RDONLY | O_DIRECTORY, 0);
    struct timespec times[2];
    struct stat st;

    if (etc < 0)
        return 0;
    if (fstat(etc, &st) < 0)
        return err_sys(e, "reading the attributes of /etc");
    for (const char *const *name = storage_own_names; *name; name++)
        (void)unlinkat(etc, *name, 0);
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    return futimens(etc, times) < 0 ? err_sys(e, "restoring the times of /etc") : 0;
}

int staging_snapshot(struct staging *g, const struct storage *s, const char *name, int box,
                     struct err *e)
{
    int r;

    name_staging(g, s, name);
    r = make_entry(g, box, e);
    return r < 0 ? r : open_staging_fs(g, e);
}

/* Informational: on a full disk the file stays empty, and the snapshot succeeds. In a box at its
 * quota, deleted files count until they are synced. */
static int write_layer_info(int dir, const struct layer_info *info, struct err *e)
{
    AUTO_CLOSE int fd = at_open(dir, "info", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char text[160];
    int n =
        snprintf(text, sizeof text, "{\"version\":1,\"ids\":%u,\"bytes\":%llu,\"entries\":%llu}\n",
                 info->ids, (unsigned long long)info->bytes, (unsigned long long)info->entries);

    int r;

    if (fd < 0 && errno == EDQUOT && syncfs(dir) == 0)
        fd = at_open(dir, "info", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return err_sys(e, "making a layer's info");
    r = at_write(fd, text, (size_t)n, e);
    return r < 0 && (errno == ENOSPC || errno == EDQUOT) ? 0 : r;
}

static int sync_layer_dir(int dir, struct err *e)
{
    return fsync(dir) < 0 ? err_sys(e, "syncing a directory") : 0;
}

/* Removes a subvolume as a whole where permitted. */
static int remove_entry(const struct storage *s, const char *entry, struct err *e)
{
    AUTO_CLOSE int dir = at_open(s->tmp, entry, O_RDONLY | O_DIRECTORY, 0);
    bool is_subvolume = dir >= 0 && subvolume_is(dir);
    struct err why = { 0 };
    int r;

    if (is_subvolume && subvolume_remove(s->tmp, entry, NULL) >= 0)
        return 0;
    r = tree_remove(s->tmp, entry, &why);
    if (r < 0 && is_subvolume && why.sys == EROFS) {
        subvolume_unlock_nested(dir);
        r = tree_remove(s->tmp, entry, &why);
    }
    if (r < 0 && e)
        *e = why;
    return r;
}

/* Prepares inode numbers: sandboxes on this layer need higher ones than it has
 * (engine/storage/seed.h). If this fails, creating a sandbox does it. */
static void prepare_numbers(const struct storage *s, const char *name)
{
    enum { NUMBERS_A_LAYER = 500000 };
    char path[LAYER_NAME_MAX + sizeof "/info"];
    struct stat st;

    snprintf(path, sizeof path, "%s/info", name);
    if (subvolume_possible(s->dir) && fstatat(s->layers, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        (void)seed_prepare(s->dir, st.st_ino, NUMBERS_A_LAYER, NULL);
}

int staging_publish(struct staging *g, const char *name, const struct layer_info *info,
                    struct err *e)
{
    const struct storage *s = g->storage;
    int r = strip_box(g->dir, e);

    if (r >= 0)
        r = write_layer_info(g->dir, info, e);
    if (r < 0)
        return r;
    fault_point("layers.sync");
    if (syncfs(g->dir) < 0) /* all files at once */
        return err_sys(e, "syncing a layer");
    fault_point("layers.rename");
    if (syscall(SYS_renameat2, s->tmp, g->entry, s->layers, name, RENAME_NOREPLACE) < 0)
        return errno == EEXIST ? 0 : err_sys(e, "renaming a layer");
    g->entry[0] = '\0';
    fault_point("layers.renamed");
    r = sync_layer_dir(s->layers, e);
    if (r >= 0)
        r = sync_layer_dir(s->tmp, e);
    if (r >= 0)
        prepare_numbers(s, name);
    return r;
}

void staging_done(struct staging *g)
{
    drop_fd(&g->fs);
    drop_fd(&g->dir);
    if (g->entry[0])
        (void)remove_entry(g->storage, g->entry, NULL); /* else the next sweep does it */
    g->entry[0] = '\0';
}

int storage_open_layer(const struct storage *s, const char *name, struct err *e)
{
    char path[LAYER_NAME_MAX + sizeof "/fs"];
    int fd;

    snprintf(path, sizeof path, "%s/fs", name);
    fd = at_open(s->layers, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "there is no layer %s", name);
    return fd < 0 ? err_sys(e, "opening the layer %s", name) : fd;
}

/* Calls `one` for each entry of tmp/ with this prefix. */
static int each_entry(const struct storage *s, const char *prefix,
                      int (*one)(const struct storage *s, const char *entry, struct err *e),
                      struct err *e)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    int r = err_wrap(e, walk_begin(&w, s->tmp, e), "tmp/");

    while (r >= 0 && (r = walk_next(&w, &name, e)) > 0) {
        char copy[TREE_NAME_MAX + 1];

        snprintf(copy, sizeof copy, "%s", name);
        r = strncmp(copy, prefix, strlen(prefix)) == 0 ? one(s, copy, e) : 0;
    }
    return r;
}

/* Waits until no worker has the entry locked. */
static int await_entry(const struct storage *s, const char *entry, struct err *e)
{
    AUTO_CLOSE int fd = at_open(s->tmp, entry, O_RDONLY | O_DIRECTORY, 0);

    while (fd >= 0 && flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return err_sys(e, "waiting for tmp/%s", entry);
    return 0;
}

/* Waits for the worker that builds the layer: it was cancelled, but may publish the layer before it
 * notices. */
int storage_remove(const struct storage *s, const char *name, struct err *e)
{
    char entry[LAYER_NAME_MAX + 32];
    int r;

    snprintf(entry, sizeof entry, "%s.", name);
    r = each_entry(s, entry, await_entry, e);
    if (r < 0)
        return r;
    snprintf(entry, sizeof entry, "%s.gone.%d", name, (int)getpid());
    if (renameat(s->layers, name, s->tmp, entry) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "removing the layer %s", name);
    fault_point("layers.removing");
    r = sync_layer_dir(s->layers, e);
    if (r >= 0)
        r = remove_entry(s, entry, e);
    return r == -(int)ERR_NOT_FOUND ? 0 : r; /* a sweep has done it */
}

/* --- boxes --- */

int storage_open_box(const struct storage *s, const char *id, struct err *e)
{
    int fd = at_open(s->boxes, id, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "the writable layer of %s is not on disk", id);
    return fd < 0 ? err_sys(e, "opening %s/%s", STORAGE_BOXES, id) : fd;
}

/* Locks a box: nothing runs in it from then on. */
static int hold_box(const struct storage *s, const char *id, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = storage_open_box(s, id, e);
    int r;

    if (fd < 0)
        return fd;
    for (int i = 0; (r = flock(fd, LOCK_EX | LOCK_NB)) < 0 && i < LOCK_TRIES; i++)
        usleep(LOCK_WAIT_US);
    if (r < 0)
        return err_set(e, ERR_BUSY, "processes still run in %s", id);
    *ret = take_fd(&fd);
    return 0;
}

/* Removes a box that the caller holds, so that its id can be used again. */
static int remove_held_box(const struct storage *s, const char *id, struct err *e)
{
    char entry[ID_MAX + 32];

    snprintf(entry, sizeof entry, "%s.gone.%d", id, (int)getpid());
    if (renameat(s->boxes, id, s->tmp, entry) < 0)
        return err_sys(e, "removing the box %s", id);
    return remove_entry(s, entry, e);
}

/* If btrfs refuses a write or a change of attributes on a full disk, the inode in memory keeps the
 * new times, mode and owner, which never reach the disk. A renamed box would show them until the
 * inode is evicted, and differ from its digest afterwards. A snapshot has the state on disk. */
static int snapshot_box(const struct storage *s, int box, const char *id, const char *name,
                        const struct layer_info *info, struct err *e)
{
    struct staging g = STAGING_NONE;
    int r = syncfs(box) < 0 ? err_sys(e, "syncing a layer") : staging_snapshot(&g, s, name, box, e);

    if (r >= 0)
        r = storage_remove_own_names(g.fs, e);
    if (r >= 0)
        r = staging_publish(&g, name, info, e);
    staging_done(&g);
    return r < 0 ? r : remove_held_box(s, id, e); /* on failure the next LAYERS_TAKE removes it */
}

static int rename_box(const struct storage *s, int box, const char *id, const char *name,
                      const struct layer_info *info, struct err *e)
{
    AUTO_CLOSE int fs = -1;
    int r = strip_box(box, e);

    if (r >= 0 && (fs = at_open(box, STORAGE_FS, O_RDONLY | O_DIRECTORY, 0)) >= 0)
        r = storage_remove_own_names(fs, e);
    if (r >= 0)
        r = write_layer_info(box, info, e);
    if (r < 0)
        return r;
    fault_point("layers.sync");
    if (syncfs(box) < 0)
        return err_sys(e, "syncing a layer");
    fault_point("layers.rename");
    if (syscall(SYS_renameat2, s->boxes, id, s->layers, name, RENAME_NOREPLACE) < 0)
        return err_sys(e, "renaming a layer");
    fault_point("layers.renamed");
    r = sync_layer_dir(s->layers, e);
    if (r >= 0)
        r = sync_layer_dir(s->boxes, e);
    if (r >= 0)
        prepare_numbers(s, name);
    return r;
}

int storage_take_box(const struct storage *s, const char *id, const char *name,
                     const struct layer_info *info, struct err *e)
{
    AUTO_CLOSE int box = -1;
    int r = hold_box(s, id, &box, e);

    if (r < 0)
        return r;
    return subvolume_is(box) ? snapshot_box(s, box, id, name, info, e)
                             : rename_box(s, box, id, name, info, e);
}

int storage_clear_box(const struct storage *s, const char *id, struct err *e)
{
    AUTO_CLOSE int box = -1;
    int r = hold_box(s, id, &box, e);

    if (r < 0)
        return r == -(int)ERR_NOT_FOUND ? 0 : r;
    return remove_held_box(s, id, e);
}

static int sweep_one(const struct storage *s, const char *name, struct err *e)
{
    AUTO_CLOSE int held = -1;
    int r = lock_tmp_entry(s, name, &held, e);

    if (r != -(int)ERR_BUSY && r != -(int)ERR_NOT_FOUND)
        r = remove_entry(s, name, e);
    return r == -(int)ERR_BUSY || r == -(int)ERR_NOT_FOUND ? 0 : r; /* its owner removes it */
}

int storage_sweep(const struct storage *s, struct err *e)
{
    return each_entry(s, "", sweep_one, e);
}
