/* The tokens and users behind peers. Rates and limits are theirs, so that a client that registers
 * again has used what it used before. There are as many as tokens and users that came, and they
 * stay as long as the daemon. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/tokens.h"
#include "trust/inside.h"

/* The policy does not ask an administrator's token: it has no limits that hold for others. */
static void take_maker_of(struct trust *t, struct identity *d, const struct token_record *k)
{
    const struct token_record *maker =
        k && k->maker[0] ? tokens_by_id(t->tokens, str_from(k->maker)) : NULL;

    if (!maker || ((maker->verbs & VERB_BIT(VERB_ADMIN)) != 0 &&
                   control_is_administrator(t->control, maker->owner)))
        return;
    d->maker = identity_of(t, maker->id);
    list_append(&d->maker->made, &d->of_maker);
}

/* A token's terms do not change; of one that is gone, those of its role hold. */
static void take_terms(struct trust *t, struct identity *d)
{
    struct str id = str_from(d->name);
    const struct token_record *k =
        t->tokens && str_starts(id, STR("tok_")) ? tokens_by_id(t->tokens, id) : NULL;

    d->terms = k ? k->terms : TOKEN_TERMS_NONE;
    d->is_token = k;
    d->role = k ? k->role : ROLE_APPRENTICE;
    take_maker_of(t, d, k);
    d->terms.network.p = arena_dup(&d->arena, d->terms.network);
    if (!d->terms.network.p)
        abort(); /* its length was checked */
}

struct identity *identity_of(struct trust *t, const char *name)
{
    struct index_entry *v = index_find(&t->identities, str_from(name));
    struct identity *d;

    if (v)
        return container_of(v, struct identity, entry);
    d = calloc(1, sizeof *d);
    if (!d)
        abort();
    snprintf(d->name, sizeof d->name, "%s", name);
    d->entry.id = d->name;
    d->met_ns = clock_wall();
    arena_init(&d->arena, TOKEN_NETWORK_MAX + 4096);
    take_terms(t, d);
    index_add(&t->identities, &d->entry);
    return d;
}

static void free_rate(struct index_entry *v, void *user)
{
    (void)user;
    free(container_of(v, struct peer_rate, entry));
}

static void free_one(struct index_entry *v, void *user)
{
    struct identity *d = container_of(v, struct identity, entry);

    (void)user;
    uses_forget(d);
    link_leave(&d->of_maker);
    while (list_take(&d->made))
        ;
    index_each(&d->rates, free_rate, NULL);
    index_done(&d->rates);
    arena_done(&d->arena);
    free(d);
}

void identities_close(struct trust *t)
{
    index_each(&t->identities, free_one, NULL);
    index_done(&t->identities);
}

struct peer_rate *peer_rate(struct peer *p, const char *tool)
{
    struct index *rates = &p->identity_->rates;
    struct index_entry *v = index_find(rates, str_from(tool));
    struct peer_rate *x;

    if (v)
        return container_of(v, struct peer_rate, entry);
    x = calloc(1, sizeof *x);
    if (!x)
        abort();
    snprintf(x->tool, sizeof x->tool, "%s", tool);
    x->entry.id = x->tool;
    index_add(rates, &x->entry);
    return x;
}
