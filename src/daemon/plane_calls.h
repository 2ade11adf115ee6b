/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of the control plane, besides those of lib/fence/calls.h. */
#ifndef DAEMON_PLANE_CALLS_H
#define DAEMON_PLANE_CALLS_H

#include "lib/fence/calls.h"

/* Allowed with any arguments; the arguments of mmap, mprotect, socket, socketpair and clone are
 * checked (lib/fence/fence.c). Not allowed, among others: execve, fork, kill, ptrace, mount, setns,
 * unshare, bpf, perf_event_open, io_uring_setup, keyctl, userfaultfd, pidfd_getfd,
 * process_vm_readv. */
static const int plane_calls[] = {
    /* connections */
    SYS_accept4,
    SYS_bind,
    SYS_listen,
    /* files */
    SYS_close_range,
    SYS_copy_file_range,
    SYS_dup,
    SYS_dup3,
    SYS_fallocate,
    SYS_fchmod,
    SYS_fdatasync,
    SYS_flock,
    SYS_fstatfs,
    SYS_fsync,
    SYS_ftruncate,
    SYS_getcwd,
    SYS_getdents64,
    SYS_linkat,
    SYS_mkdirat,
    SYS_openat2,
    SYS_preadv,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_renameat,
    SYS_renameat2,
    SYS_sendfile,
    SYS_splice,
    SYS_statfs,
    SYS_sync_file_range,
    SYS_tee,
    SYS_unlinkat,
    SYS_utimensat,
#ifdef SYS_open /* the older spellings, which some architectures lack */
    SYS_dup2,
    SYS_mkdir,
    SYS_rename,
    SYS_rmdir,
    SYS_unlink,
#endif
    /* waiting */
    SYS_epoll_create1,
    SYS_nanosleep,
    SYS_pidfd_open,
    SYS_signalfd4,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    /* the process itself */
    SYS_getppid,
    SYS_getrlimit,
    SYS_msync,
};

#endif
