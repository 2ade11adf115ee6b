/* SPDX-License-Identifier: Apache-2.0 */
/* SIGKILL between an approval and the end of its run: no call runs twice, and no approved call is
 * lost without a record. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "world.h"

enum moment {
    AT_APPROVED, /* that is on disk, and nothing more */
    AT_RUNNING,  /* the call is about to have its effect */
    AT_EFFECT,   /* after the effect, before its completion is stored */
};

static const struct trust_capabilities networked = { .network = true };
static int effects[2]; /* a pipe: one byte per effect, in all daemon runs */
static bool mortal;
static enum moment moment;

static void die_at(enum moment m)
{
    if (mortal && m == moment)
        raise(SIGKILL);
}

static void run(void *user, struct trust_call *c)
{
    die_at(AT_RUNNING);
    CHECK(write(effects[1], "x", 1) == 1);
    die_at(AT_EFFECT);
    trust_call_done(c, false, STR("{}"));
}

static const struct trust_runner runner = { .run = run };

static void on_changed(struct approval_waiter *w, const struct approval_record *r)
{
    if (r->state == APPROVAL_APPROVED)
        die_at(AT_APPROVED);
}

static void on_done(struct approval_op *op, int r, const struct err *why)
{
}

/* Holds a call, approves it, and does not live to see its end. */
static void live_and_die(void)
{
    struct approval_op op = {
        .master = { .actor = { .id = "uid:0" }, .owner = "uid:0", .role = ROLE_MASTER },
        .done = on_done
    };
    struct approval_waiter w = { .changed = on_changed };
    struct verdict v;

    mortal = true;
    world_open();
    trust_set_runner(world.trust, &runner);
    v = ask(new_peer(), "sandbox_exec", "{\"sandbox_id\":\"sbx_a\"}", &networked);
    memcpy(op.id, v.request_id, sizeof op.id);
    memcpy(w.id, v.request_id, sizeof w.id);
    approvals_wait(world.trust, &w);
    approvals_approve(world.trust, &op);
    for (;;)
        turn();
}

static struct approval_record only_one(void)
{
    static struct store_query q;

    arena_done(&q.arena);
    q = (struct store_query){ .kind = STORE_APPROVALS };
    CHECK_OK(store_ask_now(control_store(fix.control), &q, &e), e);
    CHECK_INT(q.n, 1);
    return q.approvals[0];
}

static size_t count_effects(void)
{
    char bytes[16];
    ssize_t n = read(effects[0], bytes, sizeof bytes);

    return n > 0 ? (size_t)n : 0;
}

static void check_death(enum moment m, enum approval_state then, size_t times)
{
    int status;
    pid_t pid;

    moment = m;
    CHECK(pipe2(effects, O_NONBLOCK | O_CLOEXEC) == 0);
    plane_open(); /* makes the place, which goes with this process */
    plane_close();
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        live_and_die();
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int life = 0; life < 3; life++) {
        world_open();
        trust_set_runner(world.trust, &runner);
        WAIT_FOR(!approval_is_open(only_one().state));
        CHECK_INT(only_one().state, then);
        world_close();
    }
    CHECK_INT(count_effects(), times);
}

TEST(an_approved_call_is_taken_up_again)
{
    check_death(AT_APPROVED, APPROVAL_DONE, 1);
}

TEST(a_call_that_ran_is_not_run_again_though_it_may_have_done_nothing)
{
    check_death(AT_RUNNING, APPROVAL_INTERRUPTED, 0);
}

TEST(a_call_that_had_its_effect_has_it_once)
{
    check_death(AT_EFFECT, APPROVAL_INTERRUPTED, 1);
}
