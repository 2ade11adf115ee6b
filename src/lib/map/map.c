#include "control/index.h"

#include <stdint.h>
#include <stdlib.h>

enum { FIRST_SIZE = 256 };

/* Ids are random, so that their text is as good as a hash; the prefix is not. FNV-1a spreads it. */
static size_t hash(struct str id)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < id.n; i++)
        h = (h ^ (unsigned char)id.p[i]) * UINT64_C(1099511628211);
    return (size_t)(h ^ h >> 32);
}

static struct index_entry **slot(const struct index *x, struct str id)
{
    return &x->slots_[hash(id) & (x->size_ - 1)];
}

void index_done(struct index *x)
{
    free(x->slots_);
    *x = (struct index){ 0 };
}

static void resize(struct index *x, size_t size)
{
    struct index_entry **old = x->slots_, *v, *next;
    size_t n = x->size_;

    x->slots_ = calloc(size, sizeof *x->slots_);
    if (!x->slots_)
        abort();
    x->size_ = size;
    for (size_t i = 0; i < n; i++)
        for (v = old[i]; v; v = next) {
            struct index_entry **at = slot(x, str_from(v->id));

            next = v->next_;
            v->next_ = *at;
            *at = v;
        }
    free(old);
}

void index_add(struct index *x, struct index_entry *v)
{
    struct index_entry **at;

    if (x->n >= x->size_)
        resize(x, x->size_ ? x->size_ * 2 : FIRST_SIZE);
    at = slot(x, str_from(v->id));
    v->next_ = *at;
    *at = v;
    x->n++;
}

void index_remove(struct index *x, struct index_entry *v)
{
    struct index_entry **at = x->size_ ? slot(x, str_from(v->id)) : NULL;

    while (at && *at && *at != v)
        at = &(*at)->next_;
    if (!at || !*at)
        return;
    *at = v->next_;
    v->next_ = NULL;
    x->n--;
}

struct index_entry *index_find(const struct index *x, struct str id)
{
    struct index_entry *v = x->size_ ? *slot(x, id) : NULL;

    while (v && !str_eq(str_from(v->id), id))
        v = v->next_;
    return v;
}

void index_each(struct index *x, void (*fn)(struct index_entry *v, void *user), void *user)
{
    struct index_entry *v, *next;

    for (size_t i = 0; i < x->size_; i++)
        for (v = x->slots_[i]; v; v = next) {
            next = v->next_;
            fn(v, user);
        }
}
