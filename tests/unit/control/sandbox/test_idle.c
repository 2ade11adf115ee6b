/* SPDX-License-Identifier: Apache-2.0 */
/* When a sandbox is idle: none of five uses, and each of them for itself keeps it. */
#include "control/sandbox/idle.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/process/process.h"
#include "unit/control/fixture.h"

#define IDLE_NS (40 * NS_PER_MS)

static bool is_gone(struct sandbox *s)
{
    return s->record.state == SANDBOX_DESTROYED;
}

/* A sandbox that is reaped IDLE_NS after its last use. */
static struct sandbox *new_short_sandbox(void)
{
    struct sandbox *s = new_sandbox();

    s->record.idle_ns = IDLE_NS;
    ttl_start(s);
    return s;
}

/* It stays while the reaper looks inside several times. */
static void check_stays(struct sandbox *s)
{
    unsigned before = fake_plan.looks;

    WAIT_FOR(fake_plan.looks >= before + 4 || is_gone(s));
    CHECK(!is_gone(s) && !s->expiring);
}

/* It stays for as long as another one, which was used later, needs to be reaped. */
static void check_outlives_another(struct sandbox *s)
{
    struct sandbox *other = new_short_sandbox();

    WAIT_FOR(is_gone(other));
    CHECK(!is_gone(s) && !s->expiring);
    sandbox_unref(other);
}

static int started;

static void on_started(struct process_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("starting: %s", why->msg);
    started++;
}

static struct process *start_process(struct sandbox *s, enum process_helper helper)
{
    static const char *argv[] = { "/bin/thing" };
    struct process_request q = {
        .argv = { argv, 1 }, .background = true, .helper = helper, .rows = 24, .cols = 80
    };
    struct process_op op = { .request = &q, .programs = true, .done = on_started };
    int before = started;

    process_start(s, &fix.caller.actor, &op);
    WAIT_FOR(started > before);
    return op.process;
}

static struct fake_process *inside_of(struct sandbox *s, struct process *p)
{
    return fake_find(id_of(s), p->proc);
}

TEST(an_unused_sandbox_is_reaped_with_a_reason)
{
    struct sandbox *s;

    plane_open();
    s = new_short_sandbox();
    WAIT_FOR(is_gone(s));
    CHECK(strstr(s->record.reason, "it was idle for"));
    CHECK_INT(record_fail_ended(&s->record, ERR_CONFLICT, &e), -ERR_CONFLICT);
    CHECK(strstr(e.msg, "was destroyed") && strstr(e.msg, "it was idle for"));
    sandbox_unref(s);
    plane_close();
}

TEST(every_use_counts_for_itself)
{
    for (int use = 0; use < USE_COUNT_; use++) {
        struct idle v = { 0 };
        int64_t before = clock_boot();

        CHECK(idle_since(&v) < before);
        idle_note(&v, (enum sandbox_use)use);
        CHECK(idle_since(&v) >= before);
    }
}

TEST(what_goes_on_has_no_end_yet)
{
    struct idle client = { .attached = 1 }, process = { .processes = 1 };
    int64_t before = clock_boot();

    CHECK(idle_since(&client) >= before);
    CHECK(idle_since(&process) >= before);
}

TEST(a_request_starts_the_time_anew)
{
    struct sandbox *s;
    int64_t before;

    plane_open();
    s = new_sandbox();
    s->record.idle_ns = 60 * NS_PER_S;
    before = clock_boot();
    sandbox_touch(s);
    CHECK(idle_deadline(s) >= before + 60 * NS_PER_S);
    CHECK_INT(ttl_end(s), idle_deadline(s));
    s->record.idle_ns = 0;
    CHECK_INT(ttl_end(s), s->record.deadline_ns);
    destroy(s);
    sandbox_unref(s);
    plane_close();
}

TEST(an_attached_client_keeps_it)
{
    struct sandbox *s;

    plane_open();
    s = new_short_sandbox();
    sandbox_attach(s);
    check_outlives_another(s);
    sandbox_detach(s);
    WAIT_FOR(is_gone(s));
    sandbox_unref(s);
    plane_close();
}

TEST(a_background_process_keeps_it_until_it_ends)
{
    struct sandbox *s;
    struct process *p;

    plane_open();
    s = new_short_sandbox();
    p = start_process(s, PROCESS_OF_CLIENT);
    check_outlives_another(s);
    fake_end(inside_of(s, p), BACKEND_EXITED, 0, false);
    WAIT_FOR(is_gone(s));
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(a_process_that_was_left_behind_keeps_it)
{
    struct sandbox *s;

    plane_open();
    s = new_short_sandbox();
    fake_plan.usage.processes = 1;
    check_stays(s);
    fake_plan.usage.processes = 0;
    WAIT_FOR(is_gone(s));
    sandbox_unref(s);
    plane_close();
}

TEST(processor_time_keeps_it)
{
    struct sandbox *s;

    plane_open();
    s = new_short_sandbox();
    fake_plan.cpu_a_look = NS_PER_S;
    check_stays(s);
    fake_plan.cpu_a_look = 0;
    WAIT_FOR(is_gone(s));
    sandbox_unref(s);
    plane_close();
}

TEST(a_look_too_soon_after_another_says_nothing_of_processor_time)
{
    struct sandbox *s;
    struct backend_usage u = { .cpu_ns = NS_PER_S };

    plane_open();
    s = new_sandbox();
    s->record.idle_ns = 60 * NS_PER_S;
    s->idle = (struct idle){ 0 };
    CHECK(!idle_sample(s, &u, false)); /* the first */
    u.cpu_ns += NS_PER_S;
    CHECK(!idle_sample(s, &u, false));
    CHECK_INT(s->idle.used_ns[USE_CPU], 0);
    s->idle.sampled_ns -= 5 * NS_PER_S;
    CHECK(idle_sample(s, &u, false));
    CHECK(s->idle.used_ns[USE_CPU] > 0);
    s->idle.used_ns[USE_CPU] = 0;
    s->idle.sampled_ns -= 50 * NS_PER_S;
    u.cpu_ns += 50 * NS_PER_S / 1000; /* 0.1 % */
    CHECK(idle_sample(s, &u, false));
    CHECK_INT(s->idle.used_ns[USE_CPU], 0);
    destroy(s);
    plane_close();
}

static const struct {
    enum process_helper helper;
    const char *text;
    int channel;
    bool waits;
} outputs[] = {
    { PROCESS_KERNEL, "", 1, true },
    { PROCESS_KERNEL, "run_0123456789abcdefghjk {\"type\":\"stdout\"}\n", 1, false },
    { PROCESS_KERNEL, "x\nrun_0123456789abcdefghjk end\n", 1, true },
    { PROCESS_KERNEL, "run_0123456789abcdefghjk end", 1, false },
    { PROCESS_KERNEL, "run_0123456789abcdefghjk end\nmore\n", 1, false },
    { PROCESS_SESSION, "\036cmd_0123456789abcdefghjk>sleep\n", 1, false },
    { PROCESS_SESSION, "out\n\036cmd_0123456789abcdefghjk<0\n", 1, true },
    { PROCESS_SESSION, "\036cmd_0123456789abcdefghjk<0\n", 2, false },
    { PROCESS_SHELL, "$ ", 1, true },
    { PROCESS_OF_CLIENT, "", 1, false },
};

TEST(a_helper_waits_when_its_last_request_is_over)
{
    struct sandbox *s;

    plane_open();
    s = new_sandbox();
    for (size_t i = 0; i < COUNT_OF(outputs); i++) {
        struct process *p = start_process(s, outputs[i].helper);

        fake_write(inside_of(s, p), outputs[i].channel, outputs[i].text);
        WAIT_FOR(p->output.total == strlen(outputs[i].text));
        if (helper_waits(p) != outputs[i].waits)
            FAIL("row %zu", i);
        fake_end(inside_of(s, p), BACKEND_EXITED, 0, false);
        WAIT_FOR(p->phase == PROCESS_ENDED);
        CHECK(!helper_waits(p));
        process_unref(p);
    }
    destroy(s);
    sandbox_unref(s);
    plane_close();
}

TEST(a_helper_counts_only_while_it_is_busy)
{
    struct sandbox *s;
    struct process *p;

    plane_open();
    s = new_short_sandbox();
    p = start_process(s, PROCESS_SESSION);
    fake_plan.usage.processes = 1;
    fake_write(inside_of(s, p), 1, "\036cmd_0123456789abcdefghjk>sleep\n");
    check_stays(s);
    fake_write(inside_of(s, p), 1, "\036cmd_0123456789abcdefghjk<0\n");
    WAIT_FOR(is_gone(s));
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(a_restart_knows_helpers_and_processes_of_clients_again)
{
    char id[ID_MAX];
    struct sandbox *s;
    struct process *p;

    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    process_unref(start_process(s, PROCESS_KERNEL));
    process_unref(start_process(s, PROCESS_OF_CLIENT));
    CHECK_INT(s->idle.processes, 1);
    sandbox_unref(s);
    plane_close();
    plane_open();
    s = find_sandbox(id);
    WAIT_FOR(s->idle.processes == 1);
    p = container_of(list_first(&s->processes), struct process, link);
    CHECK_INT(p->request.helper, PROCESS_KERNEL);
    CHECK(helper_waits(p));
    destroy(s);
    sandbox_unref(s);
    plane_close();
}

TEST(a_time_that_is_over_says_how_long_it_was)
{
    struct sandbox_record r = { .finished_ns = clock_wall() - 200 * NS_PER_S };

    snprintf(r.id, sizeof r.id, "sbx_x");
    snprintf(r.reason, sizeof r.reason, "its ttl of 15m has expired");
    (void)record_fail_ended(&r, ERR_CONFLICT, &e);
    CHECK_STR(str_from(e.msg), "sandbox sbx_x was destroyed 3m ago: its ttl of 15m has expired");
    snprintf(r.reason, sizeof r.reason, "destroy");
    r.finished_ns = clock_wall() - 50 * 3600 * NS_PER_S;
    (void)record_fail_ended(&r, ERR_CONFLICT, &e);
    CHECK_STR(str_from(e.msg), "sandbox sbx_x was destroyed 2d ago (destroy)");
}
