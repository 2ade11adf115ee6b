/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

/* Runs a shell script with these descriptors: its exit status, and what it wrote to descriptor 1 if
 * that is our pipe. */
static int run(const char *script, const int *fds, int n, char *envp[])
{
    char shell[] = "/bin/sh", option[] = "-c", text[512];
    char *argv[] = { shell, option, text, NULL }, *none[] = { NULL };
    struct spawn s = {
        .path = shell, .argv = argv, .envp = envp ? envp : none, .fds = fds, .n_fds = n
    };
    int status;
    struct err e;
    pid_t pid;

    CHECK(snprintf(text, sizeof text, "%s", script) < (int)sizeof text);
    CHECK_OK(spawn_start(&s, &pid, &e), e);
    CHECK_OK(spawn_wait(pid, &status, &e), e);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct str said(int fd)
{
    static char text[4096];
    ssize_t n = read(fd, text, sizeof text);

    return (struct str){ text, n < 0 ? 0 : (size_t)n };
}

TEST(exit_status_and_environment)
{
    char variable[] = "X=5";
    char *envp[] = { variable, NULL };

    CHECK_INT(run("exit $X", (const int[]){ -1, -1, -1 }, 3, envp), 5);
    setenv("LEAK", "1", 1);
    CHECK_INT(run("test -z \"$LEAK\"", (const int[]){ -1, -1, -1 }, 3, NULL), 0);
}

/* Neither ours that close on exec, nor those that do not. */
TEST(descriptors_are_exactly_those_named)
{
    int out[2], leak = open("/dev/null", O_RDONLY);

    CHECK(leak >= 0 && fcntl(leak, F_DUPFD, 200) >= 0 && pipe2(out, O_CLOEXEC) == 0);
    CHECK_INT(run("i=0; while [ $i -lt 300 ]; do [ -e /proc/$$/fd/$i ] && printf '%d ' $i; "
                  "i=$((i+1)); done; :",
                  (const int[]){ -1, out[1], -1, leak, leak }, 5, NULL),
              0);
    CHECK_STR(said(out[0]), "0 1 2 3 4 ");
}

/* Each in the other's place: none may be overwritten before it was copied. */
TEST(descriptors_may_change_places)
{
    int a[2], b[2], low[2];

    CHECK(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0);
    low[0] = dup2(a[1], 3);
    low[1] = dup2(b[1], 4);
    CHECK_INT(
        run("echo three >&3; echo four >&4", (const int[]){ -1, -1, -1, low[1], low[0] }, 5, NULL),
        0);
    close(a[1]);
    close(b[1]);
    CHECK_STR(said(b[0]), "three\n");
    CHECK_STR(said(a[0]), "four\n");
}

TEST(no_descriptor_at_all_and_too_many)
{
    char path[] = "/bin/true";
    char *argv[] = { path, NULL }, *envp[] = { NULL };
    int fds[SPAWN_FDS_MAX + 1] = { 0 };
    struct spawn s = { .path = path, .argv = argv, .envp = envp, .fds = fds };
    struct err e;
    pid_t pid = 77;
    int status;

    s.n_fds = SPAWN_FDS_MAX + 1;
    CHECK_INT(spawn_start(&s, &pid, &e), -ERR_BUG);
    CHECK_INT(pid, 77);
    s.n_fds = 0;
    CHECK_OK(spawn_start(&s, &pid, &e), e);
    CHECK_OK(spawn_wait(pid, &status, &e), e);
}

TEST(what_cannot_be_executed_is_an_error_here)
{
    static const struct {
        const char *path;
        int sys;
    } cases[] = { { "/no/such/program", ENOENT }, { "/etc/passwd", EACCES }, { "/tmp", EACCES } };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char name[] = "x", *argv[] = { name, NULL }, *envp[] = { NULL };
        struct spawn s = { .path = cases[i].path,
                           .argv = argv,
                           .envp = envp,
                           .fds = (const int[]){ -1, -1, -1 },
                           .n_fds = 3 };
        struct err e;
        pid_t pid = 77;

        CHECK_INT(spawn_start(&s, &pid, &e), -ERR_SYS);
        CHECK_INT(e.sys, cases[i].sys);
        CHECK(strstr(e.msg, cases[i].path));
        CHECK_INT(pid, 77);
        CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* no child of it is left */
    }
}

TEST(signals_are_as_they_were_born)
{
    sigset_t all, now, before;
    int out[2];

    CHECK(pipe2(out, O_CLOEXEC) == 0);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    CHECK_INT(
        run("grep -E '^Sig(Blk|Ign)' /proc/self/status", (const int[]){ -1, out[1], -1 }, 3, NULL),
        0);
    CHECK_STR(said(out[0]), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    sigprocmask(SIG_SETMASK, NULL, &now); /* and ours are as they were */
    CHECK(sigismember(&now, SIGTERM) && sigismember(&now, SIGUSR2));
    CHECK(signal(SIGTERM, SIG_DFL) == SIG_IGN);
}

TEST(waiting_for_nobody)
{
    struct err e;
    int status;

    CHECK_INT(spawn_wait(999999999, &status, &e), -ERR_SYS);
    CHECK_INT(e.sys, ECHILD);
}

TEST(programs_are_found_beside_us)
{
    char self[PATH_MAX], found[PATH_MAX], small[8];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *name;
    struct err e;

    CHECK(n > 0);
    self[n] = '\0';
    name = strrchr(self, '/') + 1;
    CHECK_OK(spawn_find(name, found, sizeof found, &e), e);
    CHECK_STR(str_from(found), self);
    CHECK_INT(spawn_find("sandboxer-no-such-program", found, sizeof found, &e), -ERR_NOT_FOUND);
    CHECK(strstr(e.msg, "sandboxer-no-such-program"));
    CHECK_INT(spawn_find(name, small, sizeof small, &e), -ERR_NOT_FOUND);
}
