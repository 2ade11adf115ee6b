/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/process/processes.h"
#include "control/sandbox/sandbox.h"
#include "unit/control/fixture.h"
#include "lib/json/reader.h"

/* --- starting --- */

static int ends, last;

static void on_done(struct process_op *op, int r, const struct err *why)
{
    if (why)
        e = *why;
    last = r;
    ends++;
}

static struct process_request request_of(const char *text)
{
    static struct arena a = ARENA_INIT(1 << 20);
    struct process_request q;
    const struct json *v;

    CHECK_OK(json_read(str_from(text), (struct json_limits){ 10000, 8, false }, &a, &v, &e), e);
    CHECK_OK(process_request_read(v, &q, &a, &e), e);
    return q;
}

static int try_start(struct sandbox *s, const char *text, struct process **ret)
{
    struct process_request q = request_of(text);
    struct process_op op = { .request = &q, .programs = true, .done = on_done };
    int before = ends;

    process_start(s, &fix.caller.actor, &op);
    CHECK_INT(ends, before);
    WAIT_FOR(ends > before);
    *ret = op.process;
    return last;
}

static struct process *start(struct sandbox *s, const char *text)
{
    struct process *p;

    CHECK_OK(try_start(s, text, &p), e);
    return p;
}

static void on_run_started(struct run_op *op, int r, const struct err *why)
{
    last = r;
    ends++;
}

static const struct run_op_events run_events = { .started = on_run_started };

#define PLAIN "{\"argv\":[\"/bin/thing\",\"x\"],\"background\":true}"
#define STDIN "{\"argv\":[\"/bin/thing\"],\"stdin\":true}"
#define TTY   "{\"argv\":[\"/bin/thing\"],\"tty\":true}"

static struct process_view view_of(struct process *p)
{
    struct process_view v;

    process_view(p, &v);
    return v;
}

static struct fake_process *inside(struct sandbox *s, struct process *p)
{
    struct fake_process *f = fake_find(id_of(s), view_of(p).proc);

    CHECK(f);
    return f;
}

/* --- watching --- */

struct eye {
    struct watcher w;
    char text[4 << 20];
    size_t n, room;
    int before, ended, fell_behind, rooms;
    struct backend_end end;
};

static bool on_output(struct watcher *w, int channel, struct str data)
{
    struct eye *y = container_of(w, struct eye, w);

    if (channel != y->before)
        y->n += (size_t)snprintf(y->text + y->n, 4, "%d:", channel);
    y->before = channel;
    CHECK(y->n + data.n < sizeof y->text);
    memcpy(y->text + y->n, data.p, data.n);
    y->n += data.n;
    return y->n < y->room;
}

static void on_end(struct watcher *w, const struct backend_end *end)
{
    struct eye *y = container_of(w, struct eye, w);

    CHECK(!w->process);
    y->ended++;
    y->end = *end;
}

static void on_behind(struct watcher *w)
{
    CHECK(!w->process);
    container_of(w, struct eye, w)->fell_behind++;
}

static void on_room(struct watcher *w)
{
    container_of(w, struct eye, w)->rooms++;
}

static const struct watcher_events eye_events = {
    .output = on_output, .ended = on_end, .fell_behind = on_behind, .room = on_room
};

/* Not freed: a test is a process. */
static struct eye *watch(struct process *p, bool live_only)
{
    static struct eye *eyes[8];
    static size_t n;
    struct eye *y = calloc(1, sizeof *y);

    CHECK(y && n < COUNT_OF(eyes));
    eyes[n++] = y;
    y->w.events = &eye_events;
    y->room = sizeof y->text;
    process_watch(p, &y->w, live_only);
    CHECK_INT(y->n, 0);
    return y;
}

static struct str seen(const struct eye *y)
{
    return (struct str){ y->text, y->n };
}

static bool sees(const struct eye *y, const char *text)
{
    return str_eq(seen(y), str_from(text));
}

/* The kept output that a new watcher gets, with the end. */
static struct str replay(struct process *p)
{
    struct eye *y = watch(p, false);

    WAIT_FOR(y->ended);
    return seen(y);
}

static void wait_ended(struct process *p)
{
    WAIT_FOR(view_of(p).ended);
}

/* --- the tests --- */

TEST(a_process_runs_is_watched_and_ends)
{
    struct sandbox *s;
    struct process *p;
    struct eye *y;

    plane_open();
    s = new_sandbox();
    p = start(s, PLAIN);
    CHECK_INT(sandbox_state(s), SANDBOX_ACTIVE);
    CHECK_INT(count_events("process.started"), 1);
    CHECK(inside(s, p)->flags & START_KEEP);
    CHECK(inside(s, p)->cookie);
    CHECK_STR(str_from(view_of(p).request->argv.p[1]), "x");
    CHECK_INT(s->idle.attached, 0);
    y = watch(p, false);
    CHECK_INT(s->idle.attached, 1);
    fake_write(inside(s, p), 1, "out");
    WAIT_FOR(sees(y, "1:out"));
    fake_write(inside(s, p), 2, "err");
    WAIT_FOR(sees(y, "1:out2:err"));
    fake_write(inside(s, p), 1, "last words");
    fake_end(inside(s, p), BACKEND_EXITED, 3, false);
    WAIT_FOR(y->ended);
    CHECK(sees(y, "1:out2:err1:last words"));
    CHECK_INT(y->end.how, BACKEND_EXITED);
    CHECK_INT(y->end.status, 3);
    CHECK_INT(count_events("process.exited"), 1);
    CHECK(inside(s, p)->forgotten);
    CHECK_INT(s->idle.attached, 0);
    WAIT_FOR(sandbox_state(s) == SANDBOX_READY);
    CHECK_STR(replay(p), "1:out2:err1:last words");
    CHECK(!process_find(s, 99));
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(nobody_has_to_look)
{
    static char big[100000];
    struct sandbox *s;
    struct process *p;
    struct eye *y;

    plane_open();
    s = new_sandbox();
    p = start(s, PLAIN);
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 30; i++)
        for (size_t at = 0; at < sizeof big - 1; at += 9) { /* its own end blocks when full */
            ssize_t n;

            if (at % 60000 == 0)
                CHECK_OK(loop_run_once(&fix.loop, 0, &e), e);
            n = write(inside(s, p)->out, big + at,
                      sizeof big - 1 - at < 30000 ? sizeof big - 1 - at : 30000);
            CHECK(n > 0);
            at += (size_t)n - 9;
            CHECK_OK(loop_run_once(&fix.loop, 0, &e), e);
        }
    fake_end(inside(s, p), BACKEND_EXITED, 0, false);
    wait_ended(p);
    CHECK_INT(view_of(p).lost_bytes, 30 * (sizeof big - 1) - PROCESS_KEEP);
    y = watch(p, false);
    WAIT_FOR(y->ended);
    CHECK_INT(y->n, PROCESS_KEEP + 2);
    y = watch(p, true);
    WAIT_FOR(y->ended);
    CHECK_INT(y->n, 0);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(a_full_watcher_holds_up_the_process_but_not_for_ever)
{
    static char chunk[60000];
    struct sandbox *s;
    struct process *p;
    struct eye *slow, *good;
    size_t wrote = 0;

    plane_open();
    s = new_sandbox();
    p = start(s, PLAIN);
    slow = watch(p, false);
    good = watch(p, false);
    slow->room = 1;
    memset(chunk, 'y', sizeof chunk);
    CHECK(fcntl(inside(s, p)->out, F_SETFL, O_NONBLOCK) == 0);
    for (int idle = 0; idle < 50;) { /* until nothing more is written */
        ssize_t n = write(inside(s, p)->out, chunk, sizeof chunk);

        idle = n > 0 ? 0 : idle + 1;
        wrote += n > 0 ? (size_t)n : 0;
        CHECK(wrote < 4 << 20);
        CHECK_OK(loop_run_once(&fix.loop, 0, &e), e);
    }
    CHECK(wrote >= PROCESS_KEEP / 2);
    WAIT_FOR(slow->fell_behind);
    CHECK_INT(slow->ended, 0);
    CHECK_INT(s->idle.attached, 1);
    fake_end(inside(s, p), BACKEND_EXITED, 0, false);
    WAIT_FOR(good->ended);
    CHECK_INT(good->n, wrote + 2);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(a_watcher_that_was_full_goes_on)
{
    struct sandbox *s;
    struct process *p;
    struct eye *y;

    plane_open();
    s = new_sandbox();
    p = start(s, PLAIN);
    y = watch(p, false);
    y->room = 3;
    fake_write(inside(s, p), 1, "abc");
    WAIT_FOR(y->n);
    fake_write(inside(s, p), 1, "def");
    fake_end(inside(s, p), BACKEND_EXITED, 0, false);
    wait_ended(p);
    turn();
    CHECK(sees(y, "1:abc"));
    CHECK_INT(y->ended, 0);
    y->room = sizeof y->text;
    watcher_resume(&y->w);
    WAIT_FOR(y->ended);
    CHECK(sees(y, "1:abcdef"));
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(stdin_is_written_to_and_closed)
{
    static char chunk[100000];
    struct sandbox *s;
    struct process *p;
    struct fake_process *f;
    struct eye *y;
    char got[8];

    plane_open();
    s = new_sandbox();
    p = start(s, STDIN);
    f = inside(s, p);
    y = watch(p, false);
    CHECK_INT(process_stdin(p, STR("hello"), &e), 5);
    CHECK_INT(read(f->in, got, sizeof got), 5);
    while (process_stdin(p, (struct str){ chunk, sizeof chunk }, &e) > 0)
        ;
    CHECK_INT(y->rooms, 0);
    for (int i = 0; i < 10; i++)
        CHECK(read(f->in, chunk, 4096) > 0);
    WAIT_FOR(y->rooms);
    CHECK(process_stdin(p, STR("x"), &e) > 0);
    CHECK_OK(process_close_stdin(p, &e), e);
    CHECK_OK(process_close_stdin(p, &e), e);
    CHECK_INT(process_stdin(p, STR("x"), &e), -ERR_CONFLICT);
    while (read(f->in, chunk, sizeof chunk) > 0)
        ; /* and then end of file: the box has let go of its end too */
    CHECK_INT(process_resize(p, 10, 10, &e), -ERR_CONFLICT);
    process_unref(p);
    p = start(s, PLAIN);
    CHECK_INT(process_stdin(p, STR("x"), &e), -ERR_CONFLICT);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(a_terminal_is_one_channel_both_ways)
{
    struct sandbox *s;
    struct process *p;
    struct eye *y;
    char got[8];

    plane_open();
    s = new_sandbox();
    p = start(s, TTY);
    y = watch(p, false);
    CHECK_INT(process_stdin(p, STR("ls"), &e), 2);
    CHECK_INT(read(inside(s, p)->in, got, sizeof got), 2);
    fake_write(inside(s, p), 1, "list");
    WAIT_FOR(sees(y, "1:list"));
    CHECK_INT(process_close_stdin(p, &e), -ERR_INVALID);
    CHECK_OK(process_signal(p, SIGINT, BACKEND_SCOPE_GROUP, &e), e);
    CHECK_INT(inside(s, p)->sig, SIGINT);
    CHECK_OK(process_signal(p, SIGKILL, BACKEND_SCOPE_TREE, &e), e);
    WAIT_FOR(y->ended);
    CHECK_INT(y->end.how, BACKEND_SIGNALLED);
    CHECK_INT(process_signal(p, SIGINT, BACKEND_SCOPE_ONE, &e), -ERR_CONFLICT);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(an_end_does_not_wait_for_ever_for_whoever_holds_the_pipe)
{
    struct sandbox *s;
    struct process *p;

    plane_open();
    s = new_sandbox();
    p = start(s, PLAIN);
    fake_write(inside(s, p), 1, "said");
    fake_end(inside(s, p), BACKEND_EXITED, 0, true);
    wait_ended(p);
    CHECK_STR(replay(p), "1:said");
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(a_start_that_fails_leaves_nothing)
{
    struct sandbox *s;
    struct process *p;

    plane_open();
    s = new_sandbox();
    fake_plan.fail_start = "no such program";
    CHECK_INT(try_start(s, PLAIN, &p), -ERR_UPSTREAM);
    CHECK(!p);
    CHECK(!list_first(&s->processes));
    CHECK_INT(count_events("process.started"), 0);
    WAIT_FOR(sandbox_state(s) == SANDBOX_READY);
    fake_plan.fail_start = NULL;
    destroy(s);
    CHECK_INT(try_start(s, PLAIN, &p), -ERR_CONFLICT);
    sandbox_unref(s);
    plane_close();
}

/* --- restarts --- */

TEST(a_process_is_found_again_after_a_restart)
{
    struct sandbox *s;
    struct process *p, *done;
    char id[ID_MAX];
    uint32_t proc, proc_done;

    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    p = start(s, PLAIN);
    done = start(s, PLAIN);
    proc = view_of(p).proc;
    proc_done = view_of(done).proc;
    fake_write(inside(s, p), 1, "before ");
    fake_write(inside(s, done), 1, "done");
    fake_end(inside(s, done), BACKEND_EXITED, 4, false);
    wait_ended(done);
    for (struct eye *y = watch(p, false); !sees(y, "1:before ");)
        turn();
    sandbox_unref(s);
    process_unref(done);
    process_unref(p);
    plane_close();
    fake_write(fake_find(id, proc), 2, "while away ");

    plane_open();
    s = find_sandbox(id);
    CHECK(s);
    CHECK_INT(sandbox_state(s), SANDBOX_ACTIVE);
    p = process_find(s, proc);
    done = process_find(s, proc_done);
    CHECK(p && done);
    CHECK(!view_of(p).ended);
    CHECK(view_of(done).ended);
    CHECK_INT(view_of(done).end.status, 4);
    CHECK_STR(replay(done), "1:done");
    fake_write(inside(s, p), 1, "after");
    fake_end(inside(s, p), BACKEND_EXITED, 5, false);
    wait_ended(p);
    CHECK_STR(replay(p), "1:before 2:while away 1:after");
    CHECK_INT(view_of(p).end.status, 5);
    CHECK_INT(count_events("process.exited"), 2);
    WAIT_FOR(sandbox_state(s) == SANDBOX_READY);
    process_unref(done);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(input_for_a_process_that_is_being_found_again_waits)
{
    struct sandbox *s;
    struct process *p;
    struct eye *y;
    char id[ID_MAX], got[8];
    uint32_t proc;

    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    p = start(s, STDIN);
    proc = view_of(p).proc;
    process_unref(p);
    sandbox_unref(s);
    plane_close();

    fake_plan.reattach_waits = true;
    plane_open();
    s = find_sandbox(id);
    p = process_find(s, proc);
    CHECK(p);
    y = watch(p, true);
    CHECK_INT(process_stdin(p, STR("hello"), &e), 0); /* its descriptors are on their way */
    CHECK_INT(y->rooms, 0);
    fake_reattach_held();
    WAIT_FOR(y->rooms);
    CHECK_INT(process_stdin(p, STR("hello"), &e), 5);
    CHECK_INT(read(inside(s, p)->in, got, sizeof got), 5);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(what_happened_while_nobody_looked_is_told_truly)
{
    struct sandbox *s;
    struct process *p, *lost;
    char id[ID_MAX];
    uint32_t proc, proc_lost;

    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    p = start(s, PLAIN);
    lost = start(s, PLAIN);
    proc = view_of(p).proc;
    proc_lost = view_of(lost).proc;
    sandbox_unref(s);
    process_unref(p);
    process_unref(lost);
    plane_close();
    fake_write(fake_find(id, proc), 1, "last words");
    fake_end(fake_find(id, proc), BACKEND_SIGNALLED, SIGSEGV, false);
    fake_find(id, proc_lost)->cookie ^= 1; /* an unknown process: its start was never reported */

    plane_open();
    s = find_sandbox(id);
    CHECK(s);
    p = process_find(s, proc);
    lost = process_find(s, proc_lost);
    CHECK(p && lost);
    wait_ended(p);
    wait_ended(lost);
    CHECK_INT(view_of(p).end.how, BACKEND_SIGNALLED);
    CHECK_INT(view_of(p).end.status, SIGSEGV);
    CHECK_STR(replay(p), "1:last words");
    CHECK_INT(view_of(lost).end.how, BACKEND_LOST);
    WAIT_FOR(fake_find(id, proc_lost)->forgotten);
    CHECK_INT(fake_find(id, proc_lost)->sig, SIGKILL);
    WAIT_FOR(sandbox_state(s) == SANDBOX_READY);
    process_unref(p);
    process_unref(lost);
    sandbox_unref(s);
    plane_close();
}

TEST(a_box_that_went_away_takes_its_processes_along_but_not_what_they_said)
{
    struct sandbox *s;
    struct process *p;
    char id[ID_MAX];
    uint32_t proc;

    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    p = start(s, PLAIN);
    proc = view_of(p).proc;
    for (struct eye *y = watch(p, (fake_write(inside(s, p), 1, "said"), false));
         !sees(y, "1:said");)
        turn();
    sandbox_unref(s);
    process_unref(p);
    plane_close();
    fake_forget_all();

    plane_open();
    s = find_sandbox(id);
    CHECK(s);
    p = process_find(s, proc);
    CHECK(p);
    wait_ended(p);
    CHECK_INT(view_of(p).end.how, BACKEND_LOST);
    CHECK_STR(replay(p), "1:said");
    WAIT_FOR(sandbox_state(s) == SANDBOX_FAILED);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

/* --- ends of sandboxes --- */

TEST(a_box_that_dies_ends_its_processes)
{
    struct sandbox *s;
    struct process *p;
    struct eye *y;

    plane_open();
    s = new_sandbox();
    p = start(s, PLAIN);
    y = watch(p, false);
    fake_write(inside(s, p), 1, "said");
    fake_kill_box(id_of(s));
    WAIT_FOR(y->ended);
    CHECK(sees(y, "1:said"));
    CHECK_INT(y->end.how, BACKEND_LOST);
    WAIT_FOR(sandbox_state(s) == SANDBOX_FAILED);
    CHECK_STR(replay(p), "1:said"); /* for people to look at */
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

TEST(destroying_tells_watchers_and_removes_files)
{
    struct sandbox *s;
    struct process *p;
    struct eye *y, *full;
    char dir[64];

    plane_open();
    s = new_sandbox();
    snprintf(dir, sizeof dir, "state/output/%s", id_of(s));
    p = start(s, PLAIN);
    y = watch(p, false);
    full = watch(p, false);
    full->room = 1;
    fake_write(inside(s, p), 1, "said");
    WAIT_FOR(full->n);
    CHECK(exists(fix.scratch.dir, dir));
    destroy(s);
    WAIT_FOR(y->ended);
    CHECK_INT(y->end.how, BACKEND_LOST);
    CHECK_INT(full->ended, 0);
    full->room = 1000;
    watcher_resume(&full->w);
    WAIT_FOR(full->ended);
    CHECK(!exists(fix.scratch.dir, dir));
    CHECK_INT(count_events("process.exited"), 1);
    CHECK_INT(process_signal(p, SIGTERM, BACKEND_SCOPE_ONE, &e), -ERR_CONFLICT);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

static void count(void *user, struct process *p)
{
    ++*(int *)user;
}

/* Twice at once: the second call finds it removed. */
static int try_forget(struct process *p)
{
    struct process_op ops[2] = { { .process = p, .done = on_done },
                                 { .process = p, .done = on_done } };
    int before = ends;

    for (size_t i = 0; i < COUNT_OF(ops); i++)
        process_forget(&ops[i], &fix.caller.actor);
    CHECK_INT(ends, before);
    WAIT_FOR(ends == before + 2);
    return last;
}

TEST(what_has_ended_can_be_forgotten)
{
    struct sandbox *s;
    struct process *p, *other;
    struct eye *y;
    char id[ID_MAX];
    uint32_t proc;
    int n = 0;

    plane_open();
    s = new_sandbox();
    p = start(s, PLAIN);
    other = start(s, PLAIN);
    proc = view_of(p).proc;
    snprintf(id, sizeof id, "%s", id_of(s));
    CHECK_INT(try_forget(p), -ERR_CONFLICT);
    fake_write(inside(s, p), 1, "said");
    fake_end(inside(s, p), BACKEND_EXITED, 0, false);
    wait_ended(p);
    y = watch(p, false);
    watcher_pause(&y->w); /* a watcher has not read all of it yet … */
    CHECK_INT(s->idle.attached, 1);
    CHECK_OK(try_forget(p), e);
    CHECK(!process_find(s, proc));
    CHECK_INT(s->idle.attached, 0);
    watcher_resume(&y->w);
    WAIT_FOR(y->ended);
    CHECK(sees(y, "1:said")); /* … and still can */
    CHECK_INT(s->idle.attached, 0);
    process_unref(p);
    process_unref(other);
    sandbox_unref(s);
    plane_close();
    plane_open();
    s = find_sandbox(id);
    process_each(s, count, &n);
    CHECK_INT(n, 1);
    sandbox_unref(s);
    plane_close();
}

TEST(the_oldest_ended_ones_make_room)
{
    struct sandbox *s;
    struct process *p, *first = NULL;
    int n = 0;

    plane_open();
    s = new_sandbox();
    for (int i = 0; i < PROCESSES_MAX; i++) {
        p = start(s, PLAIN);
        if (i == 5)
            first = p;
        else
            process_unref(p);
    }
    CHECK_INT(try_start(s, PLAIN, &p), -ERR_BUSY);
    fake_end(inside(s, first), BACKEND_EXITED, 0, false);
    wait_ended(first);
    p = start(s, PLAIN);
    process_each(s, count, &n);
    CHECK_INT(n, PROCESSES_MAX);
    CHECK(!process_find(s, view_of(first).proc));
    process_unref(first);
    process_unref(p);
    sandbox_unref(s);
    plane_close();
}

/* The policy was asked about something else. */
TEST(nothing_is_started_for_a_request_that_is_not_about_programs)
{
    static const char *const argv[] = { "/bin/thing", NULL };
    const struct process_start program = { .what = START_PROGRAM, .argv = argv };
    struct process_request q;
    struct process_op op = { .request = &q, .done = on_done };
    struct run_op run = { .events = &run_events };
    struct sandbox *s;

    plane_open();
    s = new_sandbox();
    q = request_of(PLAIN);
    process_start(s, &fix.caller.actor, &op);
    WAIT_FOR(ends == 1);
    CHECK_INT(last, -ERR_DENIED);
    CHECK(!op.process);
    sandbox_run(s, &program, &run);
    WAIT_FOR(ends == 2);
    CHECK_INT(last, -ERR_DENIED);
    sandbox_unref(s);
    plane_close();
}
