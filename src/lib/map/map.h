/* SPDX-License-Identifier: Apache-2.0 */
/* Objects by id, in constant time. */
#ifndef LIB_MAP_MAP_H
#define LIB_MAP_MAP_H

#include <stddef.h>

#include "base/str.h"

struct map_entry {
    const char *id; /* unique in the map; of its owner, and as long-lived */
    struct map_entry *next_;
};

struct map {
    struct map_entry **slots_;
    size_t size_, n;
};

void map_done(struct map *x); /* entries belong to their owners */
void map_add(struct map *x, struct map_entry *v);
void map_remove(struct map *x, struct map_entry *v);
struct map_entry *map_find(const struct map *x, struct str id);

/* Walks all of them; fn may remove the one it is given. */
void map_each(struct map *x, void (*fn)(struct map_entry *v, void *user), void *user);

#endif
