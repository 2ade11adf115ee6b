/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes and files that the layers of one image may still take together, while several layer
 * workers unpack them: shared memory that all of them map. Each worker takes from the budget before
 * it stores anything, so the disk never holds more. Nothing is returned to the budget: if one layer
 * fails, all fail. */
#ifndef ENGINE_LAYERS_BUDGET_H
#define ENGINE_LAYERS_BUDGET_H

#include <stdint.h>

#include "base/err.h"

struct budget;

/* Makes the shared memory: a descriptor that is passed to every job. */
int budget_make(uint64_t bytes, uint64_t entries, struct err *e);

/* Maps the budget until the process ends. The descriptor stays the caller's. */
int budget_open(int fd, struct budget **ret, struct err *e);

/* Takes bytes of content and a number of files. -ERR_TOO_BIG if less is left. */
int budget_take(struct budget *b, uint64_t bytes, uint64_t entries, struct err *e);

#endif
