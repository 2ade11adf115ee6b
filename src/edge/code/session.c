/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/code/session.h"

#include <signal.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/event/commands.h"

enum { INTERRUPTS_MAX = 5, INTERRUPT_S = 2 };

/* --- sessions --- */

const char *code_session_name(const struct process_view *v, const char *kind)
{
    return !v->ended && kernel_of(v->request->argv) ? background_name(v, kind) : NULL;
}

struct session_search {
    const char *kind;
    struct str name;
    struct process *found;
};

static void match_code_session(void *user, struct process *p)
{
    struct session_search *s = user;
    struct process_view v;
    const char *name;

    process_view(p, &v);
    name = code_session_name(&v, s->kind);
    if (name && str_eq(str_from(name), s->name))
        s->found = p; /* the newest one, in case an older one is still ending */
}

struct process *code_session_find(struct sandbox *s, const char *kind, struct str name)
{
    struct session_search q = { .kind = kind, .name = name };

    process_each(s, match_code_session, &q);
    return q.found ? process_ref(q.found) : NULL;
}

const struct kernel *code_session_kernel(const struct process *session)
{
    struct process_view v;

    process_view(session, &v);
    return kernel_of(v.request->argv);
}

void code_session_start(struct code_run *r, const struct kernel *kernel, const char *tag,
                        const char *cwd, background_started_fn *started)
{
    const struct process_request q = { .argv = { kernel->argv, kernel->argc },
                                       .cwd = cwd,
                                       .user = "user",
                                       .tag = tag,
                                       .stdin_ = true,
                                       .background = true,
                                       .helper = PROCESS_KERNEL,
                                       .rows = 24,
                                       .cols = 80 };

    r->kernel = kernel;
    background_start(&r->session, &q, started);
}

static struct code_run *code_run_of(struct watcher *w)
{
    return container_of(w, struct code_run, session.watcher);
}

/* --- requests: one is written when the one before has ended ---
 *
 * An interrupt is a signal, which names no execution. So that it reaches only the one that it is
 * meant for, the kernel has one request at a time, and gets the next one when the end of that was
 * read and the signals that were sent meanwhile are delivered. */

static void on_code_client_gone(struct call *c)
{
    code_run_stop(c->state);
}

/* The kernel has the request or a part of it, and its end was not seen. */
static bool code_is_with_kernel(const struct code_run *r)
{
    return r->session.watcher.process && r->session.input.n < r->request_bytes;
}

/* The oldest execution of the session that has not ended: one that is with the kernel, or one that
 * waits. */
static struct code_run *find_execution(struct api *a, const struct process *session,
                                       bool with_kernel)
{
    LIST_EACH (struct call, c, &a->listening, listening) {
        struct code_run *r = c->state;

        if (c->on_gone == on_code_client_gone && r->session.process == session &&
            r->session.watcher.process && r->request_bytes && code_is_with_kernel(r) == with_kernel)
            return r;
    }
    return NULL;
}

/* Writes what the kernel of the session may have now. */
static void send_code_requests(struct api *a, const struct process *session)
{
    struct code_run *r;

    if (process_is_signalled(session))
        return; /* `room` follows */
    r = find_execution(a, session, true);
    if (!r)
        r = find_execution(a, session, false);
    if (r)
        (void)background_send_input(&r->session, NULL); /* the watcher reports the end */
}

/* The execution has ended, or its end is not awaited any longer. */
static void leave_kernel(struct code_run *r)
{
    loop_timer_stop(&r->deadline);
    watcher_stop(&r->session.watcher);
    if (r->request_bytes)
        send_code_requests(r->session.call->api, r->session.process);
}

static void on_code_stdin_room(struct watcher *w)
{
    send_code_requests(code_run_of(w)->session.call->api, w->process);
}

/* --- giving up --- */

static void interrupt_code(const struct code_run *r)
{
    bool tree = code_session_kernel(r->session.process)->interrupt_tree;

    (void)process_signal(r->session.process, SIGINT, tree ? BACKEND_SCOPE_TREE : BACKEND_SCOPE_ONE,
                         NULL);
}

static void end_abandoned_run(struct code_run *r)
{
    struct call *c = r->session.call;

    r->abandoned = false;
    leave_kernel(r);
    call_unref(c);
}

/* An interpreter may miss a signal: until the execution ends, it gets a few more. One that has not
 * begun is awaited as long, for a kernel may never read its request. */
static void on_interrupt_due(struct loop_timer *timer)
{
    struct code_run *r = container_of(timer, struct code_run, deadline);

    if (r->interrupts++ == INTERRUPTS_MAX) {
        end_abandoned_run(r);
        return;
    }
    if (code_output_begun(&r->output) && !process_is_signalled(r->session.process))
        interrupt_code(r);
    loop_timer_start(r->session.call->loop, timer, clock_mono() + INTERRUPT_S * NS_PER_S,
                     on_interrupt_due, NULL);
}

static bool on_abandoned_output(struct watcher *w, int channel, struct str data)
{
    struct code_run *r = code_run_of(w);
    bool began = code_output_begun(&r->output);
    int over = code_output_take(&r->output, channel, data);

    buf_clear(&r->output.json_lines);
    if (over)
        end_abandoned_run(r);
    else if (!began && code_output_begun(&r->output))
        on_interrupt_due(&r->deadline);
    return true;
}

static void on_abandoned_session_ended(struct watcher *w, const struct backend_end *end)
{
    end_abandoned_run(code_run_of(w));
}

static void on_abandoned_behind(struct watcher *w)
{
    end_abandoned_run(code_run_of(w));
}

static void abandon_code_run(struct code_run *r)
{
    static const struct watcher_events events = { .output = on_abandoned_output,
                                                  .ended = on_abandoned_session_ended,
                                                  .fell_behind = on_abandoned_behind,
                                                  .room = on_code_stdin_room };
    call_ref(r->session.call);
    r->abandoned = true;
    r->session.watcher.events = &events;
    watcher_resume(&r->session.watcher);
    on_interrupt_due(&r->deadline);
}

/* The kernel skips the part of the request that it has, as the next one begins with a new line. */
static bool may_drop_request(const struct code_run *r)
{
    struct process_view v;

    process_view(r->session.process, &v);
    return r->session.input.n && kernel_skips_lines(v.request->argv);
}

/* An execution that has not ended. If the kernel has the request, its end is awaited. */
static void give_up_code(struct code_run *r)
{
    loop_timer_stop(&r->deadline);
    if (code_is_with_kernel(r) && !may_drop_request(r))
        abandon_code_run(r);
    else if (code_output_begun(&r->output))
        interrupt_code(r);
}

void code_run_stop(struct code_run *r)
{
    if (r->command)
        give_up_code(r);
    command_gave_up(take_ptr(r->command), COMMAND_ABANDONED, "its client disconnected");
    if (!r->abandoned)
        leave_kernel(r);
}

/* --- its state --- */

static void release_code_run(void *state)
{
    struct code_run *r = state;

    command_gave_up(take_ptr(r->command), COMMAND_ABANDONED, "it was not executed");
    loop_timer_stop(&r->deadline);
    background_done(&r->session);
    code_output_done(&r->output);
}

/* The code continues: its session outlives the daemon. */
static void on_code_api_closed(struct call *c)
{
    struct code_run *r = c->state;

    command_gave_up(take_ptr(r->command), COMMAND_ABANDONED, "its client disconnected");
    loop_timer_stop(&r->deadline);
    watcher_stop(&r->session.watcher);
    r->request_bytes = 0; /* nothing else is written */
    if (r->abandoned)
        end_abandoned_run(r);
}

void *code_run_new(struct call *c, size_t size, const struct code_wire *wire)
{
    struct code_run *r = background_new(c, size, 2 * CODE_MAX, release_code_run);

    r->wire = wire;
    c->on_gone = on_code_client_gone;
    c->on_close = on_code_api_closed;
    return r;
}

/* --- an execution --- */

/* An error of the code is a message of its kernel, and no exit code. */
static void end_code_record(struct command_run *c, enum code_stop why)
{
    if (why == CODE_COMPLETED)
        command_ended(c, &(struct backend_end){ .how = BACKEND_EXITED });
    else if (why == CODE_TIMED_OUT)
        command_ended(c, &(struct backend_end){ .how = BACKEND_TIMED_OUT });
    else if (why == CODE_SESSION_ENDED || why == CODE_SANDBOX_LOST)
        command_gave_up(c, COMMAND_LOST, "its session ended before it");
    else
        command_gave_up(c, COMMAND_ABANDONED, "its output could not be sent");
}

static void stop_code_run(struct code_run *r, enum code_stop why)
{
    if (why != CODE_COMPLETED && why != CODE_SESSION_ENDED && why != CODE_SANDBOX_LOST)
        give_up_code(r);
    end_code_record(take_ptr(r->command), why);
    code_run_stop(r);
    r->wire->stop(r, why);
}

static bool on_code_output(struct watcher *w, int channel, struct str data)
{
    struct code_run *r = code_run_of(w);
    struct buf *lines = &r->output.json_lines;
    int over, sent = 0;

    r->output.now_ns = clock_wall();
    over = code_output_take(&r->output, channel, data);
    if (over >= 0 && lines->n)
        sent = r->wire->send(r, buf_str(lines));
    buf_clear(lines);
    if (over < 0)
        stop_code_run(r, CODE_TOO_BIG);
    else if (sent < 0)
        stop_code_run(r, CODE_UNSENT);
    else if (over > 0)
        stop_code_run(r, CODE_COMPLETED);
    return sent <= 0;
}

static void on_code_session_ended(struct watcher *w, const struct backend_end *end)
{
    stop_code_run(code_run_of(w),
                  end->how == BACKEND_LOST ? CODE_SANDBOX_LOST : CODE_SESSION_ENDED);
}

static void on_code_deadline(struct loop_timer *timer)
{
    stop_code_run(container_of(timer, struct code_run, deadline), CODE_TIMED_OUT);
}

static int record_code(struct code_run *r, const struct kernel *kernel, const char *code,
                       struct err *e)
{
    struct call *c = r->session.call;
    const char *argv[] = { kernel->argv[0], "-c", code, NULL };

    return sandbox_record_input(c->sandbox, &c->caller.actor, call_client(c), argv, &r->command, e);
}

/* Ends the line that a daemon may have left behind when it stopped. Kernels of older versions do not
 * skip lines. */
static int begin_request(struct code_run *r)
{
    struct process_view v;

    process_view(r->session.process, &v);
    return kernel_skips_lines(v.request->argv) ? buf_add_c(&r->session.input, '\n') : 0;
}

int code_prepare(struct code_run *r, const char *code, const struct json_map *env, struct err *e)
{
    const struct kernel *kernel = code_session_kernel(r->session.process);
    int err = id_make("run_", r->id, e);

    if (err >= 0)
        err = record_code(r, kernel, code, e);
    if (err < 0)
        return err;
    code_output_init(&r->output, r->id, kernel->raw);
    err = begin_request(r);
    if (err >= 0)
        err = kernel->request(&r->session.input, r->id, code, env, e);
    r->request_bytes = r->session.input.n;
    return err;
}

static void on_code_client_behind(struct watcher *w);

static const struct watcher_events execution_events = { .output = on_code_output,
                                                        .ended = on_code_session_ended,
                                                        .fell_behind = on_code_client_behind,
                                                        .room = on_code_stdin_room };

/* The end of the execution, which is interrupted, is watched for again. */
static void on_code_client_behind(struct watcher *w)
{
    struct code_run *r = code_run_of(w);

    background_watch(&r->session, &execution_events, true);
    stop_code_run(r, CODE_BEHIND);
}

void code_execute(struct code_run *r, int64_t timeout_ns)
{
    command_started(r->command, 0);
    background_watch(&r->session, &execution_events, true);
    if (timeout_ns)
        loop_timer_start(r->session.call->api->loop, &r->deadline, clock_mono() + timeout_ns,
                         on_code_deadline, NULL);
    send_code_requests(r->session.call->api, r->session.process);
}
