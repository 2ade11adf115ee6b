/* SPDX-License-Identifier: Apache-2.0 */
/* Background processes at the end of their box or sandbox. */
#include "base/clock.h"
#include "base/own.h"
#include "control/event/commands.h"
#include "control/process/process.h"

/* Calls fn for each, which may remove it. */
static void each_process(struct sandbox *s, void (*fn)(struct process *p))
{
    LIST_EACH_SAFE (struct process, x, &s->processes, link)
        fn(x);
}

/* Makes the box drop the process, if it has not yet. */
static void release_backend(struct process *p)
{
    if (p->backend.box)
        p->backend.box->ops->drop(&p->backend);
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        drop_fd(&p->backend.stdio[i]);
}

static void report_not_started(struct process *p)
{
    struct process_op *op = take_ptr(p->op);
    struct err e;

    if (op)
        op->done(op, err_set(&e, ERR_CONFLICT, "the sandbox ended before the process was started"),
                 &e);
}

static void lose_process(struct process *p)
{
    bool unanswered = p->phase == PROCESS_STARTING && p->backend.box && !p->proc;

    process_ref(p);
    release_backend(p);
    if (p->phase == PROCESS_DOOMED)
        process_remove(p);
    else if (unanswered)
        process_fail_start(p);
    else if (!p->end_reported)
        process_on_end(p, &(struct backend_end){ .how = BACKEND_LOST });
    if (p->phase == PROCESS_DRAINING)
        process_finish(p);
    process_unref(p);
}

void processes_lost(struct sandbox *s)
{
    each_process(s, lose_process);
}

static void leave_process(struct process *p)
{
    process_ref(p);
    p->command = NULL; /* the next daemon run follows it */
    release_backend(p);
    report_not_started(p);
    watchers_leave(p);
    process_remove(p);
    process_unref(p);
}

void processes_leave(struct sandbox *s)
{
    each_process(s, leave_process);
}

static void drop_destroyed_process(struct process *p)
{
    process_ref(p);
    release_backend(p);
    io_close(p);
    report_not_started(p);
    if (!p->end_reported)
        p->end = (struct backend_end){ .how = BACKEND_LOST };
    command_gave_up(take_ptr(p->command), COMMAND_LOST, "its sandbox was destroyed");
    p->end_reported = true;
    p->phase = PROCESS_ENDED;
    p->exited_ns = p->exited_ns ? p->exited_ns : clock_wall();
    process_remove(p);
    watchers_wake(p);
    process_unref(p);
}

void processes_remove(struct sandbox *s)
{
    each_process(s, drop_destroyed_process);
    output_remove_all(s->control->context.state, s->record.id);
}
