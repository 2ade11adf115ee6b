/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of sandboxes: limits, accounting, and a handle to kill all processes of one.
 *
 * A sandbox has one group per hierarchy. With a daemon it is below the group of its owner, which
 * limits all sandboxes of that owner together, and that is below the group of the daemon (`tag`): a
 * launcher with another tag neither finds nor harms it. Without a daemon the group is at the top.
 * cgroup_tree.h describes the layout.
 *
 * On cgroup v2 there is one hierarchy; on v1 and hybrid machines one per limit, plus a v2 group
 * without limits for cgroup.kill and CLONE_INTO_CGROUP. Limits that cannot be enforced are
 * reported.
 *
 * A prepared sandbox is built before its owner is known. Its PID 1 is in the pool's group and has
 * started nothing. cgroup_assign() makes its groups below the owner's; PID 1 moves into them by
 * itself, because writing "0" for itself takes microseconds, and being moved by another process
 * takes milliseconds. */
#ifndef ENGINE_RUNTIME_CGROUP_H
#define ENGINE_RUNTIME_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

enum {
    CGROUP_TAG_MAX = 32,   /* bytes, with its NUL */
    CGROUP_OWNER_MAX = 48, /* likewise */
    CGROUP_PATH_MAX = ID_MAX + CGROUP_TAG_MAX + CGROUP_OWNER_MAX + 16,
    CGROUP_SEEN_MAX = 64,
};

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_HUGETLB, /* always 0 */
    CGROUP_IO,      /* v2 alone, of owners */
    CGROUP_CONTROLLERS_,
};

/* An owner's group, and the limits of all sandboxes in it together; 0: no limit. Part of the launch
 * plan: its layout is fixed. */
struct cgroup_owner {
    char key[CGROUP_OWNER_MAX]; /* "": none */
    uint64_t memory;
    uint64_t io; /* bytes per second, of reading and of writing, on the disk of the storage */
    uint32_t pids;
    uint32_t cpu_milli;
    uint64_t disk; /* bytes of all boxes on disk; of the storage driver, not of the group */
};

/* The places where this user can make groups. Descriptors of directories, or -1. */
struct cgroup_host {
    int unified;                     /* v2: parent of our groups */
    unsigned unified_has;            /* bit per controller that is enabled for children of
                                        `unified` */
    int legacy[CGROUP_CONTROLLERS_]; /* v1 */
    char tag[CGROUP_TAG_MAX];        /* "": none */
    char disk[24];                   /* "MAJOR:MINOR" of the disk for io limits; "": none */
    struct cgroup_owner seen[CGROUP_SEEN_MAX]; /* owners whose limits were written */
    unsigned next_seen;
};

struct cgroup_limits {
    uint64_t memory;
    uint64_t tmpfs; /* bytes of tmpfs that are charged to the group beside `memory` */
    uint32_t pids;
    uint32_t cpu_milli;
};

struct cgroup {
    bool made;   /* groups may exist */
    int unified; /* directory of the v2 group, for CLONE_INTO_CGROUP and cgroup.kill; or -1 */
    int tasks[CGROUP_CONTROLLERS_]; /* v1 `tasks` files: a process joins by writing "0"; or -1 */
    int held[CGROUP_CONTROLLERS_]; /* v1 groups that stay, even empty, until it has joined; or -1 */
    int procs;                     /* likewise `cgroup.procs` of v2, for cgroup_assign(); or -1 */
    int kills;                     /* read-only: counter of OOM kills of the memory group; or -1 */
    int cpu; /* read-only: counter of processor time of the sandbox's group; or -1 */
};

struct cgroup_usage {
    uint32_t oom_kills;
    int64_t peak_bytes;
};

/* Letters a to z, digits and dots; not empty. */
bool cgroup_tag_valid(const char *tag);
/* Letters a to z, digits, and ".-_" after the first; not the name of another group. */
bool cgroup_owner_key_valid(const char *key, size_t cap);

/* root_path is where cgroup file systems are mounted: "/sys/fs/cgroup" outside of tests. `tag` is
 * valid, or NULL: none. */
void cgroup_host_open(struct cgroup_host *h, const char *root_path, const char *tag);
/* Finds the disk for io limits: the one with the file system of `path`. */
void cgroup_host_disk(struct cgroup_host *h, const char *path);
void cgroup_host_done(struct cgroup_host *h);

void cgroup_init(struct cgroup *c); /* no descriptors */

/* Makes the v2 group, if v2 is mounted, and initialises the rest: so that a process can be cloned
 * into it while limits are still being set. owner NULL: none. */
int cgroup_make(struct cgroup_host *h, const char *id, const struct cgroup_owner *owner,
                struct cgroup *ret, struct err *e);

/* Sets the limits, with a v1 group for each controller that v2 does not have; *ret_missing gets a
 * bit per controller whose limit is requested and cannot be enforced. On failure call
 * cgroup_remove(). */
int cgroup_limit(struct cgroup_host *h, const char *id, const struct cgroup_owner *owner,
                 const struct cgroup_limits *limits, struct cgroup *c, unsigned *ret_missing,
                 struct err *e);

/* The same two for a prepared sandbox: it gets the pool's groups. */
int cgroup_make_prepared(struct cgroup_host *h, const char *id, struct cgroup *ret, struct err *e);
int cgroup_limit_prepared(struct cgroup_host *h, const char *id, const struct cgroup_limits *limits,
                          struct cgroup *c, unsigned *ret_missing, struct err *e);
/* Makes the groups of a prepared sandbox below its owner's; PID 1 writes "0" into each descriptor
 * of `ret` to enter them. On failure call cgroup_remove(). */
int cgroup_assign(struct cgroup_host *h, const char *id, const struct cgroup_owner *owner,
                  const struct cgroup_limits *limits, struct cgroup *ret, struct err *e);

/* Moves the calling, single-threaded process into the v1 groups. */
int cgroup_join(const struct cgroup *c, struct err *e);

/* Kills all processes of the group, if the kernel has cgroup.kill. */
void cgroup_kill(const struct cgroup_host *h, const char *id);

/* Freezes all processes of the group before it returns, or (false) thaws them. Thawing a group that
 * does not exist succeeds. -ERR_UNSUPPORTED without cgroup v2; -ERR_TIMEOUT if a process is stuck
 * in the kernel: then the group is thawed again. */
int cgroup_freeze(const struct cgroup_host *h, const char *id, bool on, struct err *e);

void cgroup_read(const struct cgroup_host *h, const char *id, struct cgroup_usage *ret);

/* Removes all groups of that id; waits a bounded time for dying processes. Returns the number of
 * hierarchies in which groups remain. */
int cgroup_remove(const struct cgroup_host *h, const char *id);

/* Removes empty groups of owners and of this daemon, but for those that a process is about to join.
 * They are made again when needed, so this may be called at any time. */
void cgroup_tidy(const struct cgroup_host *h);

/* Removes old, empty groups of any tag, left behind by processes that were killed. */
void cgroup_sweep(const struct cgroup_host *h);

void cgroup_close(struct cgroup *c); /* closes descriptors only */

#endif
