/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/route.h"

#include <stdlib.h>

#include "edge/core/guard_rows.h"

bool route_takes(const struct route *r, struct str name)
{
    struct str rest = str_from(r->query), word;

    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        if (word.n && (word.p[word.n - 1] == '*' || word.p[word.n - 1] == '!'))
            word.n--;
        if (word.n && str_eq(word, name))
            return true;
    }
    return false;
}

/* --- the index: a trie of path segments --- */

enum { INDEX_MAX = 1 << 20, METHODS = H1_TRACE + 1 };

struct route_node {
    struct str word; /* p == NULL: a variable */
    struct route_node *children, *next;
    struct route_entry entries[METHODS];
};

/* The child for one segment of a pattern. Words are in front of the variable, so that they match
 * first. */
static struct route_node *add_node(struct route_index *x, struct route_node *of, struct str part)
{
    bool is_variable = part.n && part.p[0] == '{';
    struct route_node **at = &of->children, *n;

    while (*at && (is_variable ? (*at)->word.p != NULL : !str_eq((*at)->word, part)))
        at = &(*at)->next;
    n = *at;
    if (n)
        return n;
    n = arena_alloc(&x->arena, sizeof *n);
    if (!n)
        abort(); /* the tables are constants of the program */
    if (is_variable) {
        *at = n;
        return n;
    }
    n->word = part;
    n->next = of->children;
    of->children = n;
    return n;
}

/* The first of several rows with the same method and path counts. */
static void index_route(struct route_index *x, const struct route *r,
                        const struct guard_row *guards)
{
    struct str rest = str_from(r->path + 1), part;
    struct route_node *n = x->root;

    while (rest.p) {
        rest = str_cut(rest, '/', &part);
        n = add_node(x, n, part);
    }
    if (!n->entries[r->method].route)
        n->entries[r->method] = (struct route_entry){ r, guard_row_find(guards, r) };
}

void route_index_init(struct route_index *x, const struct route *const *tables,
                      const struct guard_row *guards)
{
    arena_init(&x->arena, INDEX_MAX);
    x->root = arena_alloc(&x->arena, sizeof *x->root);
    for (; tables && *tables; tables++)
        for (const struct route *r = *tables; r->path; r++)
            index_route(x, r, guards);
}

void route_index_done(struct route_index *x)
{
    arena_done(&x->arena);
    x->root = NULL;
}

struct route_search {
    enum h1_method method;
    const struct url_path *path;
    struct str *params;
    unsigned allowed;
};

/* A path may match several patterns: the first one with the method is the route. */
static const struct route_entry *
find_entry_below(const struct route_node *n, struct route_search *s, size_t depth, size_t n_params)
{
    const struct route_entry *found = NULL;
    struct str segment;

    if (depth == s->path->n) {
        for (unsigned m = 0; m < METHODS; m++)
            s->allowed |= n->entries[m].route ? 1u << m : 0;
        return n->entries[s->method].route ? &n->entries[s->method] : NULL;
    }
    segment = s->path->segments[depth];
    for (n = n->children; n && !found; n = n->next) {
        if (!n->word.p)
            s->params[n_params] = segment;
        else if (!str_eq(n->word, segment))
            continue;
        found = find_entry_below(n, s, depth + 1, n_params + !n->word.p);
    }
    return found;
}

const struct route_entry *route_index_find(const struct route_index *x, enum h1_method m,
                                           const struct url_path *p,
                                           struct str params[static ROUTE_PARAMS],
                                           unsigned *ret_allowed)
{
    struct route_search s = { m == H1_HEAD ? H1_GET : m, p, params, 0 };
    const struct route_entry *found = NULL;

    if (p->n)
        found = find_entry_below(x->root, &s, 0, 0);
    *ret_allowed = s.allowed;
    return found;
}
