/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that the filter must refuse. The arguments would get past the kernel's own
 * permission checks when unconfined, and then fail or do nothing; so EPERM and ENOSYS are the only
 * good answers. */
#include "attacks/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btrfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#define P(x) ((long)(uintptr_t)(x))

struct call {
    long nr;
    long args[6];
    int only; /* the one good errno; 0: EPERM or ENOSYS */
};

static enum verdict call_is_refused(const void *with)
{
    const struct call *c = with;
    long r = syscall(c->nr, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], c->args[5]);
    int error = r < 0 ? errno : 0;

    if (c->only ? error == c->only : error == EPERM || error == ENOSYS)
        return held("%s", strerror(error));
    return escaped("returned %ld (%s)", r, error ? strerror(error) : "no error");
}

static char uring_params[256], buffer[4096];
static const struct perf_event_attr perf = { .type = PERF_TYPE_SOFTWARE,
                                             .size = sizeof(struct perf_event_attr),
                                             .config = PERF_COUNT_SW_CPU_CLOCK };
static const union bpf_attr bpf_map = {
    .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
};
static struct timex bad_tick = { .modes = ADJ_TICK, .tick = 1 };
static const uint64_t clone3_args[8] = { [4] = SIGCHLD };
static const uint64_t open_how[3] = { O_RDONLY };

/* Its flags lie in memory, where a filter cannot see them: it must not exist. */
static enum verdict clone3_makes_no_child(const void *with)
{
    long r = syscall(SYS_clone3, with, 64L);

    if (r == 0)
        _exit(0);
    if (r > 0)
        waitpid((pid_t)r, NULL, 0);
    return r < 0 && errno == ENOSYS ? held("%s", strerror(errno))
                                    : escaped("returned %ld (%s)", r, strerror(errno));
}

#ifdef __x86_64__
/* Runs one odd way into the kernel in a child, which may die of it. */
static enum verdict odd_way(long (*way)(void))
{
    int status = 0, fds[2];
    long r = -ENOSYS;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        return escaped("cannot fork");
    if (pid == 0) {
        r = way();
        if (write(fds[1], &r, sizeof r) < 0)
            _exit(1);
        _exit(0);
    }
    close(fds[1]);
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        return held("killed by signal %d", WTERMSIG(status));
    if (read(fds[0], &r, sizeof r) != sizeof r)
        return escaped("no answer");
    return r == -ENOSYS || r == -EPERM ? held("%s", strerror((int)-r)) : escaped("returned %ld", r);
}

static long getpid_by_int80(void)
{
    long r;

    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    return (long)(int)r;
}

static long getpid_by_x32(void)
{
    long r;

    __asm__ volatile("syscall" : "=a"(r) : "a"(0x40000000L + SYS_getpid) : "rcx", "r11", "memory");
    return r;
}

static enum verdict int80(const void *with)
{
    return odd_way(getpid_by_int80);
}

static enum verdict x32(const void *with)
{
    return odd_way(getpid_by_x32);
}
#endif

/* Numbers far apart behave alike: the filter's default is ENOSYS, not a hole between two ranges. */
static enum verdict unknown_numbers(const void *with)
{
    for (long nr = 480; nr < 4096; nr++)
        if (syscall(nr, 0, 0, 0, 0, 0, 0) != -1 || errno != ENOSYS)
            return escaped("system call %ld: %s", nr, strerror(errno));
    return held("480 to 4095: ENOSYS");
}

/* The classic container breakout by file handle: inode 2 is the root of the host's file system. */
static enum verdict shocker(const void *with)
{
    struct {
        unsigned bytes;
        int type;
        uint32_t inode, generation;
    } root = { 8, 1, 2, 0 };
    int at = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (at < 0)
        at = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return refused(syscall(SYS_open_by_handle_at, at, &root, O_RDONLY), "handle of inode 2");
}

#define CALL(label, number, ...)                                                                   \
    {                                                                                              \
        "calls: " label, call_is_refused, &(const struct call){ number, { __VA_ARGS__ }, 0 }, SEEN \
    }
/* The same, where this kernel or a namespace of one's own may refuse by itself. */
#define CALL_UNSEEN(label, number, ...)                                                            \
    {                                                                                              \
        "calls: " label, call_is_refused, &(const struct call){ number, { __VA_ARGS__ }, 0 },      \
            UNSEEN                                                                                 \
    }

/* The same, where one errno alone shows that the filter refused: the kernel has another. */
#define CALL_ONLY(label, error, number, ...)                                                       \
    {                                                                                              \
        "calls: " label, call_is_refused, &(const struct call){ number, { __VA_ARGS__ }, error },  \
            SEEN                                                                                   \
    }

/* A request of file systems, of no file: the kernel answers EBADF. */
#define REQUEST(label, request)                                                                    \
    CALL_ONLY("ioctl " label, ENOTTY, SYS_ioctl, -1, (long)(request), P(buffer))

static const struct attack attacks[] = {
    CALL("io_uring_setup", SYS_io_uring_setup, 4, P(uring_params)),
    CALL("io_uring_enter", SYS_io_uring_enter, -1, 0, 0, 0),
    CALL("io_uring_register", SYS_io_uring_register, -1, 0, 0, 0),
    CALL("bpf map", SYS_bpf, BPF_MAP_CREATE, P(&bpf_map), sizeof bpf_map),
    CALL("userfaultfd", SYS_userfaultfd, O_CLOEXEC | 1),
    CALL("perf_event_open", SYS_perf_event_open, P(&perf), 0, -1, -1, 8),
    CALL("add_key", SYS_add_key, P("user"), P("escape"), P("x"), 1, -2),
    CALL("request_key", SYS_request_key, P("user"), P("escape"), 0, -2),
    CALL("keyctl join session", SYS_keyctl, 1, 0),
    CALL("keyctl read session", SYS_keyctl, 0, -3, 0),
    CALL_UNSEEN("kexec_load", SYS_kexec_load, 0, 0, 0, -1),
    CALL_UNSEEN("kexec_file_load", SYS_kexec_file_load, -1, -1, 0, 0,
                0xffff),                                              /* optional in kernels */
    CALL_UNSEEN("init_module", SYS_init_module, P(buffer), 8, P("")), /* nomodule kernels */
    CALL_UNSEEN("finit_module", SYS_finit_module, -1, P(""), 0),
    CALL_UNSEEN("delete_module", SYS_delete_module, P("no such module"), 0),
    CALL("swapon", SYS_swapon, P("/no/such"), 0),
    CALL("swapoff", SYS_swapoff, P("/no/such")),
    CALL("reboot", SYS_reboot, 0xfee1dead, 672274793, 0x89abcdef,
         0), /* Ctrl-Alt-Del on: EINVAL at most */
    CALL("acct", SYS_acct, P("/no/such")),
    CALL("quotactl", SYS_quotactl, 0x800002, P("/no/such"), 0, P(buffer)),
    CALL("quotactl_fd", 443, -1, 0x800002, 0, P(buffer)),
    CALL("syslog read all", SYS_syslog, 3, P(buffer), sizeof buffer),
    CALL("syslog size", SYS_syslog, 10, 0, 0),
    CALL("name_to_handle_at", SYS_name_to_handle_at, AT_FDCWD, P("/"), P(buffer), P(buffer + 512),
         0),
    CALL("open_by_handle_at", SYS_open_by_handle_at, AT_FDCWD, P(buffer), O_RDONLY),
    CALL("personality MMAP_PAGE_ZERO", SYS_personality, MMAP_PAGE_ZERO),
    CALL("personality READ_IMPLIES_EXEC", SYS_personality, READ_IMPLIES_EXEC),
    CALL("sethostname", SYS_sethostname, P("escaped"), 7),
    CALL("setdomainname", SYS_setdomainname, P("escaped"), 7),
    CALL("adjtimex", SYS_adjtimex, P(&bad_tick)),
    CALL("clock_adjtime", SYS_clock_adjtime, 0, P(&bad_tick)),
    CALL("fanotify_init", SYS_fanotify_init, 0x4, O_RDONLY), /* FAN_CLASS_CONTENT */
    CALL("vhangup", SYS_vhangup),
    CALL("move_pages of pid 1", SYS_move_pages, 1, 0, 0, 0, 0, 0),
    CALL("migrate_pages of pid 1", SYS_migrate_pages, 1, 8, P(buffer), P(buffer)),
    CALL("kcmp with pid 1", SYS_kcmp, 1, 1, 1, 0, 0),
    CALL_UNSEEN("lookup_dcookie", SYS_lookup_dcookie, 0, P(buffer),
                sizeof buffer),                         /* gone since 6.7 */
    CALL_UNSEEN("nfsservctl", SYS_nfsservctl, 0, 0, 0), /* gone since 3.1 */
    CALL_ONLY("openat2", ENOSYS, SYS_openat2, AT_FDCWD, P("/"), P(open_how), sizeof open_how),
    CALL_ONLY("preadv2 of what is in memory", EOPNOTSUPP, SYS_preadv2, -1, 0, 0, 0, 0, RWF_NOWAIT),
    CALL_ONLY("preadv2 that leaves no trace", EOPNOTSUPP, SYS_preadv2, -1, 0, 0, 0, 0, 0x80),
    CALL_ONLY("pwritev2 of what is in memory", EOPNOTSUPP, SYS_pwritev2, -1, 0, 0, 0, 0,
              RWF_NOWAIT),
    CALL_ONLY("pwritev2 that evicts", EOPNOTSUPP, SYS_pwritev2, -1, 0, 0, 0, 0, 0x80),
    /* of a size that no machine has */
    CALL_ONLY("mmap of huge pages", ENOMEM, SYS_mmap, 0, 4096, PROT_READ,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (int)(63u << MAP_HUGE_SHIFT), -1, 0),
    CALL("memfd_create of huge pages", SYS_memfd_create, 0, MFD_HUGETLB),
    CALL("shmget of huge pages", SYS_shmget, IPC_PRIVATE, 0, SHM_HUGETLB | 0600),
    CALL("process_madvise", SYS_process_madvise, -1, P(buffer), 0, 21 /* PAGEOUT */, 0),
    CALL_UNSEEN("cachestat", 451, -1, P(buffer), P(buffer), 0), /* since 6.5 */
    CALL("remap_file_pages", SYS_remap_file_pages, 1, 0, 0, 0, 0),
    CALL_ONLY("seccomp filter of its own", EINVAL, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0),
    CALL_ONLY("seccomp filter of its own by prctl", EINVAL, SYS_prctl, PR_SET_SECCOMP,
              SECCOMP_MODE_FILTER, 0),
    CALL_ONLY("socket pair of another family", EAFNOSUPPORT, SYS_socketpair, AF_INET, SOCK_STREAM,
              0, P(buffer)),
    CALL_ONLY("fcntl of a command to come", EINVAL, SYS_fcntl, -1, 1024 + 99, 0),
    REQUEST("that makes a subvolume", BTRFS_IOC_SUBVOL_CREATE),
    REQUEST("that makes a subvolume, version 2", BTRFS_IOC_SUBVOL_CREATE_V2),
    REQUEST("that makes a snapshot", BTRFS_IOC_SNAP_CREATE),
    REQUEST("that makes a snapshot, version 2", BTRFS_IOC_SNAP_CREATE_V2),
    REQUEST("that removes a subvolume", BTRFS_IOC_SNAP_DESTROY),
    REQUEST("that makes a subvolume read-only", BTRFS_IOC_SUBVOL_SETFLAGS),
    REQUEST("that writes back a btrfs", BTRFS_IOC_SYNC),
    REQUEST("that begins to write back a btrfs", BTRFS_IOC_START_SYNC),
    REQUEST("that waits for a btrfs", BTRFS_IOC_WAIT_SYNC),
    REQUEST("about the space of a btrfs", BTRFS_IOC_SPACE_INFO),
    REQUEST("about the devices of a btrfs", BTRFS_IOC_FS_INFO),
    REQUEST("that defragments", BTRFS_IOC_DEFRAG),
    REQUEST("that makes a subvolume of bcachefs", _IOW(0xbc, 16, char[32])),
    REQUEST("that shares equal blocks", FIDEDUPERANGE),
    REQUEST("about the place of a file on the disk", FS_IOC_FIEMAP),
    REQUEST("about all files on the disk", _IOWR('X', 59, char[192])), /* FS_IOC_GETFSMAP */
    REQUEST("that sets flags", FS_IOC_SETFLAGS),
    REQUEST("that sets attributes", FS_IOC_FSSETXATTR),
    REQUEST("that seals a file", FS_IOC_ENABLE_VERITY),
    REQUEST("that adds a key", _IOWR('f', 23, char[80])), /* FS_IOC_ADD_ENCRYPTION_KEY */
    REQUEST("that freezes a file system", FIFREEZE),
    REQUEST("that discards free blocks", FITRIM),
    { "calls: clone3", clone3_makes_no_child, clone3_args, SEEN },
    { "calls: file handle of the host's root directory", shocker, NULL, SEEN },
    { "calls: numbers beyond the last are ENOSYS", unknown_numbers, NULL,
      UNSEEN }, /* so everywhere */
#ifdef __x86_64__
    CALL("modify_ldt write", SYS_modify_ldt, 0x11, P(buffer), 16),
    CALL_UNSEEN("iopl", SYS_iopl, 3),
    CALL_UNSEEN("ioperm", SYS_ioperm, 0x80, 1, 1),
    { "calls: 32-bit entry (int 0x80)", int80, NULL, SEEN },
    { "calls: x32 entry", x32, NULL, UNSEEN }, /* few kernels have x32 */
#endif
};

const struct attack_group attacks_calls = GROUP(attacks);
