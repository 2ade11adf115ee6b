/* Control groups of sandboxes: limits, accounting, and a handle to kill all of one.
 *
 * A sandbox has one group per hierarchy, named after it and after whose it is (`tag`) at the top of
 * what we may use: who has another tag neither finds nor harms it. On cgroup v2
 * that is one group; on v1 and hybrid machines one per limit that is set, plus a v2 group, which
 * has no limits there but gives cgroup.kill and clone-into. Whatever cannot be had is reported,
 * never guessed. */
#ifndef RUNTIME_CGROUP_H
#define RUNTIME_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

enum {
    CGROUP_TAG_MAX = 32, /* bytes, with its NUL */
    CGROUP_NAME_MAX = ID_MAX + CGROUP_TAG_MAX + 16,
};

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CONTROLLERS_ };

/* Where groups can be made on this machine, by this user. Descriptors of directories, or -1. */
struct cgroup_host {
    int unified;                     /* v2: parent of our groups */
    unsigned unified_has;            /* bit per controller that children of `unified` get */
    int legacy[CGROUP_CONTROLLERS_]; /* v1 */
    char tag[CGROUP_TAG_MAX];        /* "": none */
};

struct cgroup_limits {
    uint64_t memory;
    uint32_t pids;
    uint32_t cpu_milli;
};

struct cgroup {
    char name[CGROUP_NAME_MAX];
    int unified; /* directory of the v2 group, for CLONE_INTO_CGROUP and cgroup.kill; or -1 */
    int tasks[CGROUP_CONTROLLERS_]; /* v1 `tasks` files: a process joins by writing "0"; or -1 */
};

struct cgroup_usage {
    uint32_t oom_kills;
    int64_t peak_bytes;
};

/* Letters a to z, digits and dots; not empty. */
bool cgroup_tag_valid(const char *tag);

/* root_path is where cgroup file systems are mounted: "/sys/fs/cgroup" outside of tests. `tag` is
 * valid, or NULL: none. */
void cgroup_host_open(struct cgroup_host *h, const char *root_path, const char *tag);
void cgroup_host_done(struct cgroup_host *h);

/* Makes the v2 group, where there is v2, and fills in the rest as empty: so that a process can be
 * cloned into it while limits are still being set. */
int cgroup_make(const struct cgroup_host *h, const char *id, struct cgroup *ret, struct err *e);

/* Sets the limits, with a v1 group for each that v2 does not have; *ret_missing gets a bit per
 * controller whose limit is asked for and cannot be enforced. On failure call cgroup_remove(). */
int cgroup_limit(const struct cgroup_host *h, const struct cgroup_limits *limits, struct cgroup *c,
                 unsigned *ret_missing, struct err *e);

/* Moves the calling, single-threaded process into the v1 groups. */
int cgroup_join(const struct cgroup *c, struct err *e);

/* Kills everything in the group where the kernel can do that at once. */
void cgroup_kill(const struct cgroup_host *h, const char *id);

/* Everything in the group stands still when this returns, or (false) goes on. A group that is not
 * there has nothing to let go on. -ERR_UNSUPPORTED without groups of version 2; -ERR_TIMEOUT if
 * something in the kernel does not let go of a process, and then all of it goes on. */
int cgroup_freeze(const struct cgroup_host *h, const char *id, bool on, struct err *e);

void cgroup_read(const struct cgroup_host *h, const char *id, struct cgroup_usage *ret);

/* Removes all groups of that id; waits a bounded time for dying processes. The number that stayed.
 */
int cgroup_remove(const struct cgroup_host *h, const char *id);

/* Removes groups of ours, whatever their tag, that are old and empty: somebody was killed who
 * should have done it. */
void cgroup_sweep(const struct cgroup_host *h);

void cgroup_close(struct cgroup *c); /* closes descriptors only */

#endif
