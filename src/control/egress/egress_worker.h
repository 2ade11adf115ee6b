/* SPDX-License-Identifier: Apache-2.0 */
/* An egress worker as the control plane sees it: a process behind a socket of engine/egress/wire.h.
 * A process that dies is replaced, with exponential backoff. A process that does not answer is
 * killed: it would hold its sandboxes' connections and not apply policies. */
#ifndef CONTROL_EGRESS_EGRESS_WORKER_H
#define CONTROL_EGRESS_EGRESS_WORKER_H

#include <sys/types.h>

#include "base/err.h"
#include "lib/loop/fd.h"
#include "lib/loop/list.h"
#include "lib/loop/timer.h"

struct egress_worker;

/* All are called from the loop. */
struct egress_worker_events {
    void (*up)(struct egress_worker *w);   /* a new process serves, without any state */
    void (*down)(struct egress_worker *w); /* the process is gone, with its state */
    /* Checked by wire_check(), and aligned for every message. */
    void (*message)(struct egress_worker *w, const void *message);
};

struct egress_worker {
    struct loop *loop;
    const struct egress_worker_events *events;
    int (*start)(void *user, int *ret_sock, uint64_t *ret_id, struct err *e);
    void (*end)(void *user, uint64_t id);
    void *user;
    uint64_t starts;
    /* private */
    int sock;
    uint64_t id;
    struct loop_fd fd;
    struct loop_timer restart, ping;
    /* Ping intervals without an answer: time in which this process was blocked does not count. */
    unsigned silent;
    int64_t pause_ns, up_ns;
    struct list out; /* struct worker_packet: not accepted by the socket yet */
    unsigned kept;   /* number of these */
};

/* Starts a process; `up` is called when it runs. The members before `private` must be set. */
void egress_worker_open(struct egress_worker *w);
void egress_worker_close(struct egress_worker *w); /* no further callbacks */
bool egress_worker_is_up(const struct egress_worker *w);

/* Sends the message, or queues it. The caller keeps the descriptors. Does nothing if the worker is
 * not up. */
void egress_worker_send(struct egress_worker *w, const void *message, size_t n, const int *fds,
                        size_t n_fds);

#endif
