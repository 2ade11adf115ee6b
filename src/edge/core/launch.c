/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/launch.h"

#include "edge/core/internal.h"
#include "edge/core/guard.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/process/processes.h"

#define AGAIN_NS    (200 * NS_PER_MS)
#define PATIENCE_NS (60 * NS_PER_S)
#define USER_NS     (10 * NS_PER_S) /* for the script below */

/* root in a sandbox may be unable to chown files: then the directory becomes writable for all
 * users. */
const char launch_make_user[] =
    "set -e; if ! grep -q '^user:' /etc/passwd 2>/dev/null; then\n"
    "mkdir -p /etc; sh=/bin/bash; [ -x $sh ] || sh=/bin/sh\n"
    "echo \"user:x:1000:1000::/home/user:$sh\" >>/etc/passwd; echo user:x:1000: >>/etc/group; fi\n"
    "[ -d /home/user ] || mkdir -p /home/user\n"
    "chown user: /home/user 2>/dev/null || chmod 0777 /home/user";

struct launch {
    struct call *call;
    launch_fn *done;
    const char *start, *ready, *user, *workdir; /* ready NULL: finished when the program ends */
    const char *argv[4];
    struct json_map env; /* of the template */
    struct process_op op;
    struct process_request request;
    struct process *process; /* the current ready check; referenced */
    struct watcher watcher;
    struct loop_timer again;
    int64_t deadline;
};

static void finish_launch(struct launch *l, int r, const struct err *e)
{
    struct call *c = l->call;

    process_unref(l->process);
    l->done(c, r, e);
    call_unref(c);
}

typedef void launch_started_fn(struct process_op *op, int r, const struct err *e);

static void run_shell_command(struct launch *l, const char *const *shell, size_t n,
                              const char *command, const char *tag, launch_started_fn *done)
{
    for (size_t i = 0; i < n; i++)
        l->argv[i] = shell[i];
    l->argv[n] = command;
    l->request = (struct process_request){
        .argv = { l->argv, n + 1 },
        .env = l->env,
        .bare = true, /* without the sandbox's variables, which may name programs */
        .cwd = l->workdir,
        .user = l->user,
        .tag = tag,
        .timeout_ns = l->ready ? 0 : USER_NS,
        .background = true,
        .rows = 24,
        .cols = 80
    };
    l->op = (struct process_op){ .request = &l->request,
                                 .programs = guard_starts_programs(l->call),
                                 .client = call_client(l->call),
                                 .done = done };
    process_start(l->call->sandbox, &l->call->caller.actor, &l->op);
}

static void run_login_command(struct launch *l, const char *command, const char *tag,
                              launch_started_fn *done)
{
    static const char *const shell[] = { "/bin/bash", "-l", "-c" };

    run_shell_command(l, shell, COUNT_OF(shell), command, tag, done);
}

static launch_started_fn on_ready_check_started;

static void check_ready(struct launch *l)
{
    run_login_command(l, l->ready, NULL, on_ready_check_started);
}

static void on_ready_retry(struct loop_timer *t)
{
    check_ready(container_of(t, struct launch, again));
}

static void on_launch_program_ended(struct watcher *w, const struct backend_end *end)
{
    struct launch *l = container_of(w, struct launch, watcher);
    struct err e;

    process_unref(take_ptr(l->process));
    if (!l->ready || (end->how == BACKEND_EXITED && end->status == 0))
        finish_launch(l, 0, NULL);
    else if (end->how == BACKEND_LOST)
        finish_launch(l, err_set(&e, ERR_CONFLICT, "the sandbox ended while its template started"),
                      &e);
    else if (clock_mono() >= l->deadline)
        finish_launch(
            l, err_set(&e, ERR_TIMEOUT, "the template's ready command did not succeed in 60 s"),
            &e);
    else
        loop_timer_start(l->call->loop, &l->again, clock_mono() + AGAIN_NS, on_ready_retry, NULL);
}

static const struct watcher_events events = { .ended = on_launch_program_ended };

static void on_ready_check_started(struct process_op *op, int r, const struct err *e)
{
    struct launch *l = container_of(op, struct launch, op);

    if (r < 0) {
        finish_launch(l, l->ready ? r : 0, e);
        return;
    }
    l->process = take_ptr(op->process);
    l->watcher = (struct watcher){ .events = &events };
    process_watch(l->process, &l->watcher, true);
}

static void on_start_command_started(struct process_op *op, int r, const struct err *e)
{
    struct launch *l = container_of(op, struct launch, op);

    if (r >= 0)
        process_unref(take_ptr(op->process));
    if (r < 0 || !l->ready[0])
        finish_launch(l, r, e);
    else
        check_ready(l);
}

void launch_template(struct call *c, const struct built *b, launch_fn *done)
{
    struct launch *l = call_alloc(c, 1, sizeof *l);
    struct err e;

    *l = (struct launch){ .call = call_ref(c),
                          .done = done,
                          .start = arena_dup(&c->own, str_from(b->start)),
                          .ready = arena_dup(&c->own, str_from(b->ready)),
                          .user = arena_dup(&c->own, str_from(b->user[0] ? b->user : "user")),
                          .env = b->env,
                          .deadline = clock_mono() + PATIENCE_NS };
    if (!json_map_copy(&l->env, &c->own)) {
        finish_launch(l,
                      err_set(&e, ERR_TOO_BIG,
                              "the variables of the template need more memory than the %zu "
                              "bytes of a request; build it with fewer of them",
                              c->own.max),
                      &e);
        return;
    }
    l->workdir = arena_dup(&c->own, str_from(b->workdir[0] ? b->workdir : "/"));
    run_login_command(l, l->start, "e2b.start", on_start_command_started);
}

void launch_image(struct call *c, launch_fn *done)
{
    static const char *const shell[] = { "/bin/sh", "-c" };
    struct launch *l = call_alloc(c, 1, sizeof *l);

    *l = (struct launch){ .call = call_ref(c), .done = done, .user = "root", .workdir = "/" };
    run_shell_command(l, shell, COUNT_OF(shell), launch_make_user, NULL, on_ready_check_started);
}
