/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that a worker may use. */
#ifndef ENGINE_EGRESS_FENCE_CALLS_H
#define ENGINE_EGRESS_FENCE_CALLS_H

#include <sys/syscall.h>

/* Allowed with any arguments. */
static const int fence_calls[] = {
    /* the network */
    SYS_accept4, SYS_connect, SYS_getpeername, SYS_getsockname, SYS_getsockopt, SYS_recvfrom,
    SYS_recvmmsg, SYS_recvmsg, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setsockopt, SYS_shutdown,
    /* descriptors */
    SYS_close, SYS_fcntl, SYS_fstat, SYS_lseek, SYS_newfstatat, SYS_pipe2, SYS_pread64, SYS_read,
    SYS_readv, SYS_splice, SYS_write, SYS_writev,
    /* waiting */
    SYS_epoll_ctl, SYS_epoll_pwait,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_futex, SYS_restart_syscall,
    /* memory and the process itself */
    SYS_brk, SYS_exit, SYS_exit_group, SYS_getpid, SYS_getrandom, SYS_gettid, SYS_madvise,
    SYS_mremap, SYS_munmap, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_yield,
    SYS_sigaltstack, SYS_tgkill, /* abort() */
    SYS_openat,                  /* must be last: omitted if no directory is open */
};

#endif
