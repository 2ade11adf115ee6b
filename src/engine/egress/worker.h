/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of the control plane: serves the boxes that it receives over one socket (wire.h). */
#ifndef ENGINE_EGRESS_WORKER_H
#define ENGINE_EGRESS_WORKER_H

#include "engine/egress/egress.h"
#include "engine/egress/own_addresses.h"
#include "engine/egress/wire.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

/* Members are private to worker.c and who.c. */
struct worker {
    struct egress_state egress;
    struct own_addresses own;
    int sock;
    struct loop_fd fd;
    struct loop_timer used;
    struct list boxes;            /* struct worker_member, in worker.c */
    struct list identity_queries; /* struct identity_query, in who.c */
    uint32_t tags;
    struct list out; /* messages that the control plane has not received yet */
};

struct egress_options;

/* Runs until the socket closes or an invalid message arrives. Confines the process. */
int worker_run(const struct egress_options *o, struct err *e);

/* Sends the message, or queues it; never fails. */
void worker_send(struct worker *w, const void *message, size_t n);

/* who.c */
extern const struct egress_who_ops worker_who;
void worker_who_answer(struct worker *w, const struct wire_who_is *m);

#endif
