/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the groups of sandboxes and of their parents. Private to cgroup.c.
 *
 * In a hierarchy that has limits:
 *
 *     sandboxer-TAG/            all sandboxes of one daemon
 *         OWNER/                limits of one owner; OWNER is a key (cgroup_owner_key_valid())
 *             sbx_ID/           limits of one sandbox
 *         pool/                 PID 1 of every prepared sandbox, until it gets an owner
 *
 * In a v2 hierarchy without limits: sandboxer-TAG/sbx_ID. Without a daemon: sandboxer-sbx_ID.
 * Groups of earlier versions, sandboxer-TAG-sbx_ID, are still found. */
#ifndef ENGINE_RUNTIME_CGROUP_TREE_H
#define ENGINE_RUNTIME_CGROUP_TREE_H

#include "engine/runtime/cgroup.h"

/* Controllers that limit owners and sandboxes; hugetlb is set once, for all. */
enum {
    CGROUP_LIMITING_ = 1 << CGROUP_MEMORY | 1 << CGROUP_PIDS | 1 << CGROUP_CPU | 1 << CGROUP_IO,
    CGROUP_V2_ = CGROUP_CONTROLLERS_, /* in place of a v1 controller: the v2 hierarchy */
};

/* True if the v2 hierarchy has the groups of owners. */
static inline bool cgroup_tree_v2_limits(const struct cgroup_host *h)
{
    return h->unified_has & CGROUP_LIMITING_;
}

/* The directory of a hierarchy that our groups are made in, or -1. */
static inline int cgroup_tree_top(const struct cgroup_host *h, int hierarchy)
{
    return hierarchy == CGROUP_V2_ ? h->unified : h->legacy[hierarchy];
}

/* Writes the path of a sandbox's group; owner NULL: none. */
void cgroup_tree_path(const struct cgroup_host *h, int hierarchy, const char *id, const char *owner,
                      char ret[CGROUP_PATH_MAX]);
void cgroup_tree_pool_path(const struct cgroup_host *h, char ret[CGROUP_PATH_MAX]);

/* Makes the group and its missing parents, with their limits. */
int cgroup_tree_make(struct cgroup_host *h, int hierarchy, const char *path,
                     const struct cgroup_owner *owner, int *ret, struct err *e);
/* Makes or opens a group that sandboxes share: sandboxer-TAG (path NULL) or the pool. No launcher
 * removes it while the descriptor is open, even if it is empty. */
int cgroup_tree_make_shared(struct cgroup_host *h, int hierarchy, const char *path, int *ret,
                            struct err *e);

/* Sets the limits of the owner's groups in all hierarchies, unless this host has done so. */
int cgroup_tree_refresh(struct cgroup_host *h, const struct cgroup_owner *owner, struct err *e);

/* Opens the group of a sandbox of any owner; -1: errno. */
int cgroup_tree_open(const struct cgroup_host *h, int hierarchy, const char *id);
/* Removes all groups of a sandbox in a hierarchy; false if some remain. */
bool cgroup_tree_remove(const struct cgroup_host *h, int hierarchy, const char *id);

#endif
