/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/signal.h"

#include <signal.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static struct loop loop;
static struct err e;

struct watcher {
    struct loop_signal signal;
    int called;
    pid_t from;
    struct watcher *other;
};

static void record(struct loop_signal *s, const struct signalfd_siginfo *info)
{
    struct watcher *w = container_of(s, struct watcher, signal);

    CHECK_INT(info->ssi_signo, s->signo);
    w->called++;
    w->from = (pid_t)info->ssi_pid;
}

static bool is_blocked(int signo)
{
    sigset_t now;

    CHECK_INT(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
    return sigismember(&now, signo);
}

TEST(a_signal_is_told)
{
    struct watcher w = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_signal_start(&loop, &w.signal, SIGTERM, record, &e), e);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(kill(getpid(), SIGTERM), 0);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(w.called, 1);
    CHECK_INT(w.from, getpid());
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    loop_signal_stop(&w.signal);
    loop_done(&loop);
}

TEST(the_mask_is_put_back)
{
    struct watcher a = { 0 }, b = { 0 };
    sigset_t usr2;

    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_signal_start(&loop, &a.signal, SIGUSR1, record, &e), e);
    CHECK_OK(loop_signal_start(&loop, &b.signal, SIGUSR2, record, &e), e);
    CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
    loop_signal_stop(&a.signal);
    loop_signal_stop(&b.signal);
    loop_signal_stop(&b.signal);
    CHECK(!is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
    loop_done(&loop);
}

TEST(one_source_a_signal)
{
    struct watcher a = { 0 }, b = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_signal_start(&loop, &a.signal, SIGUSR1, record, &e), e);
    CHECK_INT(loop_signal_start(&loop, &a.signal, SIGUSR2, record, &e), -ERR_CONFLICT);
    CHECK_INT(loop_signal_start(&loop, &b.signal, SIGUSR1, record, &e), -ERR_CONFLICT);
    loop_signal_stop(&b.signal);
    CHECK(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
    loop_signal_stop(&a.signal);
    CHECK_OK(loop_signal_start(&loop, &b.signal, SIGUSR1, record, &e), e);
    loop_signal_stop(&b.signal);
    loop_done(&loop);
}

TEST(not_every_number_is_a_signal)
{
    static const int bad[] = { 0, -1, SIGKILL, SIGSTOP, 32, 65, 1000 };
    struct watcher w = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(loop_signal_start(&loop, &w.signal, bad[i], record, &e), -ERR_INVALID);
    CHECK_OK(loop_signal_start(&loop, &w.signal, SIGRTMIN, record, &e), e);
    CHECK_INT(kill(getpid(), SIGRTMIN), 0);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    loop_signal_stop(&w.signal);
    loop_done(&loop);
}

static void stop_both(struct loop_signal *s, const struct signalfd_siginfo *info)
{
    struct watcher *w = container_of(s, struct watcher, signal);

    record(s, info);
    signal(w->other->signal.signo, SIG_IGN); /* or it would end us, now that it is ours no more */
    loop_signal_stop(&w->other->signal);
    loop_signal_stop(s);
}

TEST(stopped_by_another_in_the_same_batch)
{
    struct watcher a = { 0 }, b = { 0 };

    a.other = &b;
    b.other = &a;
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_signal_start(&loop, &a.signal, SIGUSR1, stop_both, &e), e);
    CHECK_OK(loop_signal_start(&loop, &b.signal, SIGUSR2, stop_both, &e), e);
    CHECK_INT(kill(getpid(), SIGUSR1), 0);
    CHECK_INT(kill(getpid(), SIGUSR2), 0);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(a.called + b.called, 1);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    loop_done(&loop);
}
