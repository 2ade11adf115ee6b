/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/trie.h"

#include <stdlib.h>

#include "base/own.h"

void trie_done(struct trie *x)
{
    free(x->edges);
    free(x->items);
    free(x->starts);
    *x = (struct trie){ 0 };
}

uint32_t trie_node(struct trie *x)
{
    return ++x->nodes;
}

/* FNV-1a with a final mix, because the low bits choose the slot. */
static uint32_t hash_edge(uint32_t from, enum trie_kind kind, struct str label)
{
    uint64_t h = 0xcbf29ce484222325u ^ ((uint64_t)from << 8 | kind);

    h *= 0x100000001b3u;
    for (size_t i = 0; i < label.n; i++)
        h = (h ^ (unsigned char)label.p[i]) * 0x100000001b3u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (uint32_t)(h >> 32);
}

/* The slot of the edge, or the empty slot for it. */
static struct trie_edge *edge_slot_of(const struct trie *x, const struct trie_edge *want,
                                      size_t *steps)
{
    for (size_t i = want->hash & (x->edge_cap - 1);; i = (i + 1) & (x->edge_cap - 1)) {
        struct trie_edge *e = &x->edges[i];

        ++*steps;
        if (e->to == 0 || (e->hash == want->hash && e->from == want->from &&
                           e->kind == want->kind && str_eq(e->label, want->label)))
            return e;
    }
}

static void grow_edges(struct trie *x)
{
    struct trie old = *x;
    size_t steps = 0;

    x->edge_cap = old.edge_cap ? old.edge_cap * 2 : 64;
    x->edges = new0_array(x->edge_cap, sizeof *x->edges);
    for (size_t i = 0; i < old.edge_cap; i++)
        if (old.edges[i].to)
            *edge_slot_of(x, &old.edges[i], &steps) = old.edges[i];
    free(old.edges);
}

uint32_t trie_add(struct trie *x, uint32_t from, enum trie_kind kind, struct str label)
{
    struct trie_edge want = { .from = from, .kind = kind, .label = label };
    struct trie_edge *slot;
    size_t steps = 0;

    if (x->edge_count * 2 >= x->edge_cap)
        grow_edges(x);
    want.hash = hash_edge(from, kind, label);
    slot = edge_slot_of(x, &want, &steps);
    if (slot->to == 0) {
        want.to = trie_node(x);
        *slot = want;
        x->edge_count++;
    }
    return slot->to;
}

uint32_t trie_find(const struct trie *x, uint32_t from, enum trie_kind kind, struct str label,
                   size_t *steps)
{
    struct trie_edge want = { .from = from, .kind = kind, .label = label };

    if (x->edge_cap == 0)
        return 0;
    want.hash = hash_edge(from, kind, label);
    return edge_slot_of(x, &want, steps)->to;
}

void trie_put(struct trie *x, uint32_t node, const void *what)
{
    if (x->item_count == x->item_cap) {
        size_t cap = x->item_cap ? x->item_cap * 2 : 64;
        struct trie_item *more = reallocarray(x->items, cap, sizeof *more);

        if (!more)
            abort();
        x->items = more;
        x->item_cap = cap;
    }
    x->items[x->item_count] =
        (struct trie_item){ .node = node, .order = (uint32_t)x->item_count, .what = what };
    x->item_count++;
}

static int compare_items(const void *a, const void *b)
{
    const struct trie_item *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void trie_seal(struct trie *x)
{
    size_t at = 0;

    if (x->item_count)
        qsort(x->items, x->item_count, sizeof *x->items, compare_items);
    x->starts = new0_array((size_t)x->nodes + 2, sizeof *x->starts);
    for (uint32_t node = 0; node <= x->nodes + 1; node++) {
        while (at < x->item_count && x->items[at].node < node)
            at++;
        x->starts[node] = (uint32_t)at;
    }
}

const struct trie_item *trie_items(const struct trie *x, uint32_t node, size_t *ret_n)
{
    *ret_n = x->starts[node + 1] - x->starts[node];
    return *ret_n ? &x->items[x->starts[node]] : NULL;
}
