/* Background processes when a life of the daemon or of their sandbox begins or ends. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/oom.h"
#include "control/process.h"

/* --- found after a restart --- */

struct reunion {
    struct sandbox *sandbox; /* referenced */
    struct store_query query;
    size_t n_found;
    struct ext_found found[];
};

static struct ext_found *find_cookie(struct reunion *u, uint64_t cookie)
{
    for (size_t i = 0; i < u->n_found; i++)
        if (u->found[i].proc && u->found[i].cookie == cookie)
            return &u->found[i];
    return NULL;
}

static void reopen_output(struct process *p)
{
    struct err e;
    bool ended = p->phase == PROCESS_ENDED;
    const struct account a = sandbox_account(p->sandbox);
    const struct quota_who who = process_holder(p->sandbox, &a);
    uint64_t kept = OUTPUT_FLOOR;

    if (output_open(&p->output, p->control->context.state, p->sandbox->record.id, p->proc,
                    ended ? OUTPUT_READ : OUTPUT_MAKE, &e) < 0)
        LOG(WARN, "output.lost", LOG_S("sandbox", p->sandbox->record.id), LOG_S("error", e.msg));
    quota_charge(&p->control->processes, &who, 1, &p->counted);
    if (!ended && output_reserve(&p->output, 0) > kept)
        kept = output_reserve(&p->output, 0);
    quota_charge(&p->control->output, &who, ended ? 0 : kept, &p->kept);
    process_bound_output(p);
    if (ended)
        output_close(&p->output);
}

/* Its row says that it runs: so it does, or it ended while nobody looked, or nobody knows. */
static void take_up(struct process *p, struct reunion *u)
{
    struct ext_found *f = find_cookie(u, p->cookie);
    struct sandbox *s = p->sandbox;

    p->phase = PROCESS_RUNNING;
    p->end.how = EXT_LOST;
    reopen_output(p);
    process_count(p);
    if (!f || !s->box) {
        process_over(p, &p->end);
        return;
    }
    if (f->ended)
        p->end = (struct ext_end){ .how = (enum ext_how)f->how,
                                   .status = f->status,
                                   .oom_kills = f->oom_kills,
                                   .cpu_ns = f->cpu_ns,
                                   .peak_bytes = f->peak_bytes };
    p->pid = f->pid;
    s->ops->reattach(s->box, &p->ext, f->proc);
    f->proc = 0; /* taken */
}

static void load_row(struct reunion *u, const struct process_record *row)
{
    struct process *p = process_new(u->sandbox);
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
        take_up(p, u);
        return;
    }
    p->phase = PROCESS_ENDED;
    p->over = true;
    p->exited_ns = row->exited_ns;
    p->end.how = (enum ext_how)row->how;
    p->end.status = row->status;
    p->end = sandbox_end(u->sandbox, &p->end);
    reopen_output(p);
}

/* One that nobody was told of: we died before it was on record. Or after its end was: then the box
 * only has to forget it. */
static void end_stranger(struct sandbox *s, const struct ext_found *f)
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
    s->ops->reattach(s->box, &p->ext, f->proc);
}

static void answered(struct store_query *q, int r, const struct err *e)
{
    struct reunion *u = container_of(q, struct reunion, query);
    struct sandbox *s = u->sandbox;
    size_t surplus = r >= 0 && q->n > PROCESSES_MAX ? q->n - PROCESSES_MAX : 0;

    if (r < 0)
        LOG(ERROR, "process.unreadable", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
    if (s->record.state == SANDBOX_DESTROYED)
        r = -(int)ERR_CONFLICT; /* meanwhile: there is nothing to take up any more */
    for (size_t i = 0; r >= 0 && i < q->n; i++)
        if (surplus && q->processes[i].ended)
            surplus--;
        else
            load_row(u, &q->processes[i]);
    for (size_t i = 0; r >= 0 && s->box && i < u->n_found; i++)
        if (u->found[i].proc)
            end_stranger(s, &u->found[i]);
    sandbox_program_ended(s);
    control_adopted(s->control);
    arena_done(&q->arena);
    sandbox_unref(s);
    free(u);
}

void processes_found(struct sandbox *s, const struct ext_found *found, size_t n)
{
    struct reunion *u = calloc(1, sizeof *u + n * sizeof *found);
    struct err e;

    if (!u)
        abort();
    u->sandbox = sandbox_ref(s);
    u->n_found = n;
    if (n)
        memcpy(u->found, found, n * sizeof *found);
    u->query = (struct store_query){ .kind = STORE_PROCESSES, .sandbox = str_from(s->record.id) };
    arena_init(&u->query.arena, (size_t)1 << 30);
    s->control->adopting++;
    s->programs++; /* until it is known what runs */
    if (store_ask(s->control->store, &u->query, answered, &e) < 0)
        answered(&u->query, -(int)e.code, &e);
}

/* --- ends --- */

/* Calls fn for each, which may remove it. */
static void each(struct sandbox *s, void (*fn)(struct process *p))
{
    struct link *next;

    for (struct link *m = list_first(&s->processes); m; m = next) {
        next = list_after(&s->processes, m);
        fn(container_of(m, struct process, link));
    }
}

/* The box has let go of it, or does so now. */
static void let_go(struct process *p)
{
    if (p->ext.box)
        p->ext.box->ops->drop(&p->ext);
    for (int i = 0; i < EXT_STDIO_MAX; i++)
        drop_fd(&p->ext.stdio[i]);
}

static void tell_not_started(struct process *p)
{
    struct process_op *op = take_ptr(p->op);
    struct err e;
    int r;

    if (!op)
        return;
    r = err_set(&e, ERR_CONFLICT, "the sandbox is gone");
    op->done(op, r, &e);
}

static void lose(struct process *p)
{
    bool unanswered = p->phase == PROCESS_STARTING && p->ext.box && !p->proc;

    process_ref(p);
    let_go(p);
    if (p->phase == PROCESS_DOOMED)
        process_remove(p);
    else if (unanswered)
        process_not_started(p);
    else if (!p->over)
        process_over(p, &(struct ext_end){ .how = EXT_LOST });
    if (p->phase == PROCESS_DRAINING)
        process_finish(p);
    process_unref(p);
}

void processes_lost(struct sandbox *s)
{
    each(s, lose);
}

static void leave(struct process *p)
{
    process_ref(p);
    let_go(p);
    loop_timer_stop(&p->drain);
    loop_timer_stop(&p->stall);
    tell_not_started(p);
    watchers_leave(p);
    process_remove(p);
    process_unref(p);
}

void processes_leave(struct sandbox *s)
{
    each(s, leave);
}

static void drop(struct process *p)
{
    process_ref(p);
    let_go(p);
    loop_timer_stop(&p->drain);
    loop_timer_stop(&p->stall);
    io_close(p);
    tell_not_started(p);
    if (!p->over)
        p->end = (struct ext_end){ .how = EXT_LOST };
    p->over = true;
    p->phase = PROCESS_ENDED;
    p->exited_ns = p->exited_ns ? p->exited_ns : clock_wall();
    process_remove(p);
    watchers_wake(p);
    process_unref(p);
}

void processes_drop(struct sandbox *s)
{
    each(s, drop);
    output_remove_all(s->control->context.state, s->record.id);
}
