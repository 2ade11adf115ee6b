/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of the fetch process. */
#ifndef ENGINE_FETCHER_CONFINE_CALLS_H
#define ENGINE_FETCHER_CONFINE_CALLS_H

#include <sys/syscall.h>

/* Allowed with any arguments; the arguments of mmap, mprotect, socket, socketpair, ioctl and clone
 * are checked (lib/fence/fence.c). Not allowed, among others: bind, listen and accept; execve and
 * kill; all calls that write to a file system. */
static const int confine_calls[] = {
    /* the network */
    SYS_connect,
    SYS_getpeername,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_setsockopt,
    SYS_shutdown,
    /* files that are read, and memory with a name */
    SYS_close,
    SYS_fadvise64,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fcntl,
    SYS_fstat,
    SYS_lseek,
    SYS_memfd_create,
    SYS_newfstatat,
    SYS_openat,
    SYS_pread64,
    SYS_read,
    SYS_readlinkat,
    SYS_readv,
    SYS_statx,
    SYS_write,
    SYS_writev,
#ifdef SYS_open /* the older spellings, which some architectures lack */
    SYS_access,
    SYS_open,
    SYS_poll,
    SYS_readlink,
    SYS_stat,
#endif
    /* waiting */
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_pipe2,
    SYS_ppoll,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_futex,
    SYS_restart_syscall,
    /* memory and the process itself */
    SYS_brk,
    SYS_exit,
    SYS_exit_group,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getpid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_gettid,
    SYS_getuid,
    SYS_madvise,
    SYS_membarrier,
    SYS_mremap,
    SYS_munmap,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_sigaltstack,
    SYS_sysinfo,
    SYS_tgkill, /* abort() */
    SYS_uname,
};

#endif
