/* SPDX-License-Identifier: Apache-2.0 */
/* Background processes across restarts of the daemon. */
#include <stdlib.h>

#include "base/log.h"
#include "base/own.h"
#include "control/sandbox/oom.h"
#include "control/event/commands.h"
#include "control/process/process.h"

struct process_reattach {
    struct sandbox *sandbox; /* referenced */
    struct store_query query;
    struct process_reattach *next; /* waits until the rows are loaded */
    bool attaches;                 /* its box was adopted, or is gone … */
    size_t n_found;
    struct backend_found found[]; /* … and has these processes */
};

static void reopen_output(struct process *p)
{
    bool ended = p->phase == PROCESS_ENDED;
    const struct account a = sandbox_account(p->sandbox);
    const struct quota_who who = process_holder(p->sandbox, &a);
    uint64_t kept = OUTPUT_FLOOR;

    process_open_output(p, ended ? OUTPUT_READ : OUTPUT_MAKE);
    quota_charge(&p->control->processes, &who, 1, &p->counted);
    if (!ended && output_reserve(&p->output, 0) > kept)
        kept = output_reserve(&p->output, 0);
    quota_charge(&p->control->output, &who, ended ? 0 : kept, &p->kept);
    process_bound_output(p);
    if (ended)
        output_close(&p->output);
}

/* According to its row it runs, as far as is known before its box is asked. */
static void park_process(struct process *p)
{
    p->phase = PROCESS_RUNNING;
    p->parked = p->attaching = true;
    p->end.how = BACKEND_LOST;
    reopen_output(p);
    process_count(p);
}

/* It runs, or it ended meanwhile, or its fate is unknown. */
static void reattach_process(struct process *p, struct process_reattach *u)
{
    struct backend_found *f = NULL;
    struct sandbox *s = p->sandbox;

    for (size_t i = 0; i < u->n_found && !f; i++)
        if (u->found[i].proc && u->found[i].cookie == p->cookie)
            f = &u->found[i];
    p->parked = false;
    if (!f || !s->box) {
        p->attaching = false;
        process_on_end(p, &p->end);
        return;
    }
    if (f->ended)
        p->end = (struct backend_end){ .how = (enum backend_how)f->how,
                                       .status = f->status,
                                       .oom_kills = f->oom_kills,
                                       .cpu_ns = f->cpu_ns,
                                       .peak_bytes = f->peak_bytes };
    p->pid = f->pid;
    s->ops->reattach(s->box, &p->backend, f->proc);
    f->proc = 0; /* claimed */
}

static void load_process_row(struct sandbox *s, const struct process_record *row)
{
    struct process *p = process_new(s);
    struct err e;

    p->proc = row->proc;
    p->started_ns = row->started_ns;
    if (process_read_spec(p, row->spec, &e) < 0) {
        LOG(ERROR, "process.unreadable", LOG_S("sandbox", row->sandbox),
            LOG_I("process", row->proc), LOG_S("error", e.msg));
        process_remove(p);
        return;
    }
    if (!row->ended) {
        park_process(p);
        return;
    }
    p->phase = PROCESS_ENDED;
    p->end_reported = true;
    p->exited_ns = row->exited_ns;
    p->end.how = (enum backend_how)row->how;
    p->end.status = row->status;
    p->end = sandbox_end(s, &p->end);
    command_ended(take_ptr(p->command), &p->end);
    reopen_output(p);
}

/* A process without a row: the daemon died before its start was recorded, so it is killed. One that
 * has ended was recorded: the box only has to forget it. */
static void kill_unknown_process(struct sandbox *s, const struct backend_found *f)
{
    struct process *p;

    if (f->ended) {
        s->ops->forget(s->box, f->proc);
        return;
    }
    p = process_new(s);
    p->phase = PROCESS_DOOMED;
    p->proc = f->proc;
    process_count(p);
    s->ops->reattach(s->box, &p->backend, f->proc);
}

static void attach_parked(struct process_reattach *u)
{
    struct sandbox *s = u->sandbox;

    LIST_EACH_SAFE (struct process, p, &s->processes, link)
        if (p->parked && p->phase == PROCESS_RUNNING)
            reattach_process(p, u);
    for (size_t i = 0; s->box && i < u->n_found; i++)
        if (u->found[i].proc)
            kill_unknown_process(s, &u->found[i]);
}

/* The rows are known, unless they could not be read. */
static void finish_reattach(struct process_reattach *u)
{
    struct sandbox *s = u->sandbox;

    if (u->attaches && s->processes_known)
        attach_parked(u);
    sandbox_program_ended(s);
    control_note_adopted(s->control);
    if (u->attaches)
        resume_on_reattached(s);
    arena_done(&u->query.arena);
    sandbox_unref(s);
    free(u);
}

static void on_processes_loaded(struct store_query *q, int r, const struct err *e)
{
    struct process_reattach *u = container_of(q, struct process_reattach, query);
    struct sandbox *s = u->sandbox;
    size_t surplus = r >= 0 && q->n > PROCESSES_MAX ? q->n - PROCESSES_MAX : 0;

    if (r < 0)
        LOG(ERROR, "process.unreadable", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
    /* Destroyed meanwhile: nothing to reattach. */
    if (s->record.state == SANDBOX_DESTROYED)
        r = -(int)ERR_CONFLICT;
    for (size_t i = 0; r >= 0 && i < q->n; i++)
        if (surplus && q->processes[i].ended)
            surplus--;
        else
            load_process_row(s, &q->processes[i]);
    s->processes_known = r >= 0;
    s->loading = NULL;
    while (u) {
        struct process_reattach *next = u->next;

        finish_reattach(u);
        u = next;
    }
}

static struct process_reattach *new_reattach(struct sandbox *s, const struct backend_found *found,
                                             size_t n)
{
    struct process_reattach *u = new0(sizeof *u + n * sizeof *found);

    u->sandbox = sandbox_ref(s);
    u->n_found = n;
    if (n)
        memcpy(u->found, found, n * sizeof *found);
    u->query = (struct store_query){ .kind = STORE_PROCESSES, .sandbox = str_from(s->record.id) };
    arena_init(&u->query.arena, (size_t)1 << 30);
    s->control->adopting++;
    s->programs++; /* until its processes are known */
    return u;
}

static void load_rows(struct process_reattach *u)
{
    struct sandbox *s = u->sandbox;
    struct err e;

    s->loading = u;
    if (store_ask(s->control->store, &u->query, on_processes_loaded, &e) < 0)
        on_processes_loaded(&u->query, -(int)e.code, &e);
}

void processes_load(struct sandbox *s)
{
    load_rows(new_reattach(s, NULL, 0));
}

void processes_reattach(struct sandbox *s, const struct backend_found *found, size_t n)
{
    struct process_reattach *u = new_reattach(s, found, n), *last = s->loading;

    u->attaches = true;
    while (last && last->next)
        last = last->next;
    if (last)
        last->next = u;
    else if (s->processes_known)
        finish_reattach(u);
    else
        load_rows(u);
}
