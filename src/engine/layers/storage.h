/* SPDX-License-Identifier: Apache-2.0 */
/* The storage directory of layers, which is the root directory of a layer worker:
 *
 *     layers/NAME/{fs/,info}   a complete layer, or nothing
 *     boxes/ID/                data of sandboxes, where it is on disk (engine/storage/driver.h)
 *     tmp/                     entries being made or removed, each locked by its worker
 *
 * A new layer is built in an entry of tmp/, synced, and renamed. A layer that is removed is first
 * renamed to tmp/. */
#ifndef ENGINE_LAYERS_STORAGE_H
#define ENGINE_LAYERS_STORAGE_H

#include <stdint.h>

#include "base/err.h"
#include "engine/layers/job.h"

struct storage {
    int dir, layers, boxes, tmp; /* descriptors */
};
#define STORAGE_NONE ((struct storage){ -1, -1, -1, -1 })

/* Opens the storage and creates missing directories. `dir` stays the caller's. */
int storage_open(struct storage *s, int dir, struct err *e);
void storage_done(struct storage *s);

/* A layer under construction. */
struct staging {
    const struct storage *storage;
    char entry[LAYER_NAME_MAX + 16]; /* its name in tmp/ */
    int dir;                         /* … and its descriptor, which holds the lock */
    int fs;                          /* the directory that becomes the layer's root */
};
#define STAGING_NONE ((struct staging){ .dir = -1, .fs = -1 })

/* The contents of a layer's info file. */
struct layer_info {
    uint64_t bytes, entries;
    uint32_t ids; /* the id on disk of the sandbox's root; 0 if owners are stored as ids inside */
};

int staging_begin(struct staging *g, const struct storage *s, const char *name, struct err *e);
/* Makes a directory beside fs/, for files on their way: a descriptor of it. */
int staging_make_dir(const struct staging *g, const char *name, struct err *e);
/* Begins with a snapshot of a box, which is a subvolume. */
int staging_snapshot(struct staging *g, const struct storage *s, const char *name, int box,
                     struct err *e);
/* Syncs the layer and renames it. If another worker made the same layer meanwhile, that one
 * stays. */
int staging_publish(struct staging *g, const char *name, const struct layer_info *info,
                    struct err *e);
/* Closes the entry; removes it unless it was published. */
void staging_done(struct staging *g);

/* Opens the root directory of a layer for reading. -ERR_NOT_FOUND: no such layer. */
int storage_open_layer(const struct storage *s, const char *name, struct err *e);

/* Opens the directory of a box. -ERR_NOT_FOUND: it has no data on disk. */
int storage_open_box(const struct storage *s, const char *id, struct err *e);
/* Turns a box into a layer, which appears in one step, once nothing runs in it. -ERR_BUSY: something
 * does. A crash in between may leave both; storage_clear_box() then removes the box. */
int storage_take_box(const struct storage *s, const char *id, const char *name,
                     const struct layer_info *info, struct err *e);
/* Removes the data of a box once nothing runs in it; succeeds if it has none. */
int storage_clear_box(const struct storage *s, const char *id, struct err *e);

/* Names of the files in /etc that each sandbox has of its own, over those of any layer; ended by
 * NULL. */
extern const char *const storage_own_names[];
/* Removes those files from the data of a stopped or frozen sandbox, so that an image or exported
 * snapshot does not reveal its origin. */
int storage_remove_own_names(int fs, struct err *e);

/* Removes a layer: renames it first, then deletes it; waits for a cancelled worker that still
 * builds it. Succeeds if it does not exist. */
int storage_remove(const struct storage *s, const char *name, struct err *e);
/* Removes every entry of tmp/ that no worker has locked. */
int storage_sweep(const struct storage *s, struct err *e);

#endif
