/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/dialect.h"

#include <stdlib.h>

void dialect_set_init(struct dialect_set *s)
{
    *s = (struct dialect_set){ 0 };
    for (size_t i = 0; dialects[i]; i++) {
        const struct dialect *d = dialects[i];

        route_index_init(&s->indexes[i], d->tables, d->guards);
        if (d->unknown)
            s->unknown[i] =
                (struct route_entry){ d->unknown, guard_row_find(d->guards, d->unknown) };
    }
}

void dialect_set_done(struct dialect_set *s)
{
    for (size_t i = 0; dialects[i]; i++) {
        route_index_done(&s->indexes[i]);
        free(s->states[i]);
    }
}

void **dialect_state(struct dialect_set *s, const struct dialect *d)
{
    size_t i = 0;

    while (dialects[i] != d)
        i++;
    return &s->states[i];
}

static bool has_prefix(const struct url_path *p, const char *const *prefixes)
{
    for (; p->n && *prefixes; prefixes++)
        if (str_eq(p->segments[0], str_from(*prefixes)))
            return true;
    return false;
}

/* Searches the routes of a dialect; NULL: the request may be of a later one. */
static const struct route_entry *find_in_dialect(const struct dialect_set *s, size_t i,
                                                 enum h1_method m, const struct url_path *p,
                                                 struct dialect_match *ret)
{
    const struct dialect *d = dialects[i];
    const struct route_entry *found = NULL;

    ret->dialect = d;
    ret->allowed = 0;
    if (!p->slash || d->slash)
        found = route_index_find(&s->indexes[i], m, p, ret->params, &ret->allowed);
    if (found || !d->unknown || (d->prefixes && !has_prefix(p, d->prefixes)))
        return found;
    return &s->unknown[i];
}

int dialect_match(const struct dialect_set *s, const struct dialect_request *q, struct arena *a,
                  struct dialect_match *ret, struct err *e)
{
    dialect_claims_fn *asked = NULL;
    const struct route_entry *found = NULL;
    struct url_path path = { .n = 0 }; /* a malformed one has no route */
    bool claimed = false;
    int r = url_path(q->path, a, &path, e);

    *ret = (struct dialect_match){ 0 };
    for (size_t i = 0; dialects[i] && !found; i++) {
        dialect_claims_fn *claims = dialects[i]->claims;

        if (claims && claims != asked)
            claimed = claims(q, a, ret);
        asked = claims;
        if (!claims || claimed)
            found = find_in_dialect(s, i, q->head->method, &path, ret);
    }
    if (!found)
        return r;
    ret->route = found->route;
    ret->guard = found->guard;
    return 0;
}
