/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/nested.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/tap.h"

static struct err e;

TEST(a_process_has_a_pid_in_each_namespace)
{
    CHECK_INT(nested_parse(STR("Name:\tsh\nPid:\t7\nNSpid:\t7\nNSpgid:\t7\t1\n"), &e), 0);
    CHECK_INT(nested_parse(STR("Name:\tsh\nNSpid:\t7\t1\nx:\t1\n"), &e), 1);
    CHECK_INT(nested_parse(STR("NSpid:\t70\t7\t1"), &e), 1);
    CHECK_INT(nested_parse(STR("NSpid:\t7"), &e), 0);
}

TEST(without_the_line_it_is_not_known)
{
    CHECK(nested_parse(STR(""), &e) < 0);
    CHECK(nested_parse(STR("Name:\tNSpid:\t7\t1\nPid:\t7\n"), &e) < 0);
    CHECK(nested_check(INT32_MAX, &e) < 0);
}

/* Returns the exit status: 0 if the check told the truth, 77 without a namespace. The test's own process stays out of it:
 * LeakSanitizer could start no thread there. */
static int check_a_process_below(void)
{
    int told;
    pid_t pid;

    if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        return 77;
    pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    told = pid > 0 ? nested_check(pid, &e) : -1;
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return told == 1 ? 0 : 1;
}

TEST(of_processes_that_run)
{
    int status;
    pid_t pid;

    CHECK_INT(nested_check(getpid(), &e), 0);
    pid = fork();
    if (pid == 0)
        _exit(check_a_process_below());
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        SKIP("this user cannot make a pid namespace");
    CHECK_INT(WEXITSTATUS(status), 0);
}
