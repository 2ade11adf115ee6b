/* SPDX-License-Identifier: Apache-2.0 */
/* Time is int64_t nanoseconds. Deadlines use the monotonic clock, records the wall clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

static inline int64_t clock_read_(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static inline int64_t clock_mono(void)
{
    return clock_read_(CLOCK_MONOTONIC);
}

static inline int64_t clock_wall(void)
{
    return clock_read_(CLOCK_REALTIME);
}

/* Milliseconds until a monotonic deadline for poll(): rounded up, 0 if passed, -1 for "never"
 * (0). */
static inline int clock_poll_ms(int64_t deadline)
{
    int64_t left;

    if (deadline == 0)
        return -1;
    left = deadline - clock_mono();
    if (left <= 0)
        return 0;
    left = (left + NS_PER_MS - 1) / NS_PER_MS;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

#endif
