/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/companion.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "lib/proc/sys.h"

/* Of a process that ends again and again; one that lived for LONG_NS is new. */
#define FIRST_PAUSE_NS (100 * NS_PER_MS)
#define LONG_NS        (60 * NS_PER_S)
enum { MOST_DOUBLINGS = 5 };

/* Returns the pause. */
static int64_t plan_restart(struct companion *c)
{
    int64_t now = clock_mono(), pause;

    c->ends = now - c->started < LONG_NS ? c->ends + 1 : 1;
    pause = c->ends < 2
                ? 0
                : FIRST_PAUSE_NS << (c->ends - 2 < MOST_DOUBLINGS ? c->ends - 2 : MOST_DOUBLINGS);
    c->pid = 0;
    c->due = now + pause;
    return pause;
}

void companion_start(struct companion *c)
{
    struct err e;
    pid_t pid;

    if (!c->fork)
        return;
    c->started = clock_mono();
    c->due = 0;
    pid = c->fork(c->owner, &e);
    if (pid >= 0) {
        c->pid = pid;
        return;
    }
    LOG(WARN, c->failed_event, LOG_S("reason", e.msg));
    plan_restart(c);
}

void companion_ended(struct companion *c, pid_t pid, int status)
{
    int64_t pause;

    if (!c->pid || pid != c->pid)
        return;
    pause = plan_restart(c);
    LOG(WARN, c->ended_event,
        LOG_I("status", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)),
        LOG_I("pause_ms", pause / NS_PER_MS));
}

int64_t companion_restart(struct companion *c)
{
    if (c->due && c->due <= clock_mono())
        companion_start(c);
    return c->due;
}

void companion_stop(struct companion *c)
{
    /* If it died, the monitor has collected it. */
    if (c->pid && waitpid(c->pid, NULL, WNOHANG) == 0 && kill(c->pid, SIGKILL) == 0)
        waitpid(c->pid, NULL, 0);
    *c = (struct companion){ .pid = 0 };
}

/* The lowest of `keep` that is at least `from`; -1: none. */
static int next_kept(const int *keep, size_t n, int from)
{
    int next = -1;

    for (size_t i = 0; i < n; i++)
        if (keep[i] >= from && (next < 0 || keep[i] < next))
            next = keep[i];
    return next;
}

void companion_enter(pid_t parent, const int *keep, size_t n)
{
    int from = STDERR_FILENO + 1;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(1);
    for (int kept; (kept = next_kept(keep, n, from)) >= 0; from = kept + 1)
        if (kept > from)
            sys_close_range((unsigned)from, (unsigned)kept - 1);
    sys_close_range((unsigned)from, ~0u);
}
