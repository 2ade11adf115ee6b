/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/verb.h"

enum { FIRST_MS = 300, AGAIN_MS = 500, LINE = 160, STEP = 32, BAR = 20 };

/* Used where stderr is not a terminal. */
static struct {
    const char *what; /* NULL: nothing is printed */
    char step[STEP];
    unsigned quarter; /* of the step: printed so far */
} lines;

static struct {
    char what[LINE / 2];
    char step[STEP];
    int64_t began;
    volatile uint64_t bytes, total;
    volatile sig_atomic_t drawn;
    bool on;
} line;

/* For the signal's handler, where printf() may not be used. */
static size_t append_line_text(char *out, size_t at, const char *text)
{
    for (; *text && at < LINE - 1; text++)
        out[at++] = *text;
    return at;
}

static size_t append_line_number(char *out, size_t at, uint64_t value)
{
    char digits[20];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n && at < LINE - 1)
        out[at++] = digits[--n];
    return at;
}

/* The done part, where the total is known. */
static size_t add_bar(char *out, size_t at)
{
    uint64_t total = line.total, done = line.bytes < total ? line.bytes : total;
    unsigned full = total ? (unsigned)((double)done * BAR / (double)total) : 0;

    if (!total)
        return at;
    at = append_line_text(out, at, " [");
    for (unsigned i = 0; i < BAR; i++)
        at = append_line_text(out, at, i < full ? "=" : " ");
    return append_line_text(out, at, "]");
}

static void draw_progress_line(int sig)
{
    char text[LINE];
    size_t at = append_line_text(text, 0, "\r\033[K");
    int saved = errno;

    at = append_line_text(text, at, line.what);
    if (line.step[0]) {
        at = append_line_text(text, at, ": ");
        at = append_line_text(text, at, line.step);
    }
    at = append_line_text(text, at, "… ");
    at = append_line_number(text, at, (uint64_t)((clock_mono() - line.began) / NS_PER_S));
    at = append_line_text(text, at, "s");
    if (line.bytes) {
        at = append_line_text(text, at, ", ");
        at = append_line_number(text, at, line.bytes >> 10);
        if (line.total > line.bytes) {
            at = append_line_text(text, at, " of ");
            at = append_line_number(text, at, line.total >> 10);
        }
        at = append_line_text(text, at, " KiB");
        at = add_bar(text, at);
    }
    if (write(STDERR_FILENO, text, at) > 0)
        line.drawn = 1;
    errno = saved;
}

static void set_redraw_timer(int first_ms, int again_ms)
{
    struct itimerval t = { .it_value = { .tv_usec = first_ms * 1000 },
                           .it_interval = { .tv_usec = again_ms * 1000 } };

    setitimer(ITIMER_REAL, &t, NULL);
}

bool progress_is_shown(void)
{
    return isatty(STDERR_FILENO) == 1;
}

void progress_begin(const char *what)
{
    struct sigaction action = { .sa_handler = draw_progress_line, .sa_flags = SA_RESTART };

    if (line.on || !progress_is_shown())
        return;
    line.on = true;
    line.bytes = line.total = 0;
    line.step[0] = '\0';
    line.drawn = 0;
    line.began = clock_mono();
    memset(line.what, 0, sizeof line.what);
    memcpy(line.what, what, strnlen(what, sizeof line.what - 1));
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    set_redraw_timer(FIRST_MS, AGAIN_MS);
}

static bool is_step_name(struct str s)
{
    size_t i = 0;

    while (i < s.n && ((s.p[i] >= 'a' && s.p[i] <= 'z') || s.p[i] == '-' || s.p[i] == ' '))
        i++;
    return i == s.n;
}

void progress_moved(uint64_t bytes)
{
    line.bytes += bytes;
}

void progress_lines(const char *what)
{
    if (progress_is_shown())
        return;
    lines.what = what;
    lines.step[0] = '\0';
    lines.quarter = 0;
}

static void print_progress_news(struct str step, uint64_t bytes, uint64_t total)
{
    unsigned quarter = total ? (unsigned)((double)bytes * 4 / (double)total) : 0;
    bool same = str_eq(step, str_from(lines.step));

    if (!lines.what || !is_step_name(step) || (same && quarter <= lines.quarter) ||
        !str_copy(step, lines.step, sizeof lines.step))
        return;
    lines.quarter = quarter;
    if (total)
        cli_report("%s: %s, %llu of %llu KiB", lines.what, lines.step,
                   (unsigned long long)(bytes >> 10), (unsigned long long)(total >> 10));
    else
        cli_report("%s: %s", lines.what, lines.step);
}

/* The signal is blocked: the handler must not see a partial update. */
void progress_news(struct str step, uint64_t bytes, uint64_t total)
{
    sigset_t alarm, before;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, &before);
    if (!is_step_name(step) || !str_copy(step, line.step, sizeof line.step))
        line.step[0] = '\0';
    if (bytes)
        line.bytes = bytes;
    line.total = total;
    sigprocmask(SIG_SETMASK, &before, NULL);
    print_progress_news(step, bytes, total);
}

void progress_end(void)
{
    lines.what = NULL;
    if (!line.on)
        return;
    set_redraw_timer(0, 0);
    signal(SIGALRM, SIG_IGN); /* one may be pending */
    line.on = false;
    if (line.drawn && write(STDERR_FILENO, "\r\033[K", 4) < 0)
        line.drawn = 0;
}
