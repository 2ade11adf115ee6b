/* SPDX-License-Identifier: Apache-2.0 */
/* Builds one sandbox, inside the launcher.
 *
 * The order of the steps is a security property: no workload code runs before mounts, network,
 * limits and filters are in force, and a step that fails ends the build. Two processes share the
 * work: the launcher makes the parts that need its namespaces (identity, cgroups, network); the
 * child makes the sandbox's file system at the same time, then waits for the launcher ("join"),
 * enters the user namespace last and executes PID 1's program. Each side is a list of named
 * steps. */
#ifndef ENGINE_RUNTIME_BUILD_H
#define ENGINE_RUNTIME_BUILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/ipc/listeners.h"
#include "engine/runtime/cgroup.h"
#include "engine/runtime/granted.h"
#include "engine/runtime/host_mounts.h"
#include "engine/runtime/identity.h"
#include "engine/runtime/launch.h"
#include "engine/runtime/plan.h"
#include "engine/storage/driver.h"

enum { BUILD_HOST_VIEWS = 2, BUILD_VIEW_UNKNOWN = -2 };

struct sandbox_build {
    const struct plan *plan;
    const char *const *roots;    /* directories of the plan's roots, from the first */
    const char *store;           /* directory of PLAN_STORE */
    const struct driver *driver; /* of the writable layer; NULL: memory */
    bool limited;                /* … within its disk limit */
    bool is_root; /* built by the machine's root; else in a plain user's outer namespace */
    enum identity_supply supply;
    int *init_fd; /* the sealed program of PID 1; made when it is first needed */
    int home_net; /* the launcher's own network namespace; -1 for a plain caller */
    struct cgroup_host *cgroups;

    int control, listener; /* handed to PID 1 */
    /* The caller's descriptors, later (steps "open" and "sources") replaced by detached copies of
     * the trees they refer to. Paths of the plan are opened by the child: if a file system hangs,
     * only the child is blocked, which has a deadline. */
    int layers[PLAN_LAYERS_MAX];
    int mounts[PLAN_MOUNTS_MAX];
    struct granted granted; /* with PLAN_GRANTED: its descriptors are in `mounts` */
    int granter; /* … and a user namespace that maps the client's ids alone; -1: none */

    struct sandbox_identity identity;
    struct cgroup cgroup;
    unsigned unenforced;
    int network;
    struct listeners listeners; /* with PLAN_EGRESS: passed to PID 1, which keeps them */
    int groups,
        assign; /* with PLAN_PREPARED: PID 1 gets its groups from `assign` (LAUNCH_ASSIGN) */
    int child_sync, launcher_sync; /* socket pair between child and launcher */
    int changes;                   /* with PLAN_CHANGES: the directory of the writable layer */
    int32_t pid;
    int pidfd;

    /* in the child */
    int storage; /* the writable tmpfs below everything else */
    int box;     /* on disk: the directory of the writable layer, locked; else -1 */
    int counters[DRIVER_COUNTERS]; /* of the bytes in it; -1: there is none */
    int sys;        /* the host's /sys, which `storage` covers, until the counters are open */
    bool apart;     /* /run, /dev and /dev/shm are not part of the writable layer */
    int root;       /* the new root directory */
    int upper;      /* the writable layer, to be read by peers that PID 1 gives it to */
    char empty[32]; /* in the root: an empty directory to hide others with; "" until it is made */
    struct host_mounts host_mounts;   /* with PLAN_SYSTEM_APART */
    int host_views[BUILD_HOST_VIEWS]; /* overlays of the host's trees (rootfs_host.c) */
    uint32_t self;                    /* id of the sandbox's root, owner of created files */
    char step[LAUNCH_STEP_MAX];
};

static inline bool build_on_disk(const struct sandbox_build *b)
{
    return b->driver && b->driver->on_disk;
}

/* Size of the tmpfs of a sandbox; it is the writable layer unless the driver is on disk. */
static inline uint64_t build_tmpfs_size(const struct sandbox_build *b)
{
    return b->plan->disk ? b->plan->disk : UINT64_C(1) << 30;
}

/* The limits of its control groups. */
struct cgroup_limits build_limits(const struct sandbox_build *b);

struct sandbox_build_step {
    const char *name;
    int (*run)(struct sandbox_build *b, struct err *e);
};

/* Runs steps in order; on failure b->step names the one that failed. */
int build_run(struct sandbox_build *b, const struct sandbox_build_step *steps, size_t n,
              struct err *e);

/* Builds the sandbox: on success it runs, and b holds pid, pidfd, identity and cgroup. On failure
 * nothing is left. */
int build_sandbox(struct sandbox_build *b, struct err *e);

/* Names of all steps, in order, for tests and documentation: NULL at the end. */
const char *build_step_name(size_t i);

/* The child's side: runs its steps and becomes PID 1's program. Returns only if that failed. */
void build_child(struct sandbox_build *b);
extern const struct sandbox_build_step build_child_steps[];
extern const size_t build_child_step_count;

/* Turns the caller's descriptors or paths into detached trees (sources.c). */
int build_sources(struct sandbox_build *b, bool by_path, struct err *e);

/* Reaps a process that was sent SIGKILL; stops waiting if the kernel does not release it in
 * time. */
void build_reap(pid_t pid, int pidfd);

/* A message of the child to the launcher: the failed step and its error; or ERR_OK with a
 * descriptor of the writable layer; or ERR_OK without one, right before it executes PID 1's
 * program. End of file after that means success; without it, that the child died. */
struct build_failure {
    char step[LAUNCH_STEP_MAX];
    struct err err;
};

/* Makes a sealed memfd with the program of that name: it can be executed in any root file system,
 * and cannot be modified. */
int program_seal(const char *name, int *ret, struct err *e);

#endif
