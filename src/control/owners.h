/* How many sandboxes each owner has, without looking at all of them; in an index of their own, the
 * same of each family of tokens. */
#ifndef CONTROL_OWNERS_H
#define CONTROL_OWNERS_H

#include "control/index.h"
#include "model/record.h"

/* One who has any; freed with the last of them. */
struct owner {
    struct index_entry entry;
    size_t n, failed; /* sandboxes in memory; of these, those that have no box any more */
    char name[OWNER_MAX];
};

struct owner *owner_join(struct index *x, const char *name); /* one sandbox more */
void owner_leave(struct index *x, struct owner *o);          /* NULL is fine */
/* How many are alive. */
size_t owner_count(const struct index *x, const char *name);

#endif
