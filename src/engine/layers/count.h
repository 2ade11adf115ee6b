/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the files and bytes of a tree without reading content. */
#ifndef ENGINE_LAYERS_COUNT_H
#define ENGINE_LAYERS_COUNT_H

#include <sys/stat.h>

#include "engine/layers/worker.h"

/* Whether a list of names, ended by NULL, has this one; a list that is NULL has none. */
bool layers_name_is_in(const char *const *names, const char *name);

/* Bytes of a file without its holes. */
uint64_t layers_data_bytes(const struct stat *st);

/* Counts within the job's limits: -ERR_TOO_BIG beyond. `fs` stays the caller's. */
int layers_count(struct layer_worker *k, int fs, struct layer_info *ret, struct err *e);

#endif
