/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's requests to the monitor. Only requests_await() blocks, which is for the time
 * before the loop runs.
 *
 * Each request has an id and a deadline. A request for a program returns a socket at once: the
 * other end travels with the request, so messages can be sent before the program runs. If the
 * program cannot be started, its user reads the reason from that socket, as if the program had sent
 * it.
 *
 * When a deadline passes without an answer, the monitor counts as silent: further requests fail at
 * once, with -ERR_BUSY, until it answers again. */
#ifndef DAEMON_REQUESTS_H
#define DAEMON_REQUESTS_H

#include "control/control.h"
#include "daemon/monitor_request.h"
#include "lib/loop/fd.h"

enum { REQUESTS_MAX = 256 }; /* that wait for their answers */

struct requests {
    struct loop *loop;
    int sock; /* the caller's */
    void (*on_gone)(struct requests *q);
    struct loop_fd fd;
    struct loop_timer timer;
    struct list waiting;   /* struct control_request, the oldest first */
    struct list lingering; /* those that were answered, and whose processes were given up */
    size_t n;
    uint64_t last; /* id */
    bool silent;
};

/* on_gone is called once, when the monitor has ended. */
int requests_open(struct requests *q, struct loop *l, int sock, void (*on_gone)(struct requests *q),
                  struct err *e);

/* Starts a program: *ret is our end of its socket; *ret_id, which may be NULL, names it in
 * MONITOR_END_EGRESS and MONITOR_END_FETCH. */
int requests_program(struct requests *q, enum monitor_kind kind, int *ret, uint64_t *ret_id,
                     struct err *e);

/* Sends a request. `r->done` gets the answer once, from the loop, unless the request is cancelled.
 * The id is filled in; the caller keeps its descriptors. */
int requests_send(struct requests *q, struct monitor_request *message, const int *fds, size_t n,
                  struct control_request *r, struct err *e);
void requests_cancel(void *requests, struct control_request *r);

/* A request without an answer. */
int requests_notify(struct requests *q, struct monitor_request *message, const int *fds, size_t n,
                    struct err *e);

/* Before the loop runs: sends a request that is answered with a descriptor, and waits for it until
 * the deadline. */
int requests_await(struct requests *q, enum monitor_kind kind, int *ret, struct err *e);

#endif
