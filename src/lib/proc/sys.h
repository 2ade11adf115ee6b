/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers of Linux system calls that glibc or musl lacks, and constants newer than the headers of
 * Debian 12. Each returns the result of the system call: -1 and errno on failure. */
#ifndef LIB_PROC_SYS_H
#define LIB_PROC_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Since 1.2.5, musl has struct statx itself. */
#ifndef STATX_TYPE
#include <linux/stat.h>
#endif
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

/* fcntl.h and linux/mount.h overlap differently in glibc and musl. */
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS   1033
#define F_SEAL_SEAL   1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW   4
#define F_SEAL_WRITE  8
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

/* A secret passed to every openat2() in unused argument registers. 0 except in PID 1 of a sandbox
 * and its children, whose system call filter requires it (engine/init/filter_table.h). */
extern uint32_t sys_openat2_pass[2];

/* Repeats a call that answers EAGAIN: something was renamed or mounted, anywhere on the machine, while
 * the kernel resolved a "..". */
static inline int sys_openat2(int dir, const char *path, uint64_t flags, uint64_t mode,
                              uint64_t resolve)
{
    struct open_how how = { .flags = flags | O_CLOEXEC, .mode = mode, .resolve = resolve };
    int fd, tries = 64;

    do
        fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how,
                          (unsigned long)sys_openat2_pass[0], (unsigned long)sys_openat2_pass[1]);
    while (fd < 0 && errno == EAGAIN && resolve && --tries > 0);
    return fd;
}

static inline pid_t sys_clone3(struct clone_args *args)
{
    return (pid_t)syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_send_signal(int pidfd, int sig)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

static inline int sys_close_range(unsigned first, unsigned last)
{
    return (int)syscall(SYS_close_range, first, last, 0);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int sys_move_mount(int from_dir, const char *from, int to_dir, const char *to,
                                 unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_dir, from, to_dir, to, flags);
}

static inline int sys_fsopen(const char *fs)
{
    return (int)syscall(SYS_fsopen, fs, FSOPEN_CLOEXEC);
}

static inline int sys_fsconfig(int fs, unsigned cmd, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fs, cmd, key, value, aux);
}

static inline int sys_fsmount(int fs, unsigned attrs)
{
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attrs);
}

static inline int sys_mount_setattr(int dir, const char *path, unsigned flags,
                                    struct mount_attr *attr)
{
    return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, sizeof *attr);
}

static inline int sys_execveat(int dir, const char *path, char *const argv[], char *const envp[],
                               int flags)
{
    return (int)syscall(SYS_execveat, dir, path, argv, envp, flags);
}

#endif
