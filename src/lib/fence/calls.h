/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that several fenced processes need; each process adds its own. */
#ifndef LIB_FENCE_CALLS_H
#define LIB_FENCE_CALLS_H

#include <sys/syscall.h>

/* Every process: open connections and descriptors, waiting, memory, and its own end. */
static const int fence_base_calls[] = {
    /* the network */
    SYS_connect, SYS_getpeername, SYS_getsockname, SYS_getsockopt, SYS_recvfrom, SYS_recvmsg,
    SYS_sendmsg, SYS_sendto, SYS_setsockopt, SYS_shutdown,
    /* descriptors */
    SYS_close, SYS_fcntl, SYS_fstat, SYS_lseek, SYS_newfstatat, SYS_pipe2, SYS_pread64, SYS_read,
    SYS_readv, SYS_write, SYS_writev,
    /* waiting */
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_clock_gettime, SYS_clock_nanosleep, SYS_futex,
    SYS_restart_syscall,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    /* memory and the process itself */
    SYS_brk, SYS_exit, SYS_exit_group, SYS_getpid, SYS_getrandom, SYS_gettid, SYS_madvise,
    SYS_mremap, SYS_munmap, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_yield,
    SYS_sigaltstack, SYS_tgkill, /* abort() */
};

/* Also a process that opens files by name and has threads. */
static const int fence_service_calls[] = {
    /* files */
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fadvise64,
    SYS_memfd_create,
    SYS_openat,
    SYS_readlinkat,
    SYS_statx,
#ifdef SYS_open /* the older spellings, which some architectures lack */
    SYS_access,
    SYS_open,
    SYS_poll,
    SYS_readlink,
#endif
    /* waiting */
    SYS_clock_getres,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_ppoll,
    /* the process itself */
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getrusage,
    SYS_getuid,
    SYS_membarrier,
    SYS_rseq,
    SYS_sched_getaffinity,
    SYS_set_robust_list,
    SYS_sysinfo,
    SYS_uname,
};

#endif
