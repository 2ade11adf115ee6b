/* Paths out of archives and requests, brought into the one form that the rest of the module uses:
 * components joined by single slashes, none of them "." or "..", none at either end. */
#ifndef TREE_PATH_H
#define TREE_PATH_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "tree/tree.h"

struct tree_path {
    char text[TREE_PATH_MAX]; /* empty: the directory that paths are relative to */
    size_t n;
    size_t name;    /* where the last component begins */
    unsigned depth; /* number of components */
};

/* Leading slashes and "." components are dropped: "/etc/./passwd" becomes "etc/passwd", "./"
 * becomes
 * "". Fails with -ERR_INVALID for an empty path or a NUL inside, -ERR_DENIED for "..", -ERR_TOO_BIG
 * for what passes the limits of tree.h. */
int tree_path(struct str raw, struct tree_path *ret, struct err *e);

/* The last component. */
const char *tree_path_name(const struct tree_path *p);

/* Copies everything before the last component; "." where there is nothing before it. */
void tree_path_parent(const struct tree_path *p, char out[static TREE_PATH_MAX]);

/* Copies a path for a message: nothing in it that a terminal would act on. */
void tree_path_show(struct str raw, char out[static TREE_SHOWN_MAX]);

#endif
