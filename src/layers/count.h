/* How much a tree is, without reading what is in its files. */
#ifndef LAYERS_COUNT_H
#define LAYERS_COUNT_H

#include <sys/stat.h>

#include "layers/keeper.h"

/* Bytes of a file that are more than holes. */
uint64_t layers_data_of(const struct stat *st);

/* Within the job's limits: -ERR_TOO_BIG beyond. `fs` stays the caller's. */
int layers_count(struct keeper *k, int fs, struct layer_info *ret, struct err *e);

#endif
