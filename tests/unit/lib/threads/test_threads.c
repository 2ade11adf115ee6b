/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/threads/threads.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

enum { MANY = 2000 };

static struct loop loop;
static struct thread_pool pool;
static struct err e;

struct task {
    struct thread_job job;
    int ran, finished;
    enum work_end end;
    int turn; /* of its run, counted over all */
    pthread_t thread;
};

static struct task tasks[MANY];
static atomic_int turns;
static int finished, in_order[MANY];

/* Runs until the test lets go, so that others can be kept waiting behind it. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_int at_gate;

static void run(struct thread_job *j)
{
    struct task *t = container_of(j, struct task, job);

    t->ran++;
    t->thread = pthread_self();
    t->turn = atomic_fetch_add(&turns, 1);
}

static void run_at_gate(struct thread_job *j)
{
    run(j);
    atomic_fetch_add(&at_gate, 1);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void done(struct thread_job *j, enum work_end end)
{
    struct task *t = container_of(j, struct task, job);

    CHECK_INT(t->ran, end == THREAD_RAN);
    CHECK_INT(t->finished, 0);
    t->finished++;
    t->end = end;
    in_order[finished++] = (int)(t - tasks);
}

/* From 0 to below n, the same sequence in every run: a failure can be repeated. */
static int pick(int n)
{
    static uint32_t state = 1;

    state = state * 1664525 + 1013904223;
    return (int)((state >> 8) % (uint32_t)n);
}

static void start(unsigned threads, size_t max)
{
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(thread_pool_init(&pool, &loop, threads, max, &e), e);
}

static void finish(void)
{
    thread_pool_done(&pool);
    loop_done(&loop);
}

static int submit_to(int i, struct thread_lane *lane, thread_run_fn *call)
{
    return thread_submit(&pool, &tasks[i].job, lane, call, done, &e);
}

static void submit(int i)
{
    CHECK_OK(submit_to(i, NULL, run), e);
}

/* Occupies one thread until open_gate(). */
static void close_gate(int i, struct thread_lane *lane)
{
    pthread_mutex_lock(&gate);
    CHECK_OK(submit_to(i, lane, run_at_gate), e);
    while (!atomic_load(&at_gate))
        usleep(100);
}

static void open_gate(void)
{
    pthread_mutex_unlock(&gate);
}

static void wait_for(int n)
{
    while (finished < n)
        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(finished, n);
}

TEST(run_on_a_thread_done_on_the_loop)
{
    start(2, 10);
    submit(0);
    CHECK_INT(finished, 0);
    wait_for(1);
    CHECK_INT(tasks[0].end, THREAD_RAN);
    CHECK(!pthread_equal(tasks[0].thread, pthread_self()));
    finish();
}

TEST(a_pool_has_limits)
{
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_INT(thread_pool_init(&pool, &loop, 0, 1, &e), -ERR_INVALID);
    CHECK_INT(thread_pool_init(&pool, &loop, THREAD_THREADS_MAX + 1, 1, &e), -ERR_INVALID);
    CHECK_INT(thread_pool_init(&pool, &loop, 1, 0, &e), -ERR_INVALID);
    thread_pool_done(&pool);
    thread_pool_done(NULL);
    CHECK_OK(thread_pool_init(&pool, &loop, THREAD_THREADS_MAX, 1, &e), e);
    thread_pool_done(&pool);
    thread_pool_done(&pool);
    loop_done(&loop);
}

TEST(threads_take_no_signals)
{
    sigset_t mask;

    signal(SIGUSR1, SIG_DFL);
    start(4, 10);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    CHECK_INT(kill(getpid(), SIGUSR1), 0); /* any thread that took it would end us */
    submit(0);
    wait_for(1);
    finish();
}

TEST(full)
{
    start(1, 3);
    close_gate(0, NULL);
    for (int i = 1; i <= 3; i++)
        submit(i);
    CHECK_INT(submit_to(4, NULL, run), -ERR_BUSY);
    CHECK_INT(submit_to(4, NULL, run), -ERR_BUSY);
    open_gate();
    wait_for(4);
    CHECK_INT(tasks[4].finished, 0);
    submit(4);
    wait_for(5);
    finish();
}

TEST(lanes_count_as_waiting)
{
    struct thread_lane lane = { 0 };

    start(2, 2);
    close_gate(0, &lane);
    CHECK_OK(submit_to(1, &lane, run), e);
    CHECK_OK(submit_to(2, &lane, run), e);
    CHECK_INT(submit_to(3, NULL, run), -ERR_BUSY);
    CHECK(thread_cancel(&tasks[1].job));
    CHECK_OK(submit_to(3, NULL, run), e);
    open_gate();
    wait_for(4);
    finish();
}

TEST(a_job_under_way_cannot_be_submitted)
{
    start(1, 10);
    close_gate(0, NULL);
    submit(1);
    CHECK_INT(submit_to(0, NULL, run), -ERR_CONFLICT);
    CHECK_INT(submit_to(1, NULL, run), -ERR_CONFLICT);
    open_gate();
    wait_for(2);
    finish();
}

TEST(cancelled_before_it_runs)
{
    start(1, 10);
    CHECK(!thread_cancel(&tasks[1].job)); /* never submitted */
    close_gate(0, NULL);
    submit(1);
    submit(2);
    CHECK(!thread_cancel(&tasks[0].job)); /* it runs */
    CHECK(thread_cancel(&tasks[1].job));
    CHECK(!thread_cancel(&tasks[1].job));
    CHECK_INT(finished, 0);
    while (!finished)
        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    CHECK_INT(in_order[0], 1);
    CHECK_INT(tasks[1].end, THREAD_CANCELLED);
    open_gate();
    wait_for(3);
    CHECK_INT(tasks[2].end, THREAD_RAN);
    CHECK(!thread_cancel(&tasks[2].job));
    finish();
}

static atomic_int in_lane;

static void run_alone(struct thread_job *j)
{
    CHECK_INT(atomic_fetch_add(&in_lane, 1), 0);
    run(j);
    atomic_fetch_sub(&in_lane, 1);
}

TEST(a_lane_runs_in_order_one_at_a_time)
{
    struct thread_lane lane = { 0 };

    start(4, MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_OK(submit_to(i, i % 4 ? &lane : NULL, i % 4 ? run_alone : run), e);
    wait_for(MANY);
    for (int i = 0, last = -1; i < MANY; i++) {
        if (i % 4 == 0)
            continue;
        CHECK(tasks[i].turn > last);
        last = tasks[i].turn;
    }
    for (int i = 0, last = -1; i < MANY; i++) {
        if (in_order[i] % 4 == 0)
            continue;
        CHECK(in_order[i] > last);
        last = in_order[i];
    }
    finish();
}

TEST(a_blocked_lane_blocks_nobody_else)
{
    struct thread_lane blocked = { 0 }, other = { 0 };

    start(2, 100);
    close_gate(0, &blocked);
    for (int i = 1; i < 10; i++)
        CHECK_OK(submit_to(i, &blocked, run), e);
    for (int i = 10; i < 20; i++)
        CHECK_OK(submit_to(i, &other, run), e);
    while (finished < 10)
        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    for (int i = 0; i < 10; i++)
        CHECK_INT(in_order[i], 10 + i);
    open_gate();
    wait_for(20);
    finish();
}

TEST(cancelling_within_a_lane_keeps_it_going)
{
    struct thread_lane lane = { 0 };

    start(1, 10);
    close_gate(0, NULL);
    for (int i = 1; i <= 4; i++)
        CHECK_OK(submit_to(i, &lane, run), e);
    CHECK(thread_cancel(&tasks[1].job)); /* its head */
    CHECK(thread_cancel(&tasks[3].job)); /* its middle */
    open_gate();
    wait_for(5);
    CHECK(!tasks[1].ran && tasks[2].ran && !tasks[3].ran && tasks[4].ran);
    CHECK(tasks[2].turn < tasks[4].turn);
    CHECK(!lane.busy_);
    finish();
}

static void submit_again(struct thread_job *j, enum work_end end)
{
    struct task *t = container_of(j, struct task, job);

    CHECK_INT(end, THREAD_RAN);
    if (++t->finished < 100)
        CHECK_OK(thread_submit(&pool, j, NULL, run, submit_again, &e), e);
    else
        loop_stop(&loop);
}

TEST(done_may_submit_again)
{
    start(2, 10);
    CHECK_OK(thread_submit(&pool, &tasks[0].job, NULL, run, submit_again, &e), e);
    CHECK_OK(loop_run(&loop, &e), e);
    CHECK_INT(tasks[0].ran, 100);
    finish();
}

static void free_task(struct thread_job *j, enum work_end end)
{
    free(container_of(j, struct task, job));
    finished++;
}

TEST(done_may_free_the_job)
{
    start(4, MANY);
    for (int i = 0; i < MANY; i++) {
        struct task *t = calloc(1, sizeof *t);

        CHECK(t);
        CHECK_OK(thread_submit(&pool, &t->job, NULL, run, free_task, &e), e);
    }
    while (finished < MANY / 2)
        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    finish();
    CHECK_INT(finished, MANY);
}

static void submit_in_vain(struct thread_job *j, enum work_end end)
{
    done(j, end);
    CHECK_INT(submit_to(5, NULL, run), -ERR_CONFLICT);
}

/* The end that does not wait for the loop: the same promises. */
TEST(done_with_jobs_of_every_kind)
{
    struct thread_lane lane = { 0 };

    start(1, 100);
    close_gate(0, &lane);
    CHECK_OK(submit_to(1, &lane, run), e);
    submit(2);
    submit(3);
    CHECK(thread_cancel(&tasks[3].job));
    CHECK_OK(thread_submit(&pool, &tasks[4].job, NULL, run, submit_in_vain, &e), e);
    open_gate();
    thread_pool_done(&pool);
    for (int i = 0; i < 5; i++)
        CHECK_INT(tasks[i].finished, 1);
    CHECK_INT(tasks[5].finished, 0);
    loop_done(&loop);
}

/* Submitting, cancelling and running race; every done comes exactly once. */
TEST(under_load)
{
    static struct thread_lane lanes[8];
    int submitted = 0, cancelled = 0, ran = 0;

    start(4, 64);
    while (submitted < MANY) {
        int r = submit_to(submitted, pick(2) ? &lanes[pick(8)] : NULL, run);

        if (r >= 0)
            submitted++;
        else
            CHECK_INT(r, -ERR_BUSY);
        if (submitted && pick(3) == 0)
            cancelled += thread_cancel(&tasks[pick(submitted)].job);
        if (r < 0)
            CHECK_OK(loop_run_once(&loop, NS_PER_MS, &e), e);
    }
    wait_for(MANY);
    for (int i = 0; i < MANY; i++)
        ran += tasks[i].end == THREAD_RAN;
    CHECK_INT(ran + cancelled, MANY);
    CHECK_INT(atomic_load(&turns), ran);
    finish();
}
