/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a child process, by pidfd. The source waits for (reaps) the child and calls once; it
 * is stopped before its callback is called. The pidfd stays the caller's and must outlive the
 * source.
 */
#ifndef LIB_LOOP_CHILD_H
#define LIB_LOOP_CHILD_H

#include <signal.h>

#include "lib/loop/fd.h"

struct loop_child;

/* info is the result of waitid(): si_code is CLD_EXITED and si_status the exit code, or CLD_KILLED
 * or CLD_DUMPED and the signal. si_code is 0 if the process has ended but could not be waited for:
 * it is not our child, or was already reaped. */
typedef void loop_child_fn(struct loop_child *s, const siginfo_t *info);

struct loop_child {
    struct loop *loop;
    struct loop_fd fd_;
    loop_child_fn *call_;
};

int loop_child_start(struct loop *l, struct loop_child *s, int pidfd, loop_child_fn *call,
                     struct err *e);
void loop_child_stop(struct loop_child *s); /* does not reap */

#endif
