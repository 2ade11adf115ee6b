/* A tree whose edges have names, and lists of things at its nodes. All edges are in one hash table,
 * so going one label down costs the same whatever the tree holds. Hosts (labels from the end),
 * ports, and the parts of paths are found with it. */
#ifndef POLICY_TRIE_H
#define POLICY_TRIE_H

#include "base/str.h"

/* What an edge stands for; edges of different kinds never meet. */
enum trie_kind {
    TRIE_WORD,    /* a label of a name */
    TRIE_STAR,    /* any one label */
    TRIE_STARS,   /* one or more labels */
    TRIE_INFIX,   /* a label such as "ab*cd" */
    TRIE_SHAPES,  /* no label: what lengths the INFIX edges beside it have */
    TRIE_ADDRESS, /* an address as text */
    TRIE_PORT,    /* two bytes */
    TRIE_PART,    /* of a path */
};

struct trie_edge {
    uint32_t from, to; /* to == 0: empty */
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
    struct trie_edge *edges; /* a power of two of them, at most half in use */
    size_t edge_cap, edge_count;
    uint32_t nodes; /* 1 is the first */
    struct trie_item *items;
    size_t item_count, item_cap;
    uint32_t *starts; /* by node, once sealed */
};

void trie_done(struct trie *x);

uint32_t trie_node(struct trie *x); /* a node without an edge to it */

/* The child, which is made if need be. label is borrowed for as long as the trie lives. */
uint32_t trie_add(struct trie *x, uint32_t from, enum trie_kind kind, struct str label);
void trie_put(struct trie *x, uint32_t node, const void *what);

/* After the last trie_put(), before the first trie_items(). */
void trie_seal(struct trie *x);

/* 0: there is none. Each call adds 1 to *steps, and 1 for every edge that was in its way. */
uint32_t trie_find(const struct trie *x, uint32_t from, enum trie_kind kind, struct str label,
                   size_t *steps);

/* What was put at the node, in that order. */
const struct trie_item *trie_items(const struct trie *x, uint32_t node, size_t *ret_n);

#endif
