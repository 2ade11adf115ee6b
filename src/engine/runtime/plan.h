/* SPDX-License-Identifier: Apache-2.0 */
/* The launch plan: everything the launcher needs to build a sandbox, in one fixed layout.
 *
 * The caller fills it, and the launcher checks it completely before it does anything. Files of the
 * host are given in one of two ways:
 *
 *   - as descriptors, which the caller opened with its own rights; only from a caller that the
 *     launcher trusts, because a descriptor alone does not prove the rights of its sender;
 *   - as a path below one of the directories that the launcher was started with (--root, named by
 *     their position, from 1). The path is resolved in the launcher, beneath that directory and
 *     without following symbolic links. The directory of layers that it was started with (--store)
 *     is another such root, PLAN_STORE, for layers only.
 *
 * No other path of the caller is resolved, except below the new sandbox's own root. Descriptors are
 * sent in this order:
 *
 *     control               the sandbox's end of the first control connection
 *     [listener]            with PLAN_LISTENER: a bound control socket, on which PID 1 will listen;
 *                           preferably listening already, so that no connection is ever refused
 *     layers…               one per layer with root 0, uppermost first
 *     mounts…               one per mount with root 0
 *     [granted]             with PLAN_GRANTED: a socket of the supervisor with the files of all
 *                           mounts with root PLAN_GRANT (granted.h), also for an untrusted caller
 *
 * Only the used mounts are sent: the first plan_size() bytes. */
#ifndef ENGINE_RUNTIME_PLAN_H
#define ENGINE_RUNTIME_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "lib/ipc/listeners.h"
#include "lib/proc/idmap.h"
#include "engine/runtime/cgroup.h"

enum {
    PLAN_MAGIC = 0x4e4c5053, /* "SPLN" */
    PLAN_VERSION = 8,
    PLAN_LAYERS_MAX = 160,
    PLAN_MOUNTS_MAX = 32,
    PLAN_TARGET_MAX = 256,
    PLAN_ROOTS_MAX = 16,
    PLAN_STORE = PLAN_ROOTS_MAX + 1, /* of a layer: below --store of the launcher */
    PLAN_GRANT = PLAN_ROOTS_MAX + 2, /* of a mount: the supervisor passes the file */
    PLAN_SOURCE_MAX = 512,
    PLAN_LAYER_MAX = 96,
    PLAN_IDS = IDMAP_IDS,
    PLAN_PIDS_MAX = 1 << 22,
    PLAN_TERMINALS = 16, /* the default */
    PLAN_TERMINALS_MAX = 256,
};

enum plan_flags {
    PLAN_EPHEMERAL = 1 << 0, /* the sandbox ends with its first control connection */
    PLAN_LISTENER = 1 << 1,  /* PID 1 also accepts connections */
    PLAN_STRICT = 1 << 2,    /* a limit that cannot be enforced is an error */
    PLAN_WRITABLE_SYSTEM =
        1 << 3, /* makes the host's system directories writable, as overlays with the sandbox's
                   layer */
    PLAN_ONE_SHOT = 1 << 4, /* … or as soon as the end of the first start was reported */
    PLAN_EGRESS = 1 << 5, /* a network boundary with listeners (lib/ipc/listeners.h); without it the
                             sandbox has only loopback */
    PLAN_CHANGES = 1 << 6, /* LAUNCH_CREATED carries the writable layer, to read changes; only for a
                              caller that the launcher trusts */
    PLAN_HOST_SYSTEM = 1 << 7,  /* with layers: these were written by a sandbox on the host's system
                                   directories, which are present as without layers */
    PLAN_SYSTEM_APART = 1 << 8, /* the host's files get inodes of the sandbox's own: overlays
                                   instead of bind mounts */
    PLAN_SYSTEM_EITHER = 1 << 9, /* … with bind mounts as fallback */
    PLAN_GUARDED = 1 << 10,      /* also closes side channels at a cost in performance
                                (side_channels.h) */
    PLAN_PREPARED = 1 << 11, /* no owner yet: starts no program before LAUNCH_ASSIGN gave it one and
                                CONTROL_JOIN was sent to PID 1 */
    PLAN_AGAIN =
        1 << 12, /* continues a sandbox that existed: it is built even if its owner has used
                             up its share of the disk */
    PLAN_GRANTED = 1 << 13, /* has mounts with root PLAN_GRANT */
    PLAN_FLAGS_ALL_ = (1 << 14) - 1,
};

enum plan_mount_flags {
    PLAN_MOUNT_RW = 1 << 0,
    PLAN_MOUNT_FLAGS_ALL_ = 1,
};

struct plan_mount {
    char target[PLAN_TARGET_MAX]; /* absolute and normal: no ".", "..", "//", trailing slash */
    uint32_t flags;
    uint32_t root; /* 0: the source is a descriptor; else the number of its root, or PLAN_GRANT */
    char source[PLAN_SOURCE_MAX]; /* below that root: relative and normal, or "." for all of it */
};

struct plan_layer {
    uint32_t root; /* as for a mount */
    char path[PLAN_LAYER_MAX];
};

struct plan {
    uint32_t magic;
    uint32_t version;
    uint32_t size; /* of this struct */
    uint32_t flags;
    char id[ID_MAX];
    char hostname[64];
    uint64_t memory; /* bytes; 0: no limit, as for the other limits */
    uint64_t disk;   /* bytes the sandbox can write outside its mounts */
    uint32_t pids;
    uint32_t cpu_milli; /* thousandths of a processor */
    uint32_t kernel;    /* permitted kernel features; of */
    uint32_t terminals; /* ptys, from 1 to PLAN_TERMINALS_MAX */
    uint64_t caps;      /* capabilities of workload processes; of plan_grantable_caps() */
    uint32_t uid, gid;  /* the sandbox's default user: the only identity, for a plain user */
    uint32_t n_layers;  /* 0: the host's system directories, as with PLAN_HOST_SYSTEM */
    uint32_t n_mounts;
    struct listeners_taken taken; /* with PLAN_EGRESS: loopback ports that belong to the host */
    struct cgroup_owner owner;    /* its owner; none without a daemon and with PLAN_PREPARED */
    struct plan_layer layers[PLAN_LAYERS_MAX];
    struct plan_mount mounts[PLAN_MOUNTS_MAX];
};

/* Initialises a plan with a new id, the hostname "sandbox", PLAN_TERMINALS and nothing else set. */
int plan_init(struct plan *p, struct err *e);

/* Bytes up to the last used mount. */
size_t plan_size(const struct plan *p);

/* Adds a layer or mount below a root; -ERR_TOO_BIG if there is no room for it. */
int plan_add_layer(struct plan *p, uint32_t root, const char *path, struct err *e);
int plan_add_mount(struct plan *p, uint32_t root, const char *source, const char *target,
                   uint32_t flags, struct err *e);

/* Checks everything except the descriptors; `p` has `size` bytes. */
int plan_check(const struct plan *p, size_t size, struct err *e);
/* Checks the number and the kind of each descriptor. */
int plan_check_fds(const struct plan *p, const int *fds, size_t n, struct err *e);
/* Checks the file of a layer (dir_only) or a mount: a directory, or a regular file. */
int plan_check_file(int fd, bool dir_only, const char *what, struct err *e);

/* Checks the parts that depend on the launcher: its roots, and whether it accepts descriptors of
 * files. */
int plan_check_sources(const struct plan *p, size_t n_roots, bool store, bool trusted,
                       struct err *e);

/* Checks a mount target; also used by parsers of user input. */
int plan_check_target(const char *target, struct err *e);

/* True if the root is an image; else the system directories are the host's. */
static inline bool plan_has_image(const struct plan *p)
{
    return p->n_layers && !(p->flags & PLAN_HOST_SYSTEM);
}

uint64_t plan_grantable_caps(void);

#endif
