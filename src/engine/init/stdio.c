/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/own.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

static int make_terminal(const struct control_start *s, int *ret_master, int inner[3],
                         struct err *e)
{
    AUTO_CLOSE int master = openat(AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct winsize size = { .ws_row = s->rows, .ws_col = s->cols };
    int unlock = 0;

    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return err_sys(e, "creating a terminal");
    if (s->rows && s->cols && ioctl(master, TIOCSWINSZ, &size) < 0)
        return err_sys(e, "setting the terminal's size");
    inner[0] = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (inner[0] < 0)
        return err_sys(e, "opening the terminal");
    inner[1] = inner[2] = inner[0];
    *ret_master = take_fd(&master);
    return 0;
}

/* stream 0 is read by the child; 1 and 2 are written. */
static int make_stdio_pipe(int stream, int *outer, int *inner, struct err *e)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, "creating a pipe");
    *inner = stream == 0 ? ends[0] : ends[1];
    *outer = stream == 0 ? ends[1] : ends[0];
    return 0;
}

int stdio_make(const struct control_start *s, int outer[INIT_STDIO_MAX], int *ret_n, int inner[3],
               struct err *e)
{
    int n = 0;

    if (s->flags & START_TTY) {
        *ret_n = 1;
        return make_terminal(s, &outer[0], inner, e);
    }
    for (int stream = 0; stream < 3; stream++) {
        int r;

        if (stream == 0 && !(s->flags & START_STDIN)) {
            inner[0] = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
            r = inner[0] < 0 ? err_sys(e, "opening /dev/null") : 0;
        } else {
            r = make_stdio_pipe(stream, &outer[n], &inner[stream], e);
            n++;
        }
        if (r < 0)
            return r;
    }
    *ret_n = n;
    return 0;
}

int stdio_arrange(const struct control_start *s, int inner[3], struct err *e)
{
    if (setsid() < 0 && errno != EPERM)
        return err_sys(e, "creating a session");
    if ((s->flags & START_TTY) && ioctl(inner[0], TIOCSCTTY, 0) < 0)
        return err_sys(e, "making the terminal the controlling one");
    for (int i = 0; i < 3; i++)
        if (dup2(inner[i], i) < 0)
            return err_sys(e, "duplicating stdin, stdout and stderr");
    return 0;
}
