/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the sandboxes of each owner, and in another map those of each family of tokens. */
#ifndef CONTROL_OWNER_OWNERS_H
#define CONTROL_OWNER_OWNERS_H

#include "lib/map/map.h"
#include "domain/model/record.h"

/* An owner with sandboxes; freed with the last of them. */
struct owner {
    struct map_entry entry;
    size_t n, failed; /* sandboxes in memory; those without a box */
    char name[OWNER_MAX];
};

struct owner *owner_join(struct map *x, const char *name); /* adds one sandbox */
void owner_leave(struct map *x, struct owner *o);          /* NULL is fine */
/* Number of live sandboxes. */
size_t owner_count(const struct map *x, const char *name);

#endif
