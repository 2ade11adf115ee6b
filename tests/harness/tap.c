/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SKIP = 77, TEST_SECONDS = 120 };

static struct tap_test *tests_;
static int result_fd_ = -1; /* the child's one line for its parent */

void tap_register(struct tap_test *t)
{
    struct tap_test **at = &tests_;

    while (*at)
        at = &(*at)->next;
    *at = t;
}

static void __attribute__((format(printf, 1, 0))) report(const char *fmt, va_list ap)
{
    if (vdprintf(result_fd_, fmt, ap) < 0)
        _exit(99);
}

void tap_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    dprintf(result_fd_, "%s:%d: ", file, line);
    va_start(ap, fmt);
    report(fmt, ap);
    va_end(ap);
    fflush(NULL);
    _exit(1);
}

void tap_skip(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    report(fmt, ap);
    va_end(ap);
    fflush(NULL);
    _exit(EXIT_SKIP);
}

static void run_child(const struct tap_test *t, int fd)
{
    result_fd_ = fd;
    setpgid(0, 0);
    alarm(TEST_SECONDS);
    t->run();
    exit(0); /* not _exit: the leak checker reports at exit */
}

static bool run_one(const struct tap_test *t, int number)
{
    char line[1024] = "";
    size_t n = 0;
    int fds[2], status;
    pid_t pid;

    fflush(NULL);
    if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        perror("tap");
        exit(1);
    }
    if (pid == 0)
        run_child(t, fds[1]);
    close(fds[1]);
    for (ssize_t got;
         n + 1 < sizeof line && (got = read(fds[0], line + n, sizeof line - n - 1)) > 0;)
        n += (size_t)got;
    line[n] = '\0';
    for (char *p = line; *p; p++)
        if (*p == '\n')
            *p = ' ';
    close(fds[0]);
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL); /* whatever the test left running */

    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
        printf("ok %d - %s # SKIP %s\n", number, t->name, line);
        return true;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        printf("ok %d - %s\n", number, t->name);
        return true;
    }
    printf("not ok %d - %s\n", number, t->name);
    if (line[0])
        printf("# %s\n", line);
    if (WIFSIGNALED(status))
        printf("# killed by signal %d\n", WTERMSIG(status));
    return false;
}

static bool selected(const struct tap_test *t, int argc, char **argv)
{
    if (argc < 2)
        return true;
    for (int i = 1; i < argc; i++)
        if (str_eq(str_from(argv[i]), str_from(t->name)))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    int number = 0, failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct tap_test *t = tests_; t; t = t->next)
        if (selected(t, argc, argv) && !run_one(t, ++number))
            failed++;
    printf("1..%d\n", number);
    return failed ? 1 : 0;
}
