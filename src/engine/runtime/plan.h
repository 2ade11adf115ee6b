/* The launch plan: everything the launcher needs to know to build a sandbox, in one fixed layout.
 *
 * The caller fills it, and the launcher checks it completely before it does anything. Files of the
 * host come in by one of two ways:
 *
 *   - as descriptors, which the caller opened with its own rights; only from a caller that the
 *     launcher trusts, because a descriptor alone does not prove what its sender may do;
 *   - as a path below one of the directories that the launcher was started with (--root, named by
 *     their position, from 1). The path is resolved in the launcher, beneath that directory and
 *     through no symbolic link. The directory of layers that it was started with (--store) is
 *     another such root, PLAN_STORE, for layers alone.
 *
 * No other path that the caller wrote is resolved, except below the new sandbox's own root.
 * Descriptors travel in this order:
 *
 *     control               the sandbox's end of the first control connection
 *     [listener]            with PLAN_LISTENER: a bound control socket, on which PID 1 will listen;
 *                           best one that listens already, so that no moment refuses a connection
 *     layers…               one per layer with root 0, uppermost first
 *     mounts…               one per mount with root 0
 *
 * Only the mounts that are used travel: the first plan_size() bytes.
 */
#ifndef RUNTIME_PLAN_H
#define RUNTIME_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "ipc/listeners.h"
#include "proc/idmap.h"
#include "runtime/cgroup.h"

enum {
    PLAN_MAGIC = 0x4e4c5053, /* "SPLN" */
    PLAN_VERSION = 6,
    PLAN_LAYERS_MAX = 160,
    PLAN_MOUNTS_MAX = 32,
    PLAN_TARGET_MAX = 256,
    PLAN_ROOTS_MAX = 16,
    PLAN_STORE = PLAN_ROOTS_MAX + 1, /* of a layer: below the launcher's --store */
    PLAN_SOURCE_MAX = 512,
    PLAN_LAYER_MAX = 96,
    PLAN_IDS = IDMAP_IDS,
    PLAN_PIDS_MAX = 1 << 22,
    PLAN_TERMINALS = 16, /* unless somebody says another number */
    PLAN_TERMINALS_MAX = 256,
};

enum plan_flags {
    PLAN_EPHEMERAL = 1 << 0, /* the sandbox ends with its first control connection */
    PLAN_LISTENER = 1 << 1,  /* PID 1 also accepts connections */
    PLAN_STRICT = 1 << 2,    /* a limit that cannot be enforced is an error */
    PLAN_WRITABLE_SYSTEM =
        1 << 3, /* on the host's system directories: they take writes into the sandbox's layer */
    PLAN_ONE_SHOT = 1 << 4, /* … or as soon as the first end of a start has been told */
    PLAN_EGRESS = 1 << 5,   /* a network boundary with listeners (ipc/listeners.h); without it the
                               sandbox has loopback and nothing else */
    PLAN_CHANGES = 1 << 6,  /* LAUNCH_CREATED brings the writable layer, to read what changed; only
                               for a caller that the launcher trusts */
    PLAN_HOST_SYSTEM = 1 << 7,  /* with layers: they are what was written to a sandbox on the host's
                                   system directories, which are there as without layers */
    PLAN_SYSTEM_APART = 1 << 8, /* the host's files have inodes of the sandbox's own: overlays
                                   instead of binds */
    PLAN_SYSTEM_EITHER = 1 << 9, /* … unless no overlay can be made here */
    PLAN_GUARDED = 1 << 10,  /* side channels are closed that cost something (side_channels.h) */
    PLAN_PREPARED = 1 << 11, /* no owner yet: it starts no program before LAUNCH_ASSIGN gave it one
                                and CONTROL_JOIN was sent to PID 1 */
    PLAN_FLAGS_ALL_ = (1 << 12) - 1,
};

enum plan_mount_flags {
    PLAN_MOUNT_RW = 1 << 0,
    PLAN_MOUNT_FLAGS_ALL_ = 1,
};

struct plan_mount {
    char target[PLAN_TARGET_MAX]; /* absolute and normal: no ".", "..", "//", trailing slash */
    uint32_t flags;
    uint32_t root;                /* 0: the source is a descriptor; else which root it is below */
    char source[PLAN_SOURCE_MAX]; /* below that root: relative and normal, or "." for all of it */
};

struct plan_layer {
    uint32_t root; /* as of a mount */
    char path[PLAN_LAYER_MAX];
};

struct plan {
    uint32_t magic;
    uint32_t version;
    uint32_t size; /* of this struct */
    uint32_t flags;
    char id[ID_MAX];
    char hostname[64];
    uint64_t memory; /* bytes; 0: no limit. The same for the other limits */
    uint64_t disk;   /* bytes the sandbox can write outside its mounts */
    uint32_t pids;
    uint32_t cpu_milli; /* thousandths of a processor */
    uint32_t kernel;    /* what it may use of the kernel; of KERNEL_PLAN_ALL_ (ipc/kernel.h) */
    uint32_t terminals; /* ptys, from 1 to PLAN_TERMINALS_MAX */
    uint64_t caps;      /* what workload processes may hold; of plan_grantable_caps() */
    uint32_t uid, gid; /* the sandbox's usual user: the one identity there is, for a plain caller */
    uint32_t n_layers; /* 0: the host's system directories, as with PLAN_HOST_SYSTEM */
    uint32_t n_mounts;
    struct listeners_taken taken; /* with PLAN_EGRESS: ports of loopback that are the host's */
    struct cgroup_owner owner;    /* whose it is; none without a daemon and with PLAN_PREPARED */
    struct plan_layer layers[PLAN_LAYERS_MAX];
    struct plan_mount mounts[PLAN_MOUNTS_MAX];
};

/* A plan with an id of its own, "sandbox" as hostname PLAN_TERMINALS and nothing else set. */
int plan_init(struct plan *p, struct err *e);

/* Bytes up to the last mount that is used. */
size_t plan_size(const struct plan *p);

/* Fills in a layer or mount below a root; -ERR_TOO_BIG if there is no room for it. */
int plan_add_layer(struct plan *p, uint32_t root, const char *path, struct err *e);
int plan_add_mount(struct plan *p, uint32_t root, const char *source, const char *target,
                   uint32_t flags, struct err *e);

/* Everything that can be checked without the descriptors; of `p` there are `size` bytes. */
int plan_check(const struct plan *p, size_t size, struct err *e);
/* The descriptors: their number, and that each is of the kind its place asks for. */
int plan_check_fds(const struct plan *p, const int *fds, size_t n, struct err *e);
/* What a layer (dir_only) or a mount may be: a directory, or a regular file. */
int plan_check_file(int fd, bool dir_only, const char *what, struct err *e);

/* What depends on the launcher: which roots there are, and whether descriptors of files are taken.
 */
int plan_check_sources(const struct plan *p, size_t n_roots, bool store, bool trusted,
                       struct err *e);

/* Checks a mount target as the plan wants it; shared with whoever reads it from a person. */
int plan_check_target(const char *target, struct err *e);

/* Whether it is an image's: else the system directories are the host's. */
static inline bool plan_has_image(const struct plan *p)
{
    return p->n_layers && !(p->flags & PLAN_HOST_SYSTEM);
}

uint64_t plan_grantable_caps(void);

#endif
