/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and sets owners, modes, times and extended attributes of files in a layer. */
#ifndef ENGINE_LAYERS_ATTRIBUTES_H
#define ENGINE_LAYERS_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/* The ids of one sandbox: 65,536 from `base` on. Ranges begin at multiples of that number, so the
 * owner of any file identifies its range. */
struct owners {
    uint32_t base;
};

struct owners owners_of(const struct stat *any);
/* Maps an id of the host to the id inside. -ERR_DENIED: it is not in the sandbox's range. */
int owners_inside(const struct owners *o, uint32_t outside, uint32_t *ret, struct err *e);

/* Copies extended attributes from one open file to another. Of the attributes of overlayfs itself
 * only "opaque" is copied: no other is valid in another stack. */
int attributes_copy_extended(const struct owners *o, int from, int to, struct err *e);

/* Removes the attributes that attributes_copy_extended() copies: for a directory that gets those of
 * another layer. */
int attributes_clear_extended(int fd, struct err *e);

/* Sets owner, mode and times of an open file or directory: the last change to it. */
int attributes_set(const struct owners *o, int fd, const struct stat *st, struct err *e);
/* Does the same for a name in a directory, without following it: a link, a FIFO. */
int attributes_set_at(const struct owners *o, int dir, const char *name, const struct stat *st,
                      struct err *e);

/* The extended attributes of a file that a layer keeps, sorted by name. */
struct attribute_names {
    char text[65536]; /* XATTR_LIST_MAX */
    const char *p[4096];
    size_t n;
};
int attributes_list(int fd, struct attribute_names *ret, struct err *e);
bool attributes_wanted(const char *name);

#endif
