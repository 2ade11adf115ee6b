/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between control plane and launcher: requests and answers on one seqpacket socket.
 *
 * Requests are served sequentially and answered in order; any number may be pending. A request that
 * names a sandbox is answered with its id. Building has a deadline, so a sandbox whose sources hang
 * (a dead file server) delays the others but does not block them. DESTROY may follow CREATE at
 * once, and may name a sandbox that does not exist: afterwards nothing of that id exists. */
#ifndef ENGINE_RUNTIME_LAUNCH_H
#define ENGINE_RUNTIME_LAUNCH_H

#include <stdint.h>

#include "base/err.h"
#include "engine/runtime/plan.h"

enum { LAUNCH_MAGIC = 0x434e4c53 /* "SLNC" */, LAUNCH_VERSION = 5, LAUNCH_STEP_MAX = 24 };

enum launch_type {
    LAUNCH_CREATE = 1, /* + descriptors of the plan */
    LAUNCH_DESTROY,
    LAUNCH_FREEZE,  /* freezes all processes including PID 1 before the answer … */
    LAUNCH_THAW,    /* … until this; allowed for a sandbox that is not frozen or does not exist */
    LAUNCH_ASSIGN,  /* gives a prepared sandbox its owner: makes its groups and sends them to PID 1,
                      which enters them when it reads CONTROL_JOIN. Only by the launcher that made
                      it. If it fails, PID 1 exits. */
    LAUNCH_RELEASE, /* the caller exits: answered at once; then the launcher destroys the
                       ephemeral sandbox, and exits */
    LAUNCH_CREATED = 64, /* + a pidfd of the sandbox's PID 1; with PLAN_CHANGES also the directory
                            of its writable layer (rootfs.h) and its user namespace */
    LAUNCH_FAILED,
    LAUNCH_DESTROYED,
    LAUNCH_HELD, /* to FREEZE and THAW */
    LAUNCH_ASSIGNED,
    LAUNCH_RELEASED,
};

/* Limits of a plan that cannot be enforced on this machine or by this user. */
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

/* DESTROY, FREEZE and THAW; HELD and ASSIGNED. FREEZE and THAW: -ERR_UNSUPPORTED without a cgroup v2
 * group. */
struct launch_named {
    struct launch_head head;
    char id[ID_MAX];
};

struct launch_assign {
    struct launch_head head;
    char id[ID_MAX];
    uint32_t pad;
    struct cgroup_owner owner;
};

/* RELEASE and RELEASED. */
struct launch_release {
    struct launch_head head;
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

void launch_fill(struct launch_head *h, enum launch_type type, size_t size);
/* Checks magic, version, a known type, and the size that goes with it. */
int launch_check(const void *message, size_t n, struct err *e);

#endif
