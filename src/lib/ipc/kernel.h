/* Which parts of the kernel a sandbox may use, as bits: from the profile's `kernel` field to the
 * launch plan, and from the launcher to PID 1, which loads the system call filter by them. */
#ifndef IPC_KERNEL_H
#define IPC_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum kernel_bits {
    KERNEL_NESTED_SECCOMP = 1 << 0, /* seccomp filters of programs' own */
    KERNEL_SOCKET_FILTERS = 1 << 1, /* SO_ATTACH_FILTER and its like */
    KERNEL_PAGE_CACHE = 1 << 2,     /* mincore, and reads with RWF_NOWAIT */
    KERNEL_STRICT = 1 << 3,         /* the strict table of system calls */
    KERNEL_PLAN_ALL_ = (1 << 4) - 1,
    /* Decided by the launcher, never by a plan. */
    KERNEL_SET_IDS = 1 << 4, /* set-user-id bits on files */
};

/* Bits that a profile or a command line names: "nested-seccomp", … */
struct kernel_name {
    const char *name;
    uint32_t bit;
};
extern const struct kernel_name kernel_names[]; /* ends with a name that is NULL */
bool kernel_from_name(struct str name, uint32_t *ret);

#endif
