/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and file operations of requests. A program makes the sandbox active, on disk, before its
 * start is reported; the sandbox is ready again when no program has run for a moment. */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "control/event/commands.h"
#include "control/owner/event_share.h"
#include "control/sandbox/oom.h"
#include "control/sandbox/sandbox.h"
#include "lib/ipc/environment.h"

enum { QUIET_MS = 250 }; /* so that consecutive execs do not record two transitions each */

/* Checked again when the change's turn comes: a pause may have been queued before it, and only a
 * resume ends that. */
static int check_quiet(const struct change *c, struct err *e)
{
    const struct sandbox *s = c->sandbox;

    return s->record.state == SANDBOX_ACTIVE && !s->programs
               ? 0
               : err_set(e, ERR_CONFLICT, "sandbox %s is %s now", s->record.id,
                         sandbox_state_names[s->record.state]);
}

static void on_sandbox_quiet(struct loop_timer *t)
{
    struct sandbox *s = container_of(t, struct sandbox, quiet);
    struct change *c;

    if (s->programs || s->record.state != SANDBOX_ACTIVE || s->destroying)
        return;
    c = change_new(s, &ACTOR_DAEMON, "no program is running");
    change_to(c, SANDBOX_READY);
    c->check = check_quiet;
    change_submit(c);
}

void sandbox_settle(struct sandbox *s)
{
    if (!s->programs && s->expiring && !s->destroying)
        ttl_hurry(s);
    if (s->programs || s->record.state == SANDBOX_DESTROYED || s->after_teardown)
        return;
    loop_timer_stop(&s->quiet);
    loop_timer_start(s->control->loop, &s->quiet, clock_mono() + QUIET_MS * NS_PER_MS,
                     on_sandbox_quiet, NULL);
}

void sandbox_program_ended(struct sandbox *s)
{
    s->programs--;
    sandbox_settle(s);
}

/* Releases everything; no further events reach the owner. */
static struct sandbox *release_run(struct run_op *op)
{
    struct sandbox *s = take_ptr(op->sandbox);

    link_leave(&op->link_);
    loop_later_stop(&op->later_);
    if (op->counts_)
        sandbox_program_ended(s);
    op->counts_ = false;
    sandbox_detach(s);
    return s;
}

static void drop_run_stdio(struct run_op *op)
{
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        drop_fd(&op->process.stdio[i]);
}

/* Both the backend and the store have answered. */
static void report_run_started(struct run_op *op)
{
    struct sandbox *s = op->sandbox;

    if (op->waits_)
        return;
    if (op->r_ < 0) {
        drop_run_stdio(op);
        release_run(op);
        op->events->started(op, op->r_, &op->err_);
        sandbox_unref(s);
        return;
    }
    sandbox_ref(s);
    op->reported_ = true;
    op->events->started(op, 0, NULL);
    if (op->sandbox == s && op->ended_) {
        release_run(op);
        op->events->ended(op, &op->end_);
        sandbox_unref(s);
    }
    sandbox_unref(s);
}

static void on_run_active(struct sandbox_op *a, int r, const struct err *e)
{
    struct run_op *op = container_of(a, struct run_op, active_);

    op->waits_--;
    if (r < 0)
        command_gave_up(take_ptr(op->command_), COMMAND_ABANDONED, e->msg);
    if (r < 0 && op->r_ >= 0) { /* a program must not run unless `active` is on record */
        op->r_ = r;
        op->err_ = *e;
        if (op->process.box) {
            op->process.box->ops->signal(&op->process, SIGKILL, BACKEND_SCOPE_TREE);
            op->process.box->ops->drop(&op->process);
            op->waits_ = 0;
        }
    }
    report_run_started(op);
}

static void on_active_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    /* Another program made it active meanwhile: that is just as good. */
    if (r == -(int)ERR_CONFLICT && s->record.state == SANDBOX_ACTIVE)
        r = 0;
    s->activating = false;
    for (struct link *m; (m = list_take(&s->activations));) {
        struct sandbox_op *op = container_of(m, struct sandbox_op, link_);

        op->done(op, r, e);
    }
    if (!s->programs) /* its programs were cancelled meanwhile */
        sandbox_settle(s);
}

bool sandbox_activate(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    struct change *c;

    loop_timer_stop(&s->quiet);
    if (s->record.state == SANDBOX_ACTIVE && !list_first(&s->changes))
        return true;
    list_append(&s->activations, &op->link_);
    if (s->activating)
        return false;
    s->activating = true;
    c = change_new(s, who ? who : &ACTOR_DAEMON, "a program was started");
    change_to(c, SANDBOX_ACTIVE);
    c->done = on_active_recorded;
    change_submit(c);
    return false;
}

static void on_run_started(struct backend_process *p, int r, const struct err *e)
{
    struct run_op *op = container_of(p, struct run_op, process);

    if (r < 0)
        command_not_started(take_ptr(op->command_), e);
    else
        command_started(op->command_, p->proc);
    op->waits_--;
    if (r < 0 && op->r_ >= 0) {
        op->r_ = r;
        op->err_ = *e;
    }
    report_run_started(op);
}

static void on_run_ended(struct backend_process *p, const struct backend_end *from_box)
{
    struct run_op *op = container_of(p, struct run_op, process);
    struct sandbox *s = op->sandbox;
    struct backend_end end = sandbox_end(s, from_box);

    command_ended(take_ptr(op->command_), &end);
    if (!op->reported_) { /* the start is reported first */
        op->ended_ = true;
        op->end_ = end;
        snprintf(op->end_msg_, sizeof op->end_msg_, "%s", end.msg ? end.msg : "");
        op->end_.msg = op->end_msg_;
        return;
    }
    release_run(op);
    op->events->ended(op, &end);
    sandbox_unref(s);
}

static const struct backend_process_events events = { .started = on_run_started,
                                                      .ended = on_run_ended };

static void on_run_refused(struct loop_later *l)
{
    report_run_started(container_of(l, struct run_op, later_));
}

int sandbox_check_usable(const struct sandbox *s, unsigned can, struct err *e)
{
    const struct sandbox_record *r = &s->record;
    bool has_reason =
        (r->state == SANDBOX_EXPIRED || r->state == SANDBOX_DESTROYING) && r->reason[0];

    if (r->state == SANDBOX_PAUSED || s->pausing)
        return err_set(e, ERR_PAUSED, "sandbox %s is %s: resume it first", r->id,
                       s->pausing ? "being paused" : "paused");
    if (!sandbox_state_usable(r->state) || sandbox_is_ending(s) || s->after_teardown || !s->box)
        return err_set(e, ERR_CONFLICT, "sandbox %s is %s: nothing can be started in it%s%s%s",
                       r->id,
                       sandbox_is_ending(s) ? "being destroyed" : sandbox_state_names[r->state],
                       has_reason ? " (" : "", has_reason ? r->reason : "", has_reason ? ")" : "");
    if ((s->ops->can & can) != can)
        return err_set(e, ERR_UNSUPPORTED, "%s does not support this operation", s->ops->id);
    return 0;
}

int run_check_program(bool programs, struct err *e)
{
    return programs ? 0
                    : err_set(e, ERR_DENIED,
                              "this request may not start programs: the tool policy was asked "
                              "about files only");
}

static enum command_recording recording_of(const struct sandbox *s)
{
    return s->profile ? s->profile->record_commands : RECORDING_MASKED;
}

int sandbox_check_record(const struct sandbox *s, const struct actor *who, struct err *e)
{
    if (recording_of(s) != RECORDING_NONE)
        return commands_check(s->control, s->record.owner, who, e);
    return s->record.state == SANDBOX_ACTIVE
               ? 0
               : event_share_check(s->control, s->record.owner, who, e);
}

struct command_run *sandbox_begin_record(const struct sandbox *s, const struct process_start *start,
                                         const struct actor *who, const char *client,
                                         const char *requested)
{
    return command_begin(s->control, &(struct command_begin){
                                         .sandbox = s->record.id,
                                         .owner = s->record.owner,
                                         .who = who,
                                         .recording = recording_of(s),
                                         .client = client,
                                         .argv = start->argv,
                                         .requested = requested,
                                         .user = start->user  ? start->user
                                                 : s->profile ? s->profile->user
                                                              : NULL,
                                         .background = start->flags & START_KEEP,
                                     });
}

int sandbox_record_input(const struct sandbox *s, const struct actor *who, const char *client,
                         const char *const *argv, struct command_run **ret, struct err *e)
{
    int r = sandbox_check_record(s, who, e);

    if (r < 0)
        return r;
    *ret = command_begin(s->control, &(struct command_begin){ .sandbox = s->record.id,
                                                              .owner = s->record.owner,
                                                              .who = who,
                                                              .recording = recording_of(s),
                                                              .client = client,
                                                              .argv = argv });
    return 0;
}

void sandbox_run(struct sandbox *s, const struct process_start *start, struct run_op *op)
{
    op->sandbox = sandbox_ref(s);
    op->active_.done = on_run_active;
    op->process = (struct backend_process){ .events = &events, .stdio = { -1, -1, -1 } };
    op->command_ = NULL;
    op->reported_ = op->ended_ = op->counts_ = false;
    op->waits_ = 0;
    sandbox_attach(s);
    op->r_ =
        sandbox_check_usable(s,
                             (start->what == START_PROGRAM ? BACKEND_CAN_EXEC : BACKEND_CAN_FILES) |
                                 (start->n_lent ? (unsigned)BACKEND_CAN_LEND : 0u),
                             &op->err_);
    if (op->r_ >= 0 && start->what == START_PROGRAM)
        op->r_ = run_check_program(op->programs, &op->err_);
    if (op->r_ >= 0 && start->what == START_PROGRAM)
        op->r_ = sandbox_check_record(s, op->actor, &op->err_);
    if (op->r_ < 0) {
        loop_later(s->control->loop, &op->later_, on_run_refused, NULL);
        return;
    }
    list_append(&s->runs, &op->link_);
    op->waits_ = 1;
    if (start->what == START_PROGRAM) {
        op->counts_ = true;
        s->programs++;
        if (!sandbox_activate(s, op->actor, &op->active_))
            op->waits_++;
    }
    s->ops->start(s->box, &op->process, start);
    if (start->what == START_PROGRAM)
        op->command_ = sandbox_begin_record(s, start, op->actor, op->client, op->requested);
}

void run_op_signal(struct run_op *op, int sig, enum backend_scope scope)
{
    if (op->sandbox && op->process.box)
        op->process.box->ops->signal(&op->process, sig, scope);
}

void run_op_resize(struct run_op *op, uint16_t rows, uint16_t cols)
{
    int terminal = op->process.stdio[0];

    if (op->sandbox && op->process.box && terminal >= 0)
        (void)op->process.box->ops->resize(&op->process, terminal, rows, cols, NULL);
}

void run_op_cancel(struct run_op *op)
{
    struct sandbox *s = op->sandbox;

    if (!s)
        return;
    link_leave(&op->active_.link_);
    command_gave_up(take_ptr(op->command_), COMMAND_ABANDONED, "its client disconnected");
    if (op->process.box) {
        op->process.box->ops->signal(&op->process, SIGKILL, BACKEND_SCOPE_TREE);
        op->process.box->ops->drop(&op->process);
    }
    drop_run_stdio(op);
    release_run(op);
    sandbox_unref(s);
}

int process_start_fill(const struct sandbox *s, const struct process_request *q, struct arena *a,
                       struct process_start *ret, struct err *e)
{
    const struct json_map none = { 0 }, *own = q->bare ? &none : &s->request.env;
    const char **argv = arena_array(a, q->argv.n + 1, sizeof *argv);
    const char **first = process_variables(&q->env, a), **then = process_variables(own, a);
    const char **envp = arena_array(a, q->env.n + own->n + 1, sizeof *envp);

    if (!argv || !first || !then || !envp)
        return err_set(e, ERR_TOO_BIG,
                       "arguments and variables need more memory than the allowed %zu bytes",
                       a->max);
    for (size_t i = 0; i < q->argv.n; i++)
        argv[i] = q->argv.p[i];
    environment_append(envp, environment_append(envp, 0, first, q->env.n), then, own->n);
    *ret = (struct process_start){
        .what = START_PROGRAM,
        .flags = (q->stdin_ ? START_STDIN : 0u) | (q->tty ? START_TTY : 0u) |
                 (q->background ? START_KEEP : 0u),
        .user = q->user,
        .cwd = q->cwd,
        .argv = argv,
        .envp = envp,
        .rows = q->rows,
        .cols = q->cols,
        .timeout_ns = q->timeout_ns,
        .grace_ns = q->grace_ns,
    };
    return 0;
}
