/* What a program changed in its sandbox: its writable layer, read before and after.
 *
 * The layer is hostile: it is read by a process that has entered the sandbox's user namespace and
 * can reach nothing but the layer. */
#ifndef SEAL_CHANGES_H
#define SEAL_CHANGES_H

#include "seal/files.h"

enum { SEAL_PARTS_MAX = 16 };

/* A directory of the layer, and where it is seen inside. */
struct seal_part {
    char dir[32], at[32];
    bool has_lower;  /* an overlay's upper directory */
    char below[128]; /* … in these directories of it only, as "usr+bin"; "": all of it */
};

struct seal_parts {
    struct seal_part p[SEAL_PARTS_MAX];
    size_t n;
};

/* "DIR=AT,DIR+=AT,DIR+NAME+NAME=AT…": + for an upper directory, or one that is made of such with
 * these names; AT may be empty. */
int seal_parts_parse(struct str text, struct seal_parts *ret, struct err *e);

/* All parts that are there. */
int seal_layer_read(struct seal_files *f, int layer, const struct seal_parts *parts, struct err *e);

/* An array of what was added, changed or deleted, by path. `lower` is the root directory that upper
 * directories stand on. */
void seal_changes_write(const struct seal_files *before, const struct seal_files *after, int lower,
                        struct json_writer *w);

#endif
