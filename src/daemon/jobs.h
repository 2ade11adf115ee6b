/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in progress at the monitor, each in a child process of its own.
 *
 * The monitor forks and never waits: operations that can block (execve() of a program on a slow or
 * leased file, a file of the operator on a network file system, a workspace) block in the child.
 * The child answers through a channel that execve() closes. A job whose child has not answered by
 * its deadline is killed and answered with -ERR_TIMEOUT; its slot stays taken until the child is
 * reaped, so the number of processes is bounded even if they cannot be killed. When such a child
 * is reaped, there is another answer. */
#ifndef DAEMON_JOBS_H
#define DAEMON_JOBS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/monitor_request.h"

enum { JOBS_MAX = 256 }; /* as many as may start of all kinds together: none takes another's */

/* Runs in the child. Returns the result and, in *ret_fd, a descriptor that goes with it (-1: none);
 * a job that becomes a program returns only on failure. *channel is kept open until then and may be
 * moved (lib/proc/spawn.h: spawn_exec()). */
typedef int job_fn(const void *ctx, int *channel, int *ret_fd, struct err *e);

struct job {
    uint64_t id;
    enum monitor_kind kind;
    pid_t pid;    /* 0: reaped */
    int channel;  /* -1: answered */
    bool lingers; /* it was given up, and is not reaped */
    int64_t deadline;
};

struct jobs {
    struct job job[JOBS_MAX];
    size_t n;
};

/* Called once for each job, and once more when one that lingers is reaped; the
 * descriptor stays the caller's. */
typedef void job_answer_fn(void *user, const struct job *j, int r, const struct err *e, int fd);

/* -ERR_BUSY if too many are under way, or too many of this kind. */
int jobs_start(struct jobs *all, enum monitor_kind kind, uint64_t id, job_fn *run, const void *ctx,
               pid_t *ret, struct err *e);

/* For poll(): fills `to`, which has room for JOBS_MAX, and returns how many. */
size_t jobs_poll(const struct jobs *all, struct pollfd *to);
int64_t jobs_deadline(const struct jobs *all); /* the next one; 0: none */

/* After poll(): reads results and ends jobs that are late. */
void jobs_run(struct jobs *all, job_answer_fn *answer, void *user);
/* A child was reaped: one of these or another one. */
void jobs_ended(struct jobs *all, pid_t pid, job_answer_fn *answer, void *user);

#endif
