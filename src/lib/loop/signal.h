/* SPDX-License-Identifier: Apache-2.0 */
/* A signal to the process, read from a descriptor instead of interrupting the program.
 *
 * While the source is started the signal is blocked in the loop's thread, so threads must be made
 * with all signals blocked (work does), and a child that is to be exec'ed must reset its mask. One
 * source a signal: a second is refused with -ERR_CONFLICT, since they would steal from each other.
 * Several sendings before the callback may arrive as one. */
#ifndef LIB_LOOP_SIGNAL_H
#define LIB_LOOP_SIGNAL_H

#include <sys/signalfd.h>

#include "lib/loop/fd.h"

struct loop_signal;
typedef void loop_signal_fn(struct loop_signal *s, const struct signalfd_siginfo *info);

struct loop_signal {
    struct loop *loop;
    int signo;
    struct loop_fd fd_;
    bool on_, was_blocked_;
    loop_signal_fn *call_;
};

int loop_signal_start(struct loop *l, struct loop_signal *s, int signo, loop_signal_fn *call,
                      struct err *e);

/* The signal's mask becomes what it was before the start: one that is pending then takes its usual
 * effect. */
void loop_signal_stop(struct loop_signal *s);

#endif
