/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/own.h"

enum { CHANGES_MAX = 4 << 20 };

/* Alternate screen, without a cursor, and without wrapping: a line that is too wide cannot move others. */
#define ENTER STR("\033[?1049h\033[?25l\033[?7l")
#define LEAVE STR("\033[?7h\033[?25h\033[?1049l")

static const int handled[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };

/* A terminal that is gone cannot be written to, and that is no news: the hangup ends us. */
static void write_terminal(struct str s)
{
    while (s.n) {
        ssize_t n = write(STDOUT_FILENO, s.p, s.n);

        if (n < 0 && errno != EINTR)
            return;
        if (n > 0)
            s = (struct str){ s.p + n, s.n - (size_t)n };
    }
}

bool screen_available(void)
{
    return isatty(STDIN_FILENO) == 1 && terminal_can_draw(STDOUT_FILENO);
}

static void enter_screen(struct screen *s)
{
    terminal_raw(&s->terminal);
    write_terminal(ENTER);
    s->open = s->all = true;
}

static void leave_screen(struct screen *s)
{
    if (!s->open)
        return;
    s->open = false;
    write_terminal(LEAVE);
    terminal_restore(&s->terminal);
}

int screen_open(struct screen *s, struct err *e)
{
    sigset_t mask;

    *s = (struct screen){ .signals = -1 };
    sigemptyset(&mask);
    for (size_t i = 0; i < COUNT_OF(handled); i++)
        sigaddset(&mask, handled[i]);
    sigprocmask(SIG_BLOCK, &mask, &s->before);
    s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0)
        return err_sys(e, "receiving signals");
    frame_init(&s->shown, 0, 0);
    enter_screen(s);
    return 0;
}

void screen_close(struct screen *s)
{
    leave_screen(s);
    drop_fd(&s->signals);
    frame_done(&s->shown);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

void screen_stop(struct screen *s)
{
    leave_screen(s);
    kill(getpid(), SIGSTOP); /* returns once we are continued */
    enter_screen(s);
}

static void end_by_signal(struct screen *s, int number)
{
    signal(number, SIG_DFL);
    screen_close(s);
    raise(number);
}

bool screen_signal(struct screen *s)
{
    struct signalfd_siginfo info;

    if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return false;
    switch (info.ssi_signo) {
    case SIGTSTP:
        screen_stop(s);
        return true;
    case SIGCONT: /* another process may have used the terminal */
        leave_screen(s);
        enter_screen(s);
        return true;
    case SIGWINCH:
        return true;
    default:
        end_by_signal(s, (int)info.ssi_signo);
        return false;
    }
}

void screen_draw(struct screen *s, struct frame *f)
{
    AUTO(buf_done) struct buf out = BUF_INIT(CHANGES_MAX);

    if (frame_changes(f, &s->shown, s->all, &out) >= 0)
        write_terminal(buf_str(&out));
    s->all = false;
    frame_done(&s->shown);
    s->shown = *f;
    frame_init(f, 0, 0);
}
