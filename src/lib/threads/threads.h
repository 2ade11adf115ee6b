/* A few threads for what blocks: SQLite, fsync, getaddrinfo.
 *
 * A job is a member of the object that owns it, zeroed at first. `run` is called on a thread of the
 * pool and works on what the owner put beside the job; `done` is called once, from the loop, never
 * from inside work_submit() or work_cancel(). From submit to done, the job and what `run` works on
 * belong to the pool:
 *
 *     struct lookup {
 *         struct work_job job;
 *         char host[256];
 *         struct addrinfo *found;
 *     };
 *
 *     r = work_submit(pool, &x->job, NULL, run_lookup, lookup_done, e);
 *
 * All functions belong to the loop's thread; `run` calls none of them. Threads have all signals
 * blocked. */
#ifndef WORK_WORK_H
#define WORK_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "loop/list.h"
#include "loop/wake.h"

enum { WORK_THREADS_MAX = 16 };

enum work_end {
    WORK_RAN,
    WORK_CANCELLED, /* run was not called and will not be */
};

struct work_job;
typedef void work_run_fn(struct work_job *j);
typedef void work_done_fn(struct work_job *j, enum work_end end);

/* Jobs of one lane run one at a time, in the order they were submitted, on whatever thread is free:
 * what SQLite's single writer needs. The dones of those that ran come in that order too, but the
 * next job may run before the done of the one before. Zeroed at first; must outlive its jobs. */
struct work_lane {
    struct list behind_; /* jobs that wait for one before them in this lane */
    bool busy_;          /* one of its jobs is queued or running */
};

enum work_state_ { WORK_BEHIND_, WORK_QUEUED_, WORK_RUNNING_, WORK_ENDED_ };

struct work_job {
    struct work_pool *pool_; /* NULL unless submitted; loop's thread only */
    struct work_lane *lane_;
    work_run_fn *run_;
    work_done_fn *done_;
    enum work_state_ state_;
    enum work_end end_;
    struct link link_;
};

struct work_pool;
typedef void work_closed_fn(struct work_pool *w);

struct work_pool {
    struct loop_wake wake_;
    size_t open_; /* jobs whose done was not called */
    bool closing_;
    work_closed_fn *closed_;
    unsigned thread_count_;
    pthread_t threads_[WORK_THREADS_MAX];

    pthread_mutex_t lock_; /* over everything below, lanes, and jobs that are submitted */
    pthread_cond_t some_;  /* the queue has a job, or quit_ is set */
    struct list queue_;    /* jobs any thread may take */
    struct list ended_;    /* jobs whose done is to be called */
    size_t waiting_, max_; /* jobs queued or behind in their lane, and how many may be */
    bool dropping_, quit_;
};

/* Starts `threads` threads (1 to WORK_THREADS_MAX). At most max_waiting jobs wait for one. The pool
 * must not be moved after this. */
int work_pool_init(struct work_pool *w, struct loop *l, unsigned threads, size_t max_waiting,
                   struct err *e);

/* Ends the pool at once: jobs that wait are cancelled, those that run are waited for (this blocks),
 * every done that is left is called from here, a `closed` that is still due is not. For an end that
 * does not block the loop, close first. Not from inside a done. */
void work_pool_done(struct work_pool *w);

enum work_close { WORK_DRAIN, WORK_DROP };

/* Ends the pool in order: no new jobs; jobs that wait are run (WORK_DRAIN) or cancelled
 * (WORK_DROP). `closed` is called from the loop after the last done, and may call work_pool_done(),
 * which then does not block. -ERR_CONFLICT if the pool is closing already. */
int work_pool_close(struct work_pool *w, enum work_close how, work_closed_fn *closed,
                    struct err *e);

/* lane may be NULL. -ERR_BUSY if too many wait, -ERR_CONFLICT if the job is under way or the pool
 * is closing; done is not called then. From done on, the job may be submitted again or freed. */
int work_submit(struct work_pool *w, struct work_job *j, struct work_lane *lane, work_run_fn *run,
                work_done_fn *done, struct err *e);

/* Keeps a job from running: true if that was still possible; its done tells WORK_CANCELLED. False
 * if it runs, ran, or is not submitted. */
bool work_cancel(struct work_job *j);

#endif
