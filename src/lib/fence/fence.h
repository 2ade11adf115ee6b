/* SPDX-License-Identifier: Apache-2.0 */
/* Confinement of a long-running process of the service, entered once everything that needs more
 * rights is open: the egress worker, the control plane, the fetch process.
 *
 * Steps, in this order: as many descriptors as the hard limit allows, no core dumps; not dumpable
 * (no ptrace, no /proc/PID/mem for the own user), no new privileges; no capabilities; Landlock,
 * where the kernel has it; a seccomp allow-list. Must be entered before the process starts its
 * first thread: Landlock covers only threads that are created afterwards. There is no way back. */
#ifndef LIB_FENCE_FENCE_H
#define LIB_FENCE_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Access to the files below a directory, or to one file. */
enum fence_access {
    FENCE_READ_FILES = 1 << 0,   /* open for reading */
    FENCE_READ_DIRS = 1 << 1,    /* list */
    FENCE_APPEND_FILES = 1 << 2, /* make files, and open files for writing, but not truncate */
    FENCE_CHANGE = 1 << 3,       /* make, write, truncate, rename and remove files, directories and
                                  * sockets */
    FENCE_READ = FENCE_READ_FILES | FENCE_READ_DIRS,
};

struct fence_place {
    int fd; /* a directory or file, O_PATH is enough; -1: skipped */
    unsigned access;
};

enum fence_refusal {
    FENCE_ENOSYS, /* other system calls do not exist */
    FENCE_TRAP,   /* other system calls fail with EPERM, and each is logged once: fence_trap() */
};

/* Whether TCP sockets may be bound or connected, where Landlock knows (ABI 4). */
enum fence_tcp { FENCE_TCP_CONNECT = 1 << 0 };

enum { FENCE_LISTS_MAX = 3 };
#define FENCE_CALLS(list)                                                                          \
    {                                                                                              \
        (list), COUNT_OF(list)                                                                     \
    }

struct fence_rules {
    const char *who; /* in errors: "the control plane" */
    struct fence_calls {
        const int *p;
        size_t n;
    } calls[FENCE_LISTS_MAX]; /* allowed with any arguments */
    const int *families;      /* address families of socket() and socketpair() */
    size_t n_families;
    bool pairs; /* socketpair() is allowed for AF_UNIX, independent of the families of socket() */
    const int *ioctls; /* commands of ioctl() */
    size_t n_ioctls;
    const struct fence_place *places;
    size_t n_places;
    unsigned tcp; /* enum fence_tcp */
    bool threads; /* may be created; processes and namespaces never */
    enum fence_refusal refusal;
};

/* Enters the fence. On failure the process has lost some rights and not others: it must exit. */
int fence_apply(const struct fence_rules *f, struct err *e);

/* --- landlock.c --- */

int fence_landlock(const struct fence_rules *f, struct err *e);

/* --- refusal.c --- */

/* Called on the thread whose call was refused, once for each system call number. It may use
 * everything but the refused call. */
typedef void fence_refused_fn(int call, const char *name);

/* Handles SIGSYS, the signal of FENCE_TRAP: reports the call and lets it fail with EPERM. A thread
 * that blocks SIGSYS is killed together with its process. Call before fence_apply(). */
int fence_trap(fence_refused_fn *refused, struct err *e);

#endif
