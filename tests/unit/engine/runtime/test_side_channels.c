/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/side_channels.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

TEST(what_the_kernel_says_of_speculation)
{
    static const struct {
        int got; /* as prctl(2) documents it */
        enum side_channel_state state;
    } cases[] = {
        { 0, SIDE_CHANNEL_NONE },       { 1 | 2, SIDE_CHANNEL_CLOSED },
        { 1 | 4, SIDE_CHANNEL_CLOSED }, { 1 | 8, SIDE_CHANNEL_CLOSED },
        { 2, SIDE_CHANNEL_OPEN },       { 4, SIDE_CHANNEL_CLOSED },
        { -22, SIDE_CHANNEL_UNKNOWN },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_INT(side_channel_of_speculation(cases[i].got), cases[i].state);
}

TEST(every_channel_can_be_probed)
{
    for (size_t i = 0; i < side_channel_count; i++)
        CHECK(side_channels[i].probe() <= SIDE_CHANNEL_UNKNOWN);
}

/* A processor with all features, or with none. The program's own function is found before the C
 * library's. */
enum { CALLS_MAX = 16, GET_SPECULATION = 52, SET_SPECULATION = 53, SCHED_CORE = 62 };

static struct {
    bool faked;
    int cores; /* the errno of PR_SCHED_CORE; 0: it works */
    struct {
        int option;
        uint32_t a, b, c;
    } calls[CALLS_MAX];
    size_t n;
} cpu;

int prctl(int option, ...)
{
    unsigned long a, b, c;
    va_list ap;

    va_start(ap, option);
    a = va_arg(ap, unsigned long);
    b = va_arg(ap, unsigned long);
    c = va_arg(ap, unsigned long);
    va_end(ap);
    if (!cpu.faked)
        return (int)syscall(SYS_prctl, option, a, b, c, 0);
    CHECK(cpu.n < CALLS_MAX);
    cpu.calls[cpu.n].option = option;
    cpu.calls[cpu.n].a = (uint32_t)a;
    cpu.calls[cpu.n].b = (uint32_t)b;
    cpu.calls[cpu.n++].c = (uint32_t)c;
    if (option == GET_SPECULATION)
        return 1 | 2; /* it can be disabled for a process */
    if (option == SCHED_CORE && cpu.cores) {
        errno = cpu.cores;
        return -1;
    }
    return 0;
}

/* The number of calls with these arguments. */
static size_t count_calls(int option, uint32_t a, uint32_t b, uint32_t c)
{
    size_t n = 0;

    for (size_t i = 0; i < cpu.n; i++)
        n += cpu.calls[i].option == option && cpu.calls[i].a == a && cpu.calls[i].b == b &&
             cpu.calls[i].c == c;
    return n;
}

static int guard(uint32_t flags, int cores, struct err *e)
{
    const struct plan plan = { .flags = flags };
    struct sandbox_build b = { .plan = &plan };

    int r;

    cpu.faked = true;
    cpu.n = 0;
    cpu.cores = cores;
    r = side_channels_guard(&b, e);
    cpu.faked = false;
    return r;
}

TEST(a_guarded_sandbox_has_a_cookie_of_its_own_and_no_speculation)
{
    struct err e;

    CHECK_OK(guard(PLAN_GUARDED, 0, &e), e);
    /* PR_SCHED_CORE_CREATE for the thread group of the caller */
    CHECK_INT(count_calls(SCHED_CORE, 1, 0, 1), 1);
    CHECK_INT(count_calls(SET_SPECULATION, 0, 8, 0), 1); /* store bypass, PR_SPEC_FORCE_DISABLE */
    CHECK_INT(count_calls(SET_SPECULATION, 1, 8, 0), 1); /* indirect branch */
    CHECK_OK(guard(0, 0, &e), e);
    CHECK_INT(count_calls(SCHED_CORE, 1, 0, 1), 0);
    CHECK_INT(count_calls(SET_SPECULATION, 0, 8, 0), 0);
}

TEST(cores_without_threads_need_no_cookie_and_a_failure_is_reported)
{
    struct err e;

    CHECK_OK(guard(PLAN_GUARDED, ENODEV, &e), e);
    CHECK_OK(guard(PLAN_GUARDED, EINVAL, &e), e);
    CHECK_INT(guard(PLAN_GUARDED, ENOMEM, &e), -ERR_SYS);
    CHECK(strstr(e.msg, "core scheduling"));
}
