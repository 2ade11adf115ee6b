/* SPDX-License-Identifier: Apache-2.0 */
/* The system call policy, as data. Read by filter_compile.c, which turns it into BPF at build time.
 *
 * System calls in no list do not exist for a sandbox (ENOSYS): new system calls cannot bypass the
 * policy, and programs fall back to older ones.
 *
 * There are two programs. The standard one is made of filter_allowed, filter_denied, filter_modes
 * and filter_rules. The strict one replaces the rows that filter_strict_denied,
 * filter_strict_missing, filter_strict_ignored and filter_strict_rules name. Permissions of a
 * profile (lib/ipc/kernel.h) use a separate action, FILTER_UNLESS(), which PID 1 resolves when it
 * loads a program. */
#ifndef ENGINE_INIT_FILTER_TABLE_H
#define ENGINE_INIT_FILTER_TABLE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/prctl.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>

#include "engine/init/filter_action.h"

/* Allowed with any arguments. Names with a leading '?' may be unknown to the build's libseccomp. */
static const char *const filter_allowed[] = {
    /* files */
    "access",
    "chdir",
    "close",
    "?close_range",
    "copy_file_range",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "?faccessat2",
    "fallocate",
    "fchdir",
    "fchown",
    "fchownat",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futimesat",
    "getcwd",
    "getdents",
    "getdents64",
    "getxattr",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "lchown",
    "chown",
    "lgetxattr",
    "link",
    "linkat",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "pread64",
    "preadv",
    "pwrite64",
    "pwritev",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendfile",
    "setxattr",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync_file_range",
    "tee",
    "truncate",
    "umask",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vmsplice",
    "write",
    "writev",
    /* memory */
    "brk",
    "mbind",
    "?membarrier",
    "mlock",
    "mlock2",
    "mlockall",
    "mprotect",
    "mremap",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "get_mempolicy",
    "set_mempolicy",
    /* processes */
    "arch_prctl",
    "capget",
    "capset",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "getuid",
    "?landlock_add_rule",
    "?landlock_create_ruleset",
    "?landlock_restrict_self",
    "pause",
    "pidfd_send_signal",
    "restart_syscall",
    "?rseq",
    "set_robust_list",
    "get_robust_list",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setpgid",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setsid",
    "setuid",
    "vfork",
    "wait4",
    "waitid",
    "times",
    "ioprio_get",
    "getcpu",
    /* scheduling and time */
    "alarm",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "getitimer",
    "gettimeofday",
    "nanosleep",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_yield",
    "setitimer",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    /* signals, waiting, events */
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "?epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "futex",
    "?futex_waitv",
    "poll",
    "ppoll",
    "pselect6",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
    "sigaltstack",
    "signalfd",
    "signalfd4",
    /* sockets and pipes */
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "getsockopt",
    "listen",
    "pipe",
    "pipe2",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "shutdown",
    /* System V and POSIX IPC, in the sandbox's own namespace */
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "shmat",
    "shmctl",
    "shmdt",
    /* the machine */
    "getrandom",
    "sysinfo",
    "uname",
};

/* Dangerous, or meaningless in a sandbox: EPERM, which programs report best. */
static const char *const filter_denied[] = {
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "migrate_pages",
    "modify_ldt",
    "mount",
    "?mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "?process_mrelease",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "query_module",
    "quotactl",
    "?quotactl_fd",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
};

/* Calls that take file modes, and the argument: set-user-id and set-group-id bits are refused
 * unless the sandbox may have them. On a writable mount of the host, such a file would allow
 * privilege escalation outside. */
static const struct {
    const char *name;
    unsigned argument;
} filter_modes[] = {
    { "chmod", 1 }, { "fchmod", 1 },  { "fchmodat", 2 }, { "creat", 1 },
    { "mknod", 1 }, { "mknodat", 2 }, { "open", 2 },     { "openat", 3 },
};
enum { FILTER_SET_IDS = 06000, FILTER_TESTS_MAX = 32 };

/* A test of one argument. Only its low 32 bits are compared, like the kernel does for an int, a
 * process id, a mode or clone's flags: values in the upper half have no effect. (mmap's flags are a
 * long, of which the kernel ignores undefined bits.) */
enum filter_op {
    FILTER_END, /* no further test */
    FILTER_IS,
    FILTER_IS_NOT,
    FILTER_AT_LEAST,
    FILTER_HAS_ANY, /* bits */
    FILTER_TYPE_IS, /* bits 8 to 15: the type of a request of ioctl(), _IOC_TYPE() */
};
#define FILTER_TYPE(type) ((uint32_t)(type) << _IOC_TYPESHIFT)

struct filter_test {
    uint32_t argument;
    enum filter_op op;
    uint32_t value;
    uint32_t action; /* if the test succeeds; otherwise the next test follows */
};

/* An action: continue with that test of the same rule, which must be a later one. */
#define FILTER_RWF_CACHE (RWF_NOWAIT | 0x80 /* RWF_DONTCACHE, since 6.14 */)
#define FILTER_GO(test)  (FILTER_GO_ | (test))

struct filter_rule {
    const char *name;
    struct filter_test tests[FILTER_TESTS_MAX];
    uint32_t otherwise;
};

#define FILTER_SPARE_PID_1(argument)                                                               \
    {                                                                                              \
        (argument), FILTER_IS, 1, FILTER_REFUSE(EPERM)                                             \
    }

#define FILTER_SOCKET_FILTER(option)                                                               \
    {                                                                                              \
        2, FILTER_IS, (option), FILTER_UNLESS(KERNEL_SOCKET_FILTERS, EPERM)                        \
    }
/* As tests `at` and following. */
#define FILTER_SOCKET_FILTERS(at)                                                                  \
    [(at)] = FILTER_SOCKET_FILTER(SO_ATTACH_FILTER),                                               \
    [(at) + 1] = FILTER_SOCKET_FILTER(SO_ATTACH_BPF),                                              \
    [(at) + 2] = FILTER_SOCKET_FILTER(SO_ATTACH_REUSEPORT_CBPF),                                   \
    [(at) + 3] = FILTER_SOCKET_FILTER(SO_ATTACH_REUSEPORT_EBPF)

/* For all processes of a sandbox, including PID 1. */
static const struct filter_rule filter_rules[] = {
    /* New UTS and cgroup namespaces need a capability that no workload has: PID 1 uses the former
     * to tag its children, and the latter to show them their own group as root. */
    { .name = "clone",
      .tests = { { 0, FILTER_HAS_ANY,
                   CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC,
                   FILTER_REFUSE(EPERM) } },
      .otherwise = FILTER_ALLOW },
    /* Address families that stay inside the network namespace. Others (vsock above all) do not. Of
     * IPv4 and IPv6 only TCP and UDP: SCTP, DCCP, MPTCP, SMC, L2TP and UDP-Lite are large parts of
     * the kernel that programs do without, and a socket loads their modules. (Raw sockets need a
     * capability that no workload has.) Route queries list the sandbox's own interfaces; the other
     * netlink families are kernel surface. */
    { .name = "socket",
      .tests = { [0] = { 0, FILTER_IS, AF_UNIX, FILTER_ALLOW },
                 [1] = { 0, FILTER_IS, AF_NETLINK, FILTER_GO(7) },
                 [2] = { 0, FILTER_IS, AF_INET, FILTER_GO(4) },
                 [3] = { 0, FILTER_IS_NOT, AF_INET6, FILTER_REFUSE(EAFNOSUPPORT) },
                 [4] = { 1, FILTER_HAS_ANY, 0xc /* neither STREAM, DGRAM nor RAW */,
                         FILTER_REFUSE(ESOCKTNOSUPPORT) },
                 [5] = { 2, FILTER_IS, IPPROTO_TCP, FILTER_ALLOW },
                 [6] = { 2, FILTER_IS, IPPROTO_UDP, FILTER_ALLOW },
                 [7] = { 2, FILTER_IS_NOT, 0, FILTER_REFUSE(EPROTONOSUPPORT) } },
      .otherwise = FILTER_ALLOW },
    { .name = "socketpair",
      .tests = { { 0, FILTER_IS_NOT, AF_UNIX, FILTER_REFUSE(EAFNOSUPPORT) } },
      .otherwise = FILTER_ALLOW },
    /* Filters for sockets take machine code out of a budget that is the whole machine's
     * (net.core.bpf_jit_limit). Upper layer protocols (TCP_ULP) are modules of the kernel. */
    { .name = "setsockopt",
      .tests = { [0] = { 1, FILTER_IS, SOL_SOCKET, FILTER_GO(3) },
                 [1] = { 1, FILTER_IS_NOT, IPPROTO_TCP, FILTER_ALLOW },
                 [2] = { 2, FILTER_IS_NOT, 31 /* TCP_ULP */, FILTER_ALLOW },
                 [3] = { 1, FILTER_IS_NOT, SOL_SOCKET, FILTER_REFUSE(ENOENT) },
                 FILTER_SOCKET_FILTERS(4) },
      .otherwise = FILTER_ALLOW },
    /* Commands up to F_GETOWNER_UIDS, open file description locks, and from F_DUPFD_QUERY to the
     * write hints. A lease on a file stalls other processes that open it, and a notification
     * reports them; delegations (F_SETDELEG) are leases. Unknown commands are refused as by older
     * kernels. */
    { .name = "fcntl",
      .tests = { { 1, FILTER_AT_LEAST, F_SET_FILE_RW_HINT + 1, FILTER_REFUSE(EINVAL) },
                 { 1, FILTER_AT_LEAST, 1027 /* F_DUPFD_QUERY */, FILTER_ALLOW },
                 { 1, FILTER_IS, F_GETLEASE, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, F_SETLEASE /* and F_NOTIFY */, FILTER_REFUSE(EPERM) },
                 { 1, FILTER_AT_LEAST, F_OFD_SETLKW + 1, FILTER_REFUSE(EINVAL) },
                 { 1, FILTER_AT_LEAST, F_OFD_GETLK, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 18, FILTER_REFUSE(EINVAL) } },
      .otherwise = FILTER_ALLOW },
    /* These calls reveal which pages of a file are in memory, and so which files of the host other
     * sandboxes use; with RWF_DONTCACHE the probe leaves no trace and can be repeated. Programs
     * that probe for them have a fallback. */
    { .name = "mincore", .otherwise = FILTER_UNLESS(KERNEL_PAGE_CACHE, ENOSYS) },
    { .name = "preadv2",
      .tests = { { 5, FILTER_HAS_ANY, FILTER_RWF_CACHE,
                   FILTER_UNLESS(KERNEL_PAGE_CACHE, EOPNOTSUPP) } },
      .otherwise = FILTER_ALLOW },
    { .name = "pwritev2",
      .tests = { { 5, FILTER_HAS_ANY, FILTER_RWF_CACHE,
                   FILTER_UNLESS(KERNEL_PAGE_CACHE, EOPNOTSUPP) } },
      .otherwise = FILTER_ALLOW },
    /* If a sandbox evicts a page and finds it in memory again, another sandbox has read it.
     * Programs use the call only to save memory, so it succeeds without effect. */
    { .name = "fadvise64",
      .tests = { { 3, FILTER_IS, POSIX_FADV_DONTNEED, FILTER_UNLESS(KERNEL_PAGE_CACHE, 0) } },
      .otherwise = FILTER_ALLOW },
    /* These write back the files of all users of a file system: on a shared one every other sandbox
     * waits. The data of a sandbox outlives a power failure only in snapshots, which are synced, so
     * the calls succeed without effect; fsync and fdatasync work. */
    { .name = "sync", .otherwise = FILTER_UNLESS(KERNEL_SYNC, 0) },
    { .name = "syncfs", .otherwise = FILTER_UNLESS(KERNEL_SYNC, 0) },
    /* The time of a write reveals merged pages, and so the memory contents of other sandboxes.
     * MADV_PAGEOUT evicts pages of files; kernels before 5.4 answer EINVAL. */
    { .name = "madvise",
      .tests = { { 2, FILTER_IS, MADV_MERGEABLE, FILTER_REFUSE(EINVAL) },
                 { 2, FILTER_IS, MADV_PAGEOUT, FILTER_UNLESS(KERNEL_PAGE_CACHE, EINVAL) } },
      .otherwise = FILTER_ALLOW },
    /* Huge pages of the machine's pool are not counted as the sandbox's memory. The errors are
     * those of a machine without a pool, or of a user who may not use it. */
    { .name = "mmap",
      .tests = { { 3, FILTER_HAS_ANY, MAP_HUGETLB, FILTER_REFUSE(ENOMEM) } },
      .otherwise = FILTER_ALLOW },
    { .name = "memfd_create",
      .tests = { { 1, FILTER_HAS_ANY, MFD_HUGETLB, FILTER_REFUSE(EPERM) } },
      .otherwise = FILTER_ALLOW },
    { .name = "shmget",
      .tests = { { 2, FILTER_HAS_ANY, SHM_HUGETLB, FILTER_REFUSE(EPERM) } },
      .otherwise = FILTER_ALLOW },
    /* Filters of programs use the same budget as those of sockets. Kernels without them answer
     * EINVAL, which programs handle (sshd, man, systemd's tools). A filter with a listener outlives
     * its processes, so it could not be counted. */
    { .name = "seccomp",
      .tests = { { 0, FILTER_IS_NOT, SECCOMP_SET_MODE_FILTER, FILTER_ALLOW },
                 { 1, FILTER_HAS_ANY, SECCOMP_FILTER_FLAG_NEW_LISTENER, FILTER_REFUSE(EINVAL) } },
      .otherwise = FILTER_UNLESS(KERNEL_NESTED_SECCOMP, EINVAL) },
    { .name = "prctl",
      .tests = { { 0, FILTER_IS, PR_SET_SECCOMP, FILTER_UNLESS(KERNEL_NESTED_SECCOMP, EINVAL) },
                 { 0, FILTER_IS, PR_SCHED_CORE, FILTER_REFUSE(EINVAL) },
                 { 0, FILTER_IS, 67 /* PR_SET_MEMORY_MERGE */, FILTER_REFUSE(EINVAL) } },
      .otherwise = FILTER_ALLOW },
    { .name = "prlimit64",
      .tests = { { 0, FILTER_IS_NOT, 0 /* the caller */, FILTER_REFUSE(EPERM) } },
      .otherwise = FILTER_ALLOW },
    /* PRIO_PROCESS and PRIO_PGRP; PRIO_USER would reach PID 1. */
    { .name = "setpriority",
      .tests = { { 0, FILTER_AT_LEAST, 2, FILTER_REFUSE(EPERM) }, FILTER_SPARE_PID_1(1) },
      .otherwise = FILTER_ALLOW },
    { .name = "personality",
      .tests = { { 0, FILTER_IS, 0, FILTER_ALLOW },
                 { 0, FILTER_IS, 0x20000 /* UNAME26 */, FILTER_ALLOW },
                 { 0, FILTER_IS, 0x40000 /* ADDR_NO_RANDOMIZE */, FILTER_ALLOW },
                 { 0, FILTER_IS, 0xffffffff /* query */, FILTER_ALLOW } },
      .otherwise = FILTER_REFUSE(ENOSYS) },
    /* The mode, and so a set-user-id bit, is behind a pointer: allowed only for PID 1's file
     * operations, which pass the random numbers in the unused arguments (sys_openat2). */
    { .name = "openat2",
      .tests = { { 4, FILTER_IS_NOT, FILTER_PASS_FIRST, FILTER_REFUSE(ENOSYS) },
                 { 5, FILTER_IS_NOT, FILTER_PASS_SECOND, FILTER_REFUSE(ENOSYS) } },
      .otherwise = FILTER_ALLOW },
    /* No call may name PID 1; it does not name itself. */
    { .name = "kill", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "tkill", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "tgkill",
      .tests = { FILTER_SPARE_PID_1(0), FILTER_SPARE_PID_1(1) },
      .otherwise = FILTER_ALLOW },
    { .name = "rt_sigqueueinfo", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "rt_tgsigqueueinfo",
      .tests = { FILTER_SPARE_PID_1(0), FILTER_SPARE_PID_1(1) },
      .otherwise = FILTER_ALLOW },
    { .name = "pidfd_open", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "sched_setaffinity", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "sched_setscheduler", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "sched_setparam", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "sched_setattr", .tests = { FILTER_SPARE_PID_1(0) }, .otherwise = FILTER_ALLOW },
    { .name = "ioprio_set", .tests = { FILTER_SPARE_PID_1(1) }, .otherwise = FILTER_ALLOW },
    /* Requests of terminals and sockets, and a few others by number: each file system has its own,
     * of which many need no privilege. On btrfs, they make subvolumes, which no disk limit counts,
     * and write back the files of all users; other types defragment, encrypt, freeze, trim and show
     * the whole volume. TIOCSTI and TIOCLINUX inject input into the terminal, for the next process
     * that reads it. Not FIDEDUPERANGE: it compares with files that the caller may only write. */
    { .name = "ioctl",
      .tests = { { 1, FILTER_IS, 0x5412 /* TIOCSTI */, FILTER_REFUSE(EPERM) },
                 { 1, FILTER_IS, 0x541C /* TIOCLINUX */, FILTER_REFUSE(EPERM) },
                 { 1, FILTER_IS, 0x5423 /* TIOCSETD */, FILTER_REFUSE(EPERM) },
                 { 1, FILTER_IS, FICLONE, FILTER_ALLOW },
                 { 1, FILTER_IS, FICLONERANGE, FILTER_ALLOW },
                 { 1, FILTER_IS, FIGETBSZ, FILTER_ALLOW },
                 { 1, FILTER_IS, FS_IOC_GETFLAGS, FILTER_ALLOW },
                 { 1, FILTER_IS, FS_IOC_GETVERSION, FILTER_ALLOW },
                 { 1, FILTER_IS, FS_IOC_FSGETXATTR, FILTER_ALLOW },
                 { 1, FILTER_IS, RNDGETENTCNT, FILTER_ALLOW },
                 { 1, FILTER_IS, SECCOMP_IOCTL_NOTIF_RECV /* PID 1's own */, FILTER_ALLOW },
                 { 1, FILTER_IS, SECCOMP_IOCTL_NOTIF_SEND, FILTER_ALLOW },
                 { 1, FILTER_TYPE_IS, FILTER_TYPE('T') /* terminals, descriptors */, FILTER_ALLOW },
                 { 1, FILTER_TYPE_IS, FILTER_TYPE(0x89) /* sockets */, FILTER_ALLOW } },
      .otherwise = FILTER_REFUSE(ENOTTY) },
};

/* The strict table: its rows replace those of the standard table. For untrusted programs;
 * docs/profiles.md lists the restrictions. */

/* EPERM. */
static const char *const filter_strict_denied[] = {
    "mbind",      "set_mempolicy", "mlockall",       "setpriority",
    "ioprio_set", "sched_setattr", "sched_setparam", "sched_setscheduler",
};

/* ENOSYS: programs have fallbacks. */
static const char *const filter_strict_missing[] = {
    "get_mempolicy",
    "?landlock_add_rule",
    "?landlock_create_ruleset",
    "?landlock_restrict_self",
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "readahead",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
};

/* Succeed without effect, whatever is mounted. */
static const char *const filter_strict_ignored[] = {
    "sync",
    "syncfs",
};

static const struct filter_rule filter_strict_rules[] = {
    /* Pages that pass between pipes, sockets and files without a copy. */
    { .name = "splice", .otherwise = FILTER_REFUSE(EINVAL) },
    { .name = "tee", .otherwise = FILTER_REFUSE(EINVAL) },
    { .name = "vmsplice", .otherwise = FILTER_REFUSE(EINVAL) },
    { .name = "personality",
      .tests = { { 0, FILTER_IS, 0, FILTER_ALLOW },
                 { 0, FILTER_IS, 0xffffffff /* query */, FILTER_ALLOW } },
      .otherwise = FILTER_REFUSE(EPERM) },
    /* Without netlink: TCP, UDP and local sockets. */
    { .name = "socket",
      .tests = { [0] = { 0, FILTER_IS, AF_UNIX, FILTER_ALLOW },
                 [1] = { 0, FILTER_IS, AF_INET, FILTER_GO(3) },
                 [2] = { 0, FILTER_IS_NOT, AF_INET6, FILTER_REFUSE(EAFNOSUPPORT) },
                 [3] = { 1, FILTER_HAS_ANY, 0xc, FILTER_REFUSE(ESOCKTNOSUPPORT) },
                 [4] = { 2, FILTER_IS, IPPROTO_TCP, FILTER_ALLOW },
                 [5] = { 2, FILTER_IS, IPPROTO_UDP, FILTER_ALLOW },
                 [6] = { 2, FILTER_IS_NOT, 0, FILTER_REFUSE(EPROTONOSUPPORT) } },
      .otherwise = FILTER_ALLOW },
    /* Options of sockets, IP, IPv6, TCP and UDP; of UDP no encapsulation. */
    { .name = "setsockopt",
      .tests = { [0] = { 1, FILTER_IS, SOL_SOCKET, FILTER_GO(8) },
                 [1] = { 1, FILTER_IS, IPPROTO_IP, FILTER_ALLOW },
                 [2] = { 1, FILTER_IS, IPPROTO_IPV6, FILTER_ALLOW },
                 [3] = { 1, FILTER_IS, IPPROTO_TCP, FILTER_GO(6) },
                 [4] = { 1, FILTER_IS_NOT, IPPROTO_UDP, FILTER_REFUSE(ENOPROTOOPT) },
                 [5] = { 2, FILTER_IS, 100 /* UDP_ENCAP */, FILTER_REFUSE(ENOPROTOOPT) },
                 [6] = { 2, FILTER_IS, 31 /* TCP_ULP */, FILTER_REFUSE(ENOENT) },
                 [7] = { 1, FILTER_IS_NOT, SOL_SOCKET, FILTER_ALLOW },
                 FILTER_SOCKET_FILTERS(8) },
      .otherwise = FILTER_ALLOW },
    /* Common terminal requests, and queries of descriptors and interfaces. None for file systems:
     * cloned ranges, flags, encryption, trimming. */
    { .name = "ioctl",
      .tests = { { 1, FILTER_IS, 0x5412 /* TIOCSTI */, FILTER_REFUSE(EPERM) },
                 { 1, FILTER_IS, 0x80045430 /* TIOCGPTN */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x80045432 /* TIOCGDEV */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x80045438 /* TIOCGPKT */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x80045439 /* TIOCGPTLCK */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x40045431 /* TIOCSPTLCK */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x40045436 /* TIOCSIG */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x802c542a /* TCGETS2 */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x402c542b /* TCSETS2 */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x402c542c /* TCSETSW2 */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x402c542d /* TCSETSF2 */, FILTER_ALLOW },
                 { 1, FILTER_IS, SECCOMP_IOCTL_NOTIF_RECV /* PID 1's own */, FILTER_ALLOW },
                 { 1, FILTER_IS, SECCOMP_IOCTL_NOTIF_SEND, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 0x8934, FILTER_REFUSE(ENOTTY) },
                 { 1, FILTER_AT_LEAST, 0x8910 /* SIOCGIFNAME to SIOCGIFINDEX */, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 0x8906, FILTER_REFUSE(ENOTTY) },
                 { 1, FILTER_AT_LEAST, 0x8901 /* FIOSETOWN to SIOCATMARK */, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 0x5461, FILTER_REFUSE(ENOTTY) },
                 { 1, FILTER_AT_LEAST, 0x5460 /* FIOQSIZE */, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 0x5453, FILTER_REFUSE(ENOTTY) },
                 { 1, FILTER_AT_LEAST, 0x5450 /* FIONCLEX, FIOCLEX, FIOASYNC */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x5441 /* TIOCGPTPEER */, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 0x542a, FILTER_REFUSE(ENOTTY) },
                 { 1, FILTER_AT_LEAST, 0x5427 /* TIOCSBRK, TIOCCBRK, TIOCGSID */, FILTER_ALLOW },
                 { 1, FILTER_IS, 0x5425 /* TCSBRKP */, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 0x5423 /* TIOCSETD */, FILTER_REFUSE(EPERM) },
                 { 1, FILTER_AT_LEAST, 0x5420 /* TIOCPKT to TIOCNOTTY */, FILTER_ALLOW },
                 { 1, FILTER_AT_LEAST, 0x541c /* TIOCLINUX */, FILTER_REFUSE(EPERM) },
                 { 1, FILTER_AT_LEAST, 0x5401 /* TCGETS */, FILTER_ALLOW } },
      .otherwise = FILTER_REFUSE(ENOTTY) },
    /* Options that runtimes and shells use: names, dumpable, parent-death signal, subreapers,
     * no_new_privs, timer slack, names of memory, transparent huge pages, dropping capabilities. */
    { .name = "prctl",
      .tests = { { 0, FILTER_IS, PR_SET_SECCOMP, FILTER_UNLESS(KERNEL_NESTED_SECCOMP, EINVAL) },
                 { 0, FILTER_IS, 0x53564d41 /* PR_SET_VMA */, FILTER_ALLOW },
                 { 0, FILTER_AT_LEAST, PR_CAP_AMBIENT + 1, FILTER_REFUSE(EINVAL) },
                 { 0, FILTER_AT_LEAST, PR_SET_CHILD_SUBREAPER, FILTER_ALLOW },
                 { 0, FILTER_AT_LEAST, PR_GET_TIMERSLACK + 1, FILTER_REFUSE(EINVAL) } },
      .otherwise = FILTER_ALLOW },
};

#endif
