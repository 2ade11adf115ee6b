/* What a token or user has used: sandboxes of the last day, as the store has them. They are found
 * by the label that binds them to a peer, or by the token that created them, and a peer's record
 * stays as long as its sandboxes count, so that neither a restart nor another registration forgets
 * any.
 *
 * Every figure is kept up to date as sandboxes come and go: a create costs the same however many
 * there were before it. Sandboxes made within an hour are listed one by one; the time that ended
 * ones lived before that is summed by the hour. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "trust/inside.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static const int64_t HOUR_NS = 3600 * NS_PER_S;
static const int64_t DAY_NS = 24 * 3600 * NS_PER_S;

enum { LOADED_MAX = 20000 };

/* A peer that is gone, and whose record has to go when its day is over. */
struct kept_peer {
    struct link link;
    int64_t until_ns;
    char id[ID_MAX];
};

/* --- an identity's figures --- */

static void add_to_hour(struct identity *d, int64_t end_ns, int64_t lived_ns)
{
    int64_t hour = end_ns / HOUR_NS;
    struct used_hour *h = &d->hours[(uint64_t)hour % USED_HOURS];

    if (h->hour != hour)
        *h = (struct used_hour){ .hour = hour };
    h->lived_ns += lived_ns;
}

static int64_t sum_hours(const struct identity *d, int64_t now)
{
    int64_t sum = 0;

    for (size_t i = 0; i < USED_HOURS; i++)
        if (d->hours[i].hour > (now - DAY_NS) / HOUR_NS)
            sum += d->hours[i].lived_ns;
    return sum;
}

static void free_use(struct peer_use *u)
{
    index_remove(&u->trust->uses, &u->entry);
    link_leave(&u->link);
    link_leave(&u->of_peer);
    free(u);
}

static bool is_alive(const struct peer_use *u)
{
    return u->to_ns == 0;
}

/* In microseconds from when the identity was met, so that no sum overflows. */
static int64_t relative_us(const struct identity *d, int64_t ns)
{
    return (ns - d->met_ns) / 1000;
}

/* Sandboxes that were made more than an hour ago leave the first list. */
static void advance_hour(struct identity *d, int64_t now)
{
    for (struct link *m; (m = list_first(&d->recent));) {
        struct peer_use *u = container_of(m, struct peer_use, link);

        if (u->from_ns > now - HOUR_NS)
            return;
        d->n_recent--;
        if (is_alive(u)) {
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

/* What living sandboxes had before the day began: the oldest are first. */
static int64_t before_day(struct identity *d, int64_t now)
{
    int64_t sum = 0;

    for (struct link *m = list_first(&d->older); m; m = list_after(&d->older, m)) {
        const struct peer_use *u = container_of(m, struct peer_use, link);

        if (u->from_ns >= now - DAY_NS)
            break;
        sum += now - DAY_NS - u->from_ns;
    }
    return sum;
}

static unsigned reserved_by(unsigned *n, int64_t until)
{
    if (*n && clock_mono() > until)
        *n = 0;
    return *n;
}

struct trust_usage identity_usage(struct identity *d, int64_t now)
{
    struct trust_usage x = { .alive = d->alive };

    advance_hour(d, now);
    x.made = d->n_recent;
    x.lived_ns = sum_hours(d, now) + d->ended_ns - before_day(d, now) +
                 (d->alive * relative_us(d, now) - d->alive_from_us) * 1000;
    if (x.lived_ns < 0) /* the clock was set back */
        x.lived_ns = 0;
    return x;
}

/* As deep as tokens are made with tokens (TOKEN_GENERATIONS_MAX). */
struct trust_usage family_usage(struct identity *d, int64_t now) /* NOLINT(misc-no-recursion) */
{
    struct trust_usage x = identity_usage(d, now);
    unsigned coming = reserved_by(&d->reserved, d->reserved_by);

    x.made += coming;
    x.alive += coming;
    for (struct link *m = list_first(&d->made); m; m = list_after(&d->made, m)) {
        struct trust_usage y = family_usage(container_of(m, struct identity, of_maker), now);

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

/* Oldest first: a new one is the newest, and only what a start loads is searched a place for. */
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

static void add_use(struct trust *t, struct identity *d, struct peer *p, const char *sandbox,
                    int64_t from_ns, int64_t to_ns)
{
    bool recent = from_ns > clock_wall() - HOUR_NS;
    struct peer_use *u;

    if (index_find(&t->uses, str_from(sandbox)))
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
    u = calloc(1, sizeof *u);
    if (!u)
        abort();
    *u = (struct peer_use){ .trust = t,
                            .identity = d,
                            .peer = p,
                            .from_ns = from_ns,
                            .to_ns = to_ns,
                            .is_recent = recent };
    snprintf(u->sandbox, sizeof u->sandbox, "%s", sandbox);
    u->entry.id = u->sandbox;
    index_add(&t->uses, &u->entry);
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
    struct identity *d = u->identity;

    if (!is_alive(u))
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

void uses_forget(struct identity *d)
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

static bool is_over(enum sandbox_state s)
{
    return s == SANDBOX_DESTROYED || s == SANDBOX_FAILED;
}

/* Whether a session of this actor can have made it: a token's by that token, and a user's by none.
 * Records of versions before makers existed have no token either. */
static bool is_by_actor(const struct sandbox_record *b, const char *actor)
{
    if (!b->maker[0])
        return true;
    return strcmp(b->maker, actor) == 0;
}

static int load_uses(struct trust *t, struct store_query *q, struct identity *d, struct peer *p,
                     struct err *e)
{
    int64_t now = clock_wall();
    int r = store_ask_now(t->store, q, e);

    for (size_t i = r >= 0 ? q->n : 0; i > 0; i--) { /* they come newest first */
        const struct sandbox_record *b = &q->sandboxes[i - 1];
        int64_t end = b->finished_ns ? b->finished_ns : b->updated_ns;

        if (is_by_actor(b, d->name) && (!is_over(b->state) || end > now - DAY_NS))
            add_use(t, d, p, b->id, b->created_ns, is_over(b->state) ? end : 0);
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

/* All that live, and of the others the newest: more than an hour's at the highest rate. */
int uses_load_token(struct trust *t, const char *id, const char *owner, struct err *e)
{
    const uint32_t dead = 1u << SANDBOX_DESTROYED;
    struct store_query live = { .kind = STORE_SANDBOXES,
                                .profile = str_from(id),
                                .owner = str_from(owner),
                                .states = ~dead },
                       gone = live;
    struct identity *d = identity_of(t, id);
    int r = load_uses(t, &live, d, NULL, e);

    gone.states = dead;
    gone.limit = LOADED_MAX;
    return r < 0 ? r : load_uses(t, &gone, d, NULL, e);
}

/* --- of peers that are gone --- */

static void keep_peer(struct trust *t, const struct peer_record *r)
{
    struct kept_peer *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    k->until_ns = r->ended_ns + DAY_NS + HOUR_NS; /* its sandboxes ended some time after it */
    memcpy(k->id, r->id, sizeof k->id);
    list_append(&t->kept, &k->link);
}

int uses_keep(struct trust *t, const struct peer_record *r, struct err *e)
{
    keep_peer(t, r);
    return uses_load(t, r, NULL, e);
}

void uses_release(struct peer *p, struct trust_write *w)
{
    struct trust *t = p->trust;
    int64_t now = clock_wall();

    for (struct link *m = list_first(&t->kept), *next; m; m = next) {
        struct kept_peer *k = container_of(m, struct kept_peer, link);

        next = list_after(&t->kept, m);
        if (k->until_ns > now)
            continue;
        store_remove_peer(&w->txn, k->id);
        link_leave(&k->link);
        free(k);
    }
    if (p->used_) {
        p->record.seen_ns = 0;
        store_put_peer(&w->txn, &p->record);
        keep_peer(t, &p->record);
    } else {
        store_remove_peer(&w->txn, p->record.id);
    }
}

/* --- events --- */

static const char *peer_of(const struct sandbox_record *b)
{
    for (size_t i = 0; i < b->labels.n; i++)
        if (strcmp(b->labels.p[i].key, PEER_LABEL) == 0)
            return b->labels.p[i].value;
    return NULL;
}

static bool is_by_session(const struct sandbox_record *b, const struct peer *p)
{
    const char *actor = p->record.actor.id;

    return str_starts(str_from(actor), STR("tok_")) ? strcmp(b->maker, actor) == 0 : !b->maker[0];
}

/* A sandbox that is new: its record can be looked at when everybody has heard of it. */
struct fresh {
    struct trust *trust;
    struct loop_later later;
    struct link link;
    char sandbox[ID_MAX];
};

/* The token that made it is on record: the label only says in which of that token's sessions, or of
 * the user's. */
static struct peer *maker_of(struct trust *t, const struct sandbox_record *b)
{
    const char *label = peer_of(b);
    struct peer *p = label ? peers_by_id(t, str_from(label)) : NULL;

    if (p && (p->is_token || !is_by_session(b, p)))
        p = NULL;
    if (!p && b->maker[0])
        p = peers_by_id(t, str_from(b->maker));
    return p && strcmp(p->record.owner, b->owner) == 0 ? p : NULL;
}

static void drop_reserved(struct peer *p)
{
    struct identity *d = p->identity_;

    p->reserved_ -= p->reserved_ > 0;
    d->reserved -= d->reserved > 0;
}

static void count_new(struct trust *t, const char *sandbox)
{
    const struct caller all = { .admin = true };
    const struct sandbox_record *b;
    struct sandbox *s;
    struct peer *p;

    if (!control_find_now(t->control, &all, str_from(sandbox), &s))
        return;
    b = sandbox_view(s).record;
    p = maker_of(t, b);
    if (p && !index_find(&t->uses, str_from(sandbox))) {
        add_use(t, p->identity_, p, b->id, b->created_ns, 0);
        drop_reserved(p);
        minutes_watch(t, p->identity_);
    }
    sandbox_unref(s);
}

static void on_fresh(struct loop_later *l)
{
    struct fresh *f = container_of(l, struct fresh, later);

    count_new(f->trust, f->sandbox);
    link_leave(&f->link);
    free(f);
}

static void look_later(struct trust *t, const char *sandbox)
{
    struct fresh *f = calloc(1, sizeof *f);

    if (!f)
        abort();
    f->trust = t;
    memcpy(f->sandbox, sandbox, sizeof f->sandbox);
    list_append(&t->fresh, &f->link);
    (void)loop_later(t->loop, &f->later, on_fresh, NULL);
}

void uses_close(struct trust *t)
{
    for (struct link *m; (m = list_take(&t->kept));)
        free(container_of(m, struct kept_peer, link));
    for (struct link *m; (m = list_take(&t->fresh));) {
        struct fresh *f = container_of(m, struct fresh, link);

        loop_later_stop(&f->later);
        free(f);
    }
    index_done(&t->uses);
}

void uses_event(struct trust *t, const struct event_record *v)
{
    struct index_entry *u;

    if (v->to == SANDBOX_REQUESTED) {
        look_later(t, v->sandbox);
        return;
    }
    u = v->to >= 0 && is_over((enum sandbox_state)v->to)
            ? index_find(&t->uses, str_from(v->sandbox))
            : NULL;
    if (u)
        end_use(container_of(u, struct peer_use, entry), v->time_ns);
}

/* Until the sandbox is on disk, or long enough that it will not be. */
void uses_reserve(struct peer *p, unsigned n)
{
    struct identity *d = p->identity_;

    p->reserved_ += n;
    d->reserved += n;
    p->reserved_by_ = d->reserved_by = clock_mono() + RESERVED_S * NS_PER_S;
}

void peer_each_sandbox(struct peer *p, void (*each)(void *user, const char *id), void *user)
{
    for (struct link *m = list_first(&p->uses_), *next; m; m = next) {
        next = list_after(&p->uses_, m);
        each(user, container_of(m, struct peer_use, of_peer)->sandbox);
    }
}

static void count_one(void *user, const char *id)
{
    (void)id;
    ++*(int64_t *)user;
}

int64_t peer_alive(struct peer *p)
{
    int64_t n = reserved_by(&p->reserved_, p->reserved_by_);

    peer_each_sandbox(p, count_one, &n);
    return n;
}
