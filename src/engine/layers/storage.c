#include "layers/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hook.h"
#include "base/own.h"
#include "proc/sys.h"
#include "tree/at.h"
#include "tree/remove.h"
#include "tree/walk.h"
#include "uppers/driver.h"
#include "uppers/seed.h"
#include "uppers/subvolume.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* Processes of a sandbox may take a moment to be gone when it is. */
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
        r = open_part(dir, UPPERS_BOXES, &s->boxes, e);
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

/* What is open is what has that name: not one that was removed since, or made anew. */
static bool is_entry(const struct storage *s, const char *entry, int fd)
{
    struct stat named, held;

    return fstatat(s->tmp, entry, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &held) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/* The lock is the process's: it goes with it, however it ends. */
static int take_entry(const struct storage *s, const char *entry, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = at_open(s->tmp, entry, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no tmp/%s", entry)
                               : err_sys(e, "opening tmp/%s", entry);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_BUSY, "somebody works on tmp/%s", entry);
    if (!is_entry(s, entry, fd))
        return err_set(e, ERR_NOT_FOUND, "tmp/%s was removed", entry);
    *ret = take_fd(&fd);
    return 0;
}

static void growth_name(struct growth *g, const struct storage *s, const char *name)
{
    *g = GROWTH_NONE;
    g->storage = s;
    snprintf(g->entry, sizeof g->entry, "%s.%d", name, (int)getpid());
}

static int growth_open(struct growth *g, struct err *e)
{
    g->fs = at_open(g->dir, UPPERS_FS, O_RDONLY | O_DIRECTORY, 0);
    return g->fs < 0 ? err_sys(e, "opening tmp/%s/fs", g->entry) : 0;
}

/* A new directory, or what a box has now. */
static int put_entry(const struct growth *g, int box, struct err *e)
{
    const struct storage *s = g->storage;

    if (box >= 0)
        return subvolume_snapshot(box, s->tmp, g->entry, e);
    return mkdirat(s->tmp, g->entry, 0700) < 0 ? err_sys(e, "making tmp/%s", g->entry) : 0;
}

static bool is_there(const struct growth *g)
{
    struct stat st;

    return fstatat(g->storage->tmp, g->entry, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A sweep may come upon it before it is locked, and remove it. */
static int make_entry(struct growth *g, int box, struct err *e)
{
    int r = 0;

    for (int i = 0; i < LOCK_TRIES; i++) {
        if (!is_there(g) && (r = put_entry(g, box, e)) < 0) {
            g->entry[0] = '\0';
            return r;
        }
        r = take_entry(g->storage, g->entry, &g->dir, e);
        if (r >= 0 || (r != -(int)ERR_BUSY && r != -(int)ERR_NOT_FOUND))
            return r;
        usleep(LOCK_WAIT_US);
    }
    return r;
}

int growth_begin(struct growth *g, const struct storage *s, const char *name, struct err *e)
{
    int r;

    growth_name(g, s, name);
    r = make_entry(g, -1, e);
    if (r >= 0 && mkdirat(g->dir, UPPERS_FS, 0755) < 0)
        r = err_sys(e, "making tmp/%s/fs", g->entry);
    return r < 0 ? r : growth_open(g, e);
}

/* Of a box a layer is no more than this; the rest is overlayfs's. */
static int strip_box(int dir, struct err *e)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    int r, fd = at_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    if (fd < 0)
        return err_sys(e, "opening a box");
    r = walk_enter(&w, fd, "", e);
    while (r >= 0 && (r = walk_next(&w, &name, e)) > 0) {
        char copy[TREE_NAME_MAX + 1];

        snprintf(copy, sizeof copy, "%s", name);
        r = strcmp(copy, UPPERS_FS) == 0 ? 0 : tree_remove(dir, copy, e);
    }
    return r;
}

const char *const storage_own_names[] = { "hosts", "hostname", "machine-id", "resolv.conf", NULL };

/* If one cannot go, it is not seen either. */
int storage_forget_names(int fs, struct err *e)
{
    AUTO_CLOSE int etc = at_open(fs, "etc", O_RDONLY | O_DIRECTORY, 0);
    struct timespec times[2];
    struct stat st;

    if (etc < 0)
        return 0;
    if (fstat(etc, &st) < 0)
        return err_sys(e, "looking at /etc");
    for (const char *const *name = storage_own_names; *name; name++)
        (void)unlinkat(etc, *name, 0);
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    return futimens(etc, times) < 0 ? err_sys(e, "giving /etc its time back") : 0;
}

int growth_snapshot(struct growth *g, const struct storage *s, const char *name, int box,
                    struct err *e)
{
    int r;

    growth_name(g, s, name);
    r = make_entry(g, box, e);
    return r < 0 ? r : growth_open(g, e);
}

/* Where the box was at its limit, what was removed of it counts until it is forced to disk. */
static int make_info(int dir)
{
    int fd = at_open(dir, "info", O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 && errno == EDQUOT && syncfs(dir) == 0)
        fd = at_open(dir, "info", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return fd;
}

/* For people: on a full disk it is empty, and a snapshot is taken all the same. */
static int write_info(int dir, const struct layer_info *info, struct err *e)
{
    AUTO_CLOSE int fd = make_info(dir);
    char text[160];
    int n =
        snprintf(text, sizeof text, "{\"version\":1,\"ids\":%u,\"bytes\":%llu,\"entries\":%llu}\n",
                 info->ids, (unsigned long long)info->bytes, (unsigned long long)info->entries);

    int r;

    if (fd < 0)
        return err_sys(e, "making a layer's info");
    r = at_write(fd, text, (size_t)n, e);
    return r < 0 && (errno == ENOSPC || errno == EDQUOT) ? 0 : r;
}

static int sync_dir(int dir, struct err *e)
{
    return fsync(dir) < 0 ? err_sys(e, "forcing a directory to disk") : 0;
}

/* A subvolume goes as a whole, where we may. */
static int remove_entry(const struct storage *s, const char *entry, struct err *e)
{
    AUTO_CLOSE int dir = at_open(s->tmp, entry, O_RDONLY | O_DIRECTORY, 0);

    if (dir >= 0 && subvolume_is(dir) && subvolume_remove(s->tmp, entry, NULL) >= 0)
        return 0;
    return tree_remove(s->tmp, entry, e);
}

/* Sandboxes that stand on a layer have higher inode numbers than it has (uppers/seed.h): whoever is
 * first to need them finds them prepared. If not, making the sandbox does it. */
static void prepare_numbers(const struct storage *s, const char *name)
{
    enum { NUMBERS_A_LAYER = 500000 };
    char path[LAYER_NAME_MAX + sizeof "/info"];
    struct stat st;

    snprintf(path, sizeof path, "%s/info", name);
    if (subvolume_possible(s->dir) && fstatat(s->layers, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        (void)seed_prepare(s->dir, st.st_ino, NUMBERS_A_LAYER, NULL);
}

int growth_publish(struct growth *g, const char *name, const struct layer_info *info, struct err *e)
{
    const struct storage *s = g->storage;
    int r = strip_box(g->dir, e);

    if (r >= 0)
        r = write_info(g->dir, info, e);
    if (r < 0)
        return r;
    hook_point("layers.sync");
    if (syncfs(g->dir) < 0) /* every file of it at once */
        return err_sys(e, "forcing a layer to disk");
    hook_point("layers.rename");
    if (syscall(SYS_renameat2, s->tmp, g->entry, s->layers, name, RENAME_NOREPLACE) < 0)
        return errno == EEXIST ? 0 : err_sys(e, "giving a layer its name");
    g->entry[0] = '\0';
    hook_point("layers.renamed");
    r = sync_dir(s->layers, e);
    if (r >= 0)
        r = sync_dir(s->tmp, e);
    if (r >= 0)
        prepare_numbers(s, name);
    return r;
}

void growth_done(struct growth *g)
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

/* Calls `one` for each entry of tmp/ that begins so. */
static int each_entry(const struct storage *s, const char *prefix,
                      int (*one)(const struct storage *s, const char *entry, struct err *e),
                      struct err *e)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    int r, fd = at_open(s->tmp, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    if (fd < 0)
        return err_sys(e, "opening tmp/");
    r = walk_enter(&w, fd, "tmp", e);
    while (r >= 0 && (r = walk_next(&w, &name, e)) > 0) {
        char copy[TREE_NAME_MAX + 1];

        snprintf(copy, sizeof copy, "%s", name);
        r = strncmp(copy, prefix, strlen(prefix)) == 0 ? one(s, copy, e) : 0;
    }
    return r;
}

/* Until nobody works on it any more. */
static int await_entry(const struct storage *s, const char *entry, struct err *e)
{
    AUTO_CLOSE int fd = at_open(s->tmp, entry, O_RDONLY | O_DIRECTORY, 0);

    while (fd >= 0 && flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return err_sys(e, "waiting for tmp/%s", entry);
    return 0;
}

/* Whoever makes the layer was told not to, perhaps too late to notice: then it is there in a
 * moment, and would stay. */
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
        return errno == ENOENT ? 0 : err_sys(e, "taking the layer %s away", name);
    hook_point("layers.removing");
    r = sync_dir(s->layers, e);
    if (r >= 0)
        r = remove_entry(s, entry, e);
    return r == -(int)ERR_NOT_FOUND ? 0 : r; /* a sweep has done it */
}

/* --- boxes --- */

int storage_open_box(const struct storage *s, const char *id, struct err *e)
{
    int fd = at_open(s->boxes, id, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "what %s writes is not on disk", id);
    return fd < 0 ? err_sys(e, "opening %s/%s", UPPERS_BOXES, id) : fd;
}

/* Locked: nothing runs in it, nor will. */
static int hold_box(const struct storage *s, const char *id, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = storage_open_box(s, id, e);
    int r;

    if (fd < 0)
        return fd;
    for (int i = 0; (r = flock(fd, LOCK_EX | LOCK_NB)) < 0 && i < LOCK_TRIES; i++)
        usleep(LOCK_WAIT_US);
    if (r < 0)
        return err_set(e, ERR_BUSY, "something still runs in %s", id);
    *ret = take_fd(&fd);
    return 0;
}

int storage_take_box(const struct storage *s, const char *id, const char *name,
                     const struct layer_info *info, struct err *e)
{
    AUTO_CLOSE int box = -1, fs = -1;
    int r = hold_box(s, id, &box, e);

    if (r >= 0)
        r = strip_box(box, e);
    if (r >= 0 && (fs = at_open(box, UPPERS_FS, O_RDONLY | O_DIRECTORY, 0)) >= 0)
        r = storage_forget_names(fs, e);
    if (r >= 0)
        r = write_info(box, info, e);
    if (r < 0)
        return r;
    hook_point("layers.sync");
    if (syncfs(box) < 0)
        return err_sys(e, "forcing a layer to disk");
    hook_point("layers.rename");
    if (syscall(SYS_renameat2, s->boxes, id, s->layers, name, RENAME_NOREPLACE) < 0)
        return err_sys(e, "giving a layer its name");
    hook_point("layers.renamed");
    r = sync_dir(s->layers, e);
    if (r >= 0)
        r = sync_dir(s->boxes, e);
    if (r >= 0)
        prepare_numbers(s, name);
    return r;
}

int storage_clear_box(const struct storage *s, const char *id, struct err *e)
{
    AUTO_CLOSE int box = -1;
    char entry[ID_MAX + 32];
    int r = hold_box(s, id, &box, e);

    if (r < 0)
        return r == -(int)ERR_NOT_FOUND ? 0 : r;
    snprintf(entry, sizeof entry, "%s.gone.%d", id, (int)getpid());
    if (renameat(s->boxes, id, s->tmp, entry) < 0)
        return err_sys(e, "taking the box %s away", id);
    return remove_entry(s, entry, e);
}

static int sweep_one(const struct storage *s, const char *name, struct err *e)
{
    AUTO_CLOSE int held = -1;
    int r = take_entry(s, name, &held, e);

    if (r != -(int)ERR_BUSY && r != -(int)ERR_NOT_FOUND)
        r = remove_entry(s, name, e);
    return r == -(int)ERR_BUSY || r == -(int)ERR_NOT_FOUND ? 0 : r; /* others do it */
}

int storage_sweep(const struct storage *s, struct err *e)
{
    return each_entry(s, "", sweep_one, e);
}
