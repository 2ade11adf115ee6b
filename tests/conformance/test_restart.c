/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon dies and comes back; sandboxes do not notice. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/rig.h"

static void start_kept(struct subject *s, struct task *t, const char *script, uint64_t cookie,
                       unsigned flags)
{
    struct process_start start = sh(script);

    start.flags = START_KEEP | flags;
    start.cookie = cookie;
    task_start(s, t, &start);
    AWAIT(s->rig, t->started);
    CHECK_OK(t->r, t->e);
}

static void restart(struct rig *r, struct subject *s, struct subject *again)
{
    subject_free(s);
    rig_restart(r);
    subject_adopt(r, again, s->id);
    CHECK_OK(again->r, again->e);
}

static void reattach(struct subject *s, struct task *t, uint32_t proc)
{
    task_init(t, s);
    s->rig->ops->reattach(s->b, &t->p, proc);
    CHECK_INT(t->started, 0);
    AWAIT(s->rig, t->started);
    CHECK_OK(t->r, t->e);
    CHECK_INT(t->p.proc, proc);
}

CONFORMANCE(a_kept_process_is_found_and_followed_to_its_end)
{
    struct subject s, again;
    struct task t, u;

    subject_ready(r, &s);
    start_kept(&s, &t, "echo before; read x; echo after $x $FROM_PROFILE; exit 9", 4711,
               START_STDIN);
    task_done(&t);
    restart(r, &s, &again);
    CHECK_INT(again.n_found, 1);
    CHECK_INT(again.found[0].cookie, 4711);
    CHECK(!again.found[0].ended && again.found[0].has_stdin && again.found[0].pid > 1);
    reattach(&again, &u, again.found[0].proc);
    CHECK(write(u.p.stdio[0], "input\n", 6) == 6);
    task_drain(&u);
    AWAIT(r, u.ended);
    CHECK_ENDED(&u, BACKEND_EXITED, 9);
    CHECK_STR(buf_str(&u.out), "before\nafter input yes-it-is\n");
    r->ops->forget(again.b, again.found[0].proc);
    task_done(&u);
    task_sh(&again, &u, "echo $FROM_PROFILE"); /* the profile is remembered, too */
    CHECK_STR(buf_str(&u.out), "yes-it-is\n");
    task_done(&u);
    subject_end(&again);
}

CONFORMANCE(what_ended_meanwhile_is_found_with_its_status)
{
    struct subject s, again, third;
    struct task t, u;

    subject_ready(r, &s);
    start_kept(&s, &t, "echo last words; exit 5", 1, 0);
    task_done(&t);
    subject_free(&s);
    rig_restart(r);
    rig_idle(r, 100 * NS_PER_MS);
    subject_adopt(r, &again, s.id);
    CHECK_OK(again.r, again.e);
    CHECK_INT(again.n_found, 1);
    CHECK(again.found[0].ended);
    CHECK_INT(again.found[0].how, BACKEND_EXITED);
    CHECK_INT(again.found[0].status, 5);
    reattach(&again, &u, again.found[0].proc);
    task_drain(&u);
    AWAIT(r, u.ended);
    CHECK_ENDED(&u, BACKEND_EXITED, 5);
    CHECK_STR(buf_str(&u.out), "last words\n");
    task_done(&u);
    restart(r, &again, &third); /* until it is forgotten, it stays */
    CHECK_INT(third.n_found, 1);
    r->ops->forget(third.b, third.found[0].proc);
    r->ops->usage(third.b); /* answered behind it */
    AWAIT(r, third.used);
    restart(r, &third, &again);
    CHECK_INT(again.n_found, 0);
    subject_end(&again);
}

/* It ends between being found and being attached to. */
CONFORMANCE(an_end_before_the_attachment_is_not_lost)
{
    struct subject s, again;
    struct task t, u;

    subject_ready(r, &s);
    /* One process: a shell's child that it has yet to start would not be hit. */
    start_kept(&s, &t, "exec sleep 1000", 1, 0);
    task_done(&t);
    restart(r, &s, &again);
    r->ops->signal_all(again.b, SIGTERM);
    rig_idle(r, 100 * NS_PER_MS);
    reattach(&again, &u, again.found[0].proc);
    task_drain(&u);
    AWAIT(r, u.ended);
    CHECK_ENDED(&u, BACKEND_SIGNALLED, SIGTERM);
    task_done(&u);
    subject_end(&again);
}

CONFORMANCE(a_kept_process_changes_hands_in_one_life)
{
    struct subject s;
    struct task t, u, v;
    uint32_t proc;

    subject_ready(r, &s);
    start_kept(&s, &t, "read x; echo $x; exit 4", 1, START_STDIN);
    proc = t.p.proc;
    task_init(&v, &s);
    r->ops->reattach(s.b, &v.p, proc); /* it has an owner */
    AWAIT(r, v.started);
    CHECK_INT(v.r, -ERR_CONFLICT);
    r->ops->drop(&t.p);
    task_done(&t);
    reattach(&s, &u, proc);
    CHECK(write(u.p.stdio[0], "hi\n", 3) == 3);
    task_drain(&u);
    AWAIT(r, u.ended);
    CHECK_ENDED(&u, BACKEND_EXITED, 4);
    CHECK_STR(buf_str(&u.out), "hi\n");
    task_done(&u);
    task_init(&v, &s);
    r->ops->reattach(s.b, &v.p, 9999);
    AWAIT(r, v.started);
    CHECK_INT(v.r, -ERR_NOT_FOUND);
    subject_end(&s);
}

CONFORMANCE(closing_stdin_reaches_a_kept_process)
{
    struct subject s;
    struct task t;

    subject_ready(r, &s);
    start_kept(&s, &t, "cat; exit 6", 1, START_STDIN);
    CHECK(write(t.p.stdio[0], "text", 4) == 4);
    drop_fd(&t.p.stdio[0]);
    r->ops->close_stdin(&t.p);
    task_drain(&t);
    AWAIT(r, t.ended);
    CHECK_ENDED(&t, BACKEND_EXITED, 6);
    CHECK_STR(buf_str(&t.out), "text");
    task_done(&t);
    subject_end(&s);
}

CONFORMANCE(what_was_not_kept_does_not_outlive_us)
{
    struct process_start start = sh("trap '' HUP TERM PIPE; sleep 1000");
    int64_t end = clock_mono() + RIG_PATIENCE;
    struct subject s, again;
    struct task t;

    subject_ready(r, &s);
    task_start(&s, &t, &start);
    AWAIT(r, t.started);
    task_done(&t);
    restart(r, &s, &again);
    CHECK_INT(again.n_found, 0);
    for (again.usage.processes = 1; again.usage.processes;) {
        int before = again.used;

        r->ops->usage(again.b);
        rig_await(r, &again.used, before + 1, "usage");
        CHECK(clock_mono() < end);
    }
    subject_end(&again);
}

CONFORMANCE(what_is_not_there_is_not_adopted)
{
    struct subject s, again;

    subject_ready(r, &s);
    subject_teardown(&s);
    subject_free(&s);
    subject_adopt(r, &again, s.id);
    CHECK_INT(again.r, -ERR_NOT_FOUND);
    subject_end(&again);
}

CONFORMANCE(a_dead_sandbox_is_not_adopted_and_can_be_removed)
{
    struct subject s, again;
    char path[160];

    subject_init(r, &s);
    snprintf(path, sizeof path, "run/%s", s.id);
    CHECK(mkdirat(r->context.state, path, 0700) == 0); /* a crash right after the first step */
    subject_adopt(r, &again, s.id);
    CHECK_INT(again.r, -ERR_NOT_FOUND);
    subject_end(&again);
    subject_free(&s);
}

CONFORMANCE(teardown_while_it_is_adopted)
{
    struct subject s, again;

    subject_ready(r, &s);
    subject_free(&s);
    rig_restart(r);
    subject_init_id(r, &again, s.id);
    r->ops->adopt(again.b, NULL);
    subject_end(&again);
    CHECK_INT(again.adopted, 1);
}

CONFORMANCE(a_box_of_an_earlier_life_is_torn_down_without_adoption)
{
    struct subject s, again;
    struct task t;

    subject_ready(r, &s);
    start_kept(&s, &t, "trap '' TERM HUP; while :; do sleep 1; done", 1, 0);
    task_done(&t);
    subject_free(&s);
    rig_restart(r);
    subject_init_id(r, &again, s.id);
    subject_end(&again);
}

/* A life that is killed on its way to a ready sandbox and back. */
static void live_and_die(struct rig *r, const char *place, int count)
{
    char where[64];
    struct subject s;

    snprintf(where, sizeof where, "%s:%d", place, count);
    setenv("SANDBOXER_DIE_AT", where, 1);
    rig_restart(r);
    subject_ready(r, &s);
    subject_teardown(&s);
}

static bool knows_nobody(void *user, const char *id)
{
    return false;
}

static void count_one(void *user, const char *id, const char *what)
{
    ++*(int *)user;
}

static int count_stale(struct rig *r)
{
    struct err e;
    int n = 0;

    CHECK_OK(r->ops->stale(r->x, knows_nobody, count_one, &n, &e), e);
    return n;
}

/* The life after that. */
static void live_and_sweep(struct rig *r, const char *place, int count)
{
    int64_t end = clock_mono() + RIG_PATIENCE;
    struct err e;
    int n = 0;

    rig_restart(r);
    CHECK_OK(r->ops->sweep(r->x, knows_nobody, count_one, &n, &e), e);
    while (count_stale(r) > 0 && clock_mono() < end)
        rig_idle(r, NS_PER_MS);
    CHECK_INT(count_stale(r), 0);
}

/* In a process of its own, which reads for itself where it shall die. True if it did. */
static bool in_a_process(struct rig *r, void (*life)(struct rig *, const char *, int),
                         const char *place, int count)
{
    pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (pid == 0) {
        life(r, place, count);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
}

/* Create and destroy are sent, and four answers looked for: each place is passed before and
 * after. */
CONFORMANCE(a_daemon_that_dies_at_any_point_leaves_what_is_found)
{
    static const char *const places[] = { "launcher.send", "launcher.recv" };
    int died = 0;

    for (int i = 0; i < 16; i++) {
        died += in_a_process(r, live_and_die, places[i % 2], 1 + i / 2);
        CHECK(!in_a_process(r, live_and_sweep, NULL, 0));
    }
    CHECK(died >= 8);
}
