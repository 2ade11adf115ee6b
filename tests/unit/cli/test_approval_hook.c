/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/approval_hook.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

static struct err e;
static const struct json call = { .type = JSON_STR, .s = { "a'; exit 9; '", 13 } };

/* Waits for the end of the command, not for a time. */
static int wait_for_hook(struct approval_hook *h)
{
    siginfo_t info;

    CHECK_INT(waitid(P_PID, (id_t)h->pid, &info, WEXITED | WNOWAIT), 0);
    return approval_hook_check(h, &e);
}

TEST(a_command_gets_the_call_on_stdin)
{
    struct approval_hook h = { .command = "test \"$(cat)\" = '\"a'\\''; exit 9; '\\''\"'" };

    CHECK(approval_hook_is_free(&h));
    CHECK_OK(approval_hook_start(&h, &call, &e), e);
    CHECK(!approval_hook_is_free(&h));
    CHECK_OK(wait_for_hook(&h), e);
    CHECK(approval_hook_is_free(&h));
}

TEST(without_a_command_nothing_is_free)
{
    struct approval_hook h = { .command = NULL };

    CHECK(!approval_hook_is_free(&h));
    CHECK_INT(approval_hook_check(&h, &e), 0);
    approval_hook_done(&h);
}

TEST(failures_are_reported)
{
    struct approval_hook h = { .command = "exit 3" };

    CHECK_OK(approval_hook_start(&h, &call, &e), e);
    CHECK_INT(wait_for_hook(&h), -ERR_UPSTREAM);
    CHECK(strstr(e.msg, "ended with 3"));
    h.command = "kill -TERM $$";
    CHECK_OK(approval_hook_start(&h, &call, &e), e);
    CHECK_INT(wait_for_hook(&h), -ERR_UPSTREAM);
    CHECK(strstr(e.msg, "signal 15"));
}

TEST(a_command_whose_time_is_over_is_killed)
{
    struct approval_hook h = { .command = "exec sleep 1000" };

    CHECK_OK(approval_hook_start(&h, &call, &e), e);
    CHECK_INT(approval_hook_check(&h, &e), 0); /* it runs */
    CHECK(h.pid);
    h.deadline = clock_mono();
    CHECK_INT(approval_hook_check(&h, &e), -ERR_UPSTREAM);
    CHECK(strstr(e.msg, "killed after"));
    CHECK(approval_hook_is_free(&h));
    CHECK_OK(approval_hook_start(&h, &call, &e), e);
    approval_hook_done(&h);
    CHECK(!h.pid);
}
