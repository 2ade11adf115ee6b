/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/image_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"
#include "base/own.h"
#include "cli/state_dir.h"
#include "cli/run/image_import.h"
#include "lib/tar/remove.h"

enum { STALE_SECONDS = 60 };

static const char prefix[] = "unpacked-";

/* Removes the directories of killed runs: their lock is free. */
static void sweep_image_dirs(int state)
{
    int copy = fcntl(state, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;

    if (!dir) {
        drop_fd(&copy);
        return;
    }
    while ((entry = readdir(dir))) {
        AUTO_CLOSE int lock = -1;
        struct stat st;

        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0)
            continue;
        lock = openat(state, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        /* One that was just made may not be locked yet. */
        if (lock >= 0 && fstat(lock, &st) == 0 && st.st_mtim.tv_sec + STALE_SECONDS < time(NULL) &&
            flock(lock, LOCK_EX | LOCK_NB) == 0)
            tree_remove(state, entry->d_name, NULL);
    }
    closedir(dir);
}

static int make_image_directory(struct image_dir *d, int *ret_root, struct err *e)
{
    char id[ID_MAX];
    int r = id_make("", id, e);

    if (r < 0)
        return r;
    snprintf(d->name, sizeof d->name, "%s%.20s", prefix, id);
    if (mkdirat(d->parent, d->name, 0700) < 0)
        return err_sys(e, "making a directory for the image");
    d->lock = openat(d->parent, d->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d->lock < 0 || flock(d->lock, LOCK_SH | LOCK_NB) < 0 || mkdirat(d->lock, "root", 0755) < 0)
        return err_sys(e, "preparing a directory for the image");
    *ret_root = openat(d->lock, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_root < 0 ? err_sys(e, "opening the directory for the image") : 0;
}

static int unpack_image(struct image_dir *d, int archive, bool squash_owners, struct err *e)
{
    struct tree_unpack_options o = { .keep_setid = true };
    struct tree_report report;
    AUTO_CLOSE int root = -1;
    char path[PATH_MAX];
    int r;

    d->made_parent = state_dir_path(path, sizeof path, NULL) >= 0 && access(path, F_OK) < 0;
    r = state_dir_open(&d->parent, e);
    if (r < 0)
        return r;
    sweep_image_dirs(d->parent);
    o.owners = squash_owners    ? TREE_OWNERS_SQUASH
               : geteuid() == 0 ? TREE_OWNERS_KEEP
                                : TREE_OWNERS_REQUIRE;
    r = make_image_directory(d, &root, e);
    if (r >= 0)
        r = image_import(archive, root, &o, &report, e);
    if (r < 0)
        return r;
    d->fd = take_fd(&root);
    return 0;
}

int image_dir_open(struct image_dir *d, const char *path, bool squash_owners, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "image '%s'", path);
    if (S_ISDIR(st.st_mode)) {
        d->fd = take_fd(&fd);
        return 0;
    }
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "image '%s' is neither a directory nor an archive file",
                       path);
    r = unpack_image(d, fd, squash_owners, e);
    return err_wrap(e, r, "image '%s'", path);
}

void image_dir_done(struct image_dir *d)
{
    char path[PATH_MAX];

    drop_fd(&d->fd);
    drop_fd(&d->lock);
    if (d->parent >= 0 && d->name[0])
        tree_remove(d->parent, d->name, NULL);
    if (d->parent >= 0 && d->made_parent && state_dir_path(path, sizeof path, NULL) >= 0)
        (void)rmdir(path); /* one that is not empty stays */
    drop_fd(&d->parent);
}
