/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/rate.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

enum { FIRST_SWEEP = 64 };

/* All that a caller used has come back at full_ns. It is beyond now by every_ns for each unit. */
struct rate_user {
    struct map_entry entry;
    int64_t full_ns;
    char key[]; /* NUL-terminated */
};

void rate_init(struct rate *r, uint64_t most, int64_t period_ns)
{
    uint64_t half = most > 2 ? most / 2 : 1;

    *r = (struct rate){ .burst = half, .every_ns = period_ns / (int64_t)half };
    if (r->every_ns < 1)
        r->every_ns = 1;
}

static struct rate_user *rate_user_of(struct map_entry *v)
{
    return v ? container_of(v, struct rate_user, entry) : NULL;
}

static void free_rate_user(struct map_entry *v, void *user)
{
    free(rate_user_of(v));
}

void rate_done(struct rate *r)
{
    map_each(&r->users_, free_rate_user, NULL);
    map_done(&r->users_);
    *r = (struct rate){ 0 };
}

/* Callers that have everything back are forgotten, so that their number does not grow with time. */
struct rate_sweep {
    struct map *users;
    int64_t now_ns;
};

static void sweep_rate_user(struct map_entry *v, void *user)
{
    const struct rate_sweep *s = user;

    if (rate_user_of(v)->full_ns > s->now_ns)
        return;
    map_remove(s->users, v);
    free(rate_user_of(v));
}

static struct rate_user *add_rate_user(struct rate *r, struct str key, int64_t now_ns)
{
    struct rate_user *u = new0(sizeof *u + key.n + 1);

    if (r->users_.n >= r->sweep_at_) {
        map_each(&r->users_, sweep_rate_user, &(struct rate_sweep){ &r->users_, now_ns });
        r->sweep_at_ = r->users_.n < FIRST_SWEEP / 2 ? FIRST_SWEEP : 2 * r->users_.n;
    }
    memcpy(u->key, key.p, key.n);
    u->entry.id = u->key;
    map_add(&r->users_, &u->entry);
    return u;
}

void rate_use(struct rate *r, struct str key, uint64_t n, int64_t now_ns)
{
    struct rate_user *u = rate_user_of(map_find(&r->users_, key));
    int64_t from,
        most = 2 * (int64_t)r->burst; /* so that the past is not held against it for ever */

    if (!u)
        u = add_rate_user(r, key, now_ns);
    from = u->full_ns > now_ns ? u->full_ns : now_ns;
    if (n > (uint64_t)most)
        n = (uint64_t)most;
    u->full_ns = from + (int64_t)n * r->every_ns;
    if (u->full_ns > now_ns + most * r->every_ns)
        u->full_ns = now_ns + most * r->every_ns;
}

int64_t rate_wait(const struct rate *r, struct str key, int64_t now_ns)
{
    const struct rate_user *u = rate_user_of(map_find(&r->users_, key));
    int64_t left = u ? u->full_ns - (int64_t)(r->burst - 1) * r->every_ns - now_ns : 0;

    return left > 0 ? left : 0;
}
