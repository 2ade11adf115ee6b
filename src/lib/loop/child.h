/* The end of a child process, by pidfd. The source waits for (reaps) the child and calls once; it
 * is stopped before its callback is called. The pidfd stays the caller's and must outlive the
 * source.
 */
#ifndef LOOP_CHILD_H
#define LOOP_CHILD_H

#include <signal.h>

#include "loop/fd.h"

struct loop_child;

/* info is what waitid() tells: si_code is CLD_EXITED and si_status the exit code, or CLD_KILLED or
 * CLD_DUMPED and the signal. si_code is 0 if the process is gone but was not ours to wait for:
 * somebody else's child, or already reaped. */
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
