/* A worker of the control plane: serves the boxes it is given over one socket (wire.h). */
#ifndef EGRESS_WORKER_H
#define EGRESS_WORKER_H

#include "egress/egress.h"
#include "egress/own_addresses.h"
#include "egress/wire.h"
#include "loop/fd.h"
#include "loop/timer.h"

/* Members are private to worker.c and who.c. */
struct worker {
    struct egress egress;
    struct own_addresses own;
    int sock;
    struct loop_fd fd;
    struct loop_timer used;
    struct list boxes; /* struct member, in worker.c */
    struct list asked; /* struct question, in who.c */
    uint32_t tags;
    struct list out; /* messages that the control plane has not taken yet */
};

struct egress_options;

/* Until the socket closes, or the control plane talks nonsense. Confines the process. */
int worker_run(const struct egress_options *o, struct err *e);

/* Sends or keeps for later; never fails. */
void worker_send(struct worker *w, const void *message, size_t n);

/* who.c */
extern const struct egress_who_ops worker_who;
void worker_who_answer(struct worker *w, const struct wire_who_is *m);

#endif
