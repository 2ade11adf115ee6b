/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with the lifetime of one request: many allocations, one release. The arena has a ceiling;
 * an allocation that would pass it returns NULL, so sizes that come from outside can be allocated
 * here. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena_block_;

struct arena {
    struct arena_block_ *last_;
    size_t used; /* bytes handed out, block overhead not counted */
    size_t max;
};

#define ARENA_INIT(ceiling) ((struct arena){ .max = (ceiling) })

void arena_init(struct arena *a, size_t max);
void arena_done(struct arena *a); /* frees everything; the arena can be used again */

/* Exchanges what the two hold; pointers into both stay valid. */
void arena_swap(struct arena *a, struct arena *b);

void *arena_alloc(struct arena *a,
                  size_t n); /* zeroed, aligned for any type; NULL past the ceiling */
void *arena_array(struct arena *a, size_t count, size_t size);
char *arena_dup(struct arena *a, struct str s); /* NUL-terminated copy */

#endif
