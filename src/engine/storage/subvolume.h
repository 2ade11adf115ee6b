/* SPDX-License-Identifier: Apache-2.0 */
/* Subvolumes of btrfs: directories that can be snapshotted, limited and removed as a whole. */
#ifndef ENGINE_STORAGE_SUBVOLUME_H
#define ENGINE_STORAGE_SUBVOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Whether this directory is the root of a subvolume. */
bool subvolume_is(int dir);
bool subvolume_possible(int dir); /* whether subvolumes can be made in it */

int subvolume_make(int parent, const char *name, struct err *e);
/* Makes a writable snapshot of the subvolume at `dir`. */
int subvolume_snapshot(int dir, int parent, const char *name, struct err *e);
/* Limits the data that the subvolume refers to, including data shared with snapshots.
 * -ERR_UNSUPPORTED: quotas are not enabled on this file system, or not permitted. */
int subvolume_limit(int dir, uint64_t bytes, struct err *e);
/* The same for a subvolume by its number, 0: that of `dir`. UINT64_MAX: no limit. */
int subvolume_limit_tree(int dir, uint64_t tree, uint64_t bytes, struct err *e);
/* Opens the files of the kernel whose numbers add up to the bytes that it refers to and those that
 * wait to be written to it: what its limit is compared with. `sys` is /sys. -1 each where quotas are
 * not enabled, or /sys does not show them. */
enum { SUBVOLUME_COUNTERS = 2 };
void subvolume_open_counters(int sys, int dir, int ret[static SUBVOLUME_COUNTERS]);
/* The same for the bytes of the whole file system that statfs() reports as free and that cannot be
 * had: data that waits to be written, and blocks that are free only after the next commit. */
enum { SUBVOLUME_PENDING = 3 };
void subvolume_open_pending(int sys, int dir, int ret[static SUBVOLUME_PENDING]);
/* With all that is in it, at once; -ERR_DENIED where only root may: then it is emptied like any
 * directory. */
int subvolume_remove(int parent, const char *name, struct err *e);
/* Makes subvolumes in the one at `dir` writable, as far as the caller may: read-only ones can be
 * neither emptied nor removed. Programs in sandboxes of earlier versions could make them. */
void subvolume_unlock_nested(int dir);
int subvolume_enable_quota(int dir, struct err *e);

/* For the other files of this folder: an ioctl of btrfs; the number of the subvolume at `dir`; and a
 * file or directory that the kernel has for its file system in /sys (`sys`). -1: errno. */
int subvolume_ioctl(int fd, unsigned long what, void *args);
int subvolume_tree(int dir, uint64_t *ret);
int subvolume_open_sysfs(int sys, int dir, const char *file, int flags);

#endif
