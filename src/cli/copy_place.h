/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the arguments of `cp` and computes the destination of a copy, by the rules of cp -r. */
#ifndef CLI_COPY_PLACE_H
#define CLI_COPY_PLACE_H

#include <stdbool.h>

#include "base/err.h"
#include "lib/tar/tree.h"

enum { COPY_SANDBOX_MAX = 64 };

/* One argument: a path here, a path in a sandbox, or a tar stream. */
struct copy_end {
    bool stream;                    /* "-": stdin or stdout */
    char sandbox[COPY_SANDBOX_MAX]; /* "" for a path here */
    const char *path;
};

/* ID:/PATH is in a sandbox; "-" a stream; anything else is here, also what has a slash before its
 * first colon: ./a:b. */
int copy_end(const char *text, struct copy_end *ret, struct err *e);

enum copy_kind { COPY_MISSING, COPY_FILE, COPY_DIR };

struct copy_source {
    const char *path;
    bool is_dir;
};

struct copy_target {
    const char *path;
    enum copy_kind kind;
    bool several; /* sources: it must be a directory */
};

/* Where to unpack, and what the top of the tree is called there. */
struct copy_place {
    char dir[TREE_PATH_MAX];
    char top[TREE_NAME_MAX + 1]; /* "": the source's content goes right into dir */
};

/* A directory takes the source under its own name, or its content if the source ends in "/."; a
 * name that does not exist yet becomes the copy's; a file is replaced by a file. */
int copy_place(const struct copy_source *s, const struct copy_target *t, struct copy_place *ret,
               struct err *e);

#endif
