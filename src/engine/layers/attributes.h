/* Attributes of what is in a layer. */
#ifndef LAYERS_ATTRIBUTES_H
#define LAYERS_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/* The ids of one sandbox: 65,536 from `base` on. Ranges begin at multiples of that number, so any
 * owner in a tree tells its range. */
struct owners {
    uint32_t base;
};

struct owners owners_of(const struct stat *any);
/* As it is called inside. -ERR_DENIED: it is nobody's there. */
int owners_inside(const struct owners *o, uint32_t outside, uint32_t *ret, struct err *e);

/* Extended attributes of one open file on another. Of overlayfs's own only what makes a directory
 * opaque is of use in another stack. */
int attributes_copy_extended(const struct owners *o, int from, int to, struct err *e);

/* Takes away what the former keeps: of a directory that gets another layer's. */
int attributes_clear_extended(int fd, struct err *e);

/* Owner, mode, times of an open file or directory: the last thing that is done to it. */
int attributes_set(const struct owners *o, int fd, const struct stat *st, struct err *e);
/* The same of a name in a directory, which is not followed: a link, a FIFO. */
int attributes_set_at(const struct owners *o, int dir, const char *name, const struct stat *st,
                      struct err *e);

/* Those of a file that a layer keeps, in the order of their names. */
struct attribute_names {
    char text[65536]; /* XATTR_LIST_MAX */
    const char *p[4096];
    size_t n;
};
int attributes_list(int fd, struct attribute_names *ret, struct err *e);
bool attributes_wanted(const char *name);

#endif
