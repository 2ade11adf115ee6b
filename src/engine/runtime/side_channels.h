/* SPDX-License-Identifier: Apache-2.0 */
/* Closes side channels by which a workload could learn about the host or other sandboxes without a
 * file or a connection, as far as kernel and processor permit. For every sandbox:
 *
 *     boot id        a random one instead of the host's
 *     page merging   memory is not merged with that of other processes (KSM)
 *
 * With PLAN_GUARDED, because it costs time or throughput:
 *
 *     clock          CLOCK_MONOTONIC and CLOCK_BOOTTIME begin with the sandbox (a time namespace).
 *                    /proc/self/timens_offsets still shows the difference to the host's clocks
 *     store bypass, indirect branch    speculation is disabled for good (PR_SET_SPECULATION_CTRL)
 *     cores          no process outside the sandbox runs on the other thread of a core (core
 *                    scheduling), if the processor has such threads */
#ifndef ENGINE_RUNTIME_SIDE_CHANNELS_H
#define ENGINE_RUNTIME_SIDE_CHANNELS_H

#include <stdbool.h>

#include "engine/runtime/build.h"

/* Steps of the child. Features that the kernel lacks are skipped. */
int side_channels_boot_id(struct sandbox_build *b, struct err *e); /* after /proc is mounted */
int side_channels_clock(struct sandbox_build *b,
                        struct err *e); /* in the sandbox's user namespace */
int side_channels_guard(struct sandbox_build *b, struct err *e);

enum side_channel_state {
    SIDE_CHANNEL_CLOSED,  /* can be closed, and is */
    SIDE_CHANNEL_NONE,    /* not present on this machine */
    SIDE_CHANNEL_OPEN,    /* cannot be closed by processor or kernel */
    SIDE_CHANNEL_UNKNOWN, /* not reported by the kernel */
};

struct side_channel {
    const char *name;
    bool guarded; /* closed with PLAN_GUARDED only */
    enum side_channel_state (*probe)(void);
};
extern const struct side_channel side_channels[];
extern const size_t side_channel_count;

/* Translates the result of PR_GET_SPECULATION_CTRL; negative: -errno. */
enum side_channel_state side_channel_of_speculation(int got);

#endif
