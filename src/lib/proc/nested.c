/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/nested.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

enum {
    STATUS_MAX = 16 << 10,
    PEER_PIDFD = 77, /* SO_PEERPIDFD: newer than Debian 12's headers */
};

int nested_parse(struct str status, struct err *e)
{
    static const struct str title = STR("NSpid:\t");
    struct str rest = status, line;

    while (rest.p) {
        rest = str_cut(rest, '\n', &line);
        if (str_starts(line, title))
            return memchr(line.p + title.n, '\t', line.n - title.n) != NULL;
    }
    return err_set(e, ERR_UNSUPPORTED, "the kernel does not list the pids of a process (NSpid)");
}

int nested_check(pid_t pid, struct err *e)
{
    char path[40], text[STATUS_MAX];
    AUTO_CLOSE int fd = -1;
    ssize_t n, all = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    while (all < STATUS_MAX && (n = read(fd, text + all, (size_t)(STATUS_MAX - all))) != 0) {
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading %s", path);
        all += n > 0 ? n : 0;
    }
    return nested_parse((struct str){ text, (size_t)all }, e);
}

/* A process that runs afterwards had its number all the time. */
int nested_check_peer(int sock, pid_t pid, struct err *e)
{
    AUTO_CLOSE int process = -1;
    socklen_t n = sizeof process;
    bool known = getsockopt(sock, SOL_SOCKET, PEER_PIDFD, &process, &n) == 0;
    struct pollfd ended = { .events = POLLIN };
    int r;

    if (!known && errno != ENOPROTOOPT)
        return err_set(e, ERR_DENIED, "the process that connected has ended");
    r = nested_check(pid, e);
    if (r < 0 || !known)
        return r;
    ended.fd = process;
    return poll(&ended, 1, 0) == 0
               ? r
               : err_set(e, ERR_DENIED, "the process that connected, %d, has ended", (int)pid);
}
