/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of directories, to be set after their content is unpacked: a directory without u+w
 * could not be filled, and filling a directory changes its mtime.
 *
 * An archive may name any number of directories in any order, so the list is stored in an unnamed
 * file on the destination's file system (a memfd if that does not support O_TMPFILE), and the
 * process holds only two offsets per depth. The list is read deepest first, so no directory becomes
 * inaccessible before its subdirectories are visited. Within a depth the order of the archive is
 * kept, so the last entry for a directory wins. Private to the module. */
#ifndef LIB_TAR_SPOOL_H
#define LIB_TAR_SPOOL_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "lib/tar/path.h"
#include "lib/tar/tree.h"

struct spool_dir {
    mode_t mode;
    uid_t uid;
    gid_t gid;
    struct timespec mtime;
    char path[TREE_PATH_MAX]; /* "." for the destination itself */
};

struct spool {
    int fd_; /* -1 until the first directory */
    uint64_t end_;
    struct {
        uint64_t first, last; /* records of that depth are a list; 0 ends it */
    } lists_[TREE_DEPTH_MAX + 1];
};

typedef int spool_visit_fn(void *ctx, const struct spool_dir *d, struct err *e);

void spool_init(struct spool *s);
void spool_done(struct spool *s);

/* Makes the file beneath dest at the first call. Stores `path`; d->path is ignored. */
int spool_add(struct spool *s, int dest, const struct tree_path *path, const struct spool_dir *d,
              struct err *e);

/* Calls visit for every directory until one call fails. */
int spool_each(struct spool *s, spool_visit_fn *visit, void *ctx, struct err *e);

#endif
