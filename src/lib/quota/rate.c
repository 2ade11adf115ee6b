/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/rate.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

enum { FIRST_SLOTS = 64 };

/* All that a caller used has come back at full_ns. It is beyond now by every_ns for each unit. */
struct rate_user {
    struct rate_user *next;
    int64_t full_ns;
    size_t n;
    char key[];
};

void rate_init(struct rate *r, uint64_t most, int64_t period_ns)
{
    uint64_t half = most > 2 ? most / 2 : 1;

    *r = (struct rate){ .burst = half, .every_ns = period_ns / (int64_t)half };
    if (r->every_ns < 1)
        r->every_ns = 1;
}

void rate_done(struct rate *r)
{
    for (size_t i = 0; i < r->size_; i++)
        for (struct rate_user *u = r->slots_[i], *next; u; u = next) {
            next = u->next;
            free(u);
        }
    free(r->slots_);
    *r = (struct rate){ 0 };
}

static struct rate_user **find_rate_slot(const struct rate *r, struct str key)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < key.n; i++)
        h = (h ^ (unsigned char)key.p[i]) * UINT64_C(1099511628211);
    return &r->slots_[(h ^ h >> 32) & (r->size_ - 1)];
}

static struct rate_user *find_rate_user(const struct rate *r, struct str key)
{
    struct rate_user *u = r->size_ ? *find_rate_slot(r, key) : NULL;

    while (u && !str_eq((struct str){ u->key, u->n }, key))
        u = u->next;
    return u;
}

/* Before the table grows: callers that have everything back are forgotten. */
static void rebuild_rate_table(struct rate *r, int64_t now_ns)
{
    struct rate_user **old = r->slots_, *kept = NULL;
    size_t size = r->size_;

    r->n_ = 0;
    for (size_t i = 0; i < size; i++)
        for (struct rate_user *u = old[i], *next; u; u = next) {
            next = u->next;
            if (u->full_ns <= now_ns) {
                free(u);
                continue;
            }
            u->next = kept;
            kept = u;
            r->n_++;
        }
    free(old);
    r->size_ = r->n_ * 2 < size ? size : size ? size * 2 : FIRST_SLOTS;
    r->slots_ = new0_array(r->size_, sizeof(struct rate_user *));
    for (struct rate_user *u = kept, *next; u; u = next) {
        struct rate_user **at = find_rate_slot(r, (struct str){ u->key, u->n });

        next = u->next;
        u->next = *at;
        *at = u;
    }
}

static struct rate_user *add_rate_user(struct rate *r, struct str key, int64_t now_ns)
{
    struct rate_user *u = malloc(sizeof *u + key.n), **at;

    if (!u)
        abort();
    if (r->n_ >= r->size_)
        rebuild_rate_table(r, now_ns);
    at = find_rate_slot(r, key);
    *u = (struct rate_user){ .next = *at, .n = key.n };
    memcpy(u->key, key.p, key.n);
    *at = u;
    r->n_++;
    return u;
}

void rate_use(struct rate *r, struct str key, uint64_t n, int64_t now_ns)
{
    struct rate_user *u = find_rate_user(r, key);
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
    const struct rate_user *u = find_rate_user(r, key);
    int64_t left = u ? u->full_ns - (int64_t)(r->burst - 1) * r->every_ns - now_ns : 0;

    return left > 0 ? left : 0;
}
