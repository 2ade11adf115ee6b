/* SPDX-License-Identifier: Apache-2.0 */
/* A trie with labelled edges, and lists of items at its nodes. All edges are in one hash table, so
 * following an edge costs the same for any size. It indexes hosts (labels from the end), ports, and
 * the parts of paths. */
#ifndef DOMAIN_POLICY_TRIE_H
#define DOMAIN_POLICY_TRIE_H

#include "base/str.h"

/* The kind of an edge; edges of different kinds are distinct. */
enum trie_kind {
    TRIE_WORD,    /* a label of a name */
    TRIE_STAR,    /* any one label */
    TRIE_STARS,   /* one or more labels */
    TRIE_INFIX,   /* a label such as "ab*cd" */
    TRIE_SHAPES,  /* no label: leads to the lengths of the INFIX edges at the same node */
    TRIE_ADDRESS, /* an address as text */
    TRIE_PORT,    /* two bytes */
    TRIE_PART,    /* a part of a path */
};

struct trie_edge {
    uint32_t from, to; /* to == 0: empty slot */
    enum trie_kind kind;
    uint32_t hash;
    struct str label;
};

struct trie_item {
    uint32_t node;
    uint32_t order;
    const void *what;
};

struct trie {
    struct trie_edge *edges; /* their number is a power of two; at most half are used */
    size_t edge_cap, edge_count;
    uint32_t nodes; /* the first node is 1 */
    struct trie_item *items;
    size_t item_count, item_cap;
    uint32_t *starts; /* by node, after trie_seal() */
};

void trie_done(struct trie *x);

uint32_t trie_node(struct trie *x); /* a node without an edge to it */

/* Returns the child, and makes it if needed. label must live as long as the trie. */
uint32_t trie_add(struct trie *x, uint32_t from, enum trie_kind kind, struct str label);
void trie_put(struct trie *x, uint32_t node, const void *what);

/* Call it after the last trie_put() and before the first trie_items(). */
void trie_seal(struct trie *x);

/* Returns 0 if there is no such edge. Adds 1 to *steps, and 1 for every hash collision. */
uint32_t trie_find(const struct trie *x, uint32_t from, enum trie_kind kind, struct str label,
                   size_t *steps);

/* The items of the node, in the order of trie_put(). */
const struct trie_item *trie_items(const struct trie *x, uint32_t node, size_t *ret_n);

#endif
