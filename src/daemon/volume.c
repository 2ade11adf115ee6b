/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "daemon/lock.h"
#include "lib/proc/spawn.h"
#include "engine/storage/driver.h"
#include "engine/storage/subvolume.h"

enum { DEVICE_MAX = VOLUME_DEVICE_MAX, DEVICE_TRIES = 16 };

static const char mkfs_path[] = "/usr/sbin/mkfs.btrfs";
static const char image_name[] = "storage.btrfs", image_new[] = "storage.btrfs.new";
/* Layer workers have few rights; and a discard would give blocks of the file back to the disk. */
static const char mount_options[] = "user_subvol_rm_allowed,nodiscard";

/* --- the file --- */

static int format_volume(char *path, struct err *e)
{
    char name[] = "mkfs.btrfs", quiet[] = "-q", force[] = "-f", whole[] = "-K",
         *argv[] = { name, quiet, force, whole, path, NULL };
    char *envp[] = { NULL };
    const int fds[] = { -1, -1, STDERR_FILENO };
    const struct spawn s = {
        .path = mkfs_path, .argv = argv, .envp = envp, .fds = fds, .n_fds = COUNT_OF(fds)
    };
    pid_t pid;
    int status, r;

    if (access(mkfs_path, X_OK) < 0)
        return err_set(e, ERR_UNSUPPORTED, "%s is missing: install btrfs-progs", mkfs_path);
    r = spawn_start(&s, &pid, e);
    if (r >= 0)
        r = spawn_wait(pid, &status, e);
    if (r >= 0 && status != 0)
        r = err_set(e, ERR_SYS, "mkfs.btrfs failed; its message is above");
    return r;
}

#define SIZE_LEAST (UINT64_C(256) << 20)
#define SIZE_FIRST (UINT64_C(1280) << 20) /* VOLUME_GROW_LOW is free, and some more */
#define SIZE_UNIT  (UINT64_C(1) << 20)

/* Half of what may be taken, so that not every file ends up too small where there are several. */
static int choose_size(int state, const struct volume_room *room, uint64_t *ret, struct err *e)
{
    struct statvfs fs;
    uint64_t left;

    if (fstatvfs(state, &fs) < 0)
        return err_sys(e, "reading the free space");
    if (room->size && room->size < SIZE_LEAST)
        return err_set(e, ERR_INVALID, "storage.size: a btrfs needs %llu MiB",
                       (unsigned long long)(SIZE_LEAST >> 20));
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    left = left > room->free_min ? left - room->free_min : 0;
    *ret = room->size && room->size < SIZE_FIRST ? room->size : SIZE_FIRST;
    if (*ret > left / 2)
        *ret = left / 2 > SIZE_LEAST ? left / 2 : SIZE_LEAST;
    *ret -= *ret % SIZE_UNIT;
    if (*ret > left)
        return err_set(
            e, ERR_UNSUPPORTED,
            "the disk is too full for the volume: it needs %llu MiB besides the %llu MiB "
            "that stay free (images.free_min)",
            (unsigned long long)(*ret >> 20), (unsigned long long)(room->free_min >> 20));
    return 0;
}

/* Any block that has none yet. */
static int allocate_image(int image, uint64_t size, struct err *e)
{
    while (fallocate(image, 0, 0, (off_t)size) < 0) {
        if (errno == EINTR)
            continue;
        return errno == EOPNOTSUPP
                   ? err_set(e, ERR_UNSUPPORTED,
                             "the file system of the state directory cannot allocate files ahead")
                   : err_sys(e, "allocating %llu MiB", (unsigned long long)(size >> 20));
    }
    return 0;
}

/* It has its name only when it is whole. */
static int make_volume_image(int dir, const char *state, int image, uint64_t size, struct err *e)
{
    char path[PATH_MAX];
    int r;

    if (ftruncate(image, (off_t)size) < 0)
        return err_sys(e, "making a file of %llu MiB", (unsigned long long)(size >> 20));
    snprintf(path, sizeof path, "%s/%s", state, image_new);
    r = format_volume(path, e);
    if (r >= 0)
        r = allocate_image(image, size, e);
    if (r < 0)
        return r;
    if (fsync(image) < 0 || renameat(dir, image_new, dir, image_name) < 0 || fsync(dir) < 0)
        return err_sys(e, "renaming the new image");
    return 0;
}

static int make_image(int dir, const char *state, const struct volume_room *room, struct err *e)
{
    AUTO_CLOSE int image = -1;
    uint64_t size;
    int r = choose_size(dir, room, &size, e);

    if (r < 0)
        return r;
    image = openat(dir, image_new, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = image < 0 ? err_sys(e, "making %s", image_new)
                  : make_volume_image(dir, state, image, size, e);
    if (r < 0)
        unlinkat(dir, image_new, 0);
    return r;
}

/* One of an older version, or of a copy, may have holes: they are filled, if the disk has room. */
static void fill_holes(int image, const struct volume_room *room)
{
    struct stat st;
    struct statvfs fs;
    uint64_t missing, left;
    struct err e;
    int r;

    if (fstat(image, &st) < 0 || fstatvfs(image, &fs) < 0 ||
        (uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size)
        return;
    missing = (uint64_t)st.st_size - (uint64_t)st.st_blocks * 512;
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    r = left < missing || left - missing < room->free_min
            ? err_set(&e, ERR_FULL,
                      "the image has %llu MiB of holes, for which the disk has no space",
                      (unsigned long long)(missing >> 20))
            : allocate_image(image, (uint64_t)st.st_size, &e);
    if (r < 0)
        LOG(WARN, "storage.sparse", LOG_S("file", image_name), LOG_S("reason", e.msg));
}

static int open_image(int dir, const char *state, const struct volume_room *room, int *ret,
                      struct err *e)
{
    bool is_new = faccessat(dir, image_name, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
    int r = is_new ? make_image(dir, state, room, e) : 0;

    if (r < 0)
        return r;
    *ret = openat(dir, image_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (*ret < 0)
        return err_sys(e, "opening %s", image_name);
    if (!is_new)
        fill_holes(*ret, room);
    return 0;
}

/* --- its loop device --- */

/* A descriptor of the device if it is the image's; else -1. */
static int open_device_of_image(const char *device, const struct stat *image)
{
    AUTO_CLOSE int fd = open(device, O_RDWR | O_CLOEXEC);
    struct loop_info64 info;

    return fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == image->st_dev &&
                   info.lo_inode == image->st_ino
               ? take_fd(&fd)
               : -1;
}

/* The one that sandboxes of an earlier life still have: two of one file would destroy it. */
int volume_find_device(int image, char ret[static VOLUME_DEVICE_MAX])
{
    DIR *all = opendir("/sys/block");
    const struct dirent *d;
    struct stat st;
    int fd = -1;

    if (!all)
        return -1;
    while (fstat(image, &st) == 0 && fd < 0 && (d = readdir(all))) {
        if (strncmp(d->d_name, "loop", 4) != 0)
            continue;
        snprintf(ret, DEVICE_MAX, "/dev/%.32s", d->d_name);
        fd = open_device_of_image(ret, &st);
    }
    closedir(all);
    return fd;
}

/* It goes with its last user. */
static int make_loop_device(int image, char ret[static DEVICE_MAX], int *ret_fd, struct err *e)
{
    AUTO_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    struct loop_config config = { .fd = (unsigned)image,
                                  .info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO } };

    if (control < 0)
        return err_sys(e, "opening /dev/loop-control");
    for (int i = 0; i < DEVICE_TRIES; i++) { /* another process may take the device first */
        AUTO_CLOSE int fd = -1;
        int n = ioctl(control, LOOP_CTL_GET_FREE);

        snprintf(ret, DEVICE_MAX, "/dev/loop%d", n);
        fd = n < 0 ? -1 : open(ret, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return err_sys(e, "getting a loop device");
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            *ret_fd = take_fd(&fd);
            return 0;
        }
        if (errno != EBUSY)
            return err_sys(e, "attaching the image to %s", ret);
    }
    return err_set(e, ERR_BUSY, "no free loop device");
}

/* --- the mount --- */

static bool is_empty(int storage, const char *part)
{
    AUTO_CLOSE int fd = openat(storage, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(dup(fd));
    const struct dirent *d;
    bool empty = true;

    while (dir && (d = readdir(dir)))
        empty = empty && (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0);
    if (dir)
        closedir(dir);
    return empty;
}

static int mount_image(int image, const char *place, struct err *e)
{
    char device[DEVICE_MAX];
    AUTO_CLOSE int device_fd = volume_find_device(image, device); /* until the mount holds it */
    int r = device_fd >= 0 ? 0 : make_loop_device(image, device, &device_fd, e);

    if (r < 0)
        return r;
    fault_point("volume.mount");
    if (mount(device, place, "btrfs", MS_NOSUID | MS_NODEV | MS_NOATIME, mount_options) < 0)
        return err_sys(e,
                       "mounting %s on %s (if the file is damaged: 'btrfs check' and 'btrfs "
                       "rescue' take its path while no daemon runs)",
                       device, place);
    return 0;
}

/* A separate open file for the lock: the loop device keeps its own open as long as sandboxes
 * run. */
static int lock_volume(int dir, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = openat(dir, image_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, "opening %s", image_name);
    if (!lock_take(fd))
        return err_set(e, ERR_BUSY, "the state directory is in use by another daemon");
    *ret = take_fd(&fd);
    return 0;
}

static int open_volume(struct volume *v, int dir, int storage, const char *place,
                       const struct volume_room *room, struct err *e)
{
    AUTO_CLOSE int image = -1, top = -1;
    bool mounted = subvolume_possible(storage); /* by one that did not end in good order */
    int r;

    if (!mounted && (!is_empty(storage, "layers") || !is_empty(storage, STORAGE_BOXES)))
        return err_set(e, ERR_CONFLICT,
                       "%s has layers that it would hide: remove snapshots, images and sandboxes "
                       "first, or use another state directory",
                       place);
    r = open_image(dir, v->state, room, &image, e);
    if (r >= 0)
        r = lock_volume(dir, &v->lock, e);
    if (r >= 0 && !mounted)
        r = mount_image(image, place, e);
    if (r < 0)
        return r;
    top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 || fchmod(top, 0700) < 0)
        return err_sys(e, "opening %s", place);
    return subvolume_enable_quota(top, e);
}

bool volume_exists(const char *state)
{
    AUTO_CLOSE int dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    return dir >= 0 && fstatat(dir, image_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode);
}

int volume_open_image(const struct volume *v, struct err *e)
{
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof path, "%s/%s", v->state, image_name);
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "opening %s", path) : fd;
}

int volume_check(int dir, struct err *e)
{
    if (subvolume_possible(dir) || geteuid() == 0)
        return 0;
    return err_set(e, ERR_UNSUPPORTED,
                   "storage.driver: btrfs cannot be used: the state directory is not on it, and "
                   "only root has one in a file");
}

int volume_open(struct volume *v, const char *state, const struct volume_room *room, struct err *e)
{
    AUTO_CLOSE int dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), storage = -1;
    char place[PATH_MAX];
    int r;

    *v = VOLUME_NONE;
    snprintf(place, sizeof place, "%s/storage", state);
    storage = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || storage < 0)
        return err_sys(e, "opening %s", place);
    r = volume_check(dir, e);
    if (r < 0 || subvolume_possible(dir))
        return r;
    v->state = state;
    r = open_volume(v, dir, storage, place, room, e);
    if (r < 0) {
        drop_fd(&v->lock);
        v->state = NULL;
    }
    return err_wrap(e, r, "storage.driver: a btrfs in %s/%s", state, image_name);
}

uint64_t volume_capacity(const struct volume *v, int storage, const struct volume_room *room)
{
    struct statvfs fs, disk;
    uint64_t size, more;

    if (fstatvfs(storage, &fs) < 0)
        return 0;
    size = (uint64_t)fs.f_blocks * fs.f_frsize;
    if (!v->state || statvfs(v->state, &disk) < 0)
        return size;
    more = (uint64_t)disk.f_bavail * disk.f_frsize;
    more = more > room->free_min ? more - room->free_min : 0;
    if (room->size && more > (room->size > size ? room->size - size : 0))
        more = room->size > size ? room->size - size : 0;
    return size + more;
}

void volume_done(struct volume *v)
{
    char place[PATH_MAX];

    if (!v->state)
        return;
    snprintf(place, sizeof place, "%s/storage", v->state);
    umount2(place, MNT_DETACH);
    drop_fd(&v->lock);
    v->state = NULL;
}
