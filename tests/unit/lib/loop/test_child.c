/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/child.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static struct loop loop;
static struct err e;

struct process {
    struct loop_child child;
    pid_t pid;
    int pidfd;
    int called;
    siginfo_t info;
};

/* A child that ends as soon as its standard input does, with the code given. */
static struct process spawn(int code, int *ret_input)
{
    struct process p = { 0 };
    int fds[2];
    char c;

    CHECK_INT(pipe(fds), 0);
    p.pid = fork();
    CHECK(p.pid >= 0);
    if (p.pid == 0) {
        close(fds[1]);
        _exit(read(fds[0], &c, 1) == 0 ? code : 99);
    }
    close(fds[0]);
    p.pidfd = (int)syscall(SYS_pidfd_open, p.pid, 0);
    if (p.pidfd < 0 && errno == ENOSYS)
        SKIP("no pidfd_open() here (valgrind does not know it)");
    CHECK(p.pidfd >= 0);
    *ret_input = fds[1];
    return p;
}

static void record(struct loop_child *s, const siginfo_t *info)
{
    struct process *p = container_of(s, struct process, child);

    p->called++;
    p->info = *info;
}

static void watch(struct process *p)
{
    CHECK_OK(loop_child_start(&loop, &p->child, p->pidfd, record, &e), e);
}

TEST(exit_code)
{
    int input;
    struct process p = spawn(7, &input);

    CHECK_OK(loop_init(&loop, &e), e);
    watch(&p);
    CHECK_INT(loop_child_start(&loop, &p.child, p.pidfd, record, &e), -ERR_CONFLICT);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    close(input);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(p.info.si_code, CLD_EXITED);
    CHECK_INT(p.info.si_status, 7);
    CHECK_INT(p.info.si_pid, p.pid);
    CHECK_INT(waitpid(p.pid, NULL, 0), -1); /* it was reaped */
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(p.called, 1);
    close(p.pidfd);
    loop_done(&loop);
}

TEST(killed)
{
    int input;
    struct process p = spawn(0, &input);

    CHECK_OK(loop_init(&loop, &e), e);
    watch(&p);
    CHECK_INT(kill(p.pid, SIGKILL), 0);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(p.info.si_code, CLD_KILLED);
    CHECK_INT(p.info.si_status, SIGKILL);
    close(input);
    close(p.pidfd);
    loop_done(&loop);
}

TEST(reaped_by_somebody_else)
{
    int input;
    struct process p = spawn(3, &input);

    CHECK_OK(loop_init(&loop, &e), e);
    watch(&p);
    close(input);
    CHECK_INT(waitpid(p.pid, NULL, 0), p.pid);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(p.called, 1);
    CHECK_INT(p.info.si_code, 0);
    close(p.pidfd);
    loop_done(&loop);
}

TEST(stopping_does_not_reap)
{
    int input, status;
    struct process p = spawn(5, &input);

    CHECK_OK(loop_init(&loop, &e), e);
    loop_child_stop(&p.child);
    watch(&p);
    loop_child_stop(&p.child);
    loop_child_stop(&p.child);
    close(input);
    CHECK_INT(waitpid(p.pid, &status, 0), p.pid);
    CHECK_INT(WEXITSTATUS(status), 5);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(p.called, 0);
    close(p.pidfd);
    loop_done(&loop);
}

TEST(many_at_once)
{
    enum { MANY = 50 };
    static struct process p[MANY];
    static int inputs[MANY];
    int called = 0;

    CHECK_OK(loop_init(&loop, &e), e);
    for (int i = 0; i < MANY; i++) {
        p[i] = spawn(i, &inputs[i]);
        watch(&p[i]);
    }
    for (int i = MANY - 1; i >= 0; i--) /* later children hold copies of earlier inputs */
        close(inputs[i]);
    while (called < MANY) {
        int r = loop_run_once(&loop, -1, &e);

        CHECK_OK(r, e);
        called += r;
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(p[i].called, 1);
        CHECK_INT(p[i].info.si_status, i);
        close(p[i].pidfd);
    }
    loop_done(&loop);
}
