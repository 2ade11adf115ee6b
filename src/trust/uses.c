/* What a peer has used: its sandboxes of the last day, as the store has them. They are found by the
 * label that binds them, so that nothing has to be counted beside, and a restart forgets nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "trust/inside.h"

static const int64_t HOUR_NS = 3600 * NS_PER_S;
static const int64_t DAY_NS = 24 * 3600 * NS_PER_S;

static struct peer_use *use_add(struct peer *p, const char *sandbox, int64_t from_ns, int64_t to_ns)
{
    struct peer_use *u = calloc(1, sizeof *u);

    if (!u)
        abort();
    u->peer = p;
    u->from_ns = from_ns;
    u->to_ns = to_ns;
    snprintf(u->sandbox, sizeof u->sandbox, "%s", sandbox);
    u->entry.id = u->sandbox;
    index_add(&p->trust->uses, &u->entry);
    list_append(&p->uses_, &u->link);
    return u;
}

static void use_free(struct peer_use *u)
{
    index_remove(&u->peer->trust->uses, &u->entry);
    link_leave(&u->link);
    free(u);
}

void uses_forget(struct peer *p)
{
    for (struct link *m; (m = list_first(&p->uses_));)
        use_free(container_of(m, struct peer_use, link));
}

static bool is_over(enum sandbox_state s)
{
    return s == SANDBOX_DESTROYED || s == SANDBOX_FAILED;
}

int uses_load(struct peer *p, struct err *e)
{
    struct store_query q = { .kind = STORE_SANDBOXES,
                             .labels = { p->labels_, 1 },
                             .owner = str_from(p->record.owner) };
    int64_t now = clock_wall();
    int r = store_ask_now(p->trust->store, &q, e);

    for (size_t i = 0; r >= 0 && i < q.n; i++) {
        const struct sandbox_record *b = &q.sandboxes[i];
        int64_t end = b->finished_ns ? b->finished_ns : b->updated_ns;

        if (!is_over(b->state) || end > now - DAY_NS)
            use_add(p, b->id, b->created_ns, is_over(b->state) ? end : 0);
    }
    arena_done(&q.arena);
    return r;
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
        use_add(p, b->id, b->created_ns, 0);
        p->reserved_ -= p->reserved_ > 0;
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
    for (struct link *m = list_first(&p->uses_); m; m = list_after(&p->uses_, m)) {
        const struct peer_use *u = container_of(m, struct peer_use, link);

        if (!u->to_ns)
            each(user, u->sandbox);
    }
}

/* How long of the last day it lived. */
static int64_t lived(const struct peer_use *u, int64_t now)
{
    int64_t from = u->from_ns > now - DAY_NS ? u->from_ns : now - DAY_NS;
    int64_t to = u->to_ns ? u->to_ns : now;

    return to > from ? to - from : 0;
}

struct trust_usage peer_usage(struct peer *p, int64_t now)
{
    struct trust_usage x = { 0 };
    struct link *next;

    if (p->reserved_ && clock_mono() > p->reserved_by_)
        p->reserved_ = 0;
    x.made = x.alive = p->reserved_;
    for (struct link *m = list_first(&p->uses_); m; m = next) {
        struct peer_use *u = container_of(m, struct peer_use, link);

        next = list_after(&p->uses_, m);
        x.alive += u->to_ns == 0;
        x.made += u->from_ns > now - HOUR_NS;
        x.lived_ns += lived(u, now);
        if (u->to_ns && u->to_ns < now - DAY_NS)
            use_free(u);
    }
    return x;
}
