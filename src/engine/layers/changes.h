/* SPDX-License-Identifier: Apache-2.0 */
/* Records of changed files: a letter for the change, one for the kind of file, and the path, each
 * ended by NUL. Private to the module. */
#ifndef ENGINE_LAYERS_CHANGES_H
#define ENGINE_LAYERS_CHANGES_H

#include <sys/stat.h>

#include "engine/layers/worker.h"

struct change_records {
    struct layer_worker
        *layer_worker;         /* they are written to its second descriptor, within its limit */
    uint64_t entries, flushed; /* records; bytes that were written */
    size_t n;
    char out[64 << 10];
};

enum change { CHANGE_ADDED = 'A', CHANGE_CHANGED = 'C', CHANGE_DELETED = 'D' };

/* st: of the present file; not used for CHANGE_DELETED. */
int changes_add(struct change_records *c, enum change change, const struct stat *st,
                const char *path, struct err *e);
int changes_flush(struct change_records *c, struct err *e);

/* Opens the tree that the job compares (a layer, or what a box has on disk) as the layer worker's
 * first descriptor. */
int changes_open_source(struct layer_worker *k, struct err *e);

/* True for files that the runtime writes for every sandbox, over those of any layer: their changes
 * are not reported. */
bool changes_is_rewritten(const char *path);
/* True for names at the top that the runtime makes for every sandbox. */
bool changes_is_skipped(const char *path);

#endif
