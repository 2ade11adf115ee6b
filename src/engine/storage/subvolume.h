/* Subvolumes of btrfs: directories that can be snapshotted, limited and removed as a whole. */
#ifndef UPPERS_SUBVOLUME_H
#define UPPERS_SUBVOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Whether this directory is the top of one. */
bool subvolume_is(int dir);
bool subvolume_possible(int dir); /* whether some can be made in it */

int subvolume_make(int parent, const char *name, struct err *e);
/* A copy of the one at `dir` that can be written to, and shares everything that is not. */
int subvolume_snapshot(int dir, int parent, const char *name, struct err *e);
/* What it refers to, alone or with snapshots, is no more than this. -ERR_UNSUPPORTED: quotas are
 * not enabled on this file system, or not ours to set. */
int subvolume_limit(int dir, uint64_t bytes, struct err *e);
/* With all that is in it, at once; -ERR_DENIED where only root may: then it is emptied like any
 * directory. */
int subvolume_remove(int parent, const char *name, struct err *e);
int subvolume_enable_quota(int dir, struct err *e);

#endif
