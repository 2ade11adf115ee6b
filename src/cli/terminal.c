/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool read_size(struct winsize *ret)
{
    return ioctl(STDIN_FILENO, TIOCGWINSZ, ret) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, ret) == 0;
}

void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
    struct winsize size = { .ws_row = 24, .ws_col = 80 };

    read_size(&size);
    *ret_rows = size.ws_row;
    *ret_cols = size.ws_col;
}

unsigned terminal_columns(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

void terminal_resize(int master)
{
    struct winsize size;

    if (read_size(&size))
        ioctl(master, TIOCSWINSZ, &size);
}

static void set_terminal(struct terminal *t, void (*change)(struct termios *))
{
    struct termios changed;

    if (t->raw || tcgetattr(STDIN_FILENO, &t->before) < 0)
        return;
    changed = t->before;
    change(&changed);
    t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &changed) == 0;
}

void terminal_raw(struct terminal *t)
{
    set_terminal(t, cfmakeraw);
}

static void make_unbuffered(struct termios *t)
{
    t->c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t->c_cc[VMIN] = 1;
    t->c_cc[VTIME] = 0;
}

void terminal_keys(struct terminal *t)
{
    set_terminal(t, make_unbuffered);
}

void terminal_restore(struct terminal *t)
{
    if (t->raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
    t->raw = false;
}

bool terminal_can_draw(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) == 1 && term && term[0] && strcmp(term, "dumb") != 0;
}

static char read_choice(int in, int out, const char *question)
{
    struct pollfd p = { .fd = in, .events = POLLIN };
    char answer[64];
    sigset_t none;
    ssize_t n;

    sigemptyset(&none);
    dprintf(out, "%s ", question);
    if (ppoll(&p, 1, NULL, &none) < 0)
        return 0;
    n = read(in, answer, sizeof answer);
    return n > 0 ? (char)tolower((unsigned char)answer[0]) : 0;
}

char terminal_choose(const char *question)
{
    return read_choice(STDIN_FILENO, STDERR_FILENO, question);
}

bool terminal_confirm(const char *question)
{
    dprintf(STDERR_FILENO, "%s ", question);
    return terminal_choose("[y/N]") == 'y';
}

bool terminal_ask(int tty, const char *question)
{
    tcflush(tty, TCIFLUSH);
    dprintf(tty, "%s ", question);
    return read_choice(tty, tty, "[y/N]") == 'y';
}
