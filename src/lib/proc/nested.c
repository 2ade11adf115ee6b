/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/nested.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

enum { STATUS_MAX = 16 << 10 };

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
