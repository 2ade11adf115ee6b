/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of layer workers (engine/layers/job.h), as operations on the loop. */
#ifndef CONTROL_LAYER_LAYER_WORKER_H
#define CONTROL_LAYER_LAYER_WORKER_H

#include "engine/layers/job.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

struct control;
struct layer_charge;
struct layer_job;
struct layer_slot;

/* Each may be NULL except `done`, which is called once, as the last. Each may cancel the job or
 * free its owner. */
struct layer_worker_events {
    void (*ready)(struct layer_job *j); /* for job kinds that wait: call layer_worker_go() */
    void (*progress)(struct layer_job *j, uint64_t bytes, uint64_t entries);
    void (*line)(struct layer_job *j, const char *text);
    void (*taken)(struct layer_job *j); /* everything was read that had to be read */
    /* said: bytes, entries and text of its last message; NULL if r < 0 */
    void (*done)(struct layer_job *j, int r, const struct err *e, const struct layers_said *said);
};

/* Embedded in its owner. */
struct layer_job {
    const struct layer_worker_events *events;
    enum layers_kind kind;
    struct loop_fd fd_;
    struct loop_timer first_message_;
    struct layer_slot *slot_; /* NULL: a job of the daemon */
    int sock_;                /* -1: it waits for its turn */
    bool running;             /* or waiting */
};

/* Starts a job that a caller has caused when its account has a slot (layer_slots.h); the caller of
 * this function keeps the descriptors. After a failure no callback follows: -ERR_QUOTA if too many
 * jobs of the account wait. */
int layer_worker_queue(struct control *c, const struct layer_charge *charge, struct layer_job *j,
                       const struct layer_worker_events *events, const struct layers_job *job,
                       const int *fds, size_t n, struct err *e);
/* Starts a job of the daemon itself, likewise, and without a slot. */
int layer_worker_start(struct control *c, struct layer_job *j,
                       const struct layer_worker_events *events, const struct layers_job *job,
                       const int *fds, size_t n, struct err *e);
void layer_worker_go(struct layer_job *j);
/* No callback follows; the layer worker undoes an unfinished job. Harmless on a job that does not
 * run. */
void layer_worker_cancel(struct layer_job *j);

#endif
