/* SPDX-License-Identifier: Apache-2.0 */
/* Bits for the kernel features that a sandbox may use: from the profile's `kernel` field to the
 * launch plan, and from the launcher to PID 1, which selects the system call filter by them. */
#ifndef LIB_IPC_KERNEL_H
#define LIB_IPC_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum kernel_bits {
    KERNEL_NESTED_SECCOMP = 1 << 0, /* programs may install seccomp filters */
    KERNEL_SOCKET_FILTERS = 1 << 1, /* SO_ATTACH_FILTER and similar options */
    KERNEL_PAGE_CACHE = 1 << 2,     /* mincore, and reads with RWF_NOWAIT */
    KERNEL_STRICT = 1 << 3,         /* the strict table of system calls */
    KERNEL_PLAN_ALL_ = (1 << 4) - 1,
    /* Set by the launcher, never by a plan. */
    KERNEL_SET_IDS = 1 << 4, /* set-user-id bits on files */
    KERNEL_SYNC = 1 << 5,    /* sync and syncfs: files of the host are mounted writable */
};

/* Bits that a profile or a command line names: "nested-seccomp", … */
struct kernel_name {
    const char *name;
    uint32_t bit;
};
extern const struct kernel_name kernel_names[]; /* ended by a NULL name */
bool kernel_from_name(struct str name, uint32_t *ret);

#endif
