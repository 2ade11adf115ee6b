/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/signal.h"

#include <signal.h>
#include <unistd.h>

#include "base/own.h"

static uint64_t signal_bit(int signo)
{
    return UINT64_C(1) << (signo - 1);
}

static sigset_t set_of(int signo)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signo);
    return set;
}

static bool can_wait_for(int signo)
{
    sigset_t set;

    sigemptyset(&set);
    /* sigaddset() refuses numbers that are no signal, or that the C library keeps for itself. */
    return sigaddset(&set, signo) == 0 && signo != SIGKILL && signo != SIGSTOP;
}

static void unblock_signal(struct loop_signal *s)
{
    sigset_t set = set_of(s->signo);

    if (!s->was_blocked_)
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void on_signalfd_readable(struct loop_fd *fd, unsigned events)
{
    struct loop_signal *s = container_of(fd, struct loop_signal, fd_);
    struct signalfd_siginfo info;

    /* The read fails if another thread has taken the signal with sigwait() in the meantime. */
    if (read(fd->fd, &info, sizeof info) == (ssize_t)sizeof info)
        s->call_(s, &info);
}

static int open_signalfd(struct loop_signal *s, struct err *e)
{
    sigset_t set = set_of(s->signo);
    AUTO_CLOSE int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    int r;

    if (fd < 0)
        return err_sys(e, "making a descriptor for signal %d", s->signo);
    r = loop_fd_start(s->loop, &s->fd_, fd, LOOP_READ, on_signalfd_readable, e);
    if (r < 0)
        return r;
    take_fd(&fd);
    return 0;
}

int loop_signal_start(struct loop *l, struct loop_signal *s, int signo, loop_signal_fn *call,
                      struct err *e)
{
    sigset_t set, old;
    int r;

    if (!can_wait_for(signo))
        return err_set(e, ERR_INVALID, "signal %d cannot be waited for", signo);
    if (s->on_ || (l->signals_ & signal_bit(signo)))
        return err_set(e, ERR_CONFLICT, "signal %d already has a source", signo);
    *s = (struct loop_signal){ .loop = l, .signo = signo, .call_ = call };
    set = set_of(signo);
    pthread_sigmask(SIG_BLOCK, &set, &old); /* first: none may slip through before the descriptor */
    s->was_blocked_ = sigismember(&old, signo) == 1;
    r = open_signalfd(s, e);
    if (r < 0) {
        unblock_signal(s);
        return r;
    }
    l->signals_ |= signal_bit(signo);
    s->on_ = true;
    return 0;
}

void loop_signal_stop(struct loop_signal *s)
{
    if (!s->on_)
        return;
    loop_fd_stop(&s->fd_);
    drop_fd(&s->fd_.fd);
    s->loop->signals_ &= ~signal_bit(s->signo);
    s->on_ = false;
    unblock_signal(s);
}
