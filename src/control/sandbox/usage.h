/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of the processors, memory and disk that sandboxes use: taken periodically, and on
 * request. In memory only: a restart of the daemon discards them. */
#ifndef CONTROL_SANDBOX_USAGE_H
#define CONTROL_SANDBOX_USAGE_H

#include "control/control.h"

struct usage_sample {
    int64_t time_ns;         /* wall clock */
    double processors;       /* busy since the last sample */
    uint64_t memory, mapped; /* as in struct backend_usage */
    uint64_t disk, disk_max;
};

/* Takes a sample now. `done` is called soon in any case; without a new sample if the box does not
 * answer. It cannot be cancelled: the owner stays until done. */
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
