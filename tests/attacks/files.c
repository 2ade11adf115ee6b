/* SPDX-License-Identifier: Apache-2.0 */
/* Files: the host's, the kernel's, devices, and rights that files carry. */
#include "attacks/attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { WALK_DEPTH = 12, PATH_LENGTH = 4096 };
enum { BUSY_TRIES = 500, BUSY_WAIT_US = 10000 };

/* ---- the host's files ---- */

static enum verdict is_absent(const void *with)
{
    struct stat st;

    if (lstat(with, &st) == 0)
        return escaped("%s exists", (const char *)with);
    return held("%s", strerror(errno));
}

/* A file that the caller made on the host; its absolute path. */
static enum verdict host_file(const void *with)
{
    const char *path = fact("ESCAPE_HOST_FILE");

    if (!path)
        return not_applicable("ESCAPE_HOST_FILE is not set");
    return refused(open(path, O_RDONLY | O_CLOEXEC), "open of %s", path);
}

/* "PATH=DEV:INO,..." of host directories: none may be the same directory in here. */
static enum verdict host_directories(const void *with)
{
    const char *facts = fact("ESCAPE_HOST_DIRS");
    char list[PATH_LENGTH], *rest = list, *item;
    struct stat st;

    if (!facts)
        return not_applicable("ESCAPE_HOST_DIRS is not set");
    snprintf(list, sizeof list, "%s", facts);
    while ((item = strsep(&rest, ","))) {
        char *path = strsep(&item, "="), *dev = strsep(&item, ":");

        if (!path || !dev || !item || stat(path, &st) < 0)
            continue;
        if (st.st_dev == strtoull(dev, NULL, 10) && st.st_ino == strtoull(item, NULL, 10))
            return escaped("%s is the host's", path);
    }
    return held("none of them is here");
}

/* A secret of the host that must not be readable from a file; the fact holds it reversed. */
static enum verdict machine_id(const void *with)
{
    const char *id = fact("ESCAPE_MACHINE_ID");
    char text[64];

    if (!id)
        return not_applicable("the host has no machine-id");
    if (slurp(with, text, sizeof text) < 0)
        return held("%s: %s", (const char *)with, strerror(errno));
    for (size_t i = 0, n = strlen(id); i < n; i++)
        if (text[i] != id[n - 1 - i])
            return held("%s is another", (const char *)with);
    return escaped("%s is the host's", (const char *)with);
}

/* ---- what must be read-only ---- */

/* O_TMPFILE would leave nothing behind if it worked. */
static enum verdict makes_no_file(const void *with)
{
    int fd = open(with, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

    if (fd < 0 && errno == EOPNOTSUPP)
        return access(with, W_OK) < 0 ? held("%s", strerror(errno)) : escaped("writable");
    return refused(fd, "a new file in %s", (const char *)with);
}

/* While another process executes the file, the kernel answers ETXTBSY before it looks at the mount:
 * that says nothing about either. */
static enum verdict opens_for_writing(const void *with)
{
    int fd = open(with, O_WRONLY | O_CLOEXEC);

    for (int i = 0; i < BUSY_TRIES && fd < 0 && errno == ETXTBSY; i++) {
        usleep(BUSY_WAIT_US);
        fd = open(with, O_WRONLY | O_CLOEXEC);
    }
    return refused(fd, "open of %s for writing", (const char *)with);
}

/* Busy or forbidden is the same to us: the file beside it, in the same mount, tells the two
 * apart. */
static enum verdict own_program(const void *with)
{
    int fd = open("/proc/self/exe", O_WRONLY | O_CLOEXEC);

    return fd < 0 ? held("%s", strerror(errno)) : escaped("the program opens for writing");
}

/* A file beside this program, in a mount that the caller made read-only. */
static enum verdict read_only_mount(const void *with)
{
    const char *path = fact("ESCAPE_READ_ONLY");

    if (!path)
        return not_applicable("ESCAPE_READ_ONLY is not set");
    return refused(open(path, O_WRONLY | O_CLOEXEC), "open of %s for writing", path);
}

/* /proc/PID and /proc/self are the program's own, and /proc/sys has a row of its own. */
static bool is_process(const char *name)
{
    return (*name >= '0' && *name <= '9') || strcmp(name, "sys") == 0;
}

struct finds {
    int tried, writable;
    char names[300]; /* the first few */
};

static void try_file(const char *path, struct finds *f)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    size_t n = strlen(f->names);

    f->tried++;
    if (fd < 0)
        return;
    close(fd);
    f->writable++;
    snprintf(f->names + n, sizeof f->names - n, " %s", path);
}

/* Tries every regular file below path, a buffer of PATH_LENGTH. */
static void walk(char *path, int depth, struct finds *f)
{
    DIR *dir = depth < WALK_DEPTH ? opendir(path) : NULL;
    size_t n = strlen(path);
    struct dirent *d;
    struct stat st;

    while (dir && (d = readdir(dir))) {
        if (d->d_name[0] == '.' || (depth == 0 && is_process(d->d_name)))
            continue;
        snprintf(path + n, PATH_LENGTH - n, "/%s", d->d_name);
        if (lstat(path, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode))
            walk(path, depth + 1, f);
        else if (S_ISREG(st.st_mode))
            try_file(path, f);
    }
    if (dir)
        closedir(dir);
    path[n] = '\0';
}

static enum verdict nothing_below_is_writable(const void *with)
{
    static char path[PATH_LENGTH];
    struct finds f = { 0 };

    snprintf(path, sizeof path, "%s", (const char *)with);
    walk(path, 0, &f);
    if (f.writable)
        return escaped("%d files open for writing:%s", f.writable, f.names);
    return held("%d files tried", f.tried);
}

/* ---- what must be empty or gone ---- */

static bool all_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != '0' && p[i] != '\0')
            return false;
    return true;
}

static enum verdict directory_is_empty(int fd, const char *path)
{
    DIR *dir = fdopendir(fd);
    struct dirent *d;

    while (dir && (d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            return escaped("%s contains %s", path, d->d_name);
    return held("empty");
}

static enum verdict is_masked(const void *with)
{
    int fd = open(with, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    char byte[64];
    ssize_t n;

    if (fd < 0)
        return held("%s", strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        return directory_is_empty(fd, with);
    n = read(fd, byte, sizeof byte);
    return n > 0 ? escaped("%s can be read", (const char *)with) : held("reads as nothing");
}

static enum verdict kernel_addresses(const void *with)
{
    char text[64] = "";

    if (slurp("/proc/kallsyms", text, sizeof text) <= 0)
        return held("%s", errno ? strerror(errno) : "reads as nothing");
    return all_zero(text, 16) ? held("addresses are zero")
                              : escaped("/proc/kallsyms shows %.16s", text);
}

/* ---- devices ---- */

struct node {
    const char *name;
    unsigned major, minor;
};

static const struct node nodes[] = {
    { "null", 1, 3 },    { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 },
    { "urandom", 1, 9 }, { "tty", 5, 0 },  { "ptmx", 5, 2 },
};
static const char *const not_nodes[] = { "pts", "shm", "fd", "stdin", "stdout", "stderr" };

static bool is_expected(const char *name, const struct stat *st)
{
    for (size_t i = 0; i < COUNT(nodes); i++)
        if (strcmp(nodes[i].name, name) == 0 && S_ISCHR(st->st_mode))
            return st->st_rdev == makedev(nodes[i].major, nodes[i].minor);
    for (size_t i = 0; i < COUNT(not_nodes); i++)
        if (strcmp(not_nodes[i], name) == 0)
            return S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode);
    return strcmp(name, "ptmx") == 0 && S_ISLNK(st->st_mode);
}

static enum verdict dev_is_minimal(const void *with)
{
    DIR *dir = opendir("/dev");
    struct dirent *d;
    struct stat st;
    int n = 0;

    while (dir && (d = readdir(dir))) {
        if (d->d_name[0] == '.')
            continue;
        if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !is_expected(d->d_name, &st))
            return escaped("/dev/%s is not expected", d->d_name);
        n++;
    }
    return n > 0 ? held("%d entries, all known", n) : escaped("/dev is empty: %s", strerror(errno));
}

static enum verdict makes_no_device(const void *with)
{
    const struct node *node = with;
    static const char *const places[] = { "/tmp/escape-node", "/dev/shm/escape-node",
                                          "/dev/escape-node", "escape-node" };
    mode_t kind = strcmp(node->name, "block") == 0 ? S_IFBLK : S_IFCHR;

    for (size_t i = 0; i < COUNT(places); i++)
        if (mknod(places[i], kind | 0600, makedev(node->major, node->minor)) == 0) {
            unlink(places[i]);
            return escaped("%s %u:%u made at %s", node->name, node->major, node->minor, places[i]);
        }
    return held("%s", strerror(errno));
}

/* "MAJOR:MINOR" of the disk that holds the host's root. */
static enum verdict makes_no_disk(const void *with)
{
    const char *disk = fact("ESCAPE_ROOT_DEVICE");
    struct node node = { "block", 0, 0 };

    if (!disk || sscanf(disk, "%u:%u", &node.major, &node.minor) != 2)
        return not_applicable("ESCAPE_ROOT_DEVICE is not set");
    return makes_no_device(&node);
}

/* ---- rights that files carry ---- */

static int scratch(mode_t mode)
{
    static const char path[] = "/tmp/escape-rights";
    int fd;

    unlink(path);
    fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
    return fd;
}

static enum verdict has_no_special_bits(int fd, const char *how)
{
    struct stat st = { 0 };

    if (fd < 0)
        return held("%s: %s", how, strerror(errno));
    if (fstat(fd, &st) == 0 && (st.st_mode & S_ISUID))
        return escaped("%s made a set-user-id file", how);
    return held("%s: bit not set", how);
}

static enum verdict chmod_setuid(const void *with)
{
    int fd = scratch(0755);

    if (fd < 0)
        return escaped("no scratch file: %s", strerror(errno));
    if (fchmod(fd, 04755) < 0)
        return errno == EPERM ? held("%s", strerror(errno)) : escaped("%s", strerror(errno));
    return has_no_special_bits(fd, "fchmod");
}

static enum verdict chmod_setgid(const void *with)
{
    int fd = scratch(0755);
    struct stat st;

    if (fd < 0)
        return escaped("no scratch file: %s", strerror(errno));
    if (fchmod(fd, 02755) < 0)
        return held("%s", strerror(errno));
    return fstat(fd, &st) == 0 && (st.st_mode & S_ISGID) ? escaped("made a set-group-id program")
                                                         : held("bit not set");
}

static enum verdict create_setuid(const void *with)
{
    return has_no_special_bits(scratch(04755), "open with mode 04755");
}

static enum verdict mknod_setuid(const void *with)
{
    unlink("/tmp/escape-mknod");
    if (mknod("/tmp/escape-mknod", S_IFREG | 04755, 0) < 0)
        return held("%s", strerror(errno));
    return has_no_special_bits(open("/tmp/escape-mknod", O_RDONLY | O_CLOEXEC), "mknod");
}

static enum verdict chmod_by_newest_call(const void *with)
{
    int fd = scratch(0755);

    if (fd < 0)
        return escaped("no scratch file: %s", strerror(errno));
    syscall(452 /* fchmodat2 */, AT_FDCWD, "/tmp/escape-rights", 04755, 0);
    return has_no_special_bits(fd, "fchmodat2");
}

static enum verdict file_capability(const void *with)
{
    static const uint32_t all[5] = { 0x02000001, ~0u, ~0u, ~0u, ~0u };
    int fd = scratch(0755);

    if (fd < 0)
        return escaped("no scratch file: %s", strerror(errno));
    return fsetxattr(fd, "security.capability", all, sizeof all, 0) < 0
               ? held("%s", strerror(errno))
               : escaped("capabilities were attached to a file");
}

static enum verdict overlay_attribute(const void *with)
{
    int r = mkdir("/tmp/escape-opaque", 0700);

    if (r < 0 && errno != EEXIST)
        return escaped("set-up: %s", strerror(errno));
    r = setxattr("/tmp/escape-opaque", "trusted.overlay.opaque", "y", 1, 0);
    return r < 0 ? held("%s", strerror(errno)) : escaped("trusted.overlay.opaque was set");
}

/* Any disk's, by its link in /sys. */
static enum verdict disk_counters(const void *with)
{
    DIR *dir = opendir("/sys/block");
    struct dirent *d;
    int disks = 0;

    while (dir && (d = readdir(dir))) {
        char path[300], text[64];

        if (d->d_name[0] == '.')
            continue;
        disks++;
        snprintf(path, sizeof path, "/sys/block/%s/stat", d->d_name);
        if (slurp(path, text, sizeof text) > 0)
            return escaped("%s can be read", path);
    }
    return held("of none of %d disks", disks);
}

/* ---- files that others use, too ---- */

/* A lease stalls whoever else opens the file; here a scratch file that nobody does. */
static enum verdict write_lease(const void *with)
{
    int fd;

    close(scratch(0644));
    fd = open("/tmp/escape-rights", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return escaped("no scratch file: %s", strerror(errno));
    return refused(fcntl(fd, F_SETLEASE, F_WRLCK), "a write lease");
}

/* The same for a directory, since Linux 6.19. */
static enum verdict directory_delegation(const void *with)
{
    struct {
        uint32_t flags;
        uint16_t type, pad;
    } wanted = { .type = F_RDLCK };
    int fd = open("/usr/bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return escaped("no directory: %s", strerror(errno));
    /* The filter refuses as a kernel does that does not know the command. */
    if (fcntl(fd, 1040 /* F_SETDELEG */, &wanted) == 0)
        return escaped("a delegation was given");
    return held("%s", strerror(errno));
}

static enum verdict directory_notices(const void *with)
{
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return escaped("no scratch directory: %s", strerror(errno));
    return refused(fcntl(fd, F_NOTIFY, DN_CREATE), "F_NOTIFY");
}

/* Which pages of a program are in memory tells who runs it. */
static enum verdict page_residency(const void *with)
{
    static unsigned char resident[1];
    int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

    if (at == MAP_FAILED)
        return escaped("cannot map /bin/sh: %s", strerror(errno));
    return refused(mincore(at, 4096, resident), "mincore");
}

/* All sandboxes have their terminals of one pool of the machine. */
static enum verdict many_terminals(const void *with)
{
    enum { TERMINALS = 16 }; /* a sandbox's share */
    int opened = 0;

    while (opened <= TERMINALS && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
        opened++;
    return opened > TERMINALS ? escaped("%d terminals", opened)
                              : held("%d, then %s", opened, strerror(errno));
}

#define ABSENT(path)                                                                               \
    {                                                                                              \
        "files: no " path, is_absent, path, SEEN                                                   \
    }
#define ABSENT_UNSEEN(path)                                                                        \
    {                                                                                              \
        "files: no " path, is_absent, path, UNSEEN                                                 \
    } /* not on every host */
#define READ_ONLY(path)                                                                            \
    {                                                                                              \
        "files: " path " is read-only", makes_no_file, path, SEEN                                  \
    }
#define MASKED(path)                                                                               \
    {                                                                                              \
        "files: " path " is masked", is_masked, path, SEEN                                         \
    }
#define MASKED_UNSEEN(path)                                                                        \
    {                                                                                              \
        "files: " path " is masked", is_masked, path, UNSEEN                                       \
    } /* kernel option */
#define SYSCTL(path)                                                                               \
    {                                                                                              \
        "files: write /proc/sys/" path, opens_for_writing, "/proc/sys/" path, SEEN                 \
    }
#define SYSCTL_UNSEEN(path)                                                                        \
    {                                                                                              \
        "files: write /proc/sys/" path, opens_for_writing, "/proc/sys/" path, UNSEEN               \
    }

/* Every other user of the file system waits for that. The call has no effect if it does not mind its
 * arguments. */
static enum verdict sync_all(const void *with)
{
    int r = (int)syscall(SYS_syncfs, -1);

    return r < 0 && errno == EBADF ? escaped("the kernel looks at the file system")
                                   : held("nothing is done");
}

static const struct attack attacks[] = {
    ABSENT("/etc/shadow"),
    ABSENT("/etc/gshadow"),
    ABSENT_UNSEEN("/etc/sudoers"),
    ABSENT_UNSEEN("/etc/ssh"),
    ABSENT_UNSEEN("/work"),
    ABSENT("/root/.bashrc"),
    ABSENT("/var/lib/dpkg"),
    ABSENT("/var/log/dpkg.log"),
    ABSENT_UNSEEN("/boot/vmlinuz"),
    ABSENT_UNSEEN("/run/sandboxer"),
    ABSENT_UNSEEN("/var/lib/sandboxer"),
    ABSENT_UNSEEN("/dev/mem"),
    ABSENT("/dev/kmsg"),
    ABSENT_UNSEEN("/dev/kvm"),
    ABSENT_UNSEEN("/dev/fuse"),
    ABSENT_UNSEEN("/dev/net"),
    { "files: a file of the host", host_file, NULL, SEEN },
    { "files: directories of the host", host_directories, NULL, SEEN },
    { "files: the host's machine-id", machine_id, "/etc/machine-id", SEEN },
    READ_ONLY("/usr"),
    READ_ONLY("/usr/bin"),
    READ_ONLY("/bin"),
    READ_ONLY("/lib"),
    { "files: /usr/bin/env for writing", opens_for_writing, "/usr/bin/env", SEEN },
    { "files: /proc/self/exe for writing", own_program, NULL, UNSEEN }, /* busy while it runs */
    { "files: a file in a read-only mount", read_only_mount, NULL, SEEN },
    SYSCTL("kernel/core_pattern"),
    SYSCTL("kernel/hostname"),
    SYSCTL_UNSEEN("kernel/modprobe"),
    SYSCTL("kernel/panic"),
    SYSCTL_UNSEEN("kernel/ns_last_pid"),
    SYSCTL("kernel/randomize_va_space"),
    SYSCTL("vm/overcommit_memory"),
    SYSCTL("vm/drop_caches"),
    SYSCTL("net/ipv4/ip_forward"),
    SYSCTL_UNSEEN("user/max_user_namespaces"),
    SYSCTL_UNSEEN("fs/binfmt_misc/register"),
    { "files: anything in /proc/sys for writing", nothing_below_is_writable, "/proc/sys", SEEN },
    { "files: anything else in /proc for writing", nothing_below_is_writable, "/proc", SEEN },
    { "files: anything in /sys for writing", nothing_below_is_writable, "/sys", SEEN },
    { "files: /proc/sysrq-trigger for writing", opens_for_writing, "/proc/sysrq-trigger", UNSEEN },
    { "files: addresses in /proc/kallsyms", kernel_addresses, NULL, SEEN },
    MASKED_UNSEEN("/proc/kcore"),
    MASKED("/proc/timer_list"),
    MASKED("/proc/interrupts"),
    MASKED("/proc/kmsg"),
    MASKED_UNSEEN("/proc/keys"),
    MASKED_UNSEEN("/proc/sched_debug"),
    MASKED_UNSEEN("/proc/latency_stats"),
    MASKED("/proc/cgroups"),
    MASKED_UNSEEN("/proc/crypto"), /* a kernel can be built without */
    MASKED("/proc/softirqs"),
    MASKED("/proc/diskstats"),
    MASKED("/proc/vmstat"),
    MASKED("/proc/zoneinfo"),
    MASKED("/proc/buddyinfo"),
    MASKED("/proc/partitions"),
    MASKED("/proc/swaps"),        /* at least its heading */
    MASKED_UNSEEN("/proc/locks"), /* empty if nobody has one */
    MASKED_UNSEEN("/proc/schedstat"),
    MASKED_UNSEEN("/proc/modules"),
    MASKED_UNSEEN("/proc/mtrr"),
    MASKED_UNSEEN("/proc/mdstat"),
    MASKED_UNSEEN("/proc/fs"),
    MASKED_UNSEEN("/proc/irq"),
    MASKED_UNSEEN("/proc/bus"),
    MASKED_UNSEEN("/proc/acpi"),
    MASKED_UNSEEN("/proc/scsi"),
    MASKED_UNSEEN("/proc/asound"),
    MASKED("/sys/firmware"),
    MASKED_UNSEEN("/sys/kernel/debug"),
    MASKED_UNSEEN("/sys/kernel/tracing"),
    MASKED_UNSEEN("/sys/kernel/security"),
    MASKED_UNSEEN("/sys/fs/bpf"),
    MASKED_UNSEEN("/sys/module"),
    MASKED_UNSEEN("/sys/devices/virtual/block"),
    MASKED_UNSEEN("/sys/devices/system/node"),
    { "files: counters of the host's disks", disk_counters, NULL, UNSEEN }, /* not on every host */
    { "files: /dev is minimal", dev_is_minimal, NULL, SEEN },
    { "files: mknod of memory", makes_no_device, &(const struct node){ "memory", 1, 1 }, SEEN },
    { "files: mknod of a kernel message device", makes_no_device,
      &(const struct node){ "kmsg", 1, 11 }, SEEN },
    { "files: mknod of a tun device", makes_no_device, &(const struct node){ "tun", 10, 200 },
      SEEN },
    { "files: mknod of a disk", makes_no_device, &(const struct node){ "block", 8, 0 }, SEEN },
    { "files: mknod of the host's disk", makes_no_disk, NULL, SEEN },
    { "files: write lease", write_lease, NULL, SEEN },
    { "files: delegation of a directory", directory_delegation, NULL, UNSEEN }, /* since 6.19 */
    { "files: notices about a directory", directory_notices, NULL, SEEN },
    { "files: pages of programs in memory", page_residency, NULL, SEEN },
    { "files: more terminals than a sandbox's share", many_terminals, NULL, SEEN },
    { "files: syncing the file systems of others", sync_all, NULL, SEEN },
    { "files: chmod u+s", chmod_setuid, NULL, SEEN },
    { "files: chmod g+s", chmod_setgid, NULL, SEEN },
    { "files: open with a set-user-id mode", create_setuid, NULL, SEEN },
    { "files: mknod with a set-user-id mode", mknod_setuid, NULL, SEEN },
    { "files: fchmodat2 u+s", chmod_by_newest_call, NULL, SEEN },
    { "files: capabilities on a file", file_capability, NULL, SEEN },
    { "files: attributes that overlayfs trusts", overlay_attribute, NULL,
      UNSEEN }, /* tmpfs, ext4 differ */
};

const struct attack_group attacks_files = GROUP(attacks);
