/* The parts of the root that the kernel fills: /dev, /proc, /sys. */
#include "runtime/rootfs.h"

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
#include "runtime/mounts.h"

enum { QUIET = MS_NOSUID | MS_NOEXEC };

static const struct node {
    const char *name;
    unsigned major, minor;
} nodes[] = {
    { "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
    { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct link {
    const char *name, *target;
} links[] = {
    { "ptmx", "pts/ptmx" },          { "fd", "/proc/self/fd" },
    { "stdin", "/proc/self/fd/0" },  { "stdout", "/proc/self/fd/1" },
    { "stderr", "/proc/self/fd/2" },
};

/* A plain user may not make device nodes; the host's own are bound instead. */
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

static int make_node(const struct build *b, int dev, const struct node *n, struct err *e)
{
    if (mknodat(dev, n->name, S_IFCHR | 0666, makedev(n->major, n->minor)) < 0)
        return errno == EPERM ? borrow_node(dev, n, e) : err_sys(e, "making /dev/%s", n->name);
    if (fchmodat(dev, n->name, 0666, 0) < 0 || fchownat(dev, n->name, b->self, b->self, 0) < 0)
        return err_sys(e, "opening /dev/%s to everybody", n->name);
    return 0;
}

static int fill_dev(const struct build *b, int dev, struct err *e)
{
    static const char *const places[] = { "pts", "shm" };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(nodes) && r >= 0; i++)
        r = make_node(b, dev, &nodes[i], e);
    for (size_t i = 0; i < COUNT_OF(links) && r >= 0; i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0)
            r = err_sys(e, "making /dev/%s", links[i].name);
    for (size_t i = 0; i < COUNT_OF(places) && r >= 0; i++)
        if (mkdirat(dev, places[i], 0755) < 0 && errno != EEXIST)
            r = err_sys(e, "making /dev/%s", places[i]);
    return r;
}

/* Device nodes work in this piece of the writable layer and nowhere else. */
static int attach_dev(const struct build *b, int *ret, struct err *e)
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

/* Terminals are of one pool of the machine (kernel.pty.max): a sandbox has a bounded share. */
static int mount_terminals(const struct build *b, int dev, struct err *e)
{
    char options[80];

    snprintf(options, sizeof options, "newinstance,ptmxmode=0666,mode=0620,max=%u",
             b->plan->terminals);
    return mounts_new("devpts", dev, "pts", QUIET, options, e);
}

/* /dev and /dev/shm are pieces of the writable layer: a file system of their own would cost a
 * sandbox more than all its files. /dev is read-only once it is filled. */
int rootfs_dev(struct build *b, struct err *e)
{
    struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
    AUTO_CLOSE int dev = -1, shm = -1;
    int r = b->apart ? mounts_copy(b->storage, "shm", &shm, e)
                     : mounts_copy(b->root, "dev/shm", &shm, e);

    if (r >= 0)
        r = attach_dev(b, &dev, e);
    if (r >= 0)
        r = fill_dev(b, dev, e);
    if (r >= 0)
        r = mount_terminals(b, dev, e);
    if (r >= 0)
        r = mounts_attach_known(shm, dev, "shm", e);
    if (r < 0)
        return r;
    if (sys_mount_setattr(dev, "", AT_EMPTY_PATH, &read_only) < 0)
        return err_sys(e, "making /dev read-only");
    return 0;
}

/* What a kernel file system shows that is not a sandbox's business. Paths that are not there are
 * left out. Root-only files need no mask: their owner has no number in the sandbox. */
enum mask { MASK_READ_ONLY, MASK_FILE, MASK_DIR };

struct masked {
    const char *path;
    enum mask how;
};

static const char empty_name[] = ".empty";

/* One empty directory serves for all that are hidden: a read-only piece of the writable layer. The
 * first gets the directory itself, the others copies: before Linux 6.15 only what is attached
 * somewhere can be copied. */
static int take_empty(struct build *b, int *ret, struct err *e)
{
    int r;

    if (b->empty >= 0)
        return mounts_copy(b->empty, "", ret, e);
    if (mkdirat(b->storage, empty_name, 0555) < 0)
        return err_sys(e, "making an empty directory");
    r = mounts_copy(b->storage, empty_name, &b->empty, e);
    if (r >= 0)
        r = mounts_restrict(b->empty, MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, -1, e);
    if (r < 0)
        return r;
    *ret = fcntl(b->empty, F_DUPFD_CLOEXEC, 0);
    return *ret < 0 ? err_sys(e, "duplicating a descriptor") : 0;
}

/* Its name goes when the last has its copy: nobody finds it any more or puts anything into it. */
static int seal_empty(const struct build *b, struct err *e)
{
    if (b->empty >= 0 && unlinkat(b->storage, empty_name, AT_REMOVEDIR) < 0)
        return err_sys(e, "removing the name of the empty directory");
    return 0;
}

static int mask_source(struct build *b, int fs, const struct masked *m, int *ret, struct err *e)
{
    int r;

    switch (m->how) {
    case MASK_READ_ONLY:
        r = mounts_copy(fs, m->path, ret, e);
        return r < 0 ? r : mounts_restrict(*ret, MOUNT_ATTR_RDONLY, -1, e);
    case MASK_FILE:
        return mounts_copy(b->root, "dev/null", ret, e);
    default:
        return take_empty(b, ret, e);
    }
}

static int mask_one(struct build *b, int fs, const struct masked *m, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    struct stat st;
    int r;

    if (fstatat(fs, m->path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    r = mask_source(b, fs, m, &tree, e);
    if (r >= 0)
        r = mounts_attach_known(tree, fs, m->path, e);
    return err_wrap(e, r, "masking %s", m->path);
}

static int mask_all(struct build *b, const char *path, const struct masked *list, size_t n,
                    struct err *e)
{
    AUTO_CLOSE int fs = -1;
    int r = mounts_find(b->root, path, &fs, e);

    for (size_t i = 0; i < n && r >= 0; i++)
        r = mask_one(b, fs, &list[i], e);
    return r;
}

/* hidepid: a process sees only processes it could ptrace, so PID 1 does not exist for the workload.
 */
int rootfs_proc(struct build *b, struct err *e)
{
    static const struct masked list[] = {
        { "sys", MASK_READ_ONLY },
        /* the kernel and the machine */
        { "keys", MASK_FILE },
        { "key-users", MASK_FILE },
        { "kallsyms", MASK_FILE },
        { "cmdline", MASK_FILE },
        { "config.gz", MASK_FILE },
        { "iomem", MASK_FILE },
        { "ioports", MASK_FILE },
        { "modules", MASK_FILE },
        { "mtrr", MASK_FILE },
        { "partitions", MASK_FILE },
        { "swaps", MASK_FILE },
        { "acpi", MASK_DIR },
        { "asound", MASK_DIR },
        { "scsi", MASK_DIR },
        { "fs", MASK_DIR },
        { "irq", MASK_DIR },
        { "bus", MASK_DIR },
        { "dynamic_debug", MASK_DIR },
        /* what the machine, and so other sandboxes, are doing. stat, meminfo and loadavg stay: top,
         * free, psutil, Node's os.cpus() and the runtimes of Go and Java read them. */
        { "locks", MASK_FILE },
        { "cgroups", MASK_FILE },
        { "interrupts", MASK_FILE },
        { "softirqs", MASK_FILE },
        { "diskstats", MASK_FILE },
        { "vmstat", MASK_FILE },
        { "zoneinfo", MASK_FILE },
        { "buddyinfo", MASK_FILE },
        { "schedstat", MASK_FILE },
        { "sched_debug", MASK_FILE },
        { "timer_list", MASK_FILE },
        { "timer_stats", MASK_FILE },
        { "latency_stats", MASK_FILE },
        { "mdstat", MASK_FILE },
        { "pressure", MASK_DIR },
    };
    int r = mounts_new("proc", b->root, "proc", QUIET | MS_NODEV, "hidepid=invisible", e);

    return r < 0 ? r : mask_all(b, "proc", list, COUNT_OF(list), e);
}

/* Buses and their devices have names that differ from machine to machine; disks below them count
 * what everybody reads and writes. */
static int mask_buses(struct build *b, struct err *e)
{
    AUTO_CLOSE int sys = -1;
    struct dirent *entry;
    DIR *dir;
    int r = mounts_find(b->root, "sys", &sys, e), fd;

    if (r < 0)
        return r;
    fd = openat(sys, "devices", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        drop_fd(&fd);
        return err_sys(e, "reading /sys/devices");
    }
    while (r >= 0 && (entry = readdir(dir))) {
        char path[300];
        const struct masked m = { path, MASK_DIR };

        snprintf(path, sizeof path, "devices/%s", entry->d_name);
        if (strncmp(entry->d_name, "pci", 3) == 0 || strcmp(entry->d_name, "platform") == 0)
            r = mask_one(b, sys, &m, e);
    }
    closedir(dir);
    return r;
}

/* sysfs shows the devices of the network namespace it is mounted from: the sandbox's own. The last
 * step that hides anything. */
int rootfs_sys(struct build *b, struct err *e)
{
    static const struct masked list[] = {
        { "firmware", MASK_DIR },
        { "kernel", MASK_DIR },
        { "power", MASK_DIR },
        { "fs", MASK_DIR },
        { "module", MASK_DIR },
        { "devices/virtual/dmi", MASK_DIR },
        { "devices/virtual/block", MASK_DIR },
        { "devices/virtual/thermal", MASK_DIR },
        { "devices/system/node", MASK_DIR },
    };
    int r = mounts_new("sysfs", b->root, "sys", QUIET | MS_NODEV | MS_RDONLY, NULL, e);

    if (r >= 0)
        r = mask_all(b, "sys", list, COUNT_OF(list), e);
    if (r >= 0)
        r = mask_buses(b, e);
    return r < 0 ? r : seal_empty(b, e);
}
