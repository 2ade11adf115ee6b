/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a tree of directories, with one open descriptor per level and one shared buffer of names.
 *
 *     walk_init(&w);
 *     walk_enter(&w, fd, "etc", &e);
 *     while (w.depth > 0)
 *         if ((r = walk_next(&w, &name, &e)) > 0) …   perhaps walk_enter() deeper
 *         else walk_leave(&w);
 *
 * The directory may change meanwhile; names that remain are returned once. Private to this module
 * and mirror. */
#ifndef LIB_TAR_WALK_H
#define LIB_TAR_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "lib/tar/tree.h"

enum { WALK_BUFFER = 4096 }; /* read again after each subdirectory, hence small */

struct walk {
    unsigned depth; /* levels that are open */
    struct walk_level {
        int fd;
        int64_t resume; /* offset of the next name */
        char name[TREE_NAME_MAX + 1];
    } levels[TREE_DEPTH_MAX];
    bool seek_;     /* the deepest level must seek to `resume` first */
    size_t at_, n_; /* the unread part of names_, which belongs to the deepest level */
    _Alignas(8) char names_[WALK_BUFFER];
};

void walk_init(struct walk *w);
void walk_done(struct walk *w); /* closes all levels */

/* Initializes, and enters the directory itself, of which it opens a descriptor of its own. */
int walk_begin(struct walk *w, int dir, struct err *e);

/* The deepest level. */
struct walk_level *walk_top(struct walk *w);

/* Takes ownership of fd, also on failure: -ERR_TOO_BIG at TREE_DEPTH_MAX levels. The name is copied;
 * it may be that of walk_next(). */
int walk_enter(struct walk *w, int fd, const char *name, struct err *e);
void walk_leave(struct walk *w);

/* The next name in the deepest level, never "." or "..", borrowed until the next call: 1, or 0. */
int walk_next(struct walk *w, const char **ret, struct err *e);
/* The same in the whole tree: leaves the levels that have no more names. */
int walk_next_any(struct walk *w, const char **ret, struct err *e);

#endif
