/* The launch plan: everything the launcher needs to know to build a sandbox, in one fixed layout.
 *
 * The caller fills it, opens every file it names with its own rights and attaches the descriptors;
 * the launcher checks it completely before it does anything, and resolves no path that the caller
 * wrote except below the new sandbox's own root. Descriptors travel in this order:
 *
 *     control               the sandbox's end of the first control connection
 *     [listener]            with PLAN_LISTENER: a bound, not yet listening control socket
 *     layers…               directories of the image, uppermost first
 *     mounts…               one per plan_mount
 */
#ifndef RUNTIME_PLAN_H
#define RUNTIME_PLAN_H

#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

enum {
    PLAN_MAGIC = 0x4e4c5053, /* "SPLN" */
    PLAN_VERSION = 1,
    PLAN_LAYERS_MAX = 12,
    PLAN_MOUNTS_MAX = 32,
    PLAN_TARGET_MAX = 256,
    PLAN_IDS = 65536, /* user and group ids in one sandbox */
    PLAN_PIDS_MAX = 1 << 22,
};

enum plan_flags {
    PLAN_EPHEMERAL = 1 << 0, /* the sandbox ends with its first control connection */
    PLAN_LISTENER = 1 << 1,  /* PID 1 also accepts connections */
    PLAN_STRICT = 1 << 2,    /* a limit that cannot be enforced is an error */
    PLAN_WRITABLE_SYSTEM =
        1 << 3, /* without layers: system directories take writes into the sandbox's layer */
    PLAN_ONE_SHOT = 1 << 4, /* … or as soon as the first end of a start has been told */
    PLAN_FLAGS_ALL_ = (1 << 5) - 1,
};

enum plan_mount_flags {
    PLAN_MOUNT_RW = 1 << 0,
    PLAN_MOUNT_FLAGS_ALL_ = 1,
};

struct plan_mount {
    char target[PLAN_TARGET_MAX]; /* absolute and normal: no ".", "..", "//", trailing slash */
    uint32_t flags;
    uint32_t pad;
};

struct plan {
    uint32_t magic;
    uint32_t version;
    uint32_t size;
    uint32_t flags;
    char id[ID_MAX];
    char hostname[64];
    uint64_t memory; /* bytes; 0: no limit. The same for the other limits */
    uint64_t disk;   /* bytes the sandbox can write outside its mounts */
    uint32_t pids;
    uint32_t cpu_milli; /* thousandths of a processor */
    uint64_t caps;      /* what workload processes may hold; of plan_grantable_caps() */
    uint32_t uid, gid; /* the sandbox's usual user: the one identity there is, for a plain caller */
    uint32_t n_layers; /* 0: the host's system directories */
    uint32_t n_mounts;
    struct plan_mount mounts[PLAN_MOUNTS_MAX];
};

/* A plan with an id of its own, "sandbox" as hostname and nothing else set. */
int plan_init(struct plan *p, struct err *e);

/* Everything that can be checked without the descriptors. */
int plan_check(const struct plan *p, size_t size, struct err *e);
/* The descriptors: their number, and that each is of the kind its place asks for. */
int plan_check_fds(const struct plan *p, const int *fds, size_t n, struct err *e);

/* Checks a mount target as the plan wants it; shared with whoever reads it from a person. */
int plan_check_target(const char *target, struct err *e);

uint64_t plan_grantable_caps(void);

#endif
