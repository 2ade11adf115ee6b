/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/build.h"

#include <stdlib.h>

enum { FEW_MEMBERS = 12 }; /* up to here comparing all pairs is faster than sorting */

void json_build_init(struct json_build *b, struct arena *a)
{
    b->arena = a;
    /* All pushed values move to the arena in the end, so its free space is the limit. */
    buf_init(&b->open_, a->max - a->used);
}

void json_build_done(struct json_build *b)
{
    buf_done(&b->open_);
}

size_t json_build_mark(const struct json_build *b)
{
    return b->open_.n;
}

int json_build_push(struct json_build *b, const struct json *v)
{
    char *at;
    int r = buf_room(&b->open_, sizeof *v, &at);

    if (r < 0)
        return r;
    memcpy(at, v, sizeof *v);
    buf_grew(&b->open_, sizeof *v);
    return 0;
}

int json_build_close(struct json_build *b, size_t mark, struct json *list)
{
    size_t n = b->open_.n - mark;
    struct json *items = arena_alloc(b->arena, n);

    if (!items)
        return -(int)ERR_TOO_BIG;
    if (n)
        memcpy(items, b->open_.p + mark, n);
    b->open_.n = mark;
    list->list.p = items;
    list->list.n = n / sizeof *items;
    return 0;
}

static int compare_keys(const struct json *a, const struct json *b)
{
    if (a->key.n != b->key.n)
        return a->key.n < b->key.n ? -1 : 1;
    return a->key.n ? memcmp(a->key.p, b->key.p, a->key.n) : 0;
}

/* Members with equal keys keep the order of the text, so that the second is the one to blame. */
static int compare_members(const void *x, const void *y)
{
    const struct json *a = *(const struct json *const *)x, *b = *(const struct json *const *)y;
    int c = compare_keys(a, b);

    return c ? c : a < b ? -1 : a > b;
}

const struct json *json_build_twice(struct json_build *b, const struct json *object)
{
    const struct json *members = object->list.p, **sorted;
    size_t n = object->list.n;
    char *room;

    if (n <= FEW_MEMBERS) {
        for (size_t i = 1; i < n; i++)
            for (size_t j = 0; j < i; j++)
                if (str_eq(members[i].key, members[j].key))
                    return &members[i];
        return NULL;
    }
    /* The members themselves lay here until now: there is room for a pointer to each. */
    if (buf_room(&b->open_, n * sizeof *sorted, &room) < 0)
        abort();
    sorted = (const struct json **)(void *)room;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &members[i];
    qsort(sorted, n, sizeof *sorted, compare_members);
    for (size_t i = 1; i < n; i++)
        if (compare_keys(sorted[i - 1], sorted[i]) == 0)
            return sorted[i];
    return NULL;
}
