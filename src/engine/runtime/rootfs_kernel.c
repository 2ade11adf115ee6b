/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the root that the kernel fills: /dev, /proc, /sys. */
#include "engine/runtime/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/runtime/mounts.h"

enum { QUIET = MS_NOSUID | MS_NOEXEC };

static const struct node {
    const char *name;
    unsigned major, minor;
} nodes[] = {
    { "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
    { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct dev_link {
    const char *name, *target;
} links[] = {
    { "ptmx", "pts/ptmx" },          { "fd", "/proc/self/fd" },
    { "stdin", "/proc/self/fd/0" },  { "stdout", "/proc/self/fd/1" },
    { "stderr", "/proc/self/fd/2" },
};

/* A plain user may not make device nodes; bind-mounts the host's instead. */
static int borrow_node(int dev, const struct node *n, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    char path[32];
    int r;

    snprintf(path, sizeof path, "/dev/%s", n->name);
    r = mounts_copy(AT_FDCWD, path, &tree, e);
    if (r >= 0)
        r = mounts_place_file(dev, n->name, e);
    if (r >= 0)
        r = mounts_attach_known(tree, dev, n->name, e);
    return r;
}

static int make_node(const struct sandbox_build *b, int dev, const struct node *n, struct err *e)
{
    if (mknodat(dev, n->name, S_IFCHR | 0666, makedev(n->major, n->minor)) < 0)
        return errno == EPERM ? borrow_node(dev, n, e) : err_sys(e, "creating /dev/%s", n->name);
    if (fchmodat(dev, n->name, 0666, 0) < 0 || fchownat(dev, n->name, b->self, b->self, 0) < 0)
        return err_sys(e, "setting mode and owner of /dev/%s", n->name);
    return 0;
}

static int fill_dev(const struct sandbox_build *b, int dev, struct err *e)
{
    static const char *const places[] = { "pts", "shm" };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(nodes) && r >= 0; i++)
        r = make_node(b, dev, &nodes[i], e);
    for (size_t i = 0; i < COUNT_OF(links) && r >= 0; i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0)
            r = err_sys(e, "creating /dev/%s", links[i].name);
    for (size_t i = 0; i < COUNT_OF(places) && r >= 0; i++)
        if (mkdirat(dev, places[i], 0755) < 0 && errno != EEXIST)
            r = err_sys(e, "creating /dev/%s", places[i]);
    return r;
}

/* Device nodes work only in this directory of the writable layer. */
static int attach_dev(const struct sandbox_build *b, int *ret, struct err *e)
{
    struct mount_attr quiet = { .attr_set = MOUNT_ATTR_NOEXEC, .attr_clr = MOUNT_ATTR_NODEV };
    AUTO_CLOSE int dev = -1;
    int r = mounts_copy(b->apart ? b->storage : b->root, "dev", &dev, e);

    if (r < 0)
        return r;
    if (sys_mount_setattr(dev, "", AT_EMPTY_PATH, &quiet) < 0)
        return err_sys(e, "allowing devices in /dev");
    r = mounts_attach(dev, b->root, "dev", e);
    if (r >= 0)
        *ret = take_fd(&dev);
    return r;
}

/* /dev and /dev/shm are directories of the writable tmpfs: a separate file system would cost more
 * than all files of a sandbox. /dev is read-only once it is filled. */
int rootfs_dev(struct sandbox_build *b, struct err *e)
{
    struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
    AUTO_CLOSE int dev = -1, shm = -1;
    char terminals[80];
    int r = b->apart ? mounts_copy(b->storage, "shm", &shm, e)
                     : mounts_copy(b->root, "dev/shm", &shm, e);

    if (r >= 0)
        r = attach_dev(b, &dev, e);
    if (r >= 0)
        r = fill_dev(b, dev, e);
    /* Terminals come from one pool of the machine (kernel.pty.max): a sandbox has a bounded
     * share. */
    snprintf(terminals, sizeof terminals, "newinstance,ptmxmode=0666,mode=0620,max=%u",
             b->plan->terminals);
    if (r >= 0)
        r = mounts_new("devpts", dev, "pts", QUIET, terminals, e);
    if (r >= 0)
        r = mounts_attach_known(shm, dev, "shm", e);
    if (r < 0)
        return r;
    if (sys_mount_setattr(dev, "", AT_EMPTY_PATH, &read_only) < 0)
        return err_sys(e, "making /dev read-only");
    return 0;
}

/* Entries of kernel file systems that are hidden from a sandbox. Missing paths are skipped.
 * Root-only files need no mask: their owner is not mapped in the sandbox. */
enum mask { MASK_READ_ONLY, MASK_FILE, MASK_DIR };

struct masked_path {
    const char *path;
    enum mask how;
};

static const char empty_name[] = ".empty";

/* The sandbox's /dev is read-only and noexec, and so are copies of its entries. */
static const char null_path[] = "dev/null";

/* One empty directory hides all masked ones: a read-only directory of the writable layer. */
static int attach_empty(struct sandbox_build *b, const char *path, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r;

    if (mkdirat(b->storage, empty_name, 0555) < 0)
        return err_sys(e, "creating an empty directory");
    r = mounts_copy(b->storage, empty_name, &tree, e);
    if (r >= 0)
        r = mounts_restrict(tree, MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, -1, e);
    if (r >= 0)
        r = mounts_attach_known(tree, b->root, path, e);
    if (r >= 0)
        snprintf(b->empty, sizeof b->empty, "%s", path);
    return r;
}

static int attach_read_only(const struct sandbox_build *b, const char *path, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r = mounts_copy(b->root, path, &tree, e);

    if (r >= 0)
        r = mounts_restrict(tree, MOUNT_ATTR_RDONLY, -1, e);
    return r < 0 ? r : mounts_attach_known(tree, b->root, path, e);
}

/* Leaves errno as it is if so. */
static bool mask_target_exists(const struct sandbox_build *b, const char *path)
{
    struct stat st;

    return fstatat(b->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* In the root directory: one call for each mask, because there are dozens. All that the paths lead
 * through was mounted by us. */
static int attach_copy(const struct sandbox_build *b, const char *from, const char *path,
                       struct err *e)
{
    if (mount(from, path, NULL, MS_BIND, NULL) == 0 || !mask_target_exists(b, path))
        return 0;
    return err_sys(e, "mounting %s on %s", from, path);
}

static int mask_one(struct sandbox_build *b, const struct masked_path *m, struct err *e)
{
    int r;

    if (m->how == MASK_FILE)
        r = attach_copy(b, null_path, m->path, e);
    else if (m->how == MASK_DIR && b->empty[0])
        r = attach_copy(b, b->empty, m->path, e);
    else if (!mask_target_exists(b, m->path))
        r = 0;
    else
        r = m->how == MASK_DIR ? attach_empty(b, m->path, e) : attach_read_only(b, m->path, e);
    return err_wrap(e, r, "masking %s", m->path);
}

static int mask_all(struct sandbox_build *b, const struct masked_path *list, size_t n,
                    struct err *e)
{
    int r = fchdir(b->root) < 0 ? err_sys(e, "entering the new root") : 0;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = mask_one(b, &list[i], e);
    return r;
}

/* hidepid: a process sees only processes it could ptrace, so PID 1 does not exist for the
 * workload. */
int rootfs_proc(struct sandbox_build *b, struct err *e)
{
    static const struct masked_path list[] = {
        { "proc/sys", MASK_READ_ONLY },
        /* the kernel and the machine */
        { "proc/keys", MASK_FILE },
        { "proc/key-users", MASK_FILE },
        { "proc/kallsyms", MASK_FILE },
        { "proc/cmdline", MASK_FILE },
        { "proc/config.gz", MASK_FILE },
        { "proc/iomem", MASK_FILE },
        { "proc/ioports", MASK_FILE },
        { "proc/modules", MASK_FILE },
        { "proc/mtrr", MASK_FILE },
        { "proc/partitions", MASK_FILE },
        { "proc/swaps", MASK_FILE },
        { "proc/acpi", MASK_DIR },
        { "proc/asound", MASK_DIR },
        { "proc/scsi", MASK_DIR },
        { "proc/fs", MASK_DIR },
        { "proc/irq", MASK_DIR },
        { "proc/bus", MASK_DIR },
        { "proc/dynamic_debug", MASK_DIR },
        /* what the machine, and so other sandboxes, are doing. stat, meminfo and loadavg stay: top,
         * free, psutil, Node's os.cpus() and the runtimes of Go and Java read them. */
        { "proc/locks", MASK_FILE },
        { "proc/cgroups", MASK_FILE },
        { "proc/crypto", MASK_FILE }, /* with how many use each cipher */
        { "proc/interrupts", MASK_FILE },
        { "proc/softirqs", MASK_FILE },
        { "proc/diskstats", MASK_FILE },
        { "proc/vmstat", MASK_FILE },
        { "proc/zoneinfo", MASK_FILE },
        { "proc/buddyinfo", MASK_FILE },
        { "proc/schedstat", MASK_FILE },
        { "proc/sched_debug", MASK_FILE },
        { "proc/timer_list", MASK_FILE },
        { "proc/timer_stats", MASK_FILE },
        { "proc/latency_stats", MASK_FILE },
        { "proc/mdstat", MASK_FILE },
        { "proc/pressure", MASK_DIR },
    };
    int r = mounts_new("proc", b->root, "proc", QUIET | MS_NODEV, "hidepid=invisible", e);

    return r < 0 ? r : mask_all(b, list, COUNT_OF(list), e);
}

/* Masks buses and their devices, whose names differ between machines; disks below them count all
 * reads and writes. */
static int mask_buses(struct sandbox_build *b, struct err *e)
{
    int fd = openat(b->root, "sys/devices", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    struct dirent *entry;
    DIR *dir;

    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        drop_fd(&fd);
        return err_sys(e, "reading /sys/devices");
    }
    while (r >= 0 && (entry = readdir(dir))) {
        char path[300];
        const struct masked_path m = { path, MASK_DIR };

        snprintf(path, sizeof path, "sys/devices/%s", entry->d_name);
        if (strncmp(entry->d_name, "pci", 3) == 0 || strcmp(entry->d_name, "platform") == 0)
            r = mask_one(b, &m, e);
    }
    closedir(dir);
    return r;
}

/* sysfs shows the devices of the network namespace it is mounted from: the sandbox's own. The last
 * step that masks anything. */
int rootfs_sys(struct sandbox_build *b, struct err *e)
{
    static const struct masked_path list[] = {
        { "sys/firmware", MASK_DIR },
        { "sys/kernel", MASK_DIR },
        { "sys/power", MASK_DIR },
        { "sys/fs", MASK_DIR },
        { "sys/module", MASK_DIR },
        { "sys/devices/virtual/dmi", MASK_DIR },
        { "sys/devices/virtual/block", MASK_DIR },
        { "sys/devices/virtual/thermal", MASK_DIR },
        { "sys/devices/system/node", MASK_DIR },
    };
    int r = mounts_new("sysfs", b->root, "sys", QUIET | MS_NODEV | MS_RDONLY, NULL, e);

    if (r >= 0)
        r = mask_all(b, list, COUNT_OF(list), e);
    if (r >= 0)
        r = mask_buses(b, e);
    /* After the last copy, so that no process can find it or write to it. */
    if (r >= 0 && b->empty[0] && unlinkat(b->storage, empty_name, AT_REMOVEDIR) < 0)
        return err_sys(e, "removing the name of the empty directory");
    return r;
}
