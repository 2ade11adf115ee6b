/* SPDX-License-Identifier: Apache-2.0 */
/* The life cycle of a box. Results are recorded in the box; report_due_events() reports them to the
 * owner, from the loop. */
#include <signal.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "backends/local/local.h"

static void report_due_events(struct local_box *b);
static void start_probe_sequence(struct local_box *b);

/* references */

void local_box_ref(struct local_box *b)
{
    b->refs++;
}

void local_box_unref(struct local_box *b)
{
    if (--b->refs == 0 && b->freed)
        free(b);
}

static void on_box_later(struct loop_later *s)
{
    report_due_events(container_of(s, struct local_box, later));
}

void local_report_later(struct local_box *b)
{
    /* -ERR_CONFLICT: it is set to run already */
    loop_later(b->x->c->loop, &b->later, on_box_later, NULL);
}

struct backend_box *local_box_new(struct backend *x, const char *id,
                                  const struct backend_box_events *events, void *owner)
{
    struct local_box *b = new0(sizeof *b);

    b->backend = (struct backend_box){
        .ops = &backend_local, .backend = x, .events = events, .owner = owner
    };
    snprintf(b->backend.id, sizeof b->backend.id, "%s", id);
    b->x = x;
    b->channel.fd.fd = b->end.death.fd = -1;
    b->probe.process = (struct backend_process){ .stdio = { -1, -1, -1 } };
    buf_init(&b->defaults, BACKEND_DEFAULTS_MAX);
    return &b->backend;
}

static void close_probe(struct local_box *b)
{
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        drop_fd(&b->probe.process.stdio[i]);
}

/* Requests to a launcher continue and only keep the memory. */
void local_box_free(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);

    local_box_ref(b);
    b->freed = true;
    local_end_stop(b);
    loop_later_stop(&b->later);
    link_leave(&b->link);
    if (local_request_cancel(&b->create))
        run_dir_remove(&b->x->run, b->backend.id, NULL);
    local_channel_close(b);
    close_probe(b);
    local_process_table_done(b);
    local_egress_done(b);
    local_dial_done(b);
    local_hold_done(b);
    local_plan_free(take_ptr(b->plan));
    buf_done(&b->defaults);
    local_box_unref(b);
}

/* provisioning */

/* Finds all errors of the request before anything exists. */
static int begin_provision(struct local_box *b, const struct backend_spec *s, struct err *e)
{
    int r = local_plan_new(b->x->c, b->backend.id, s, &b->plan, e);

    buf_clear(&b->defaults);
    if (r >= 0)
        r = backend_defaults_write(s, &b->defaults, e);
    if (r >= 0)
        r = run_dir_make(&b->x->run, b->backend.id, e);
    if (r < 0)
        return r;
    r = run_dir_save(&b->x->run, b->backend.id, buf_str(&b->defaults), e);
    if (r < 0)
        run_dir_remove(&b->x->run, b->backend.id, NULL);
    return r;
}

void local_provision(struct backend_box *backend, const struct backend_spec *s)
{
    struct local_box *b = local_box_of(backend);

    if (b->state != BOX_OFF)
        return;
    b->pending |= PENDING_PROVISION;
    b->end.report = (struct backend_report){ 0 };
    b->cpu_ns = 0;
    b->probe.state = PROBE_NONE;
    b->r = begin_provision(b, s, &b->why);
    if (b->r < 0) {
        local_plan_free(take_ptr(b->plan));
        snprintf(b->backend.step, sizeof b->backend.step, "plan");
        local_report_later(b);
        return;
    }
    snprintf(b->backend.handle, sizeof b->backend.handle, "run/%s", b->backend.id);
    b->assign.prepared = !s->owner;
    b->assign.joining = b->hold.waits = false;
    b->state = BOX_CREATING;
    local_lane_ask(b, LAUNCH_CREATE);
}

int local_prepare_create(struct local_box *b, struct err *e)
{
    int pair[2], r;

    if (b->plan->fds[LOCAL_FD_CONTROL] >= 0)
        return 0; /* prepared before, but could not be sent */
    r = run_dir_bind(&b->x->run, b->backend.id, &b->plan->fds[LOCAL_FD_LISTENER], e);
    if (r >= 0)
        r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    b->plan->fds[LOCAL_FD_CONTROL] = pair[1];
    r = local_channel_open(b, pair[0], e);
    if (r >= 0)
        start_probe_sequence(b); /* queued until PID 1 starts */
    return r;
}

/* Called while no resources exist. */
static void cancel_create(struct local_box *b)
{
    local_channel_close(b);
    local_plan_free(take_ptr(b->plan));
    b->end.r = run_dir_remove(&b->x->run, b->backend.id, &b->end.why);
    b->maker = NULL;
    b->state = BOX_OFF;
}

void local_on_created(struct local_box *b, const struct launch_created *m)
{
    _Static_assert((int)BACKEND_LIMIT_MEMORY == LAUNCH_NO_MEMORY &&
                       (int)BACKEND_LIMIT_PIDS == LAUNCH_NO_PIDS &&
                       (int)BACKEND_LIMIT_CPU == LAUNCH_NO_CPU &&
                       (int)BACKEND_LIMIT_DISK == LAUNCH_NO_DISK,
                   "the launcher's bits are the contract's");
    b->backend.unenforced = m->unenforced;
    if (b->freed || b->state != BOX_CREATING)
        return;
    if (!local_channel_is_open(b)) {
        b->r = err_set(&b->why, ERR_UPSTREAM, "the sandbox's supervisor died during its start");
        snprintf(b->backend.step, sizeof b->backend.step, "supervisor");
        local_end_begin(b);
        return;
    }
    b->state = BOX_UP;
    report_due_events(b);
}

void local_on_create_failed(struct local_box *b, int r, const struct err *e, const char *step)
{
    if (b->freed)
        run_dir_remove(&b->x->run, b->backend.id, NULL);
    if (b->freed || b->state != BOX_CREATING)
        return;
    b->r = r;
    b->why = *e;
    snprintf(b->backend.step, sizeof b->backend.step, "%s", step);
    cancel_create(b);
    report_due_events(b);
}

void local_on_create_lost(struct local_box *b, const struct err *e)
{
    if (b->freed || (b->state == BOX_ENDING && b->end.request.sent))
        return; /* the lost destroy request continues */
    if (b->state == BOX_CREATING) {
        b->r = err_set(&b->why, ERR_UPSTREAM,
                       "the launcher died while it was building the sandbox: %.160s", e->msg);
        snprintf(b->backend.step, sizeof b->backend.step, "launcher");
    }
    local_end_begin(b);
}

/* the probe: a file operation, which forks, becomes the user and stats the root directory. The
 * default working directory is made before, by root: it may be the workspace's. */

static void finish_probe(struct local_box *b, int r, const struct err *e)
{
    close_probe(b);
    b->probe.state = PROBE_DONE;
    b->probe.r = r;
    if (b->state != BOX_UP && b->state != BOX_CREATING)
        return; /* the box has its own error */
    if (r < 0)
        b->why = *e;
    if (b->state == BOX_UP) {
        loop_timer_stop(&b->timer);
        report_due_events(b);
    }
}

static void on_probe_timeout(struct loop_timer *t)
{
    struct local_box *b = container_of(t, struct local_box, timer);
    struct err e = { 0 };

    local_process_drop(&b->probe.process);
    finish_probe(b, err_set(&e, ERR_TIMEOUT, "sandbox %s does not answer", b->backend.id), &e);
}

static void probe_root_dir(struct local_box *b);
static void make_workdir(struct local_box *b, const char *user);

/* A sandbox of a plain user without subordinate ids may have no root: its only identity owns all
 * files. */
static void on_probe_started(struct backend_process *p, int r, const struct err *e)
{
    struct local_box *b = container_of(p, struct local_box, probe.process);

    if (r >= 0)
        return;
    if (b->probe.makes_workdir && !b->probe.workdir_by_user) {
        b->probe.workdir_by_user = true;
        close_probe(b);
        make_workdir(b, NULL);
        return;
    }
    finish_probe(b, r, e);
}

static void on_probe_ended(struct backend_process *p, const struct backend_end *end)
{
    struct local_box *b = container_of(p, struct local_box, probe.process);
    struct err e = { 0 };
    bool good = end->how == BACKEND_EXITED && end->status == 0;

    if (good && b->probe.makes_workdir) {
        close_probe(b);
        probe_root_dir(b);
        return;
    }
    finish_probe(b,
                 good ? 0
                      : err_set(&e, ERR_UPSTREAM,
                                "the readiness probe in the sandbox failed: %.160s",
                                end->msg ? end->msg : "it was killed"),
                 &e);
}

static void start_probe(struct local_box *b, const struct process_start *start)
{
    static const struct backend_process_events events = { .started = on_probe_started,
                                                          .ended = on_probe_ended };

    b->probe.process = (struct backend_process){ .events = &events, .stdio = { -1, -1, -1 } };
    local_process_start(&b->backend, &b->probe.process, start);
}

static void probe_root_dir(struct local_box *b)
{
    static const char *const root[] = { "/", NULL };

    b->probe.makes_workdir = false;
    start_probe(b, &(struct process_start){ .what = START_STAT, .cwd = "/", .argv = root });
}

static void make_workdir(struct local_box *b, const char *user)
{
    const char *const workdir[] = { backend_usual_cwd(buf_str(&b->defaults)), NULL };

    start_probe(b,
                &(struct process_start){
                    .what = START_MKDIR, .user = user, .cwd = "/", .argv = workdir, .mode = 0755 });
}

static void start_probe_sequence(struct local_box *b)
{
    b->probe.state = PROBE_RUNS;
    b->probe.makes_workdir = backend_usual_cwd(buf_str(&b->defaults))[0];
    b->probe.workdir_by_user = false;
    if (b->probe.makes_workdir)
        make_workdir(b, "0");
    else
        probe_root_dir(b);
}

static void await_probe(struct local_box *b)
{
    if (b->probe.state == PROBE_NONE)
        start_probe_sequence(b);
    if (b->probe.state == PROBE_RUNS && !loop_timer_started(&b->timer))
        loop_timer_start(b->x->c->loop, &b->timer, clock_mono() + LOCAL_READY_NS, on_probe_timeout,
                         NULL);
}

void local_wait_ready(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);

    b->pending |= PENDING_READY;
    if (b->state == BOX_UP)
        await_probe(b);
    local_report_later(b);
}

/* adoption */

static void fail_adopt(struct local_box *b, int r)
{
    loop_timer_stop(&b->timer);
    local_channel_close(b);
    b->state = BOX_OFF;
    b->r = r;
    report_due_events(b);
}

static void on_adopt_timeout(struct loop_timer *t)
{
    struct local_box *b = container_of(t, struct local_box, timer);

    fail_adopt(b, err_set(&b->why, ERR_TIMEOUT, "the supervisor of sandbox %s does not answer",
                          b->backend.id));
}

static int begin_adopt(struct local_box *b, const char *handle, struct err *e)
{
    int sock = -1, r;

    snprintf(b->backend.handle, sizeof b->backend.handle, "run/%s", b->backend.id);
    if (handle && strcmp(handle, b->backend.handle) != 0)
        return err_set(e, ERR_INVALID, "'%.80s' is not the handle of %s", handle, b->backend.id);
    buf_clear(&b->defaults);
    r = run_dir_connect(&b->x->run, b->backend.id, &sock, e);
    if (r >= 0)
        r = local_channel_open(b, sock, e);
    if (r >= 0)
        r = run_dir_load(&b->x->run, b->backend.id, &b->defaults, e);
    if (r >= 0 && !backend_defaults_valid(buf_str(&b->defaults)))
        r = err_set(e, ERR_INVALID, "the file run/%s/defaults in the state directory is damaged",
                    b->backend.id);
    return r < 0 ? r
                 : loop_timer_start(b->x->c->loop, &b->timer, clock_mono() + LOCAL_ADOPT_NS,
                                    on_adopt_timeout, e);
}

static void connect_adopted(struct local_box *b, const char *handle)
{
    b->r = begin_adopt(b, handle, &b->why);
    if (b->r < 0) {
        local_channel_close(b);
        local_report_later(b);
        return;
    }
    b->state = BOX_ADOPTING;
    local_channel_post_request(b, CONTROL_PING, TAG_NONE);
    local_channel_post_request(b, CONTROL_LIST, TAG_LIST);
}

void local_adopt(struct backend_box *backend, const char *handle)
{
    struct local_box *b = local_box_of(backend);

    if (b->state != BOX_OFF || b->hold.request.lane)
        return;
    b->pending |= PENDING_ADOPT;
    if (!run_dir_is_frozen(&b->x->run, b->backend.id)) {
        connect_adopted(b, handle);
        return;
    }
    snprintf(b->backend.handle, sizeof b->backend.handle, "%s",
             handle); /* checked after the thaw */
    local_lane_ask(b, LAUNCH_THAW);
}

void local_adopt_after_thaw(struct local_box *b, bool by_pid1)
{
    char handle[BACKEND_HANDLE_MAX];

    if (b->state != BOX_OFF || !(b->pending & PENDING_ADOPT))
        return;
    memcpy(handle, b->backend.handle, sizeof handle);
    connect_adopted(b, handle);
    if (by_pid1 && local_channel_is_open(b))
        local_channel_post_request(b, CONTROL_GO_ON, TAG_NONE);
}

/* Adopts kept processes; kills the others, whose client was the former daemon. */
static size_t adopt_processes(struct local_box *b, const struct control_procs *m,
                              struct backend_found *ret)
{
    size_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        struct control_proc p;

        control_procs_at(m, i, &p);
        if (p.flags & START_KEEP) {
            local_process_adopt(b, &p);
            ret[n++] = (struct backend_found){ .proc = p.proc,
                                               .pid = p.pid,
                                               .cookie = p.cookie,
                                               .ended = p.state == CONTROL_ENDED,
                                               .tty = p.flags & START_TTY,
                                               .has_stdin = p.flags & START_STDIN,
                                               .how = local_process_how(p.how),
                                               .status = p.status,
                                               .oom_kills = p.oom_kills,
                                               .cpu_ns = p.cpu_ns,
                                               .peak_bytes = p.peak_bytes };
        } else if (p.state != CONTROL_ENDED) {
            local_channel_post_kill(b, TAG_NONE, p.proc, SIGKILL, CONTROL_TREE);
        }
    }
    return n;
}

void local_on_procs(struct local_box *b, const union supervisor_message *m, struct ipc_fds *fds)
{
    AUTO_FREE struct backend_found *found = NULL;
    size_t n;

    if (b->state != BOX_ADOPTING || m->head.tag != TAG_LIST)
        return;
    loop_timer_stop(&b->timer);
    b->state = BOX_UP;
    b->pending &= ~(unsigned)PENDING_ADOPT;
    found = new0_array(m->procs.count + 1, sizeof *found);
    n = adopt_processes(b, &m->procs, found);
    b->backend.events->adopted(&b->backend, 0, NULL, found, n);
    if (!b->freed && b->state == BOX_UP && (b->pending & PENDING_READY))
        await_probe(b);
}

/* use */

/* PID 1 has exited if its end of the connection is closed, reported or not. */
bool local_alive(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);
    struct pollfd end = { .fd = b->channel.fd.fd, .events = POLLRDHUP };

    if (b->assign.prepared && local_is_foreign(b))
        return false; /* only its own launcher can assign an owner */
    return b->state == BOX_UP && local_channel_is_open(b) && poll(&end, 1, 0) == 0;
}

void local_usage(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);

    local_answers_ask(b, &b->usages, CONTROL_USAGE, TAG_USAGE);
}

void local_report_oom(struct local_box *b, uint32_t kills)
{
    if (kills && b->backend.events && b->backend.events->oom)
        b->backend.events->oom(&b->backend, kills);
}

void local_on_used(struct local_box *b, const union supervisor_message *m, struct ipc_fds *fds)
{
    struct backend_usage u = {
        .cpu_ns = m->used.cpu_ns > b->cpu_ns ? m->used.cpu_ns : b->cpu_ns,
        .processes = m->used.processes,
        .memory = m->used.memory,
        .mapped = m->used.mapped,
        .disk = m->used.disk,
        .disk_max = m->used.disk_max,
        .oom_kills = m->used.oom_kills,
    };

    b->cpu_ns = u.cpu_ns;
    local_report_oom(b, u.oom_kills);
    if (m->head.tag == TAG_LAST_USAGE && b->state == BOX_ENDING)
        local_end_on_used(b);
    else if (m->head.tag == TAG_USAGE && local_answers_take(&b->usages))
        b->backend.events->usage(&b->backend, 0, &u);
}

void local_on_refused(struct local_box *b, const struct control_failed *m)
{
    if (m->head.tag == TAG_LIST && b->state == BOX_ADOPTING) {
        fail_adopt(b, err_set(&b->why, ERR_UPSTREAM, "%.199s", m->msg));
    } else if (m->head.tag == TAG_LAST_USAGE && b->state == BOX_ENDING) {
        local_end_on_used(b);
    } else if (m->head.tag == TAG_USAGE && local_answers_take(&b->usages)) {
        b->usages.lost++;
        report_due_events(b);
    }
}

/* the end */

void local_on_channel_end(struct local_box *b, int r, const struct err *e)
{
    switch (b->state) {
    case BOX_UP:
        b->r = err_set(&b->why, ERR_UPSTREAM, "%.200s",
                       b->assign.joining && b->assign.why.code ? b->assign.why.msg
                       : r < 0                                 ? e->msg
                                                               : "the sandbox's supervisor died");
        b->gone = true;
        local_process_lose_all(b, b->why.msg);
        if (!b->freed && b->state == BOX_UP)
            local_end_begin(b);
        if (!b->freed && b->assign.joining)
            local_report_later(b); /* the owner need not wait for the teardown */
        return;
    case BOX_ADOPTING:
        fail_adopt(b, r < 0 ? (b->why = *e, r)
                            : err_set(&b->why, ERR_NOT_FOUND, "the sandbox's supervisor died"));
        return;
    case BOX_ENDING:
        local_end_on_close(b);
        return;
    case BOX_OFF:
    case BOX_CREATING: /* the launcher reports the reason */
        return;
    }
}

void local_teardown(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);

    b->pending |= PENDING_TEARDOWN;
    b->pending &= ~(unsigned)PENDING_PROVISION;
    if (b->state == BOX_ENDING)
        return;
    if (b->state == BOX_OFF && !run_dir_has(&b->x->run, b->backend.id)) {
        b->end.r = 0;
        local_report_later(b);
    } else if (local_request_cancel(&b->create)) {
        cancel_create(b);
        local_report_later(b);
    } else {
        local_end_begin(b);
    }
}

void local_finish_end(struct local_box *b, int r, const struct err *e)
{
    if (b->freed)
        return;
    local_end_stop(b);
    local_channel_close(b);
    b->state = BOX_OFF;
    b->maker = NULL;
    b->end.r = r;
    if (r < 0)
        b->end.why = *e;
    report_due_events(b);
}

/* reporting */

static bool take_pending_event(struct local_box *b, enum local_pending what)
{
    bool was = !b->freed && (b->pending & what);

    if (was)
        b->pending &= ~(unsigned)what;
    return was;
}

static void fail_if_unset(struct local_box *b)
{
    if (b->r >= 0)
        b->r = err_set(&b->why, ERR_CONFLICT, "sandbox %s is not running", b->backend.id);
}

static void lose_pending(struct local_box *b)
{
    local_answers_lose(&b->usages);
    local_egress_lose_all(b);
    local_dial_lose_all(b);
    local_hold_lose_all(b);
    local_process_lose_all(b, b->r < 0 ? b->why.msg : "the sandbox was torn down");
}

static void report_provisioned(struct local_box *b)
{
    if (b->state == BOX_UP && take_pending_event(b, PENDING_PROVISION)) {
        b->backend.events->provisioned(&b->backend, 0, NULL);
    } else if (b->state == BOX_OFF && take_pending_event(b, PENDING_PROVISION)) {
        fail_if_unset(b);
        b->backend.events->provisioned(&b->backend, b->r, &b->why);
    }
}

static void report_ready(struct local_box *b)
{
    if (b->freed || !(b->pending & PENDING_READY))
        return;
    if (b->state == BOX_UP)
        await_probe(b);
    if (b->state == BOX_UP && b->probe.state == PROBE_DONE) {
        take_pending_event(b, PENDING_READY);
        b->probe.state = PROBE_NONE;
        b->backend.events->ready(&b->backend, b->probe.r, b->probe.r < 0 ? &b->why : NULL);
    } else if (b->state == BOX_OFF && take_pending_event(b, PENDING_READY)) {
        fail_if_unset(b);
        b->backend.events->ready(&b->backend, b->r, &b->why);
    }
}

static void report_end_event(struct local_box *b)
{
    uint32_t kills = b->end.report.oom_kills;
    char reason[sizeof b->why.msg + 32];
    bool gone = b->gone;

    if (b->freed || b->state != BOX_OFF)
        return;
    b->gone = false;
    if (kills)
        snprintf(reason, sizeof reason, "out of memory: %u process%s killed", kills,
                 kills == 1 ? " was" : "es were");
    else
        snprintf(reason, sizeof reason, "%s", b->why.msg);
    if (take_pending_event(b, PENDING_TEARDOWN))
        b->backend.events->torn_down(&b->backend, b->end.r, b->end.r < 0 ? &b->end.why : NULL,
                                     &b->end.report);
    else if (gone)
        b->backend.events->gone(&b->backend, reason);
}

static void report_due_events(struct local_box *b)
{
    local_box_ref(b);
    local_process_report_failed(b);
    if (b->state == BOX_OFF)
        lose_pending(b);
    report_provisioned(b);
    report_ready(b);
    if (b->state == BOX_OFF && take_pending_event(b, PENDING_ADOPT)) {
        fail_if_unset(b);
        b->backend.events->adopted(&b->backend, b->r, &b->why, NULL, 0);
    }
    while (local_answers_take_lost(b, &b->usages))
        b->backend.events->usage(&b->backend, -(int)ERR_CONFLICT, NULL);
    local_assign_report_lost(b);
    local_egress_report_lost(b);
    local_dial_report_lost(b);
    local_hold_report_lost(b);
    local_hold_report(b);
    report_end_event(b);
    local_box_unref(b);
}
