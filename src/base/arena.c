/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/own.h"

struct arena_block_ {
    struct arena_block_ *prev;
    size_t used, size;
    alignas(max_align_t) char data[];
};

enum { FIRST_BLOCK = 4096 - sizeof(struct arena_block_), LARGEST_STEP = 1 << 20 };

void arena_init(struct arena *a, size_t max)
{
    *a = ARENA_INIT(max);
}

void arena_done(struct arena *a)
{
    size_t max = a->max;

    for (struct arena_block_ *b = a->last_; b;) {
        struct arena_block_ *prev = b->prev;

        free(b);
        b = prev;
    }
    *a = ARENA_INIT(max);
}

void arena_swap(struct arena *a, struct arena *b)
{
    struct arena was = *a;

    *a = *b;
    *b = was;
}

static struct arena_block_ *add_arena_block(struct arena *a, size_t at_least)
{
    size_t size = a->last_ ? a->last_->size * 2 : FIRST_BLOCK;
    struct arena_block_ *b;

    if (size > LARGEST_STEP)
        size = LARGEST_STEP;
    if (size < at_least)
        size = at_least;
    b = new0(sizeof *b + size);
    b->size = size;
    b->prev = a->last_;
    a->last_ = b;
    return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
    const size_t align = alignof(max_align_t);
    struct arena_block_ *b = a->last_;
    void *p;

    if (n > PTRDIFF_MAX) /* so that neither rounding up nor the block's header can wrap around */
        return NULL;
    n = (n + align - 1) & ~(align - 1);
    if (n > a->max || a->used > a->max - n)
        return NULL;
    if (!b || b->size - b->used < n)
        b = add_arena_block(a, n);
    p = b->data + b->used;
    b->used += n;
    a->used += n;
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t n;

    return __builtin_mul_overflow(count, size, &n) ? NULL : arena_alloc(a, n);
}

char *arena_dup(struct arena *a, struct str s)
{
    char *p = s.n < SIZE_MAX ? arena_alloc(a, s.n + 1) : NULL;

    if (p && s.n)
        memcpy(p, s.p, s.n);
    return p;
}
