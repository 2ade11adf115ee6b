/* Sandboxes by id, in constant time. */
#ifndef CONTROL_INDEX_H
#define CONTROL_INDEX_H

#include <stddef.h>

#include "base/str.h"

struct index_entry {
    const char *id; /* of its owner, and as long-lived */
    struct index_entry *next_;
};

struct index {
    struct index_entry **slots_;
    size_t size_, n;
};

void index_done(struct index *x); /* entries belong to their owners */
void index_add(struct index *x, struct index_entry *v);
void index_remove(struct index *x, struct index_entry *v);
struct index_entry *index_find(const struct index *x, struct str id);

/* Walks all of them; fn may remove the one it is given. */
void index_each(struct index *x, void (*fn)(struct index_entry *v, void *user), void *user);

#endif
