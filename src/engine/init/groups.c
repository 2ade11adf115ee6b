/* The control groups of a prepared sandbox.
 *
 * It was built before its owner was known, in a group that all prepared sandboxes share. The
 * launcher sends descriptors of the owner's groups on a socket that only PID 1 has; PID 1 moves
 * itself into them, and with it everything that it starts later. A sandbox without an owner whose
 * launcher is gone can get none: it ends. */
#include "init/init.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "ipc/groups.h"

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

/* The namespace of control groups was made where PID 1 was before. Each start gets one whose root
 * is the sandbox's own group: PID 1 has no call to make one for itself. */
int groups_clone_flags(void)
{
    return entered ? CLONE_NEWCGROUP : 0;
}

/* The last one counts OOM kills, if the word says so. */
static void take_counter(const char *word, struct ipc_fds *fds)
{
    if (fds->n && strcmp(word, IPC_GROUPS_AND_KILLS) == 0)
        oom_watch(take_fd(&fds->fd[--fds->n]));
}

static bool enter_all(const struct ipc_fds *fds)
{
    for (size_t i = 0; i < fds->n; i++)
        if (write(fds->fd[i], "0", 1) != 1)
            return false;
    return true;
}

void groups_enter(void)
{
    struct pollfd in = { .fd = INIT_GROUPS, .events = POLLIN };
    struct ipc_fds fds = { .n = 0 };
    char word[16] = "";

    if (!pending)
        return;
    if (poll(&in, 1, GROUPS_WAIT_MS) != 1 ||
        ipc_recv(INIT_GROUPS, word, sizeof word - 1, &fds, NULL) <= 0)
        _exit(125);
    take_counter(word, &fds);
    if (!enter_all(&fds))
        _exit(125);
    entered = fds.n > 0; /* a plain user may have no groups at all */
    ipc_fds_done(&fds);
    close(INIT_GROUPS);
    pending = false;
}
