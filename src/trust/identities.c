/* SPDX-License-Identifier: Apache-2.0 */
/* Identities: the tokens and users behind peers. Rates and limits belong to identities, so that a
 * client cannot reset them by registering again. Identities stay in memory until the daemon
 * ends. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/owner/tokens.h"
#include "trust/internal.h"

/* Links the identity to its maker, unless that is an administrator's token, which has no limits to
 * share. */
static void link_maker(struct trust *t, struct trust_identity *d, const struct token_record *k)
{
    const struct token_record *maker =
        k && k->maker[0] ? tokens_by_id(t->tokens, str_from(k->maker)) : NULL;

    if (!maker || ((maker->verbs & VERB_BIT(VERB_ADMIN)) != 0 &&
                   control_is_administrator(t->control, maker->owner)))
        return;
    d->maker = identity_of(t, maker->id);
    list_append(&d->maker->made, &d->of_maker);
}

/* Copies the terms, which never change. For a deleted token those of its role apply. */
static void load_identity_terms(struct trust *t, struct trust_identity *d)
{
    struct str id = str_from(d->name);
    const struct token_record *k =
        t->tokens && str_starts(id, STR("tok_")) ? tokens_by_id(t->tokens, id) : NULL;

    d->terms = k ? k->terms : TOKEN_TERMS_NONE;
    d->is_token = k;
    d->role = k ? k->role : ROLE_APPRENTICE;
    link_maker(t, d, k);
    d->terms.network.p = arena_dup(&d->arena, d->terms.network);
    if (!d->terms.network.p)
        abort(); /* the length was checked */
}

struct trust_identity *identity_of(struct trust *t, const char *name)
{
    struct map_entry *v = map_find(&t->identities, str_from(name));
    struct trust_identity *d;

    if (v)
        return container_of(v, struct trust_identity, entry);
    d = new0(sizeof *d);
    snprintf(d->name, sizeof d->name, "%s", name);
    d->entry.id = d->name;
    d->met_ns = clock_wall();
    arena_init(&d->arena, TOKEN_NETWORK_MAX + 4096);
    load_identity_terms(t, d);
    map_add(&t->identities, &d->entry);
    return d;
}

static void on_free_rate(struct map_entry *v, void *user)
{
    free(container_of(v, struct peer_rate, entry));
}

static void on_free_identity(struct map_entry *v, void *user)
{
    struct trust_identity *d = container_of(v, struct trust_identity, entry);

    uses_forget(d);
    link_leave(&d->of_maker);
    while (list_take(&d->made))
        ;
    map_each(&d->rates, on_free_rate, NULL);
    map_done(&d->rates);
    arena_done(&d->arena);
    free(d);
}

void identities_close(struct trust *t)
{
    map_each(&t->identities, on_free_identity, NULL);
    map_done(&t->identities);
}

struct peer_rate *identity_rate(struct trust_identity *d, const char *tool)
{
    struct map_entry *v = map_find(&d->rates, str_from(tool));
    struct peer_rate *x;

    if (v)
        return container_of(v, struct peer_rate, entry);
    x = new0(sizeof *x);
    snprintf(x->tool, sizeof x->tool, "%s", tool);
    x->entry.id = x->tool;
    map_add(&d->rates, &x->entry);
    return x;
}
