/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/nosuid.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "daemon/lock.h"
#include "lib/proc/sys.h"

enum { MOUNTS_BYTES = 1 << 20 };

static const char place[] = "storage";

/* The number of the directory itself: its name's entry does not lead through a mount. */
static ino_t number_below(int state)
{
    int fd = openat(state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd); /* which owns the descriptor from now on */
    const struct dirent *d;
    ino_t number = 0;

    if (!dir) {
        drop_fd(&fd);
        return 0;
    }
    while (!number && (d = readdir(dir)))
        if (strcmp(d->d_name, place) == 0)
            number = d->d_ino;
    closedir(dir);
    return number;
}

/* Whether it is a mount, and of the very directory that it covers: a daemon's that was killed. An
 * administrator's mount is of another one. */
static bool covers_itself(int state, int storage)
{
    struct stat above, st;
    struct statx mounted;

    if (fstat(state, &above) < 0 || fstat(storage, &st) < 0 || above.st_dev != st.st_dev ||
        statx(storage, "", AT_EMPTY_PATH, 0, &mounted) < 0)
        return false;
    return (mounted.stx_attributes & STATX_ATTR_MOUNT_ROOT) && st.st_ino == number_below(state);
}

/* One line of mountinfo(5). */
struct mount_line {
    uint64_t id, parent;
    struct str device, root, point;
};

static bool read_mount_line(struct str line, struct mount_line *ret)
{
    struct str id, parent;

    line = str_cut(line, ' ', &id);
    line = str_cut(line, ' ', &parent);
    line = str_cut(line, ' ', &ret->device);
    line = str_cut(line, ' ', &ret->root);
    (void)str_cut(line, ' ', &ret->point);
    return str_to_u64(id, &ret->id) && str_to_u64(parent, &ret->parent) && ret->point.n;
}

static bool find_mount(struct str table, uint64_t id, struct mount_line *ret)
{
    struct str line;

    while (table.n) {
        table = str_cut(table, '\n', &line);
        if (read_mount_line(line, ret) && ret->id == id)
            return true;
    }
    return false;
}

/* Whether the mount lies on another one of the same directory: that of a killed daemon on an
 * administrator's. */
static bool covers_twin(int storage)
{
    static char text[MOUNTS_BYTES];
    AUTO_CLOSE int file = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    struct mount_line top, below;
    struct statx mounted;
    struct str table = { text, 0 };
    ssize_t n;

    if (file < 0 || statx(storage, "", AT_EMPTY_PATH, STATX_MNT_ID, &mounted) < 0 ||
        !(mounted.stx_mask & STATX_MNT_ID))
        return false;
    while (table.n < sizeof text && (n = read(file, text + table.n, sizeof text - table.n)) > 0)
        table.n += (size_t)n;
    return find_mount(table, mounted.stx_mnt_id, &top) && find_mount(table, top.parent, &below) &&
           str_eq(top.device, below.device) && str_eq(top.root, below.root) &&
           str_eq(top.point, below.point);
}

static int mount_on_itself(int state, int storage, struct err *e)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
    AUTO_CLOSE int tree = sys_open_tree(
        storage, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);

    if (tree < 0 || sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr) < 0 ||
        sys_move_mount(tree, "", state, place, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return err_sys(e, "mounting it on itself, nosuid");
    return 0;
}

/* Another daemon may have this directory; then that one has mounted it, and unmounts it. */
static bool lock_state_directory(int state, int *ret)
{
    AUTO_CLOSE int lock = openat(state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (lock < 0 || !lock_take(lock))
        return false;
    *ret = take_fd(&lock);
    return true;
}

int nosuid_mount(struct nosuid *n, const char *state, struct err *e)
{
    AUTO_CLOSE int dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), storage = -1;
    struct statvfs fs;
    bool ours = true;
    int r = 0;

    *n = NOSUID_NONE;
    storage = dir < 0 ? -1 : openat(dir, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (storage < 0)
        return err_sys(e, "opening %s/%s", state, place);
    if (geteuid() != 0 || !lock_state_directory(dir, &n->lock))
        return 0;
    if (fstatvfs(storage, &fs) == 0 && (fs.f_flag & ST_NOSUID) && (fs.f_flag & ST_NODEV))
        ours = covers_itself(dir, storage) || covers_twin(storage);
    else
        r = mount_on_itself(dir, storage, e);
    if (r < 0) {
        drop_fd(&n->lock);
        return err_wrap(e, r, "%s/%s", state, place);
    }
    n->state = ours ? state : NULL;
    return ours;
}

void nosuid_unmount(struct nosuid *n)
{
    char path[PATH_MAX];

    if (n->state && snprintf(path, sizeof path, "%s/%s", n->state, place) < (int)sizeof path)
        umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    n->state = NULL;
    drop_fd(&n->lock);
}
