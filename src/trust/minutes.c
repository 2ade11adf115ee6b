/* SPDX-License-Identifier: Apache-2.0 */
/* Enforces minutes_per_day on running sandboxes: ends those of an identity, and of the tokens that
 * it made, at the moment when its minutes are used up. A create checks the limit as well; this
 * covers sandboxes created before. */
#include "base/clock.h"
#include "base/log.h"
#include "trust/internal.h"

/* retry interval while sandboxes are being ended */
static const int64_t LOOK_AGAIN_NS = 5 * NS_PER_S;

static void end_exhausted_sandbox(struct trust *t, const struct peer_use *u)
{
    const struct actor daemon = ACTOR_DAEMON;
    const struct caller all = { .admin = true };
    struct sandbox *s;

    if (!control_find_now(t->control, &all, str_from(u->sandbox), &s))
        return;
    LOG(INFO, "trust.minutes_used", LOG_S("sandbox", u->sandbox));
    sandbox_destroy(s, &daemon, "the daily minutes of its token or role are used up", DESTROY_USUAL,
                    NULL);
    sandbox_unref(s);
}

/* The allowance in a role; INT64_MAX: unlimited. */
static int64_t role_allowance(const struct trust *t, const struct trust_identity *d, unsigned role)
{
    const struct trust_bundle *b = t->policy.bundle;

    if (!b || b->mode != TRUST_ENFORCE)
        return INT64_MAX;
    if (d->is_token && d->terms.per_day != TOKEN_UNSET)
        return d->terms.per_day * 60 * NS_PER_S;
    return b->limits[role].per_day_given ? b->limits[role].minutes_per_day * 60 * NS_PER_S
                                         : INT64_MAX;
}

/* The smallest allowance of the identity's peers. */
static int64_t least_allowance(const struct trust *t, const struct trust_identity *d)
{
    int64_t least = d->is_token ? role_allowance(t, d, d->role) : INT64_MAX;

    for (unsigned r = 0; r < ROLE_COUNT_; r++)
        if ((d->roles >> r) & 1 && role_allowance(t, d, r) < least)
            least = role_allowance(t, d, r);
    return least;
}

/* d NULL: all of them. The strictest allowance counts for sandboxes whose peer was released. */
static void end_exhausted_sandboxes(struct trust *t, const struct trust_identity *d, struct list *l,
                                    int64_t lived)
{
    LIST_EACH_SAFE (struct peer_use, u, l, link) {
        if (!u->to_ns && (!d || lived >= (u->peer ? role_allowance(t, d, u->peer->record.role)
                                                  : least_allowance(t, d))))
            end_exhausted_sandbox(t, u);
    }
}

/* Recursion depth: TOKEN_GENERATIONS_MAX. */
static void end_sandboxes_of_children(struct trust *t,
                                      struct trust_identity *d) /* NOLINT(misc-no-recursion) */
{
    LIST_EACH (struct trust_identity, child, &d->made, of_maker) {
        end_exhausted_sandboxes(t, NULL, &child->recent, 0);
        end_exhausted_sandboxes(t, NULL, &child->older, 0);
        end_sandboxes_of_children(t, child);
    }
}

/* Ends sandboxes of an exhausted identity and returns the time until the next check. */
static int64_t check_identity_minutes(struct trust *t, struct trust_identity *d)
{
    int64_t least = least_allowance(t, d);
    struct trust_usage used;

    if (least == INT64_MAX)
        return INT64_MAX;
    used = family_usage(d, clock_wall());
    if (!used.alive)
        return INT64_MAX;
    if (used.lived_ns < least)
        return (least - used.lived_ns) / used.alive + 1;
    end_exhausted_sandboxes(t, d, &d->recent, used.lived_ns);
    end_exhausted_sandboxes(t, d, &d->older, used.lived_ns);
    if (d->is_token && used.lived_ns >= role_allowance(t, d, d->role))
        end_sandboxes_of_children(t, d);
    return LOOK_AGAIN_NS;
}

static void arm_minutes_timer(struct trust *t, int64_t in_ns);

struct minutes_walk {
    struct trust *trust;
    int64_t soonest;
};

static void on_identity_minutes(struct map_entry *v, void *user)
{
    struct minutes_walk *w = user;
    int64_t in = check_identity_minutes(w->trust, container_of(v, struct trust_identity, entry));

    if (in < w->soonest)
        w->soonest = in;
}

void minutes_check(struct trust *t)
{
    struct minutes_walk w = { t, INT64_MAX };

    loop_timer_stop(&t->minutes);
    t->minutes_due = INT64_MAX;
    map_each(&t->identities, on_identity_minutes, &w);
    arm_minutes_timer(t, w.soonest);
}

static void on_minutes_timer(struct loop_timer *x)
{
    minutes_check(container_of(x, struct trust, minutes));
}

static void arm_minutes_timer(struct trust *t, int64_t in_ns)
{
    int64_t now = clock_mono();

    if (in_ns == INT64_MAX || now + in_ns >= t->minutes_due)
        return;
    t->minutes_due = now + in_ns;
    loop_timer_stop(&t->minutes);
    (void)loop_timer_start(t->loop, &t->minutes, t->minutes_due, on_minutes_timer, NULL);
}

void minutes_watch(struct trust *t, struct trust_identity *d)
{
    for (; d; d = d->maker)
        arm_minutes_timer(t, check_identity_minutes(t, d));
}

void minutes_close(struct trust *t)
{
    loop_timer_stop(&t->minutes);
}
