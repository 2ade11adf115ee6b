/* An egress worker as the control plane sees it: a process behind a socket of egress/wire.h, and
 * another one when that has died, after a pause that grows while they keep dying. One that does not
 * answer is ended: what hangs would hold its sandboxes' connections, and hear of no policy. */
#ifndef CONTROL_EGRESS_WORKER_H
#define CONTROL_EGRESS_WORKER_H

#include <sys/types.h>

#include "base/err.h"
#include "loop/fd.h"
#include "loop/list.h"
#include "loop/timer.h"

struct egress_worker;

/* All from the loop. */
struct egress_worker_events {
    void (*up)(struct egress_worker *w);   /* a new one serves, and knows of nothing */
    void (*down)(struct egress_worker *w); /* it is gone, and what it was told with it */
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
    struct loop_timer again, ping;
    unsigned silent; /* looks since a ping: time that we ourselves were held up does not count */
    int64_t pause_ns, up_ns;
    struct list out; /* struct packet, that it has not taken yet */
    unsigned kept;   /* how many */
};

/* Begins to start one; `up` is told when it is there. The five members before `private` are set. */
void egress_worker_open(struct egress_worker *w);
void egress_worker_close(struct egress_worker *w); /* nothing is told any more */
bool egress_worker_is_up(const struct egress_worker *w);

/* Sends or keeps for later. Descriptors stay the caller's. Nothing happens if it is not up. */
void egress_worker_send(struct egress_worker *w, const void *message, size_t n, const int *fds,
                        size_t n_fds);

#endif
