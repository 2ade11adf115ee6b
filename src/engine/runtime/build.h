/* The building of one sandbox, inside the launcher.
 *
 * The order of the steps is a security property: nothing of the workload runs before mounts,
 * network, limits and filters are in force, and a step that fails ends the building. Two processes
 * share the work: the launcher makes what needs its namespaces (identity, cgroups, network), the
 * child makes the sandbox's file system at the same time, then waits for the launcher ("join"),
 * enters the user namespace last and becomes PID 1's program. Each side is a list of named steps.
 */
#ifndef RUNTIME_BUILD_H
#define RUNTIME_BUILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "ipc/listeners.h"
#include "runtime/cgroup.h"
#include "runtime/host_mounts.h"
#include "runtime/identity.h"
#include "runtime/launch.h"
#include "runtime/plan.h"
#include "uppers/driver.h"

enum { BUILD_HOST_VIEWS = 2, BUILD_VIEW_UNKNOWN = -2 };

struct build {
    const struct plan *plan;
    const char *const *roots;    /* what the plan's roots are, from the first */
    const char *store;           /* what PLAN_STORE is */
    const struct driver *driver; /* of what the sandbox writes; NULL: memory */
    bool limited;                /* … within its disk limit */
    bool is_root; /* built by root of the machine; else by a plain user's outer namespace */
    enum identity_supply supply;
    int *init_fd; /* the sealed program of PID 1; made when it is first needed */
    int home_net; /* the launcher's own network namespace; -1 for a plain caller */
    struct cgroup_host *cgroups;

    int control, listener; /* handed to PID 1 */
    /* The caller's descriptors, then (steps "open" and "sources") detached copies of the trees they
     * name. What the plan has as a path is opened by the child: then a file system that hangs is
     * the child's problem, which has a deadline. */
    int layers[PLAN_LAYERS_MAX];
    int mounts[PLAN_MOUNTS_MAX];

    struct identity identity;
    struct cgroup cgroup;
    unsigned unenforced;
    int network;
    struct listeners listeners; /* with PLAN_EGRESS: on their way to PID 1, who keeps them */
    int groups,
        assign; /* with PLAN_PREPARED: PID 1 gets its groups from `assign` (LAUNCH_ASSIGN) */
    int child_sync, launcher_sync; /* the two ends of what the sides say to each other */
    int changes;                   /* with PLAN_CHANGES: the directory of the writable layer */
    int32_t pid;
    int pidfd;

    /* in the child */
    int storage; /* the writable tmpfs everything stands on */
    int box;     /* on disk: the directory of what it writes, locked; else -1 */
    bool apart;  /* /run, /dev and /dev/shm are no part of what it writes */
    int root;    /* the new root directory */
    int upper;   /* what the sandbox writes, to be read by those whom PID 1 gives it */
    int empty;   /* a directory to hide others with */
    struct host_mounts host_mounts;   /* with PLAN_SYSTEM_APART */
    int host_views[BUILD_HOST_VIEWS]; /* overlays of the host's trees (rootfs_host.c) */
    uint32_t self;                    /* owner of what is made for the sandbox's root */
    char step[LAUNCH_STEP_MAX];
};

static inline bool build_on_disk(const struct build *b)
{
    return b->driver && b->driver->on_disk;
}

/* Of the tmpfs that a sandbox stands on; it writes there unless its driver is on disk. */
static inline uint64_t build_tmpfs_size(const struct build *b)
{
    return b->plan->disk ? b->plan->disk : UINT64_C(1) << 30;
}

/* What its control groups get. */
struct cgroup_limits build_limits(const struct build *b);

struct build_step {
    const char *name;
    int (*run)(struct build *b, struct err *e);
};

/* Runs steps in order; on failure b->step names the one that failed. */
int build_run(struct build *b, const struct build_step *steps, size_t n, struct err *e);

/* All of it: on success the sandbox runs, and b holds pid, pidfd, identity and cgroup. On failure
 * nothing is left. */
int build_sandbox(struct build *b, struct err *e);

/* Names of all steps, in order, for tests and people: NULL at the end. */
const char *build_step_name(size_t i);

/* The child's side: runs its steps and becomes PID 1's program. Returns only if that failed. */
void build_child(struct build *b);
extern const struct build_step build_child_steps[];
extern const size_t build_child_step_count;

/* Turns the descriptors a caller opened, or the paths it named, into detached trees (sources.c). */
int build_sources(struct build *b, bool by_path, struct err *e);

/* Collects a process that was sent SIGKILL; gives up when the kernel does not let go of it. */
void build_reap(pid_t pid, int pidfd);

/* What the child tells the launcher: which step failed and why, or (ERR_OK) with a descriptor that
 * this is the writable layer, or (ERR_OK) without that it is about to become PID 1's program. End
 * of file after that means that it has; without it, that it died. */
struct build_failure {
    char step[LAUNCH_STEP_MAX];
    struct err err;
};

#endif
