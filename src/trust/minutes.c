/* Minutes of a day that are used up: sandboxes of an identity that has none left are ended, at the
 * moment that they are. A create checks them too; this is for sandboxes that were made before. */
#include "base/clock.h"
#include "base/log.h"
#include "trust/inside.h"

static const int64_t LOOK_AGAIN_NS = 5 * NS_PER_S; /* at those that are being ended */

static void end_sandbox(struct trust *t, const struct peer_use *u)
{
    const struct actor daemon = ACTOR_DAEMON;
    const struct caller all = { .admin = true };
    struct sandbox *s;

    if (!control_find_now(t->control, &all, str_from(u->sandbox), &s))
        return;
    LOG(INFO, "trust.minutes_used", LOG_S("sandbox", u->sandbox));
    sandbox_destroy(s, &daemon, "the minutes that its token or role may use in a day are over",
                    DESTROY_SYNC, NULL);
    sandbox_unref(s);
}

/* In a role; INT64_MAX: as long as they like. */
static int64_t allowance(const struct trust *t, const struct identity *d, unsigned role)
{
    const struct trust_bundle *b = t->policy.bundle;

    if (!b || b->mode != TRUST_ENFORCE)
        return INT64_MAX;
    if (d->is_token && d->terms.per_day != TOKEN_UNSET)
        return d->terms.per_day * 60 * NS_PER_S;
    return b->limits[role].per_day_given ? b->limits[role].minutes_per_day * 60 * NS_PER_S
                                         : INT64_MAX;
}

/* The least that a peer of the identity has. */
static int64_t least_allowance(const struct trust *t, const struct identity *d)
{
    int64_t least = d->is_token ? allowance(t, d, d->role) : INT64_MAX;

    for (unsigned r = 0; r < ROLE_COUNT_; r++)
        if ((d->roles >> r) & 1 && allowance(t, d, r) < least)
            least = allowance(t, d, r);
    return least;
}

/* Of a sandbox; one whose peer is gone goes with the strictest. */
static int64_t use_allowance(const struct trust *t, const struct identity *d,
                             const struct peer_use *u)
{
    return u->peer ? allowance(t, d, u->peer->record.role) : least_allowance(t, d);
}

static void end_those_of(struct trust *t, struct identity *d, struct list *l, int64_t lived)
{
    for (struct link *m = list_first(l), *next; m; m = next) {
        struct peer_use *u = container_of(m, struct peer_use, link);

        next = list_after(l, m);
        if (!u->to_ns && lived >= use_allowance(t, d, u))
            end_sandbox(t, u);
    }
}

/* Ends what has to be, and says in how long there may be more. */
static int64_t look_at_one(struct trust *t, struct identity *d)
{
    int64_t least = d->alive ? least_allowance(t, d) : INT64_MAX;
    struct trust_usage used;

    if (least == INT64_MAX)
        return INT64_MAX;
    used = identity_usage(d, clock_wall());
    if (used.lived_ns < least)
        return (least - used.lived_ns) / d->alive + 1;
    end_those_of(t, d, &d->recent, used.lived_ns);
    end_those_of(t, d, &d->older, used.lived_ns);
    return LOOK_AGAIN_NS;
}

static void arm(struct trust *t, int64_t in_ns);

struct minutes_walk {
    struct trust *trust;
    int64_t soonest;
};

static void look_at(struct index_entry *v, void *user)
{
    struct minutes_walk *w = user;
    int64_t in = look_at_one(w->trust, container_of(v, struct identity, entry));

    if (in < w->soonest)
        w->soonest = in;
}

void minutes_look(struct trust *t)
{
    struct minutes_walk w = { t, INT64_MAX };

    loop_timer_stop(&t->minutes);
    t->minutes_due = INT64_MAX;
    index_each(&t->identities, look_at, &w);
    arm(t, w.soonest);
}

static void on_time(struct loop_timer *x)
{
    minutes_look(container_of(x, struct trust, minutes));
}

static void arm(struct trust *t, int64_t in_ns)
{
    int64_t now = clock_mono();

    if (in_ns == INT64_MAX || now + in_ns >= t->minutes_due)
        return;
    t->minutes_due = now + in_ns;
    loop_timer_stop(&t->minutes);
    (void)loop_timer_start(t->loop, &t->minutes, t->minutes_due, on_time, NULL);
}

void minutes_watch(struct trust *t, struct identity *d)
{
    arm(t, look_at_one(t, d));
}

void minutes_close(struct trust *t)
{
    loop_timer_stop(&t->minutes);
}
