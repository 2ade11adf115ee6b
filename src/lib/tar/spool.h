/* What is to be done to directories once everything is in them: a directory that its owner may not
 * write to could not be filled after its mode was set, and filling one changes its time.
 *
 * An archive may name any number of directories in any order, so the list is kept in an unnamed
 * file on the destination's file system (in memory where that knows none), and the process holds
 * only two offsets for each depth. Reading it deepest first means that no directory is closed
 * before those beneath it were visited; among equals the order of the archive is kept, so the last
 * word on a directory that is named twice is the archive's own. Private to the module. */
#ifndef TREE_SPOOL_H
#define TREE_SPOOL_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "tree/path.h"
#include "tree/tree.h"

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

/* dest is where the file is made when it is needed. d->path need not be set: `path` is stored. */
int spool_add(struct spool *s, int dest, const struct tree_path *path, const struct spool_dir *d,
              struct err *e);

/* Calls visit for every directory until one call fails. */
int spool_each(struct spool *s, spool_visit_fn *visit, void *ctx, struct err *e);

#endif
