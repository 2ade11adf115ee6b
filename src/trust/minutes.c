/* Minutes of a day that are used up: what still lives of whoever has none left is ended, at the
 * moment that they are. A create looks at them too; this is for those that were made before. */
#include "base/clock.h"
#include "base/log.h"
#include "trust/inside.h"

static const int64_t LOOK_AGAIN_NS = 5 * NS_PER_S; /* at those that are being ended */

static void end_one(struct trust *t, const struct peer_use *u)
{
    const struct actor daemon = ACTOR_DAEMON;
    const struct caller all = { .admin = true };
    struct sandbox *s;

    if (!control_find_now(t->control, &all, str_from(u->sandbox), &s))
        return;
    LOG(INFO, "trust.minutes_used", LOG_S("sandbox", u->sandbox));
    sandbox_destroy(s, &daemon, "the minutes that its role may use in a day are over", DESTROY_SYNC,
                    NULL);
    sandbox_unref(s);
}

/* INT64_MAX: as long as they like. */
static int64_t allowance(const struct trust *t, const struct peer *p)
{
    const struct trust_limits *l =
        p && t->policy.bundle ? &t->policy.bundle->limits[p->record.role] : NULL;

    return l && l->per_day_given && t->policy.bundle->mode == TRUST_ENFORCE
               ? l->minutes_per_day * 60 * NS_PER_S
               : INT64_MAX;
}

/* Ends what has to be, and says in how long there may be more. */
static void look_at(struct index_entry *v, void *user)
{
    struct identity *d = container_of(v, struct identity, entry);
    struct list *uses = &d->uses;
    struct link *first = list_first(uses);
    struct trust *t;
    struct trust_usage used;
    int64_t *soonest = user;

    if (!first)
        return;
    t = container_of(first, struct peer_use, link)->trust;
    used = identity_usage(d, clock_wall());
    for (struct link *m = list_first(uses); m; m = list_after(uses, m)) {
        const struct peer_use *u = container_of(m, struct peer_use, link);
        int64_t left, most = u->to_ns ? INT64_MAX : allowance(t, u->peer);

        if (most == INT64_MAX)
            continue;
        left = most > used.lived_ns ? (most - used.lived_ns) / used.alive + 1 : LOOK_AGAIN_NS;
        if (most <= used.lived_ns)
            end_one(t, u);
        if (left < *soonest)
            *soonest = left;
    }
}

static void on_time(struct loop_timer *x)
{
    minutes_look(container_of(x, struct trust, minutes));
}

void minutes_look(struct trust *t)
{
    int64_t soonest = INT64_MAX;

    loop_timer_stop(&t->minutes);
    index_each(&t->identities, look_at, &soonest);
    if (soonest != INT64_MAX)
        (void)loop_timer_start(t->loop, &t->minutes, clock_mono() + soonest, on_time, NULL);
}

void minutes_close(struct trust *t)
{
    loop_timer_stop(&t->minutes);
}
