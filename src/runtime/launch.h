/* Between the control plane and the launcher: requests and answers on one seqpacket socket. */
#ifndef RUNTIME_LAUNCH_H
#define RUNTIME_LAUNCH_H

#include <stdint.h>

#include "base/err.h"
#include "runtime/plan.h"

enum { LAUNCH_MAGIC = 0x434e4c53 /* "SLNC" */, LAUNCH_VERSION = 1, LAUNCH_STEP_MAX = 24 };

enum launch_type {
    LAUNCH_CREATE = 1, /* + descriptors of the plan */
    LAUNCH_DESTROY,
    LAUNCH_CREATED = 64, /* + a pidfd of the sandbox's PID 1 */
    LAUNCH_FAILED,
    LAUNCH_DESTROYED,
};

/* Limits of a plan that this machine or user cannot enforce. */
enum launch_unenforced {
    LAUNCH_NO_MEMORY = 1 << 0,
    LAUNCH_NO_PIDS = 1 << 1,
    LAUNCH_NO_CPU = 1 << 2,
};

struct launch_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t size;
};

struct launch_create {
    struct launch_head head;
    uint32_t pad;
    struct plan plan;
};

struct launch_destroy {
    struct launch_head head;
    char id[ID_MAX];
};

struct launch_created {
    struct launch_head head;
    int32_t pid;
    uint32_t unenforced; /* enum launch_unenforced */
};

struct launch_failed {
    struct launch_head head;
    char step[LAUNCH_STEP_MAX]; /* empty: the request itself was refused */
    struct err err;
};

struct launch_destroyed {
    struct launch_head head;
    uint32_t oom_kills;
    uint32_t leftover; /* cgroups that could not be removed */
    int64_t peak_bytes;
};

void launch_fill(struct launch_head *h, enum launch_type type, size_t size);
/* Checks magic, version, a known type, and the size that goes with it. */
int launch_check(const void *message, size_t n, struct err *e);

#endif
