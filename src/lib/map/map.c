/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/map/map.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/own.h"

enum { FIRST_SIZE = 64 };

/* FNV-1a. Most ids are random, but for their prefix. */
static struct map_entry **map_slot(const struct map *x, struct str id)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < id.n; i++)
        h = (h ^ (unsigned char)id.p[i]) * UINT64_C(1099511628211);
    return &x->slots_[(size_t)(h ^ h >> 32) & (x->size_ - 1)];
}

void map_done(struct map *x)
{
    free(x->slots_);
    *x = (struct map){ 0 };
}

static void resize_map(struct map *x, size_t size)
{
    struct map_entry **old = x->slots_, *v, *next;
    size_t n = x->size_;

    x->slots_ = new0_array(size, sizeof *x->slots_);
    x->size_ = size;
    for (size_t i = 0; i < n; i++)
        for (v = old[i]; v; v = next) {
            struct map_entry **at = map_slot(x, str_from(v->id));

            next = v->next_;
            v->next_ = *at;
            *at = v;
        }
    free(old);
}

void map_add(struct map *x, struct map_entry *v)
{
    struct map_entry **at;

    if (x->n >= x->size_)
        resize_map(x, x->size_ ? x->size_ * 2 : FIRST_SIZE);
    at = map_slot(x, str_from(v->id));
    v->next_ = *at;
    *at = v;
    x->n++;
}

void map_remove(struct map *x, struct map_entry *v)
{
    struct map_entry **at = x->size_ ? map_slot(x, str_from(v->id)) : NULL;

    while (at && *at && *at != v)
        at = &(*at)->next_;
    if (!at || !*at)
        return;
    *at = v->next_;
    v->next_ = NULL;
    x->n--;
}

struct map_entry *map_find(const struct map *x, struct str id)
{
    struct map_entry *v = x->size_ ? *map_slot(x, id) : NULL;

    while (v && !str_eq(str_from(v->id), id))
        v = v->next_;
    return v;
}

void map_each(struct map *x, void (*fn)(struct map_entry *v, void *user), void *user)
{
    struct map_entry *v, *next;

    for (size_t i = 0; i < x->size_; i++)
        for (v = x->slots_[i]; v; v = next) {
            next = v->next_;
            fn(v, user);
        }
}
