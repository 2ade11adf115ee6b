/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a daemon that the command line started on demand, when nothing needs it:
 *
 * - after idle_exit without a sandbox, a connection, a request, a call that waits for approval, and
 *   a job on layers, images or the store. Prepared sandboxes of pools do not count;
 * - as soon as its state directory was removed: its sandboxes are destroyed first.
 *
 * Times of retention do not count either: the next start deletes what is due before it serves. A
 * daemon with TCP listeners or a hub does not end, because its clients could not start it. */
#ifndef DAEMON_IDLE_EXIT_H
#define DAEMON_IDLE_EXIT_H

#include "control/control.h"
#include "edge/api.h"
#include "lib/loop/timer.h"

struct idle_exit {
    struct loop *loop;
    struct control *control;
    struct api *api;
    int state;        /* a directory below the state directory; borrowed */
    int64_t after_ns; /* 0: it does not end while the state directory exists */
    void (*on_refuse)(struct idle_exit *i); /* new connections must be refused from now on */
    void (*on_end)(struct idle_exit *i);

    struct loop_timer timer_;
    int64_t since_;      /* clock_mono() of the first check that found nothing; 0: it is in use */
    int64_t gone_;       /* the same for the state directory */
    uint64_t requests_;  /* seen at the last check */
    int64_t refused_at_; /* clock_mono(); 0: not yet */
};

void idle_exit_watch(struct idle_exit *i);
void idle_exit_stop(struct idle_exit *i);

#endif
