/* SPDX-License-Identifier: Apache-2.0 */
/* The usage of tokens and users: their sandboxes of the last day, from the store. Sandboxes are
 * found by the peer's label or by the token that created them. A peer's record is kept as long as
 * its sandboxes count, so that neither a restart nor another registration resets its usage.
 *
 * All totals are updated incrementally, so a create costs the same for any number of sandboxes.
 * Sandboxes created within an hour are listed individually; the lifetime of earlier, ended ones is
 * summed per hour. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "trust/internal.h"

/* the analyzer does not track ownership through lists */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static const int64_t HOUR_NS = 3600 * NS_PER_S;
static const int64_t DAY_NS = 24 * 3600 * NS_PER_S;

enum { LOADED_MAX = 20000 };

/* A released peer whose record is removed when its day is over. */
struct released_peer {
    struct link link;
    int64_t until_ns;
    char id[ID_MAX];
};

/* --- totals of an identity --- */

static void add_to_hour(struct trust_identity *d, int64_t end_ns, int64_t lived_ns)
{
    int64_t hour = end_ns / HOUR_NS;
    struct used_hour *h = &d->hours[(uint64_t)hour % USED_HOURS];

    if (h->hour != hour)
        *h = (struct used_hour){ .hour = hour };
    h->lived_ns += lived_ns;
}

static void free_use(struct peer_use *u)
{
    map_remove(&u->trust->uses, &u->entry);
    link_leave(&u->link);
    link_leave(&u->of_peer);
    free(u);
}

static bool is_alive_use(const struct peer_use *u)
{
    return u->to_ns == 0;
}

/* Microseconds since the identity's first use, so that sums do not overflow. */
static int64_t relative_us(const struct trust_identity *d, int64_t ns)
{
    return (ns - d->met_ns) / 1000;
}

/* Moves sandboxes older than an hour out of `recent`. */
static void advance_hour(struct trust_identity *d, int64_t now)
{
    for (struct link *m; (m = list_first(&d->recent));) {
        struct peer_use *u = container_of(m, struct peer_use, link);

        if (u->from_ns > now - HOUR_NS)
            return;
        d->n_recent--;
        if (is_alive_use(u)) {
            u->is_recent = false;
            link_leave(&u->link);
            list_append(&d->older, &u->link);
        } else {
            d->ended_ns -= u->to_ns - u->from_ns;
            add_to_hour(d, u->to_ns, u->to_ns - u->from_ns);
            free_use(u);
        }
    }
}

/* The lifetime of living sandboxes before the last day; the oldest come first. */
static int64_t lived_before_day(struct trust_identity *d, int64_t now)
{
    int64_t sum = 0;

    LIST_EACH (const struct peer_use, u, &d->older, link) {
        if (u->from_ns >= now - DAY_NS)
            break;
        sum += now - DAY_NS - u->from_ns;
    }
    return sum;
}

static unsigned count_reserved(unsigned *n, int64_t until)
{
    if (*n && clock_mono() > until)
        *n = 0;
    return *n;
}

/* The usage of all peers of the identity, without allowed creates that are not stored yet. */
static struct trust_usage sum_identity_usage(struct trust_identity *d, int64_t now)
{
    struct trust_usage x = { .alive = d->alive };

    advance_hour(d, now);
    x.made = d->n_recent;
    for (size_t i = 0; i < USED_HOURS; i++)
        if (d->hours[i].hour > (now - DAY_NS) / HOUR_NS)
            x.lived_ns += d->hours[i].lived_ns;
    x.lived_ns += d->ended_ns - lived_before_day(d, now) +
                  (d->alive * relative_us(d, now) - d->alive_from_us) * 1000;
    if (x.lived_ns < 0) /* the clock was set back */
        x.lived_ns = 0;
    return x;
}

/* Recursion depth: TOKEN_GENERATIONS_MAX. */
struct trust_usage family_usage(struct trust_identity *d,
                                int64_t now) /* NOLINT(misc-no-recursion) */
{
    struct trust_usage x = sum_identity_usage(d, now);
    unsigned coming = count_reserved(&d->reserved, d->reserved_by);

    x.made += coming;
    x.alive += coming;
    LIST_EACH (struct trust_identity, made, &d->made, of_maker) {
        struct trust_usage y = family_usage(made, now);

        x.made += y.made;
        x.alive += y.alive;
        x.lived_ns += y.lived_ns;
    }
    return x;
}

struct trust_usage peer_usage(struct peer *p, int64_t now)
{
    return family_usage(p->identity_, now);
}

/* --- sandboxes --- */

/* Inserts in order of creation. New sandboxes are appended; only those loaded at start need a
 * search. */
static void insert_use(struct list *l, struct peer_use *u)
{
    struct link *m = list_first(l);

    if (!m || container_of(list_last(l), struct peer_use, link)->from_ns <= u->from_ns) {
        list_append(l, &u->link);
        return;
    }
    while (m && container_of(m, struct peer_use, link)->from_ns <= u->from_ns)
        m = list_after(l, m);
    if (m)
        list_insert(m, &u->link);
}

static void add_use(struct trust *t, struct trust_identity *d, struct peer *p, const char *sandbox,
                    int64_t from_ns, int64_t to_ns)
{
    bool recent = from_ns > clock_wall() - HOUR_NS;
    struct peer_use *u;

    if (map_find(&t->uses, str_from(sandbox)))
        return;
    if (p) {
        p->used_ = true;
        d->roles |= 1u << p->record.role;
    }
    if (to_ns && !recent) {
        int64_t day = clock_wall() - DAY_NS;

        add_to_hour(d, to_ns, to_ns - (from_ns > day ? from_ns : day));
        return;
    }
    u = new0(sizeof *u);
    *u = (struct peer_use){ .trust = t,
                            .identity = d,
                            .peer = p,
                            .from_ns = from_ns,
                            .to_ns = to_ns,
                            .is_recent = recent };
    snprintf(u->sandbox, sizeof u->sandbox, "%s", sandbox);
    u->entry.id = u->sandbox;
    map_add(&t->uses, &u->entry);
    insert_use(recent ? &d->recent : &d->older, u);
    d->n_recent += recent;
    if (to_ns) {
        d->ended_ns += to_ns - from_ns;
        return;
    }
    d->alive++;
    d->alive_from_us += relative_us(d, from_ns);
    if (p)
        list_append(&p->uses_, &u->of_peer);
}

static void end_use(struct peer_use *u, int64_t now)
{
    struct trust_identity *d = u->identity;

    if (!is_alive_use(u))
        return;
    advance_hour(d, clock_wall());
    d->alive--;
    d->alive_from_us -= relative_us(d, u->from_ns);
    u->to_ns = now > u->from_ns ? now : u->from_ns;
    link_leave(&u->of_peer);
    if (u->is_recent) {
        d->ended_ns += u->to_ns - u->from_ns;
    } else {
        int64_t day = clock_wall() - DAY_NS;

        add_to_hour(d, u->to_ns, u->to_ns - (u->from_ns > day ? u->from_ns : day));
        free_use(u);
    }
}

void uses_forget(struct trust_identity *d)
{
    for (struct link *m; (m = list_first(&d->recent));)
        free_use(container_of(m, struct peer_use, link));
    for (struct link *m; (m = list_first(&d->older));)
        free_use(container_of(m, struct peer_use, link));
}

void uses_leave(struct peer *p)
{
    for (struct link *m; (m = list_take(&p->uses_));)
        container_of(m, struct peer_use, of_peer)->peer = NULL;
}

static bool is_ended_state(enum sandbox_state s)
{
    return s == SANDBOX_DESTROYED || s == SANDBOX_FAILED;
}

/* A token's session may have created the sandboxes of that token, a user's those of no token.
 * Records of versions without `maker` have no token. */
static int load_uses(struct trust *t, struct store_query *q, struct trust_identity *d,
                     struct peer *p, struct err *e)
{
    int64_t now = clock_wall();
    int r = store_ask_now(t->store, q, e);

    for (size_t i = r >= 0 ? q->n : 0; i > 0; i--) { /* the store returns the newest first */
        const struct sandbox_record *b = &q->sandboxes[i - 1];
        int64_t end = b->finished_ns ? b->finished_ns : b->updated_ns;

        if ((!b->maker[0] || strcmp(b->maker, d->name) == 0) &&
            (!is_ended_state(b->state) || end > now - DAY_NS))
            add_use(t, d, p, b->id, b->created_ns, is_ended_state(b->state) ? end : 0);
    }
    arena_done(&q->arena);
    return r;
}

int uses_load(struct trust *t, const struct peer_record *record, struct peer *p, struct err *e)
{
    struct json_pair label = { PEER_LABEL, record->id };
    struct store_query q = { .kind = STORE_SANDBOXES,
                             .labels = { &label, 1 },
                             .owner = str_from(record->owner) };

    return load_uses(t, &q, identity_of(t, record->actor.id), p, e);
}

/* Loads all living sandboxes, and the newest ended ones: more than an hour's at the highest
 * rate. */
int uses_load_token(struct trust *t, const char *id, const char *owner, struct err *e)
{
    const uint32_t dead = 1u << SANDBOX_DESTROYED;
    struct store_query live = { .kind = STORE_SANDBOXES,
                                .profile = str_from(id),
                                .owner = str_from(owner),
                                .states = ~dead },
                       gone = live;
    struct trust_identity *d = identity_of(t, id);
    int r = load_uses(t, &live, d, NULL, e);

    gone.states = dead;
    gone.limit = LOADED_MAX;
    return r < 0 ? r : load_uses(t, &gone, d, NULL, e);
}

/* --- released peers --- */

static void keep_released_peer(struct trust *t, const struct peer_record *r)
{
    struct released_peer *k = new0(sizeof *k);

    k->until_ns = r->ended_ns + DAY_NS + HOUR_NS; /* its sandboxes ended somewhat later */
    memcpy(k->id, r->id, sizeof k->id);
    list_append(&t->kept, &k->link);
}

int uses_keep(struct trust *t, const struct peer_record *r, struct err *e)
{
    keep_released_peer(t, r);
    return uses_load(t, r, NULL, e);
}

void uses_release(struct peer *p, struct trust_write *w)
{
    struct trust *t = p->trust;
    int64_t now = clock_wall();

    LIST_EACH_SAFE (struct released_peer, k, &t->kept, link) {
        if (k->until_ns > now)
            continue;
        store_remove_peer(&w->txn, k->id);
        link_leave(&k->link);
        free(k);
    }
    if (p->used_) {
        p->record.seen_ns = 0;
        store_put_peer(&w->txn, &p->record);
        keep_released_peer(t, &p->record);
    } else {
        store_remove_peer(&w->txn, p->record.id);
    }
}

/* --- events --- */

/* A new sandbox: its record can be read after all subscribers have got the event. */
struct new_sandbox {
    struct trust *trust;
    struct loop_later later;
    struct link link;
    char sandbox[ID_MAX];
};

/* Finds the peer that created a sandbox. The record has the creating token; the label only selects
 * a session of that token or user. */
static struct peer *find_maker_peer(struct trust *t, const struct sandbox_record *b)
{
    const char *label = json_map_get(&b->labels, PEER_LABEL);
    struct peer *p = label ? peers_by_id(t, str_from(label)) : NULL;
    const char *actor = p ? p->record.actor.id : "";
    bool by_token = str_starts(str_from(actor), STR("tok_"));

    if (p && (p->is_token || (by_token ? strcmp(b->maker, actor) != 0 : b->maker[0])))
        p = NULL;
    if (!p && b->maker[0])
        p = peers_by_id(t, str_from(b->maker));
    return p && strcmp(p->record.owner, b->owner) == 0 ? p : NULL;
}

static void count_new_sandbox(struct trust *t, const char *sandbox)
{
    const struct caller all = { .admin = true };
    const struct sandbox_record *b;
    struct sandbox *s;
    struct peer *p;

    if (!control_find_now(t->control, &all, str_from(sandbox), &s))
        return;
    b = sandbox_view(s).record;
    p = find_maker_peer(t, b);
    if (p && !map_find(&t->uses, str_from(sandbox))) {
        add_use(t, p->identity_, p, b->id, b->created_ns, 0);
        p->reserved_ -= p->reserved_ > 0;
        p->identity_->reserved -= p->identity_->reserved > 0;
        minutes_watch(t, p->identity_);
    }
    sandbox_unref(s);
}

static void on_new_sandbox(struct loop_later *l)
{
    struct new_sandbox *f = container_of(l, struct new_sandbox, later);

    count_new_sandbox(f->trust, f->sandbox);
    link_leave(&f->link);
    free(f);
}

void uses_close(struct trust *t)
{
    for (struct link *m; (m = list_take(&t->kept));)
        free(container_of(m, struct released_peer, link));
    for (struct link *m; (m = list_take(&t->fresh));) {
        struct new_sandbox *f = container_of(m, struct new_sandbox, link);

        loop_later_stop(&f->later);
        free(f);
    }
    map_done(&t->uses);
}

void uses_event(struct trust *t, const struct event_record *v)
{
    struct map_entry *u;

    if (v->to == SANDBOX_REQUESTED) {
        struct new_sandbox *f = new0(sizeof *f);

        f->trust = t;
        memcpy(f->sandbox, v->sandbox, sizeof f->sandbox);
        list_append(&t->fresh, &f->link);
        (void)loop_later(t->loop, &f->later, on_new_sandbox, NULL);
        return;
    }
    u = v->to >= 0 && is_ended_state((enum sandbox_state)v->to)
            ? map_find(&t->uses, str_from(v->sandbox))
            : NULL;
    if (u)
        end_use(container_of(u, struct peer_use, entry), v->time_ns);
}

/* Charges creates until their sandboxes are stored, or until a timeout. */
void uses_reserve(struct peer *p, unsigned n)
{
    struct trust_identity *d = p->identity_;

    p->reserved_ += n;
    d->reserved += n;
    p->reserved_by_ = d->reserved_by = clock_mono() + RESERVED_S * NS_PER_S;
}

void peer_each_sandbox(struct peer *p, void (*each)(void *user, const char *id), void *user)
{
    LIST_EACH_SAFE (struct peer_use, u, &p->uses_, of_peer)
        each(user, u->sandbox);
}

static void on_count_sandbox(void *user, const char *id)
{
    ++*(int64_t *)user;
}

int64_t peer_alive(struct peer *p)
{
    int64_t n = count_reserved(&p->reserved_, p->reserved_by_);

    peer_each_sandbox(p, on_count_sandbox, &n);
    return n;
}
