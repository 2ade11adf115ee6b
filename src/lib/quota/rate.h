/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts over time: each caller, known by a key, may use `most` in any period.
 *
 * Half of that is available at once, and the other half comes back evenly over the period, so that
 * no period holds more than `most`. A caller that used nothing lately costs nothing; every call is
 * O(1) on average. Times are those of one monotonic clock. */
#ifndef LIB_QUOTA_RATE_H
#define LIB_QUOTA_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "lib/map/map.h"

struct rate {
    uint64_t burst;   /* available at once */
    int64_t every_ns; /* until one more is available */
    struct map users_;
    size_t sweep_at_; /* the number of users at which idle ones are forgotten */
};

/* most: 2 at least, or it counts as 2. */
void rate_init(struct rate *r, uint64_t most, int64_t period_ns);
void rate_done(struct rate *r);

/* Counts n as used, also beyond what is available: callers ask rate_wait() before what they can
 * refuse. */
void rate_use(struct rate *r, struct str key, uint64_t n, int64_t now_ns);
/* For how long nothing is available; 0: something is. */
int64_t rate_wait(const struct rate *r, struct str key, int64_t now_ns);

#endif
