/* What sandboxes use: processors, memory, disk. Every one is looked at now and then, and whenever
 * somebody asks. In memory only: a restart of the daemon begins anew. */
#ifndef CONTROL_USAGE_H
#define CONTROL_USAGE_H

#include "control/control.h"

struct usage_sample {
    int64_t time_ns;         /* wall clock */
    double processors;       /* that were busy since it was last looked at */
    uint64_t memory, mapped; /* as of struct ext_usage */
    uint64_t disk, disk_max;
};

/* Looks at a sandbox now. Done soon in any case; where it could not be seen, without a sample more.
 * It cannot be cancelled: the owner stays until done. */
struct usage_op {
    void (*done)(struct usage_op *op);
    struct sandbox *sandbox_; /* referenced */
    struct loop_timer timer_;
    struct link link_;
};
void sandbox_usage(struct sandbox *s, struct usage_op *op);

/* How many there are, the oldest first; borrowed until the next turn of the loop. */
size_t sandbox_samples(const struct sandbox *s, const struct usage_sample **ret);

/* --- for this module --- */
struct usage; /* of one sandbox */
void usage_open(struct control *c);
void usage_close(struct control *c);
void usage_seen(struct sandbox *s, int r, const struct ext_usage *u);
void usage_free(struct usage *u);

#endif
