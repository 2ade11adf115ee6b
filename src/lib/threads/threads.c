/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/threads/threads.h"

#include <errno.h>
#include <signal.h>

#include "base/own.h"

static struct thread_job *job_of(struct link *m)
{
    return m ? container_of(m, struct thread_job, link_) : NULL;
}

/* Functions named *_locked want the lock held. */

static void enqueue_locked(struct thread_pool *w, struct thread_job *j)
{
    j->state_ = THREAD_QUEUED_;
    list_append(&w->queue_, &j->link_);
    pthread_cond_signal(&w->some_);
}

/* The job has left its list; its done callback is due. */
static void end_locked(struct thread_pool *w, struct thread_job *j, enum work_end end)
{
    bool first = !list_first(&w->ended_);
    bool head = j->state_ != THREAD_BEHIND_;
    struct thread_job *next;

    j->state_ = THREAD_ENDED_;
    j->end_ = end;
    list_append(&w->ended_, &j->link_);
    if (first)
        loop_wake_post(&w->wake_);
    if (j->lane_ && head) { /* the next of its lane may be taken */
        next = job_of(list_take(&j->lane_->behind_));
        j->lane_->busy_ = next != NULL;
        if (next)
            enqueue_locked(w, next);
    }
}

/* Each cancelled head brings the next job of its lane into the queue, so this reaches them all but
 * those behind a running one. */
static void drop_queue_locked(struct thread_pool *w)
{
    for (struct thread_job *j; (j = job_of(list_take(&w->queue_)));) {
        w->waiting_--;
        end_locked(w, j, THREAD_CANCELLED);
    }
}

/* The next job to run; NULL when the thread is to end. */
static struct thread_job *take_locked(struct thread_pool *w)
{
    struct thread_job *j;

    while (!list_first(&w->queue_) && !w->quit_)
        pthread_cond_wait(&w->some_, &w->lock_);
    j = job_of(list_take(&w->queue_));
    if (!j)
        return NULL;
    w->waiting_--;
    j->state_ = THREAD_RUNNING_;
    return j;
}

static void *run_thread(void *arg)
{
    struct thread_pool *w = arg;

    pthread_mutex_lock(&w->lock_);
    for (struct thread_job *j; (j = take_locked(w));) {
        pthread_mutex_unlock(&w->lock_);
        j->run_(j);
        pthread_mutex_lock(&w->lock_);
        end_locked(w, j, THREAD_RAN);
        if (w->quit_)
            drop_queue_locked(w);
    }
    pthread_mutex_unlock(&w->lock_);
    return NULL;
}

/* Calls the dones of the jobs that have ended by now; of those that end meanwhile, the next
 * time. */
static void deliver_ended(struct thread_pool *w)
{
    struct list batch = { 0 };

    pthread_mutex_lock(&w->lock_);
    list_move(&w->ended_, &batch);
    pthread_mutex_unlock(&w->lock_);
    for (struct thread_job *j; (j = job_of(list_take(&batch)));) {
        j->pool_ = NULL; /* from here on it is the owner's */
        j->done_(j, j->end_);
    }
}

static void on_wake(struct loop_wake *s)
{
    deliver_ended(container_of(s, struct thread_pool, wake_));
}

static int start_thread(struct thread_pool *w, struct err *e)
{
    sigset_t all, old;
    int r;

    sigfillset(&all);
    sigdelset(&all, SIGSYS); /* of a refused system call: meant for the thread that made it */
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the loop's, and masks are inherited */
    r = pthread_create(&w->threads_[w->thread_count_], NULL, run_thread, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0) {
        errno = r;
        return err_sys(e, "starting a thread of the work pool");
    }
    w->thread_count_++;
    return 0;
}

int thread_pool_init(struct thread_pool *w, struct loop *l, unsigned threads, size_t max_waiting,
                     struct err *e)
{
    int r;

    if (threads < 1 || threads > THREAD_THREADS_MAX || max_waiting < 1)
        return err_set(e, ERR_INVALID, "a work pool has 1 to %d threads and room for a job",
                       THREAD_THREADS_MAX);
    *w = (struct thread_pool){ 0 };
    r = loop_wake_start(l, &w->wake_, on_wake, e);
    if (r < 0)
        return r;
    w->max_ = max_waiting;
    pthread_mutex_init(&w->lock_, NULL);
    pthread_cond_init(&w->some_, NULL);
    while (r >= 0 && w->thread_count_ < threads)
        r = start_thread(w, e);
    if (r < 0)
        thread_pool_done(w);
    return r;
}

void thread_pool_done(struct thread_pool *w)
{
    if (!w || !w->max_)
        return;
    w->closing_ = true;
    pthread_mutex_lock(&w->lock_);
    w->quit_ = true;
    drop_queue_locked(w);
    pthread_cond_broadcast(&w->some_);
    pthread_mutex_unlock(&w->lock_);
    while (w->thread_count_ > 0)
        pthread_join(w->threads_[--w->thread_count_], NULL);
    deliver_ended(w);
    loop_wake_stop(&w->wake_);
    pthread_cond_destroy(&w->some_);
    pthread_mutex_destroy(&w->lock_);
    *w = (struct thread_pool){ 0 };
}

static void place_locked(struct thread_pool *w, struct thread_job *j)
{
    w->waiting_++;
    if (j->lane_ && j->lane_->busy_) {
        j->state_ = THREAD_BEHIND_;
        list_append(&j->lane_->behind_, &j->link_);
        return;
    }
    if (j->lane_)
        j->lane_->busy_ = true;
    enqueue_locked(w, j);
}

int thread_submit(struct thread_pool *w, struct thread_job *j, struct thread_lane *lane,
                  thread_run_fn *run, thread_done_fn *done, struct err *e)
{
    bool room;

    if (j->pool_)
        return err_set(e, ERR_CONFLICT, "the job is already submitted");
    if (w->closing_)
        return err_set(e, ERR_CONFLICT, "the work pool is closing");
    *j = (struct thread_job){ .pool_ = w, .lane_ = lane, .run_ = run, .done_ = done };
    pthread_mutex_lock(&w->lock_);
    room = w->waiting_ < w->max_;
    if (room)
        place_locked(w, j);
    pthread_mutex_unlock(&w->lock_);
    if (!room) {
        *j = (struct thread_job){ 0 };
        return err_set(e, ERR_BUSY, "%zu jobs wait for a thread, the maximum; try again later",
                       (size_t)w->max_);
    }
    return 0;
}

bool thread_cancel(struct thread_job *j)
{
    struct thread_pool *w = j->pool_;
    bool waits;

    if (!w)
        return false;
    pthread_mutex_lock(&w->lock_);
    waits = j->state_ == THREAD_QUEUED_ || j->state_ == THREAD_BEHIND_;
    if (waits) {
        link_leave(&j->link_);
        w->waiting_--;
        end_locked(w, j, THREAD_CANCELLED);
    }
    pthread_mutex_unlock(&w->lock_);
    return waits;
}
