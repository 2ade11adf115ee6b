/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups of a prepared sandbox.
 *
 * It was built before its owner was known, in a group that all prepared sandboxes share. The
 * launcher sends descriptors of the owner's groups on a socket that only PID 1 has; PID 1 moves
 * itself into them, and with it everything that it starts later. A sandbox without an owner ends
 * when it can get none: its launcher is gone, or the connection is over on which the owner would
 * be announced. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/ipc/groups.h"

enum { GROUPS_WAIT_MS = 60000 }; /* the launcher may be building other sandboxes */

static bool pending, entered;

void groups_keep(bool prepared)
{
    pending = prepared;
    if (prepared)
        fcntl(INIT_GROUPS, F_SETFD, FD_CLOEXEC);
}

bool groups_pending(void)
{
    return pending;
}

/* The cgroup namespace was made in the former group. Each start gets a new one whose root is the
 * sandbox's own group, because PID 1 may not make one for itself. */
int groups_clone_flags(void)
{
    return entered ? CLONE_NEWCGROUP : 0;
}

/* Takes the counters from the end of the list; the letters in the message give their order. */
static void take_counters(const char *word, struct ipc_fds *fds)
{
    const char *letters = strchr(word, ' ');

    if (letters && fds->n && strchr(letters, IPC_GROUPS_CPU))
        usage_watch(take_fd(&fds->fd[--fds->n]));
    if (letters && fds->n && strchr(letters, IPC_GROUPS_KILLS))
        oom_watch(take_fd(&fds->fd[--fds->n]));
}

/* A launcher that hangs may keep its end of the socket open for as long as it likes: the wait is
 * over when the caller is gone, too. */
static bool await_groups(int conn)
{
    struct pollfd in[] = { { .fd = INIT_GROUPS, .events = POLLIN },
                           { .fd = conn, .events = POLLRDHUP } };

    return poll(in, COUNT_OF(in), GROUPS_WAIT_MS) > 0 && in[0].revents;
}

void groups_enter(int conn)
{
    struct ipc_fds fds = { .n = 0 };
    char word[16] = "";

    if (!pending)
        return;
    if (!await_groups(conn) || ipc_recv(INIT_GROUPS, word, sizeof word - 1, &fds, NULL) <= 0)
        _exit(125);
    take_counters(word, &fds);
    for (size_t i = 0; i < fds.n; i++)
        if (write(fds.fd[i], "0", 1) != 1)
            _exit(125);
    entered = fds.n > 0; /* a plain user may have no groups at all */
    ipc_fds_done(&fds);
    close(INIT_GROUPS);
    pending = false;
}
