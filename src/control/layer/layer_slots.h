/* SPDX-License-Identifier: Apache-2.0 */
/* Slots for the layer workers that callers cause: how many run at once, in total and per owner, and
 * the queues for them (lib/quota/turns.h). Digests read whole layers, so they have slots of their
 * own and delay no capture. The daemon's own jobs need no slot: it starts one of each at a time.
 *
 * A slot belongs to the process, not to the job: a layer worker whose job was cancelled keeps its
 * slot until it has ended. So the supervisor never refuses a layer worker that has a slot. */
#ifndef CONTROL_LAYER_LAYER_SLOTS_H
#define CONTROL_LAYER_LAYER_SLOTS_H

#include "control/owner/owner_share.h"
#include "engine/layers/job.h"
#include "lib/loop/fd.h"
#include "lib/quota/turns.h"

struct caller;
struct layer_job;

enum layer_pool { LAYER_POOL_JOBS, LAYER_POOL_DIGESTS, LAYER_POOL_COUNT_ };

enum {
    LAYER_DIGESTS_MAX = 8, /* a quarter of each kind for one owner */
    LAYER_JOBS_MAX = LAYERS_OF_CALLERS_MAX - LAYER_DIGESTS_MAX,
    LAYER_WAITS_FACTOR = 16, /* waiting jobs of an owner, for each slot of its share */
};

/* The account that a job counts for. */
struct layer_charge {
    struct account account;
    enum layer_pool pool;
    bool must; /* it is never refused */
};

struct layer_slots {
    struct turns pools[LAYER_POOL_COUNT_];
    struct list all; /* struct layer_slot */
};

struct layer_slot {
    struct control *control;
    struct turns *pool;
    struct turn turn;
    /* While it waits: the message and its descriptors. */
    struct layers_job *message;
    int fds[LAYERS_FDS_MAX];
    size_t n_fds;
    struct layer_job *job;
    /* Of a cancelled job: the connection that its worker closes at its end. */
    struct loop_fd source;
    int sock;
    struct link link;
};

void layer_slots_open(struct control *c);
void layer_slots_close(struct control *c);

/* A charge to a caller's account, which borrows from the caller. */
struct layer_charge layer_charge_caller(const struct control *c, const struct caller *who);

/* `start` is called from the loop when the slot's turn comes. The message and the descriptors are
 * copied. -ERR_QUOTA: too many jobs of the account wait; not returned with `must`. */
int layer_slot_new(struct control *c, const struct layer_charge *charge, turn_fn *start,
                   const struct layers_job *message, const int *fds, size_t n,
                   struct layer_slot **ret, struct err *e);
void layer_slot_drop_message(struct layer_slot *s); /* it was sent */
/* The worker has ended, or was not started; s may be NULL. */
void layer_slot_free(struct layer_slot *s);
/* The job was cancelled: tells its worker, takes the socket, and frees the slot when the worker has
 * ended. */
void layer_slot_linger(struct layer_slot *s, int sock);

#endif
