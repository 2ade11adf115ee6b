/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "lib/proc/sys.h"

enum { CGROUP_TEXT_MAX = 4096 };

static int read_listener(const struct daemon_address *at, struct ucred *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    socklen_t n = sizeof *ret;
    int r = contact_connect(at, &fd, e);

    if (r < 0)
        return r;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &n) < 0)
        return err_sys(e, "finding the process that listens on %s", at->path);
    return 0;
}

int daemon_process_find(const struct daemon_address *at, struct daemon_process *ret, struct err *e)
{
    AUTO_CLOSE int pidfd = -1;
    struct ucred first, again;
    int r = read_listener(at, &first, e);

    if (r < 0)
        return r;
    pidfd = first.pid > 0 ? sys_pidfd_open(first.pid) : -1;
    if (pidfd < 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "the process that listens on %s is not visible from here (another "
                       "container?)",
                       at->path);
    r = read_listener(at, &again, e); /* its number was not reused before it was opened */
    if (r < 0)
        return r;
    if (again.pid != first.pid)
        return err_set(e, ERR_BUSY, "another daemon listens on %s meanwhile; try again", at->path);
    *ret = (struct daemon_process){ first.pid, first.uid, take_fd(&pidfd) };
    return 0;
}

void daemon_process_done(struct daemon_process *p)
{
    drop_fd(&p->pidfd);
}

int daemon_process_signal(const struct daemon_process *p, int sig, struct err *e)
{
    if (sys_pidfd_send_signal(p->pidfd, sig) == 0 || errno == ESRCH)
        return 0;
    if (errno == EPERM)
        return err_set(e, ERR_DENIED,
                       "the daemon (process %d) belongs to user %u: only that user and root can "
                       "end it",
                       (int)p->pid, p->uid);
    return err_sys(e, "sending a signal to the daemon (process %d)", (int)p->pid);
}

int daemon_process_await_end(const struct daemon_process *p, int64_t deadline, struct err *e)
{
    struct pollfd end = { .fd = p->pidfd, .events = POLLIN };
    int n;

    do
        n = poll(&end, 1, clock_poll_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "waiting for the daemon (process %d)", (int)p->pid);
    return n ? 0
             : err_set(e, ERR_TIMEOUT, "the daemon (process %d) does not end; --force kills it",
                       (int)p->pid);
}

/* The last part of a line "0::/…/user@1000.service/app.slice/sandboxerd.service". */
static bool read_unit_line(struct str line, char *out, size_t cap, bool *ret_user)
{
    struct str rest = line, part = { NULL, 0 };
    bool user = false;

    while (rest.p) {
        rest = str_cut(rest, '/', &part);
        if (rest.p)
            user |= str_starts(part, STR("user@"));
    }
    if (!str_ends(part, STR(".service")) || str_starts(part, STR("user@")))
        return false;
    *ret_user = user;
    return str_copy(part, out, cap);
}

bool daemon_process_unit(pid_t pid, char *out, size_t cap, bool *ret_user)
{
    char path[64], text[CGROUP_TEXT_MAX];
    struct str rest, line;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    {
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

        n = fd < 0 ? -1 : read(fd, text, sizeof text);
    }
    rest = (struct str){ n > 0 ? text : NULL, n > 0 ? (size_t)n : 0 };
    while (rest.p) {
        rest = str_cut(rest, '\n', &line);
        if ((str_starts(line, STR("0::")) || memmem(line.p, line.n, ":name=systemd:", 14)) &&
            read_unit_line(line, out, cap, ret_user))
            return true;
    }
    return false;
}
