/* What the layers of one image may still hold together, while several keepers unpack some of them:
 * a file in memory that all of them map. Each takes from it before it stores anything, so that at
 * no moment more than that is on the disk. Nothing is given back: where one fails, all do. */
#ifndef LAYERS_BUDGET_H
#define LAYERS_BUDGET_H

#include <stdint.h>

#include "base/err.h"

struct budget;

/* A descriptor, for the jobs of all of them. */
int budget_make(uint64_t bytes, uint64_t entries, struct err *e);

/* Maps it, to the end of the process. The descriptor stays the caller's. */
int budget_open(int fd, struct budget **ret, struct err *e);

/* Content of files, and names. -ERR_TOO_BIG if so much is not left. */
int budget_take(struct budget *b, uint64_t bytes, uint64_t entries, struct err *e);

#endif
