/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/tap.h"

/* A terminal in the place of stderr: its other side. */
static int terminal(void)
{
    int outer = posix_openpt(O_RDWR | O_NOCTTY), inner;

    CHECK(outer >= 0 && grantpt(outer) == 0 && unlockpt(outer) == 0);
    inner = open(ptsname(outer), O_RDWR | O_NOCTTY);
    CHECK(inner >= 0 && dup2(inner, STDERR_FILENO) == STDERR_FILENO);
    return outer;
}

static void wait_ms(int64_t ms)
{
    int64_t end = clock_mono() + ms * NS_PER_MS;

    while (clock_mono() < end)
        poll(NULL, 0, 10);
}

/* Waits until something was drawn, and returns all of it. */
static const char *drawn(int outer)
{
    static char text[4096];
    struct pollfd in = { .fd = outer, .events = POLLIN };
    ssize_t n;

    while (poll(&in, 1, 10000) < 0)
        ;
    n = read(outer, text, sizeof text - 1);
    CHECK(n > 0);
    text[n] = '\0';
    return text;
}

TEST(what_is_waited_for_is_shown)
{
    int outer = terminal();
    const char *text;

    CHECK(progress_is_shown());
    progress_begin("creating");
    text = drawn(outer);
    CHECK(strstr(text, "creating… "));
    progress_news(STR("workspace"), 2048 << 10, 0);
    progress_moved(1 << 10);
    text = drawn(outer);
    if (!strstr(text, "creating: workspace… ") || !strstr(text, "s, 2049 KiB"))
        FAIL("'%s'", text);
    progress_end();
    CHECK(strcmp(drawn(outer), "\r\033[K") == 0);
}

TEST(what_is_no_word_is_not_shown)
{
    static const char *const bad[] = { "a\033[2J", "UPPER", "a\nb", "\xc3\xa4",
                                       "a step that has more letters than any" };
    int outer = terminal();

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *text;

        progress_begin("creating");
        progress_news(str_from(bad[i]), 0, 0);
        text = drawn(outer);
        if (!strstr(text, "creating… "))
            FAIL("'%s'", text);
        progress_end();
        drawn(outer);
    }
}

TEST(what_is_quick_or_not_looked_at_is_not_shown)
{
    struct pollfd in = { .fd = terminal(), .events = POLLIN };
    int fds[2];

    progress_begin("creating");
    progress_end();
    wait_ms(400);
    CHECK_INT(poll(&in, 1, 0), 0);
    CHECK(pipe(fds) == 0 && dup2(fds[1], STDERR_FILENO) == STDERR_FILENO);
    CHECK(!progress_is_shown());
    progress_begin("creating");
    progress_news(STR("workspace"), 0, 0);
    wait_ms(400);
    in.fd = fds[0];
    CHECK_INT(poll(&in, 1, 0), 0);
    progress_end();
}

static void expect_lines(int in, const char *want)
{
    char text[1024];
    ssize_t n;

    dprintf(STDERR_FILENO, ".");
    n = read(in, text, sizeof text - 1);
    CHECK(n > 0 && text[n - 1] == '.');
    text[n - 1] = '\0';
    CHECK_STR(str_from(text), want);
}

TEST(where_there_is_no_terminal_a_few_lines_say_it)
{
    int ends[2];

    CHECK_INT(pipe(ends), 0);
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    progress_news(STR("fetch"), 0, 0); /* nobody asked for lines */
    expect_lines(ends[0], "");
    progress_lines("pulling");
    progress_news(STR("manifest"), 0, 0);
    progress_news(STR("manifest"), 5, 0);
    expect_lines(ends[0], "sandboxer: pulling: manifest\n");
    for (uint64_t i = 0; i <= 1000; i++)
        progress_news(STR("fetch"), i << 10, 1000 << 10);
    expect_lines(ends[0], "sandboxer: pulling: fetch, 0 of 1000 KiB\n"
                          "sandboxer: pulling: fetch, 250 of 1000 KiB\n"
                          "sandboxer: pulling: fetch, 500 of 1000 KiB\n"
                          "sandboxer: pulling: fetch, 750 of 1000 KiB\n"
                          "sandboxer: pulling: fetch, 1000 of 1000 KiB\n");
    progress_news(STR("\033[2Jhostile"), 0, 0);
    progress_news(STR("a step that is longer than there is room for one"), 0, 0);
    expect_lines(ends[0], "");
    progress_end();
    progress_news(STR("unpack"), 0, 0);
    expect_lines(ends[0], "");
}
