/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/wake.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

enum { THREADS = 4, POSTS = 20000 };

static struct loop loop;
static struct err e;

struct counter {
    struct loop_wake wake;
    int called;
    long plain;       /* guarded by the lock */
    atomic_long sent; /* what the callback has to find */
    long seen;
};

static struct counter counter;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void record(struct loop_wake *s)
{
    struct counter *c = container_of(s, struct counter, wake);

    c->called++;
    c->seen = atomic_load(&c->sent);
}

TEST(posts_before_the_callback_are_one)
{
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_wake_start(&loop, &counter.wake, record, &e), e);
    CHECK_INT(loop_wake_start(&loop, &counter.wake, record, &e), -ERR_CONFLICT);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    for (int i = 0; i < 3; i++)
        loop_wake_post(&counter.wake);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(counter.called, 1);
    loop_wake_post(&counter.wake);
    loop_wake_stop(&counter.wake);
    loop_wake_stop(&counter.wake);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    loop_done(&loop);
}

static void *post_many(void *arg)
{
    struct counter *c = arg;

    for (int i = 0; i < POSTS; i++) {
        pthread_mutex_lock(&lock);
        c->plain++;
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&c->sent, 1);
        loop_wake_post(&c->wake);
    }
    return NULL;
}

/* No post is lost: the callback after the last one sees everything. */
TEST(posts_from_many_threads)
{
    pthread_t threads[THREADS];

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_wake_start(&loop, &counter.wake, record, &e), e);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, post_many, &counter), 0);
    while (counter.seen < (long)THREADS * POSTS)
        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(counter.plain, (long)THREADS * POSTS);
    CHECK(counter.called >= 1 && counter.called <= THREADS * POSTS);
    loop_wake_stop(&counter.wake);
    loop_done(&loop);
}

static void *write_and_post(void *arg)
{
    struct counter *c = arg;

    c->plain = 42; /* no lock: the post itself orders it before the callback */
    loop_wake_post(&c->wake);
    return NULL;
}

TEST(a_sleeping_loop_wakes_up)
{
    pthread_t thread;

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_wake_start(&loop, &counter.wake, record, &e), e);
    CHECK_INT(pthread_create(&thread, NULL, write_and_post, &counter), 0);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(counter.plain, 42);
    pthread_join(thread, NULL);
    loop_wake_stop(&counter.wake);
    loop_done(&loop);
}
