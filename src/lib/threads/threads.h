/* SPDX-License-Identifier: Apache-2.0 */
/* A few threads for what blocks: SQLite, fsync, getaddrinfo.
 *
 * A job is a member of the object that owns it, zeroed at first. `run` is called on a thread of the
 * pool and works on what the owner put beside the job; `done` is called once, from the loop, never
 * from inside thread_submit() or thread_cancel(). From submit to done, the job and what `run` works
 * on belong to the pool:
 *
 *     struct lookup {
 *         struct thread_job job;
 *         char host[256];
 *         struct addrinfo *found;
 *     };
 *
 *     r = thread_submit(pool, &x->job, NULL, run_lookup, lookup_done, e);
 *
 * All functions belong to the loop's thread; `run` calls none of them. Threads have all signals
 * blocked. */
#ifndef LIB_THREADS_THREADS_H
#define LIB_THREADS_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "lib/loop/list.h"
#include "lib/loop/wake.h"

enum { THREAD_THREADS_MAX = 16 };

enum work_end {
    THREAD_RAN,
    THREAD_CANCELLED, /* run was not called and will not be */
};

struct thread_job;
typedef void thread_run_fn(struct thread_job *j);
typedef void thread_done_fn(struct thread_job *j, enum work_end end);

/* Jobs of one lane run one at a time, in the order they were submitted, on any free thread, as
 * SQLite's single writer requires. Their done callbacks come in the same order, but the next job
 * may run before the done callback of its predecessor. Zeroed at first; must outlive its jobs. */
struct thread_lane {
    struct list behind_; /* jobs that wait for one before them in this lane */
    bool busy_;          /* one of its jobs is queued or running */
};

enum thread_state_ { THREAD_BEHIND_, THREAD_QUEUED_, THREAD_RUNNING_, THREAD_ENDED_ };

struct thread_job {
    struct thread_pool *pool_; /* NULL unless submitted; loop's thread only */
    struct thread_lane *lane_;
    thread_run_fn *run_;
    thread_done_fn *done_;
    enum thread_state_ state_;
    enum work_end end_;
    struct link link_;
};

struct thread_pool {
    struct loop_wake wake_;
    bool closing_;
    unsigned thread_count_;
    pthread_t threads_[THREAD_THREADS_MAX];

    pthread_mutex_t lock_; /* over everything below, lanes, and jobs that are submitted */
    pthread_cond_t some_;  /* the queue has a job, or quit_ is set */
    struct list queue_;    /* jobs any thread may take */
    struct list ended_;    /* jobs whose done is to be called */
    size_t waiting_, max_; /* jobs queued or behind in their lane, and how many may be */
    bool quit_;
};

/* Starts `threads` threads (1 to THREAD_THREADS_MAX). At most max_waiting jobs wait for one. The
 * pool must not be moved after this. */
int thread_pool_init(struct thread_pool *w, struct loop *l, unsigned threads, size_t max_waiting,
                     struct err *e);

/* Ends the pool at once: jobs that wait are cancelled, those that run are waited for (this blocks),
 * every done that is left is called from here. Not from inside a done. */
void thread_pool_done(struct thread_pool *w);

/* lane may be NULL. -ERR_BUSY if too many wait, -ERR_CONFLICT if the job is under way or the pool
 * is closing; done is not called then. From done on, the job may be submitted again or freed. */
int thread_submit(struct thread_pool *w, struct thread_job *j, struct thread_lane *lane,
                  thread_run_fn *run, thread_done_fn *done, struct err *e);

/* Cancels a job that has not started: true if it will not run; its done callback receives
 * THREAD_CANCELLED. False if it runs, ran, or is not submitted. */
bool thread_cancel(struct thread_job *j);

#endif
