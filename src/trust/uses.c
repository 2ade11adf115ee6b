/* What has been used: sandboxes of the last day, as the store has them. They are found by the label
 * that binds them to a peer, and a peer's record stays until they do not count any more, so that
 * neither a restart nor another registration forgets anything. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "trust/inside.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static const int64_t HOUR_NS = 3600 * NS_PER_S;
static const int64_t DAY_NS = 24 * 3600 * NS_PER_S;

/* A peer that is gone, and whose record has to go when its day is over. */
struct kept_peer {
    struct link link;
    int64_t until_ns;
    char id[ID_MAX];
};

static void use_add(struct trust *t, struct identity *d, struct peer *p, const char *sandbox,
                    int64_t from_ns, int64_t to_ns)
{
    struct peer_use *u = calloc(1, sizeof *u);

    if (!u)
        abort();
    u->trust = t;
    u->peer = p;
    u->from_ns = from_ns;
    u->to_ns = to_ns;
    snprintf(u->sandbox, sizeof u->sandbox, "%s", sandbox);
    u->entry.id = u->sandbox;
    index_add(&t->uses, &u->entry);
    list_append(&d->uses, &u->link);
}

static void use_free(struct peer_use *u)
{
    index_remove(&u->trust->uses, &u->entry);
    link_leave(&u->link);
    free(u);
}

void uses_forget(struct identity *d)
{
    for (struct link *m; (m = list_first(&d->uses));)
        use_free(container_of(m, struct peer_use, link));
}

void uses_leave(struct peer *p)
{
    struct list *uses = &p->identity_->uses;

    for (struct link *m = list_first(uses); m; m = list_after(uses, m))
        if (container_of(m, struct peer_use, link)->peer == p)
            container_of(m, struct peer_use, link)->peer = NULL;
}

static bool is_over(enum sandbox_state s)
{
    return s == SANDBOX_DESTROYED || s == SANDBOX_FAILED;
}

int uses_load(struct trust *t, const struct peer_record *record, struct peer *p, struct err *e)
{
    struct json_pair label = { PEER_LABEL, record->id };
    struct store_query q = { .kind = STORE_SANDBOXES,
                             .labels = { &label, 1 },
                             .owner = str_from(record->owner) };
    struct identity *d = identity_of(t, record->actor.id);
    int64_t now = clock_wall();
    int r = store_ask_now(t->store, &q, e);

    for (size_t i = 0; r >= 0 && i < q.n; i++) {
        const struct sandbox_record *b = &q.sandboxes[i];
        int64_t end = b->finished_ns ? b->finished_ns : b->updated_ns;

        if (!is_over(b->state) || end > now - DAY_NS)
            use_add(t, d, p, b->id, b->created_ns, is_over(b->state) ? end : 0);
    }
    arena_done(&q.arena);
    return r;
}

/* --- of peers that are gone --- */

static void keep(struct trust *t, const struct peer_record *r)
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
    keep(t, r);
    return uses_load(t, r, NULL, e);
}

static bool has_used(struct peer *p)
{
    struct list *uses = &p->identity_->uses;

    for (struct link *m = list_first(uses); m; m = list_after(uses, m))
        if (container_of(m, struct peer_use, link)->peer == p)
            return true;
    return false;
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
    if (has_used(p)) {
        p->record.seen_ns = 0;
        store_put_peer(&w->txn, &p->record);
        keep(t, &p->record);
    } else {
        store_remove_peer(&w->txn, p->record.id);
    }
}

static const char *peer_of(const struct sandbox_record *b)
{
    for (size_t i = 0; i < b->labels.n; i++)
        if (strcmp(b->labels.p[i].key, PEER_LABEL) == 0)
            return b->labels.p[i].value;
    return NULL;
}

/* A sandbox that is new: its record can be looked at when everybody has heard of it. */
struct fresh {
    struct trust *trust;
    struct loop_later later;
    struct link link;
    char sandbox[ID_MAX];
};

static void made(struct trust *t, const char *sandbox)
{
    const struct caller all = { .admin = true };
    const struct sandbox_record *b;
    struct peer *p = NULL;
    struct sandbox *s;

    if (!control_find_now(t->control, &all, str_from(sandbox), &s))
        return;
    b = sandbox_view(s).record;
    if (peer_of(b))
        p = peers_by_id(t, str_from(peer_of(b)));
    if (p && strcmp(p->record.owner, b->owner) == 0 && !index_find(&t->uses, str_from(sandbox))) {
        use_add(t, p->identity_, p, b->id, b->created_ns, 0);
        p->reserved_ -= p->reserved_ > 0;
        minutes_look(t);
    }
    sandbox_unref(s);
}

static void on_fresh(struct loop_later *l)
{
    struct fresh *f = container_of(l, struct fresh, later);

    made(f->trust, f->sandbox);
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
    if (u && !container_of(u, struct peer_use, entry)->to_ns)
        container_of(u, struct peer_use, entry)->to_ns = v->time_ns;
}

/* Until the sandbox is on disk, or long enough that it will not be. */
void uses_reserve(struct peer *p)
{
    p->reserved_++;
    p->reserved_by_ = clock_mono() + RESERVED_S * NS_PER_S;
}

void peer_each_sandbox(struct peer *p, void (*each)(void *user, const char *id), void *user)
{
    struct list *uses = &p->identity_->uses;

    for (struct link *m = list_first(uses); m; m = list_after(uses, m)) {
        const struct peer_use *u = container_of(m, struct peer_use, link);

        if (u->peer == p && !u->to_ns)
            each(user, u->sandbox);
    }
}

static unsigned reserved(struct peer *p)
{
    if (p->reserved_ && clock_mono() > p->reserved_by_)
        p->reserved_ = 0;
    return p->reserved_;
}

static void count_one(void *user, const char *id)
{
    (void)id;
    ++*(int64_t *)user;
}

int64_t peer_alive(struct peer *p)
{
    int64_t n = reserved(p);

    peer_each_sandbox(p, count_one, &n);
    return n;
}

/* How long of the last day it lived. */
static int64_t lived(const struct peer_use *u, int64_t now)
{
    int64_t from = u->from_ns > now - DAY_NS ? u->from_ns : now - DAY_NS;
    int64_t to = u->to_ns ? u->to_ns : now;

    return to > from ? to - from : 0;
}

static unsigned reserved_of(struct trust *t, const struct identity *d)
{
    unsigned n = 0;

    for (struct link *m = list_first(&t->peers); m; m = list_after(&t->peers, m)) {
        struct peer *p = container_of(m, struct peer, link_);

        if (p->identity_ == d)
            n += reserved(p);
    }
    return n;
}

struct trust_usage identity_usage(struct identity *d, int64_t now)
{
    struct trust_usage x = { 0 };
    struct link *next;

    for (struct link *m = list_first(&d->uses); m; m = next) {
        struct peer_use *u = container_of(m, struct peer_use, link);

        next = list_after(&d->uses, m);
        x.alive += u->to_ns == 0;
        x.made += u->from_ns > now - HOUR_NS;
        x.lived_ns += lived(u, now);
        if (u->to_ns && u->to_ns < now - DAY_NS)
            use_free(u);
    }
    return x;
}

struct trust_usage peer_usage(struct peer *p, int64_t now)
{
    struct trust_usage x = identity_usage(p->identity_, now);
    unsigned coming = reserved_of(p->trust, p->identity_);

    x.made += coming;
    x.alive += coming;
    return x;
}
