/* SPDX-License-Identifier: Apache-2.0 */
/* The changes that a program made in its sandbox: its writable layer, read before and after.
 *
 * The layer is hostile: it is read by a process that has entered the sandbox's user namespace and
 * can reach nothing but the layer. */
#ifndef ENGINE_ATTEST_CHANGES_H
#define ENGINE_ATTEST_CHANGES_H

#include "engine/attest/files.h"

enum { ATTEST_PARTS_MAX = 16 };

/* A directory of the layer, and where it is seen inside. */
struct attest_part {
    char dir[32], at[32];
    bool has_lower;  /* an overlay's upper directory */
    char below[128]; /* … in these directories of it only, as "usr+bin"; "": all of it */
};

struct attest_parts {
    struct attest_part p[ATTEST_PARTS_MAX];
    size_t n;
};

/* "DIR=AT,DIR+=AT,DIR+NAME+NAME=AT…": + for an upper directory, or one that is made of such with
 * these names; AT may be empty. */
int attest_parts_parse(struct str text, struct attest_parts *ret, struct err *e);

/* All parts that are there. */
int attest_layer_read(struct attest_files *f, int layer, const struct attest_parts *parts,
                      struct err *e);

/* An array of added, changed and deleted paths. `lower` is the root directory below the upper
 * directories. */
void attest_changes_write(const struct attest_files *before, const struct attest_files *after,
                          int lower, struct json_writer *w);

#endif
