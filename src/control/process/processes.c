/* SPDX-License-Identifier: Apache-2.0 */
#include "control/process/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/event/commands.h"
#include "control/sandbox/oom.h"
#include "lib/crypto/random.h"
#include "lib/json/reader.h"

enum {
    SPEC_MAX = 1 << 20,
    ARENA_MAX = 8 << 20,
    DRAIN_MS = 1000, /* for output after the end: a child of the process may hold the pipe open */
};

/* --- the object --- */

struct process *process_ref(struct process *p)
{
    p->refs++;
    return p;
}

void process_unref(struct process *p)
{
    if (!p || --p->refs)
        return;
    io_close(p);
    output_close(&p->output);
    arena_done(&p->arena);
    buf_done(&p->detail);
    buf_done(&p->spec);
    free(p);
}

struct process *process_new(struct sandbox *s)
{
    struct process *p = new0(sizeof *p);

    p->refs = 1;
    p->control = s->control;
    p->sandbox = s;
    p->output = OUTPUT_INIT;
    p->backend =
        (struct backend_process){ .events = &process_backend_events, .stdio = { -1, -1, -1 } };
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        p->stream[i].fd = -1;
    arena_init(&p->arena, ARENA_MAX);
    buf_init(&p->detail, SPEC_MAX);
    buf_init(&p->spec, SPEC_MAX);
    list_append(&s->processes, &p->link);
    return p;
}

void process_count(struct process *p)
{
    p->counts = p->sandbox;
    if (p->counts)
        p->sandbox->programs++;
    if (p->counts && p->request.helper == PROCESS_OF_CLIENT)
        p->sandbox->idle.processes++;
}

static void uncount_process(struct process *p)
{
    if (p->counts && p->sandbox && p->request.helper == PROCESS_OF_CLIENT) {
        p->sandbox->idle.processes--;
        idle_note(&p->sandbox->idle, USE_PROCESS);
    }
    if (p->counts && p->sandbox)
        sandbox_program_ended(p->sandbox);
    p->counts = false;
}

void process_remove(struct process *p)
{
    io_close(p);
    link_leave(&p->active.link_);
    link_leave(&p->link);
    uncount_process(p);
    quota_drop(&p->kept);
    quota_drop(&p->counted);
    for (struct link *m = list_first(&p->watchers); m && p->sandbox;
         m = list_after(&p->watchers, m))
        sandbox_detach(p->sandbox);
    p->sandbox = NULL;
    process_unref(p);
}

static bool is_process_shown(const struct process *p)
{
    return p->phase != PROCESS_STARTING && p->phase != PROCESS_DOOMED;
}

void process_view(const struct process *p, struct process_view *ret)
{
    *ret = (struct process_view){
        .proc = p->proc,
        .pid = p->pid,
        .request = &p->request,
        .started_ns = p->started_ns,
        .exited_ns = p->phase == PROCESS_ENDED ? p->exited_ns : 0,
        .running = p->phase == PROCESS_RUNNING,
        .ended = p->phase == PROCESS_ENDED,
        .end = p->end,
        .lost_bytes = p->output.total > PROCESS_KEEP ? p->output.total - PROCESS_KEEP : 0,
    };
}

struct process *process_find(struct sandbox *s, uint32_t proc)
{
    LIST_EACH (struct process, p, &s->processes, link)
        if (p->proc == proc && is_process_shown(p))
            return process_ref(p);
    return NULL;
}

void process_each(struct sandbox *s, void (*each)(void *user, struct process *p), void *user)
{
    LIST_EACH (struct process, p, &s->processes, link)
        if (is_process_shown(p))
            each(user, p);
}

/* --- its row --- */

/* The request, the cookie by which it is found again, and its OOM kills. */
static int write_process_spec(const struct process_request *q, uint64_t cookie, int pid,
                              uint32_t oom_kills, const char *command, struct buf *out,
                              struct err *e)
{
    struct json_writer w;

    buf_clear(out);
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_uint(&w, "cookie", cookie);
    json_field_int(&w, "pid", pid);
    json_field_uint(&w, "oom_kills", oom_kills);
    json_field_cstr(&w, "helper", process_helper_names[q->helper]);
    json_field_optional(&w, "command", command);
    json_key(&w, STR("request"));
    json_unbind(q, process_request_fields, process_request_field_count, &w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

struct process_spec {
    uint64_t cookie;
    int pid;
    uint32_t oom_kills;
    enum process_helper helper;
    const char *command;
    const struct json *request;
};

static const struct json_field spec_fields[] = {
    { "cookie", JSON_KIND_UINT, JSON_AT(struct process_spec, cookie), .required = true },
    { "pid", JSON_KIND_INT, JSON_AT(struct process_spec, pid), .required = true },
    { "oom_kills", JSON_KIND_UINT, JSON_AT(struct process_spec, oom_kills) },
    /* Rows of earlier versions lack the member and count as a client's: at worst a helper keeps its
     * sandbox from being idle. */
    { "helper", JSON_KIND_ENUM, JSON_AT(struct process_spec, helper),
      .names = process_helper_names },
    { "command", JSON_KIND_STR, JSON_AT(struct process_spec, command), .max = ID_MAX - 1 },
    { "request", JSON_KIND_ANY, JSON_AT(struct process_spec, request), .required = true },
};

int process_read_spec(struct process *p, struct str text, struct err *e)
{
    const struct json_limits limits = { .bytes = SPEC_MAX, .depth = 8 };
    struct process_spec spec = { 0 };
    const struct json *v;
    int r = json_read(text, limits, &p->arena, &v, e);

    r = r < 0 ? r : json_bind(v, spec_fields, COUNT_OF(spec_fields), &spec, &p->arena, e);
    r = r < 0 ? r : process_request_read(spec.request, &p->request, &p->arena, e);
    if (r < 0)
        return r;
    p->cookie = spec.cookie;
    p->pid = spec.pid;
    p->end.oom_kills = spec.oom_kills;
    p->request.helper = spec.helper;
    if (spec.command) {
        snprintf(p->command_id, sizeof p->command_id, "%s", spec.command);
        p->command = command_claim(p->control, spec.command);
    }
    return 0;
}

static void write_process_detail(struct process *p)
{
    struct json_writer w;

    buf_clear(&p->detail);
    json_writer_init(&w, &p->detail, JSON_COMPACT);
    json_begin_object(&w);
    json_field_uint(&w, "process", p->proc);
    json_field_text(&w, "program", p->request.argv.p[0]);
    if (p->end_reported && p->end.how == BACKEND_EXITED)
        json_field_int(&w, "exit_code", p->end.status);
    else if (p->end_reported)
        json_field_null(&w, "exit_code");
    if (p->end_reported) {
        json_field_int(&w, "signal", p->end.how == BACKEND_SIGNALLED ? p->end.status : 0);
        json_field_bool(&w, "timed_out", p->end.how == BACKEND_TIMED_OUT);
        json_field_bool(&w, "lost", p->end.how == BACKEND_LOST);
    }
    json_end_object(&w);
    (void)json_writer_finish(&w, NULL); /* empty if too long */
}

static void store_process_row(struct change *c, struct store_txn *t)
{
    const struct process *p = c->user;
    struct process_record r = {
        .proc = p->proc,
        .spec = buf_str(&p->spec),
        .started_ns = p->started_ns,
    };

    snprintf(r.sandbox, sizeof r.sandbox, "%s", c->sandbox->record.id);
    if (p->phase == PROCESS_RECORDING) {
        r.ended = true;
        r.exited_ns = p->exited_ns;
        r.how = (int)p->end.how;
        r.status = p->end.status;
    }
    store_put_process(t, &r);
}

/* Stores row and event in one change, which holds a reference to the process. */
static int submit_process_change(struct process *p, const struct actor *who, const char *type,
                                 change_done_fn *done, bool stubborn, struct err *e)
{
    struct change *c;
    int r = write_process_spec(&p->request, p->cookie, p->pid, p->end.oom_kills, p->command_id,
                               &p->spec, e);

    if (r < 0)
        return r;
    write_process_detail(p);
    c = change_new(p->sandbox, who, "");
    c->type = type;
    c->detail = buf_str(&p->detail);
    c->also = store_process_row;
    c->done = done;
    c->stubborn = stubborn;
    c->user = process_ref(p);
    change_submit(c);
    return 0;
}

/* --- the end --- */

static void on_end_recorded(struct change *c, int r, const struct err *e)
{
    struct process *p = c->user;
    struct sandbox *s = p->sandbox;

    if (r < 0) /* a retry is impossible: the next start of the daemon finds it */
        LOG(ERROR, "process.end_not_recorded", LOG_S("sandbox", c->sandbox->record.id),
            LOG_S("error", e->msg));
    if (s) {
        p->phase = PROCESS_ENDED;
        if (r >= 0 && s->box && (s->ops->can & BACKEND_CAN_REATTACH))
            s->ops->forget(s->box, p->proc);
        uncount_process(p);
        if (p->kept.n > output_size(&p->output)) /* releases the quota that it did not use */
            quota_shrink(&p->kept, p->kept.n - output_size(&p->output));
        if (!list_first(&p->watchers))
            output_close(&p->output);
        watchers_wake(p);
    }
    process_unref(p);
}

void process_finish(struct process *p)
{
    struct err e;

    io_drain(p);
    io_close(p);
    watchers_wake(p);
    p->phase = PROCESS_RECORDING;
    if (submit_process_change(p, &ACTOR_DAEMON, "process.exited", on_end_recorded, true, &e) < 0)
        LOG(ERROR, "process.end_not_recorded", LOG_S("sandbox", p->sandbox->record.id),
            LOG_S("error", e.msg)); /* its spec was stored before, so this cannot happen */
}

static void on_drain_timeout(struct loop_timer *t)
{
    process_finish(container_of(t, struct process, drain));
}

static void begin_drain(struct process *p)
{
    p->phase = PROCESS_DRAINING;
    p->held = false;
    if (!io_reads(p) ||
        loop_timer_start(p->control->loop, &p->drain, clock_mono() + DRAIN_MS * NS_PER_MS,
                         on_drain_timeout, NULL) < 0)
        process_finish(p);
    else
        io_update(p);
}

void process_on_end(struct process *p, const struct backend_end *end)
{
    p->end_reported = true;
    p->exited_ns = clock_wall();
    p->end = sandbox_end(p->sandbox, end);
    command_ended(take_ptr(p->command), &p->end);
    snprintf(p->end_msg, sizeof p->end_msg, "%s", end->msg ? end->msg : "");
    p->end.msg = end->msg ? p->end_msg : NULL;
    if (p->phase == PROCESS_RUNNING)
        begin_drain(p);
}

/* --- processes that must not run --- */

static void forget_doomed(struct process *p)
{
    struct sandbox *s = p->sandbox;

    if (s->box && p->proc && (s->ops->can & BACKEND_CAN_REATTACH))
        s->ops->forget(s->box, p->proc);
    process_remove(p);
}

static void doom_process(struct process *p)
{
    p->phase = PROCESS_DOOMED;
    command_gave_up(take_ptr(p->command), COMMAND_ABANDONED, p->err.msg);
    io_close(p);
    if (!p->backend.box)
        forget_doomed(p);
    else
        p->backend.box->ops->signal(&p->backend, SIGKILL, BACKEND_SCOPE_TREE);
}

/* --- the start --- */

static void give_up_start(struct process *p)
{
    struct process_op *op = take_ptr(p->op);
    struct err e = p->err;
    int r = p->r;

    memcpy(op->step, p->backend.step, sizeof op->step);
    doom_process(p);
    op->done(op, r, &e);
}

static void set_start_error(struct process *p, int r, const struct err *e)
{
    /* The first error counts. */
    if (p->r < 0)
        return;
    p->r = r;
    p->err = *e;
}

void process_open_output(struct process *p, enum output_mode mode)
{
    struct err e;

    if (output_open(&p->output, p->control->context.state, p->sandbox->record.id, p->proc, mode,
                    &e) < 0)
        LOG(WARN, "output.lost", LOG_S("sandbox", p->sandbox->record.id), LOG_S("error", e.msg));
}

static void on_start_recorded(struct change *c, int r, const struct err *e)
{
    struct process *p = c->user;
    struct process_op *op;

    if (!p->op) { /* the sandbox was destroyed meanwhile, which was reported */
        process_unref(p);
        return;
    }
    if (r < 0) {
        set_start_error(p, r, e);
        give_up_start(p);
        process_unref(p);
        return;
    }
    op = take_ptr(p->op);
    p->phase = PROCESS_RUNNING;
    process_open_output(p, OUTPUT_MAKE);
    process_bound_output(p);
    io_start(p);
    op->process = process_ref(p);
    op->done(op, 0, NULL);
    if (p->end_reported && p->phase == PROCESS_RUNNING)
        begin_drain(p);
    process_unref(p);
}

/* The backend and the store have answered: records the start. */
static void continue_start(struct process *p)
{
    if (p->waits)
        return;
    if (p->r >= 0) {
        int r =
            submit_process_change(p, &p->who, "process.started", on_start_recorded, false, &p->err);

        p->r = r;
    }
    if (p->r < 0)
        give_up_start(p);
}

void process_fail_start(struct process *p)
{
    struct err e;

    set_start_error(
        p, err_set(&e, ERR_CONFLICT, "the sandbox ended before the process was started"), &e);
    p->waits--;
    continue_start(p);
}

static void on_process_active(struct sandbox_op *a, int r, const struct err *e)
{
    struct process *p = container_of(a, struct process, active);

    p->waits--;
    if (r < 0)
        set_start_error(p, r, e);
    continue_start(p);
}

static void on_process_started(struct backend_process *x, int r, const struct err *e)
{
    struct process *p = container_of(x, struct process, backend);

    p->attaching = false;
    if (p->phase == PROCESS_DOOMED) {
        doom_process(p);
        return;
    }
    if (r >= 0)
        io_take(p);
    if (p->phase != PROCESS_STARTING && r >= 0) { /* reattached */
        io_start(p);
        watchers_room(p);
    } else if (p->phase != PROCESS_STARTING) {
        LOG(WARN, "process.lost", LOG_S("sandbox", p->sandbox->record.id),
            LOG_I("process", p->proc), LOG_S("error", e->msg));
        process_on_end(p, &p->end); /* with the end that was found, or lost */
    } else {
        p->waits--;
        if (r < 0)
            set_start_error(p, r, e);
        p->proc = r < 0 ? 0 : x->proc;
        p->pid = r < 0 ? 0 : x->pid;
        p->started_ns = clock_wall();
        if (r < 0)
            command_not_started(take_ptr(p->command), e);
        else
            command_started(p->command, p->proc);
        continue_start(p);
    }
}

static void on_process_ended(struct backend_process *x, const struct backend_end *end)
{
    struct process *p = container_of(x, struct process, backend);

    if (p->phase == PROCESS_DOOMED)
        forget_doomed(p);
    else
        process_on_end(p, end);
}

static void on_process_signalled(struct backend_process *x)
{
    struct process *p = container_of(x, struct process, backend);

    if (p->signals && --p->signals == 0)
        watchers_room(p);
}

const struct backend_process_events process_backend_events = { .started = on_process_started,
                                                               .ended = on_process_ended,
                                                               .signalled = on_process_signalled };

/* --- removing ended processes --- */

static void delete_process_row(struct change *c, struct store_txn *t)
{
    store_delete_process(t, c->sandbox->record.id, (uint32_t)c->number);
}

static struct change *new_row_removal(const struct process *p, const struct actor *who)
{
    struct change *c = change_new(p->sandbox, who, "");

    c->number = p->proc;
    c->also = delete_process_row;
    return c;
}

static void remove_process_with_output(struct process *p)
{
    output_remove(p->control->context.state, p->sandbox->record.id, p->proc);
    process_remove(p);
}

static void on_row_removed(struct change *c, int r, const struct err *e)
{
    struct process_op *op = c->user;

    if (r >= 0 && op->process->sandbox) /* else it was removed meanwhile */
        remove_process_with_output(op->process);
    op->done(op, r, e);
}

static void on_process_refused(struct sandbox_op *a, int r, const struct err *e)
{
    struct process_op *op = container_of(a, struct process_op, op_);

    op->done(op, r, e);
}

void process_forget(struct process_op *op, const struct actor *who)
{
    struct process *p = op->process;
    struct change *c;
    struct err e;

    if (p->phase != PROCESS_ENDED) {
        op->op_.done = on_process_refused;
        sandbox_op_finish(&op->op_, p->sandbox,
                          err_set(&e, ERR_CONFLICT, "process %u has not ended", p->proc), &e);
        return;
    }
    c = new_row_removal(p, who);
    c->done = on_row_removed;
    c->user = op;
    change_submit(c);
}

struct quota_who process_holder(const struct sandbox *s, const struct account *a)
{
    return (struct quota_who){ .key = str_from(a->name),
                               .parts = { a->part, str_from(s->record.id) } };
}

void process_bound_output(struct process *p)
{
    output_bound(&p->output, &p->kept, p->control->config->images.free_min);
}

static struct process *find_oldest_ended(struct sandbox *s)
{
    LIST_EACH (struct process, p, &s->processes, link)
        if (p->phase == PROCESS_ENDED)
            return p;
    return NULL;
}

static void drop_process(struct process *p)
{
    change_submit(new_row_removal(p, &ACTOR_DAEMON));
    remove_process_with_output(p);
}

/* Charges the process and its output; discards output of the sandbox's ended processes if
 * necessary. */
static int take_process_quota(struct process *p, const struct actor *by, struct err *e)
{
    struct control *c = p->control;
    const struct account a = sandbox_account(p->sandbox);
    const struct quota_who who = process_holder(p->sandbox, &a);
    int r = store_check_room(c->store, e);

    if (r >= 0 && !output_disk_has_room(c->context.state, c->config->images.free_min))
        r = err_set(e, ERR_FULL,
                    "cannot start a background process: the disk of the state directory has no "
                    "more than images.free_min free; destroy sandboxes, or free disk space");
    r = r < 0 ? r : sandbox_check_record(p->sandbox, by, e);
    r = r < 0 ? r : quota_take(&c->processes, &who, 1, &p->counted, e);
    if (r < 0)
        return r;
    while ((r = quota_take(&c->output, &who, OUTPUT_FLOOR, &p->kept, e)) < 0) {
        struct process *oldest = find_oldest_ended(p->sandbox);

        if (!oldest)
            return r;
        drop_process(oldest);
    }
    return 0;
}

/* Removes the oldest ended process if there are too many. */
static int make_process_room(struct sandbox *s, struct err *e)
{
    struct process *oldest = find_oldest_ended(s);
    size_t n = 0;

    LIST_EACH (struct process, p, &s->processes, link)
        n++;
    if (n < PROCESSES_MAX)
        return 0;
    if (!oldest)
        return err_set(e, ERR_BUSY, "sandbox %s has %d running background processes, the maximum",
                       s->record.id, PROCESSES_MAX);
    drop_process(oldest);
    return 0;
}

static int prepare_process(struct sandbox *s, const struct process_request *q,
                           const struct actor *by, struct process **ret, struct err *e)
{
    AUTO(buf_done) struct buf spec = BUF_INIT(SPEC_MAX);
    struct process *p;
    uint64_t cookie;
    int r = sandbox_check_usable(s, BACKEND_CAN_EXEC, e);

    r = r < 0 ? r : make_process_room(s, e);
    r = r < 0 ? r : crypto_random(&cookie, sizeof cookie, e);
    r = r < 0 ? r : write_process_spec(q, cookie, 0, 0, "", &spec, e);
    if (r < 0)
        return r;
    p = process_new(s);
    r = process_read_spec(p, buf_str(&spec), e); /* makes a private copy */
    r = r < 0 ? r : take_process_quota(p, by, e);
    if (r < 0) {
        process_remove(p);
        return r;
    }
    *ret = p;
    return 0;
}

void process_start(struct sandbox *s, const struct actor *who, struct process_op *op)
{
    AUTO(arena_done) struct arena texts = ARENA_INIT(ARENA_MAX);
    struct process_start start;
    struct process *p;
    struct err e;
    int r = run_check_program(op->programs, &e);

    op->process = NULL;
    op->step[0] = '\0';
    r = r < 0 ? r : prepare_process(s, op->request, who, &p, &e);
    if (r >= 0)
        p->request.bare = op->request->bare;
    if (r >= 0 && process_start_fill(s, &p->request, &texts, &start, &e) < 0) {
        process_remove(p);
        r = -(int)e.code;
    }
    if (r < 0) {
        op->op_.done = on_process_refused;
        sandbox_op_finish(&op->op_, s, r, &e);
        return;
    }
    p->op = op;
    p->who = *who;
    p->waits = 1;
    p->active.done = on_process_active;
    process_count(p);
    if (!sandbox_activate(s, &p->who, &p->active))
        p->waits++;
    start.flags |= START_KEEP;
    start.cookie = p->cookie;
    s->ops->start(s->box, &p->backend, &start);
    p->command = sandbox_begin_record(s, &start, who, op->client, NULL);
    snprintf(p->command_id, sizeof p->command_id, "%s", command_id(p->command));
}
