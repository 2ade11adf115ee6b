/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/nested.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
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

/* Accepts the connection of a child that stays until `gate` is closed. */
static int accept_child(int gate[2], pid_t *ret)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), conn;
    socklen_t n = sizeof at.sun_family; /* the kernel chooses an abstract name */

    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, n) == 0);
    n = sizeof at;
    CHECK(getsockname(listener, (struct sockaddr *)&at, &n) == 0 && listen(listener, 1) == 0);
    CHECK(pipe2(gate, O_CLOEXEC) == 0);
    *ret = fork();
    if (*ret == 0) {
        char end;

        close(gate[1]);
        conn = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(conn, (struct sockaddr *)&at, n) < 0)
            _exit(1);
        _exit(read(gate[0], &end, 1) == 0 ? 0 : 1);
    }
    conn = accept(listener, NULL, NULL);
    CHECK(*ret > 0 && conn >= 0);
    close(listener);
    close(gate[0]);
    return conn;
}

/* Its number may be another process's by then: here it is that of the test. */
TEST(a_peer_that_ended_is_not_known)
{
    int gate[2], status, peer, ignored = -1;
    pid_t pid;

    peer = accept_child(gate, &pid);
    CHECK_INT(nested_check_peer(peer, pid, &e), 0);
    if (getsockopt(peer, SOL_SOCKET, 77 /* SO_PEERPIDFD */, &ignored,
                   &(socklen_t){ sizeof ignored }) < 0)
        SKIP("this kernel has no SO_PEERPIDFD");
    close(ignored);
    close(gate[1]);
    while (waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    CHECK(nested_check_peer(peer, getpid(), &e) < 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(nested_check_peer(peer, getpid(), &e) < 0);
    close(peer);
}
