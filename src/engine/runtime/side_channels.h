/* Ways by which a workload learns about the host or about other sandboxes without a file or a
 * connection, closed as far as this kernel and processor let us. For every sandbox:
 *
 *     boot id        a random one instead of the host's
 *     page merging   memory is not merged with that of others (KSM)
 *
 * With PLAN_GUARDED, because it costs time or throughput:
 *
 *     clock          CLOCK_MONOTONIC and CLOCK_BOOTTIME begin with the sandbox (a time namespace).
 *                    /proc/self/timens_offsets still shows by how much they differ from the host's
 *     store bypass, indirect branch    speculation is disabled for good (PR_SET_SPECULATION_CTRL)
 *     cores          no process outside of the sandbox runs on the other thread of a core (core
 *                    scheduling), where the processor has such threads
 */
#ifndef RUNTIME_SIDE_CHANNELS_H
#define RUNTIME_SIDE_CHANNELS_H

#include <stdbool.h>

#include "runtime/build.h"

/* Steps of the child. What this kernel does not offer is left out. */
int side_channels_boot_id(struct build *b, struct err *e); /* after /proc is mounted */
int side_channels_clock(struct build *b, struct err *e);   /* in the sandbox's user namespace */
int side_channels_guard(struct build *b, struct err *e);

enum side_channel_state {
    SIDE_CHANNEL_CLOSED,  /* can be closed, and is */
    SIDE_CHANNEL_NONE,    /* this machine does not have it */
    SIDE_CHANNEL_OPEN,    /* neither processor nor kernel offers to close it */
    SIDE_CHANNEL_UNKNOWN, /* the kernel does not say */
};

struct side_channel {
    const char *name;
    bool guarded; /* closed with PLAN_GUARDED alone */
    enum side_channel_state (*probe)(void);
};
extern const struct side_channel side_channels[];
extern const size_t side_channel_count;

/* What PR_GET_SPECULATION_CTRL returned, as a state; negative: it failed with that errno. */
enum side_channel_state side_channel_of_speculation(int got);

#endif
