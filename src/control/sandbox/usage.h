/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of sandboxes, and samples of the processors, memory and disk that they use: taken
 * periodically, and on request. In memory only: a restart of the daemon discards the samples. */
#ifndef CONTROL_SANDBOX_USAGE_H
#define CONTROL_SANDBOX_USAGE_H

#include "control/control.h"

/* Each is 0 if there is no such limit. */
struct sandbox_limits {
    uint64_t memory, disk; /* bytes */
    uint32_t pids, cpu_milli;
};
/* False: they are unknown, because its profile is no longer in the catalog. */
bool sandbox_limits(const struct sandbox *s, struct sandbox_limits *ret);

struct usage_sample {
    int64_t time_ns;         /* wall clock */
    int64_t cpu_ns;          /* used so far … */
    double processors;       /* … and busy since the last sample */
    uint64_t memory, mapped; /* as in struct backend_usage */
    uint64_t disk, disk_max;
    uint32_t processes;
};

/* Takes a sample now, unless there is one of this moment (USAGE_FRESH_NS): so the cost inside does
 * not grow with the number of requests. `done` is called soon in any case; without a new sample if
 * the box does not answer. It cannot be cancelled: the owner stays until done. */
#define USAGE_FRESH_NS (250 * NS_PER_MS)
struct usage_op {
    void (*done)(struct usage_op *op);
    struct sandbox *sandbox_; /* referenced */
    struct loop_timer timer_;
    struct link link_;
};
void sandbox_usage(struct sandbox *s, struct usage_op *op);

/* Returns the number of samples, the oldest first; borrowed until the next turn of the loop. */
size_t sandbox_samples(const struct sandbox *s, const struct usage_sample **ret);

/* --- for this module --- */
struct usage; /* of one sandbox */
void usage_open(struct control *c);
void usage_on_sample(struct sandbox *s, int r, const struct backend_usage *u);

#endif
