/* The life of a box. What happened is recorded in it; settle() tells, from the loop, what is due
 * to whoever waits for it. */
#include <signal.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "extensions/local.h"

static void settle(struct local_box *b);
static void probe(struct local_box *b);

/* holding */

void local_hold(struct local_box *b)
{
    b->holds++;
}

void local_release(struct local_box *b)
{
    if (--b->holds == 0 && b->freed)
        free(b);
}

static void on_later(struct loop_later *s)
{
    settle(container_of(s, struct local_box, later));
}

void local_soon(struct local_box *b)
{
    /* -ERR_CONFLICT: it is set to run already */
    loop_later(b->x->c->loop, &b->later, on_later, NULL);
}

struct ext_box *local_box_new(struct extension *x, const char *id,
                              const struct ext_box_events *events, void *owner)
{
    struct local_box *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    b->ext =
        (struct ext_box){ .ops = &extension_local, .ext = x, .events = events, .owner = owner };
    snprintf(b->ext.id, sizeof b->ext.id, "%s", id);
    b->x = x;
    b->control.fd = b->death.fd = -1;
    for (int i = 0; i < EXT_STDIO_MAX; i++)
        b->probe.stdio[i] = -1;
    buf_init(&b->defaults, LOCAL_DEFAULTS_MAX);
    return &b->ext;
}

static void close_probe(struct local_box *b)
{
    for (int i = 0; i < EXT_STDIO_MAX; i++)
        drop_fd(&b->probe.stdio[i]);
}

/* What was asked of a launcher goes on and only keeps the memory. */
void local_box_free(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);

    local_hold(b);
    b->freed = true;
    local_end_stop(b);
    loop_later_stop(&b->later);
    link_leave(&b->link);
    if (local_request_cancel(&b->create))
        run_dir_remove(&b->x->run, b->ext.id, NULL);
    local_channel_close(b);
    close_probe(b);
    local_process_table_done(b);
    local_egress_done(b);
    local_dial_done(b);
    local_hold_done(b);
    local_plan_free(take_ptr(b->plan));
    buf_done(&b->defaults);
    local_release(b);
}

/* provisioning */

/* All that can be wrong with the request is found before anything exists. */
static int begin_provision(struct local_box *b, const struct ext_spec *s, struct err *e)
{
    int r = local_plan_new(b->x->c, b->ext.id, s, &b->plan, e);

    buf_clear(&b->defaults);
    if (r >= 0)
        r = local_defaults_write(s, &b->defaults, e);
    if (r >= 0)
        r = run_dir_make(&b->x->run, b->ext.id, e);
    if (r < 0)
        return r;
    r = run_dir_save(&b->x->run, b->ext.id, buf_str(&b->defaults), e);
    if (r < 0)
        run_dir_remove(&b->x->run, b->ext.id, NULL);
    return r;
}

void local_provision(struct ext_box *ext, const struct ext_spec *s)
{
    struct local_box *b = local_box_of(ext);

    if (b->state != BOX_OFF)
        return;
    b->asked |= ASKED_PROVISION;
    b->report = (struct ext_report){ 0 };
    b->cpu_ns = 0;
    b->probed = PROBE_NONE;
    b->r = begin_provision(b, s, &b->why);
    if (b->r < 0) {
        local_plan_free(take_ptr(b->plan));
        snprintf(b->ext.step, sizeof b->ext.step, "plan");
        local_soon(b);
        return;
    }
    snprintf(b->ext.handle, sizeof b->ext.handle, "run/%s", b->ext.id);
    b->prepared = !s->owner;
    b->joining = b->freeze_waits = false;
    b->state = BOX_CREATING;
    local_lane_create(b->x, b);
}

int local_prepare(struct local_box *b, struct err *e)
{
    int pair[2], r;

    if (b->plan->fds[LOCAL_FD_CONTROL] >= 0)
        return 0; /* it was, and could not be sent */
    r = run_dir_bind(&b->x->run, b->ext.id, &b->plan->fds[LOCAL_FD_LISTENER], e);
    if (r >= 0)
        r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    b->plan->fds[LOCAL_FD_CONTROL] = pair[1];
    r = local_channel_open(b, pair[0], e);
    if (r >= 0)
        probe(b); /* PID 1 finds it waiting when it starts */
    return r;
}

/* Nothing of it exists. */
static void cancel_create(struct local_box *b)
{
    local_channel_close(b);
    local_plan_free(take_ptr(b->plan));
    b->end_r = run_dir_remove(&b->x->run, b->ext.id, &b->end_why);
    b->maker = NULL;
    b->state = BOX_OFF;
}

void local_created(struct local_box *b, const struct launch_created *m)
{
    _Static_assert((int)EXT_LIMIT_MEMORY == LAUNCH_NO_MEMORY &&
                       (int)EXT_LIMIT_PIDS == LAUNCH_NO_PIDS &&
                       (int)EXT_LIMIT_CPU == LAUNCH_NO_CPU && (int)EXT_LIMIT_DISK == LAUNCH_NO_DISK,
                   "the launcher's bits are the contract's");
    b->ext.unenforced = m->unenforced;
    if (b->freed || b->state != BOX_CREATING)
        return;
    if (!local_channel_is_open(b)) {
        b->r = err_set(&b->why, ERR_UPSTREAM, "the sandbox's supervisor died as it started");
        snprintf(b->ext.step, sizeof b->ext.step, "supervisor");
        local_end_begin(b);
        return;
    }
    b->state = BOX_UP;
    settle(b);
}

void local_create_failed(struct local_box *b, int r, const struct err *e, const char *step)
{
    if (b->freed)
        run_dir_remove(&b->x->run, b->ext.id, NULL);
    if (b->freed || b->state != BOX_CREATING)
        return;
    b->r = r;
    b->why = *e;
    snprintf(b->ext.step, sizeof b->ext.step, "%s", step);
    cancel_create(b);
    settle(b);
}

void local_create_lost(struct local_box *b, const struct err *e)
{
    if (b->freed || (b->state == BOX_ENDING && b->destroy.sent))
        return; /* a request that is lost as well does the rest */
    if (b->state == BOX_CREATING) {
        b->r = err_set(&b->why, ERR_UPSTREAM,
                       "the launcher died while it built the sandbox: %.160s", e->msg);
        snprintf(b->ext.step, sizeof b->ext.step, "launcher");
    }
    local_end_begin(b);
}

/* the probe: a file operation, which forks, becomes the user and looks at the root directory. A
 * working directory that programs start in is made before, by root: it may be the workspace's. */

static void on_silence(struct loop_timer *t)
{
    struct local_box *b = container_of(t, struct local_box, timer);

    local_process_drop(&b->probe);
    close_probe(b);
    b->probed = PROBE_DONE;
    b->probe_r = err_set(&b->why, ERR_TIMEOUT, "the sandbox does not answer");
    settle(b);
}

static void probe_done(struct local_box *b, int r, const struct err *e)
{
    close_probe(b);
    b->probed = PROBE_DONE;
    b->probe_r = r;
    if (b->state != BOX_UP && b->state != BOX_CREATING)
        return; /* the reason why it failed is the box's */
    if (r < 0)
        b->why = *e;
    if (b->state == BOX_UP) {
        loop_timer_stop(&b->timer);
        settle(b);
    }
}

static void look_inside(struct local_box *b);
static void make_workdir(struct local_box *b, const char *user);

/* In a sandbox of a plain user without subordinate ids there may be no root: what is there belongs
 * to the one identity that it has. */
static void on_probe_started(struct ext_process *p, int r, const struct err *e)
{
    struct local_box *b = container_of(p, struct local_box, probe);

    if (r >= 0)
        return;
    if (b->makes_workdir && !b->workdir_by_user) {
        b->workdir_by_user = true;
        close_probe(b);
        make_workdir(b, NULL);
        return;
    }
    probe_done(b, r, e);
}

static void on_probe_ended(struct ext_process *p, const struct ext_end *end)
{
    struct local_box *b = container_of(p, struct local_box, probe);
    struct err e = { 0 };
    bool good = end->how == EXT_EXITED && end->status == 0;

    if (good && b->makes_workdir) {
        close_probe(b);
        look_inside(b);
        return;
    }
    probe_done(b,
               good ? 0
                    : err_set(&e, ERR_UPSTREAM, "the first look inside failed: %.160s",
                              end->msg ? end->msg : "it was ended"),
               &e);
}

static void start_probe(struct local_box *b, const struct ext_start *start)
{
    static const struct ext_process_events events = { on_probe_started, on_probe_ended };

    b->probe = (struct ext_process){ .events = &events, .stdio = { -1, -1, -1 } };
    local_process_start(b, &b->probe, start);
}

static void look_inside(struct local_box *b)
{
    static const char *const root[] = { "/", NULL };

    b->makes_workdir = false;
    start_probe(b, &(struct ext_start){ .what = EXT_STAT, .cwd = "/", .argv = root });
}

static void make_workdir(struct local_box *b, const char *user)
{
    const char *const workdir[] = { local_usual_cwd(buf_str(&b->defaults)), NULL };

    start_probe(b,
                &(struct ext_start){
                    .what = EXT_MKDIR, .user = user, .cwd = "/", .argv = workdir, .mode = 0755 });
}

static void probe(struct local_box *b)
{
    b->probed = PROBE_RUNS;
    b->makes_workdir = local_usual_cwd(buf_str(&b->defaults))[0];
    b->workdir_by_user = false;
    if (b->makes_workdir)
        make_workdir(b, "0");
    else
        look_inside(b);
}

static void await_probe(struct local_box *b)
{
    if (b->probed == PROBE_NONE)
        probe(b);
    if (b->probed == PROBE_RUNS && !loop_timer_started(&b->timer))
        loop_timer_start(b->x->c->loop, &b->timer, clock_mono() + LOCAL_READY_NS, on_silence, NULL);
}

void local_wait_ready(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);

    b->asked |= ASKED_READY;
    if (b->state == BOX_UP)
        await_probe(b);
    local_soon(b);
}

/* coming back */

static void adopt_failed(struct local_box *b, int r)
{
    loop_timer_stop(&b->timer);
    local_channel_close(b);
    b->state = BOX_OFF;
    b->r = r;
    settle(b);
}

static void on_adopt_silence(struct loop_timer *t)
{
    struct local_box *b = container_of(t, struct local_box, timer);

    adopt_failed(b, err_set(&b->why, ERR_TIMEOUT, "the sandbox's supervisor does not answer"));
}

static int begin_adopt(struct local_box *b, const char *handle, struct err *e)
{
    int sock = -1, r;

    snprintf(b->ext.handle, sizeof b->ext.handle, "run/%s", b->ext.id);
    if (handle && strcmp(handle, b->ext.handle) != 0)
        return err_set(e, ERR_INVALID, "'%.80s' is not the handle of %s", handle, b->ext.id);
    buf_clear(&b->defaults);
    r = run_dir_connect(&b->x->run, b->ext.id, &sock, e);
    if (r >= 0)
        r = local_channel_open(b, sock, e);
    if (r >= 0)
        r = run_dir_load(&b->x->run, b->ext.id, &b->defaults, e);
    if (r >= 0 && !local_defaults_valid(buf_str(&b->defaults)))
        r = err_set(e, ERR_INVALID, "run/%s/defaults is damaged", b->ext.id);
    return r < 0 ? r
                 : loop_timer_start(b->x->c->loop, &b->timer, clock_mono() + LOCAL_ADOPT_NS,
                                    on_adopt_silence, e);
}

static void adopt(struct local_box *b, const char *handle)
{
    b->r = begin_adopt(b, handle, &b->why);
    if (b->r < 0) {
        local_channel_close(b);
        local_soon(b);
        return;
    }
    b->state = BOX_ADOPTING;
    local_channel_post_ask(b, CONTROL_LIST, TAG_LIST);
}

void local_adopt(struct ext_box *ext, const char *handle)
{
    struct local_box *b = local_box_of(ext);

    if (b->state != BOX_OFF || b->hold.lane)
        return;
    b->asked |= ASKED_ADOPT;
    if (!run_dir_marked(&b->x->run, b->ext.id)) {
        adopt(b, handle);
        return;
    }
    snprintf(b->ext.handle, sizeof b->ext.handle, "%s", handle); /* checked when it goes on */
    local_lane_hold(b->x, b, false);
}

void local_adopt_thawed(struct local_box *b, bool by_pid1)
{
    char handle[EXT_HANDLE_MAX];

    if (b->state != BOX_OFF || !(b->asked & ASKED_ADOPT))
        return;
    memcpy(handle, b->ext.handle, sizeof handle);
    adopt(b, handle);
    if (by_pid1 && local_channel_is_open(b))
        local_channel_post_ask(b, CONTROL_GO_ON, TAG_NOBODY);
}

static struct ext_found found_of(const struct control_proc *p)
{
    return (struct ext_found){ .proc = p->proc,
                               .pid = p->pid,
                               .cookie = p->cookie,
                               .ended = p->state == CONTROL_ENDED,
                               .tty = p->flags & CONTROL_TTY,
                               .has_stdin = p->flags & CONTROL_STDIN,
                               .how = local_process_how(p->how),
                               .status = p->status,
                               .oom_kills = p->oom_kills,
                               .cpu_ns = p->cpu_ns,
                               .peak_bytes = p->peak_bytes };
}

/* What was not to be kept lost its owner with our last life. */
static size_t take_over(struct local_box *b, const struct control_procs *m, struct ext_found *ret)
{
    size_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        struct control_proc p;

        control_procs_at(m, i, &p);
        if (p.flags & CONTROL_KEEP) {
            local_process_adopt(b, &p);
            ret[n++] = found_of(&p);
        } else if (p.state != CONTROL_ENDED) {
            local_channel_post_kill(b, p.proc, SIGKILL, CONTROL_TREE);
        }
    }
    return n;
}

void local_on_procs(struct local_box *b, const struct control_procs *m)
{
    AUTO_FREE struct ext_found *found = NULL;
    size_t n;

    if (b->state != BOX_ADOPTING || m->head.tag != TAG_LIST)
        return;
    loop_timer_stop(&b->timer);
    b->state = BOX_UP;
    b->asked &= ~(unsigned)ASKED_ADOPT;
    found = calloc(m->count + 1, sizeof *found);
    if (!found)
        abort();
    n = take_over(b, m, found);
    b->ext.events->adopted(&b->ext, 0, NULL, found, n);
    if (!b->freed && b->state == BOX_UP && (b->asked & ASKED_READY))
        await_probe(b);
}

/* use */

/* PID 1 has gone if its end of the connection has, told or not. */
bool local_alive(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);
    struct pollfd end = { .fd = b->control.fd, .events = POLLRDHUP };

    if (b->prepared && local_is_stranger(b))
        return false; /* only the launcher that made it can give it an owner */
    return b->state == BOX_UP && local_channel_is_open(b) && poll(&end, 1, 0) == 0;
}

void local_usage(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);

    if (b->state == BOX_UP && local_channel_is_open(b)) {
        b->usages++;
        local_channel_post_ask(b, CONTROL_USAGE, TAG_USAGE);
    } else {
        b->lost_usages++;
        local_soon(b);
    }
}

void local_tell_oom(struct local_box *b, uint32_t kills)
{
    if (kills && b->ext.events && b->ext.events->oom)
        b->ext.events->oom(&b->ext, kills);
}

void local_on_used(struct local_box *b, const struct control_used *m)
{
    struct ext_usage u;

    if (m->cpu_ns > b->cpu_ns)
        b->cpu_ns = m->cpu_ns;
    u = (struct ext_usage){ .cpu_ns = b->cpu_ns,
                            .processes = m->processes,
                            .memory = m->memory,
                            .mapped = m->mapped,
                            .disk = m->disk,
                            .disk_max = m->disk_max,
                            .oom_kills = m->oom_kills };
    local_tell_oom(b, m->oom_kills);
    if (m->head.tag == TAG_LAST_USAGE && b->state == BOX_ENDING) {
        local_end_on_used(b);
    } else if (m->head.tag == TAG_USAGE && b->usages) {
        b->usages--;
        b->ext.events->usage(&b->ext, 0, &u);
    }
}

void local_on_refused(struct local_box *b, const struct control_failed *m)
{
    if (m->head.tag == TAG_LIST && b->state == BOX_ADOPTING) {
        adopt_failed(b, err_set(&b->why, ERR_UPSTREAM, "%.199s", m->msg));
    } else if (m->head.tag == TAG_LAST_USAGE && b->state == BOX_ENDING) {
        local_end_on_used(b);
    } else if (m->head.tag == TAG_USAGE && b->usages) {
        b->usages--;
        b->lost_usages++;
        settle(b);
    }
}

/* the end */

void local_on_end(struct local_box *b, int r, const struct err *e)
{
    switch (b->state) {
    case BOX_UP:
        b->r = err_set(&b->why, ERR_UPSTREAM, "%.200s",
                       b->joining && b->assign_why.code ? b->assign_why.msg
                       : r < 0                          ? e->msg
                                                        : "the sandbox's supervisor died");
        b->gone = true;
        local_process_lose_all(b, b->why.msg);
        if (!b->freed && b->state == BOX_UP)
            local_end_begin(b);
        if (!b->freed && b->joining)
            local_soon(b); /* whoever waits for it need not wait for its end */
        return;
    case BOX_ADOPTING:
        adopt_failed(b, r < 0 ? (b->why = *e, r)
                              : err_set(&b->why, ERR_NOT_FOUND, "the sandbox's supervisor died"));
        return;
    case BOX_ENDING:
        local_end_on_close(b);
        return;
    case BOX_OFF:
    case BOX_CREATING: /* the launcher knows why */
        return;
    }
}

void local_teardown(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);

    b->asked |= ASKED_TEARDOWN;
    b->asked &= ~(unsigned)ASKED_PROVISION;
    if (b->state == BOX_ENDING)
        return;
    if (b->state == BOX_OFF && !run_dir_has(&b->x->run, b->ext.id)) {
        b->end_r = 0;
        local_soon(b);
    } else if (local_request_cancel(&b->create)) {
        cancel_create(b);
        local_soon(b);
    } else {
        local_end_begin(b);
    }
}

void local_ended(struct local_box *b, int r, const struct err *e)
{
    if (b->freed)
        return;
    local_end_stop(b);
    local_channel_close(b);
    b->state = BOX_OFF;
    b->maker = NULL;
    b->end_r = r;
    if (r < 0)
        b->end_why = *e;
    settle(b);
}

/* telling */

static bool take_asked(struct local_box *b, enum local_asked what)
{
    bool was = !b->freed && (b->asked & what);

    if (was)
        b->asked &= ~(unsigned)what;
    return was;
}

static const struct err *fail_if_unset(struct local_box *b)
{
    if (b->r >= 0)
        b->r = err_set(&b->why, ERR_CONFLICT, "the sandbox is not running");
    return &b->why;
}

static void lose_pending(struct local_box *b)
{
    b->lost_usages += b->usages;
    b->usages = 0;
    local_egress_lose_all(b);
    local_dial_lose_all(b);
    local_hold_lose_all(b);
    local_process_lose_all(b, b->r < 0 ? b->why.msg : "the sandbox was taken down");
}

static void tell_provisioned(struct local_box *b)
{
    if (b->state == BOX_UP && take_asked(b, ASKED_PROVISION)) {
        b->ext.events->provisioned(&b->ext, 0, NULL);
    } else if (b->state == BOX_OFF && take_asked(b, ASKED_PROVISION)) {
        fail_if_unset(b);
        b->ext.events->provisioned(&b->ext, b->r, &b->why);
    }
}

static void tell_ready(struct local_box *b)
{
    if (b->freed || !(b->asked & ASKED_READY))
        return;
    if (b->state == BOX_UP)
        await_probe(b);
    if (b->state == BOX_UP && b->probed == PROBE_DONE) {
        take_asked(b, ASKED_READY);
        b->probed = PROBE_NONE;
        b->ext.events->ready(&b->ext, b->probe_r, b->probe_r < 0 ? &b->why : NULL);
    } else if (b->state == BOX_OFF && take_asked(b, ASKED_READY)) {
        fail_if_unset(b);
        b->ext.events->ready(&b->ext, b->r, &b->why);
    }
}

static void tell_not_adopted(struct local_box *b)
{
    if (b->state != BOX_OFF || !take_asked(b, ASKED_ADOPT))
        return;
    fail_if_unset(b);
    b->ext.events->adopted(&b->ext, b->r, &b->why, NULL, 0);
}

static void tell_lost_usages(struct local_box *b)
{
    while (!b->freed && b->lost_usages) {
        b->lost_usages--;
        b->ext.events->usage(&b->ext, -(int)ERR_CONFLICT, NULL);
    }
}

static void tell_gone(struct local_box *b)
{
    char reason[sizeof b->why.msg + 32];

    b->gone = false;
    if (b->report.oom_kills)
        snprintf(reason, sizeof reason, "out of memory: %u process%s killed", b->report.oom_kills,
                 b->report.oom_kills == 1 ? " was" : "es were");
    else
        snprintf(reason, sizeof reason, "%s", b->why.msg);
    b->ext.events->gone(&b->ext, reason);
}

static void tell_end(struct local_box *b)
{
    if (b->freed || b->state != BOX_OFF)
        return;
    if (take_asked(b, ASKED_TEARDOWN)) {
        b->gone = false;
        b->ext.events->torn_down(&b->ext, b->end_r, b->end_r < 0 ? &b->end_why : NULL, &b->report);
    } else if (b->gone) {
        tell_gone(b);
    }
}

static void settle(struct local_box *b)
{
    local_hold(b);
    local_process_tell_failed(b);
    if (b->state == BOX_OFF)
        lose_pending(b);
    tell_provisioned(b);
    tell_ready(b);
    tell_not_adopted(b);
    tell_lost_usages(b);
    local_assign_tell_lost(b);
    local_egress_tell_lost(b);
    local_dial_tell_lost(b);
    local_hold_tell_lost(b);
    local_hold_tell(b);
    tell_end(b);
    local_release(b);
}
