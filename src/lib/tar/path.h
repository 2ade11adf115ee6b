/* SPDX-License-Identifier: Apache-2.0 */
/* Normalises paths from archives and requests: components joined by single slashes, without "." and
 * "..", without leading and trailing slashes. */
#ifndef LIB_TAR_PATH_H
#define LIB_TAR_PATH_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/tar/tree.h"

struct tree_path {
    char text[TREE_PATH_MAX]; /* empty: the base directory itself */
    size_t n;
    size_t name;    /* where the last component begins */
    unsigned depth; /* number of components */
};

/* Drops leading slashes and "." components: "/etc/./passwd" becomes "etc/passwd", "./" becomes "".
 * Fails with -ERR_INVALID for an empty path or a NUL byte, with -ERR_DENIED for "..", with
 * -ERR_TOO_BIG beyond the limits of tree.h. */
int tree_path(struct str raw, struct tree_path *ret, struct err *e);

/* The last component. */
const char *tree_path_name(const struct tree_path *p);

/* Copies the path without its last component; "." if it has only one. */
void tree_path_parent(const struct tree_path *p, char out[static TREE_PATH_MAX]);

/* Copies a path for a message, without control characters. */
void tree_path_show(struct str raw, char out[static TREE_SHOWN_MAX]);

#endif
