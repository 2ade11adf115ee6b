/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault_point.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

/* How a child ends that visits "a" three times and "b" three times in turn: the signal that killed
 * it, or 0. It exits with how many visits it survived. */
static int end_of(const char *wish, int *ret_visits)
{
    int status;
    pid_t pid;

    CHECK(setenv("SANDBOXER_DIE_AT", wish, 1) == 0);
    CHECK((pid = fork()) >= 0);
    if (pid == 0) {
        close(STDERR_FILENO); /* an unreadable wish is said there */
        for (int i = 0; i < 6; i++)
            fault_point(i % 2 ? "b" : "a");
        _exit(6);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    *ret_visits = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(a_process_dies_where_it_is_told)
{
    int visits;

    if (!SANDBOXER_TEST_HOOKS)
        SKIP("built without test hooks");
    CHECK_INT(end_of("a:3", &visits), SIGKILL);
    CHECK_INT(end_of("c:1,b:2", &visits), SIGKILL);
    CHECK_INT(end_of("a:4,b:4,ab:1", &visits), 0);
    CHECK_INT(visits, 6);
    CHECK_INT(end_of("", &visits), 0);
    CHECK_INT(visits, 6);
}

TEST(an_unreadable_wish_is_no_success)
{
    static const char *const wishes[] = { "a", "a:", "a:0", "a:x", "a:1,b" };
    int visits;

    if (!SANDBOXER_TEST_HOOKS)
        SKIP("built without test hooks");
    for (size_t i = 0; i < COUNT_OF(wishes); i++)
        CHECK_INT(end_of(wishes[i], &visits), SIGABRT);
}
