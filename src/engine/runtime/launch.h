/* Between the control plane and the launcher: requests and answers on one seqpacket socket.
 *
 * Requests are served one after the other and answered in that order; any number may be under way.
 * A request that names a sandbox is answered with its id. Building has a deadline, so one sandbox
 * whose sources hang (a dead file server) delays the others but does not stop them. DESTROY may
 * follow CREATE at once, and may name what is not there: afterwards nothing of that id is. */
#ifndef RUNTIME_LAUNCH_H
#define RUNTIME_LAUNCH_H

#include <stdint.h>

#include "base/err.h"
#include "runtime/plan.h"

enum { LAUNCH_MAGIC = 0x434e4c53 /* "SLNC" */, LAUNCH_VERSION = 4, LAUNCH_STEP_MAX = 24 };

enum launch_type {
    LAUNCH_CREATE = 1, /* + descriptors of the plan */
    LAUNCH_DESTROY,
    LAUNCH_FREEZE, /* everything in it stands still, PID 1 too, when it is answered … */
    LAUNCH_THAW,   /* … until this; also of one that is not frozen, or not there */
    LAUNCH_ASSIGN, /* a prepared sandbox gets its owner: its groups are made, and sent to PID 1,
                      which enters them when it reads CONTROL_JOIN; of the launcher that made
                      it. If it fails, PID 1 ends. */
    LAUNCH_CREATED = 64, /* + a pidfd of the sandbox's PID 1; with PLAN_CHANGES also the directory
                            of its writable layer (runtime/rootfs.h) and its user namespace */
    LAUNCH_FAILED,
    LAUNCH_DESTROYED,
    LAUNCH_HELD, /* to both */
    LAUNCH_ASSIGNED,
};

/* Limits of a plan that this machine or user cannot enforce. */
enum launch_unenforced {
    LAUNCH_NO_MEMORY = 1 << 0,
    LAUNCH_NO_PIDS = 1 << 1,
    LAUNCH_NO_CPU = 1 << 2,
    LAUNCH_NO_DISK = 1 << 3,
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
    struct plan plan; /* plan_size() bytes of it */
};

struct launch_destroy {
    struct launch_head head;
    char id[ID_MAX];
};

/* FREEZE and THAW. -ERR_UNSUPPORTED where there is no group of version 2 to freeze. */
struct launch_hold {
    struct launch_head head;
    char id[ID_MAX];
};

struct launch_assign {
    struct launch_head head;
    char id[ID_MAX];
    uint32_t pad;
    struct cgroup_owner owner;
};

struct launch_created {
    struct launch_head head;
    int32_t pid;
    uint32_t unenforced; /* enum launch_unenforced */
    char id[ID_MAX];
};

struct launch_failed {
    struct launch_head head;
    char step[LAUNCH_STEP_MAX]; /* empty: the request itself was refused */
    char id[ID_MAX];            /* empty: the request names no sandbox */
    struct err err;
};

struct launch_destroyed {
    struct launch_head head;
    uint32_t oom_kills;
    uint32_t leftover; /* cgroups that could not be removed */
    int64_t peak_bytes;
    char id[ID_MAX];
};

struct launch_held {
    struct launch_head head;
    char id[ID_MAX];
};

struct launch_assigned {
    struct launch_head head;
    char id[ID_MAX];
};

void launch_fill(struct launch_head *h, enum launch_type type, size_t size);
/* Checks magic, version, a known type, and the size that goes with it. */
int launch_check(const void *message, size_t n, struct err *e);

#endif
