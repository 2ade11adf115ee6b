/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <ctype.h>
#include <poll.h>
#include <signal.h>
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

void terminal_resize(int master)
{
    struct winsize size;

    if (read_size(&size))
        ioctl(master, TIOCSWINSZ, &size);
}

void terminal_raw(struct terminal *t)
{
    struct termios raw;

    if (t->raw || tcgetattr(STDIN_FILENO, &t->before) < 0)
        return;
    raw = t->before;
    cfmakeraw(&raw);
    t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void terminal_restore(struct terminal *t)
{
    if (t->raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
    t->raw = false;
}

char terminal_choose(const char *question)
{
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    char answer[64];
    sigset_t none;
    ssize_t n;

    sigemptyset(&none);
    dprintf(STDERR_FILENO, "%s ", question);
    if (ppoll(&in, 1, NULL, &none) < 0)
        return 0;
    n = read(STDIN_FILENO, answer, sizeof answer);
    return n > 0 ? (char)tolower((unsigned char)answer[0]) : 0;
}

bool terminal_confirm(const char *question)
{
    dprintf(STDERR_FILENO, "%s ", question);
    return terminal_choose("[y/N]") == 'y';
}
