/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "daemon/certificate.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "daemon/monitor_request.h"
#include "daemon/children.h"
#include "daemon/copies.h"
#include "daemon/grants.h"
#include "daemon/headers.h"
#include "daemon/jobs.h"
#include "daemon/log_file.h"
#include "daemon/mount_grants.h"
#include "lib/ipc/channel.h"
#include "lib/proc/signals.h"

#define WORKERS_END_NS (2 * NS_PER_S)
#define LOG_PAUSE_NS   NS_PER_S
#define TIDY_NS        (20 * NS_PER_MS)
#define LOG_CHECK_NS   (30 * NS_PER_S)

enum {
    LAUNCHERS_MAX = 64,
    REQUESTS_AT_ONCE = 16, /* requests handled between two checks of signals and jobs */
    LINES_A_SECOND = 20,   /* of the log, about requests that failed */
};

/* Children, by what they are. */
enum child_group { COPIES, LAUNCHERS, WORKERS, LAYER_WORKERS, FETCHERS, GROUP_COUNT_ };

struct monitor {
    int sock;
    pid_t child;
    const struct monitor_options *options;
    struct children groups[GROUP_COUNT_];
    struct jobs jobs;
    struct gate no_gate, *gate;
    int64_t lines_from; /* when the current second of the log began */
    unsigned lines;
    int64_t log_at; /* the next check of the size of the log */
};

/* A control plane that was taken over shall not fill the log. */
static void log_failure(struct monitor *w, const struct err *e)
{
    int64_t now = clock_mono();

    if (now - w->lines_from > LOG_PAUSE_NS) {
        w->lines_from = now;
        w->lines = 0;
    }
    if (w->lines++ < LINES_A_SECOND)
        LOG(ERROR, "warden.failed", LOG_S("error", e->msg));
}

/* A control plane that does not read its answers loses them; its requests then time out. */
static void send_answer(struct monitor *w, uint64_t id, int r, const struct err *e, int fd,
                        bool lingers)
{
    struct monitor_answer answer = { .id = id, .r = r, .lingers = lingers };

    if (r < 0) {
        answer.err = *e;
        log_failure(w, e);
    }
    (void)ipc_send(w->sock, &answer, sizeof answer, &fd, fd < 0 ? 0 : 1, NULL);
}

static void on_job_answer(void *user, const struct job *j, int r, const struct err *e, int fd)
{
    send_answer(user, j->id, r, e, fd, j->lingers);
}

/* --- what jobs do, in their own processes --- */

struct program_job {
    const struct monitor_options *options;
    const struct monitor_request *message;
    int sock;
    const struct gate *gate;
};

/* An untrusted control plane names no host directory for sandboxes: their workspaces are copies, and
 * mounts are files that the monitor itself opened for their clients (run_mounts()). */
static int run_launcher(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct launcher_options *o = &p->options->launcher;
    const struct launcher_options none = { .untrusted = true,
                                           .store = o->store,
                                           .driver = o->driver,
                                           .limited = o->limited,
                                           .tag = o->tag };

    return launcher_exec(o->untrusted ? &none : o, p->sock, channel, e);
}

static int run_layer_worker(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    return layer_worker_exec(p->options->storage, p->sock, p->options->launcher.untrusted, channel,
                             e);
}

static int run_worker(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    return worker_exec(&p->options->worker, p->gate, p->sock, channel, e);
}

static int run_fetch(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    return fetch_process_exec(&p->options->fetch, p->sock, channel, e);
}

static int run_headers(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    if (!p->options->headers_file)
        return err_set(e, ERR_INVALID, "hub.headers_file is not configured");
    return headers_open(p->options->headers_file, ret_fd, e);
}

static int run_certificate(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    return certificate_pass(p->options->domain, ret_fd, e);
}

static struct grants grants_of(const struct monitor_options *o)
{
    return (struct grants){ o->grants, &o->launcher, &o->doors };
}

static int grant_handed_files(const struct grants *g, const char *sandbox, int sock,
                              const struct monitor_request *a, struct err *e)
{
    const struct mount_want want = { a->mounts, a->writable };
    struct handover h AUTO(handover_done) = { .n = 0 };
    struct client client;
    int r = handover_take(sock, !sandbox, &h, e);

    if (r >= 0)
        r = client_of_handover(sock, &h, &client, e);
    if (r >= 0 && a->workspace)
        r = grant_make_handed(g, sandbox, &client, &h, a->receive, e);
    if (r >= 0 && a->mounts)
        r = mount_grants_make(g, sandbox, &client, &h, &want, e);
    return r;
}

static int run_grant(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct monitor_request *a = p->message;
    const struct grants g = grants_of(p->options);
    const char *sandbox = a->dry ? NULL : a->sandbox;

    if (sandbox && !grant_name_valid(sandbox))
        return err_set(e, ERR_INVALID, "invalid sandbox id in a workspace request");
    if (a->grant == MONITOR_GRANT_HANDED)
        return grant_handed_files(&g, sandbox, p->sock, a, e);
    return grant_make_named(&g, sandbox, p->sock, a->root, a->path, a->receive, e);
}

static int check_grant(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct grants g = grants_of(p->options);
    AUTO_CLOSE int dir = -1;
    struct workspace_grant found;

    return grant_open(&g, p->message->sandbox, &found, &dir, e);
}

static int run_forget(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct grants g = grants_of(p->options);

    int r = grant_remove(&g, p->message->sandbox, e);

    return r < 0 ? r : mount_grants_remove(&g, p->message->sandbox, e);
}

static int run_mounts(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct grants g = grants_of(p->options);
    struct granted granted AUTO(granted_done) = { .n = 0 };
    int r = mount_grants_open(&g, p->message->sandbox, &granted, e);

    return r < 0 ? r : granted_pass(&granted, ret_fd, e);
}

/* --- requests --- */

/* Requests that a child process works on. */
static const struct {
    job_fn *run;
    bool needs_socket;      /* one descriptor comes with it */
    enum child_group group; /* of a program, which is counted there; COPIES: it is no program */
} job_kinds[MONITOR_KIND_COUNT_] = {
    [MONITOR_LAUNCHER] = { run_launcher, true, LAUNCHERS },
    [MONITOR_EGRESS] = { run_worker, true, WORKERS },
    [MONITOR_LAYER_WORKER] = { run_layer_worker, true, LAYER_WORKERS },
    [MONITOR_FETCH] = { run_fetch, true, FETCHERS },
    [MONITOR_HEADERS] = { run_headers, false, COPIES },
    [MONITOR_CERTIFICATE] = { run_certificate, false, COPIES },
    [MONITOR_GRANT] = { run_grant, true, COPIES },
    [MONITOR_CHECK] = { check_grant, false, COPIES },
    [MONITOR_REMOVE_GRANT] = { run_forget, false, COPIES },
    [MONITOR_MOUNTS] = { run_mounts, false, COPIES },
};

static int start_job(struct monitor *w, const struct monitor_request *message,
                     const struct ipc_fds *fds, struct err *e)
{
    enum child_group group = job_kinds[message->kind].group;
    struct children *of = group == COPIES ? NULL : &w->groups[group];
    bool needs_socket = job_kinds[message->kind].needs_socket;
    const struct program_job p = { w->options, message, needs_socket && fds->n ? fds->fd[0] : -1,
                                   w->gate };
    pid_t pid;
    int r = 0;

    if (fds->n != (needs_socket ? 1 : 0))
        return err_set(e, ERR_INVALID, "a request with %zu descriptors", fds->n);
    if (of)
        r = children_check(of, e);
    if (r >= 0 && of)
        r = monitor_request_check_socket(fds->fd[0], e);
    if (r >= 0)
        r = jobs_start(&w->jobs, message->kind, message->id, job_kinds[message->kind].run, &p, &pid,
                       e);
    if (r >= 0 && of)
        children_add(of, pid, message->id);
    return r;
}

/* The group is made before the process, so that requests about the worker find it at once. */
static int start_egress_worker(struct monitor *w, const struct monitor_request *message,
                               const struct ipc_fds *fds, struct err *e)
{
    const struct children *workers = &w->groups[WORKERS];
    int r = gate_add(w->gate, message->id, e);

    if (r < 0)
        return r;
    r = start_job(w, message, fds, e);
    gate_started(w->gate, r < 0 ? 0 : workers->child[workers->n - 1].pid);
    return r;
}

static int set_places(struct monitor *w, const struct monitor_request *message,
                      const struct ipc_fds *fds, struct err *e)
{
    static struct gate_place list[GATE_PLACES_MAX];
    size_t n = 0;
    int r = fds->n == 1 ? monitor_request_read_places(fds->fd[0], list, &n, e)
                        : err_set(e, ERR_INVALID, "a request with %zu descriptors", fds->n);

    if (r >= 0)
        r = gate_places_check(list, n, e);
    if (r >= 0)
        r = gate_set(w->gate, message->worker, list, n, e);
    if (r >= 0)
        send_answer(w, message->id, 0, NULL, -1, false);
    return r;
}

static void end_child(const struct children *of, uint64_t id)
{
    pid_t pid = children_find(of, id);

    if (pid > 0)
        kill(pid, SIGKILL);
}

static int serve_kind(struct monitor *w, const struct monitor_request *message,
                      const struct ipc_fds *fds, struct err *e)
{
    const struct grants g = grants_of(w->options);

    switch ((enum monitor_kind)message->kind) {
    case MONITOR_EGRESS:
        return start_egress_worker(w, message, fds, e);
    case MONITOR_END_EGRESS:
        end_child(&w->groups[WORKERS], message->worker);
        return 0;
    case MONITOR_END_FETCH:
        end_child(&w->groups[FETCHERS], message->worker);
        return 0;
    case MONITOR_SYNC: /* not answered: the result goes to the report */
        if (copies_start(&w->groups[COPIES], &g, message, fds, e) < 0)
            log_failure(w, e);
        return 0;
    case MONITOR_PLACES:
        return set_places(w, message, fds, e);
    default:
        return start_job(w, message, fds, e);
    }
}

/* False when the control plane has closed its end, or broke the protocol. */
static bool serve_some(struct monitor *w)
{
    for (int i = 0; i < REQUESTS_AT_ONCE; i++) {
        struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
        struct monitor_request message;
        struct err e = { 0 };
        ssize_t n = ipc_recv(w->sock, &message, sizeof message, &fds, &e);
        int r;

        if (n == -(ssize_t)ERR_BUSY)
            return true;
        if (n == 0)
            return false;
        if (n > 0 && n != (ssize_t)sizeof message)
            n = err_set(&e, ERR_INVALID, "a request of the wrong size");
        if (n < 0) {
            log_failure(w, &e);
            continue;
        }
        r = monitor_request_check(&message, &e);
        if (r >= 0)
            r = serve_kind(w, &message, &fds, &e);
        if (r < 0)
            send_answer(w, message.id, r, &e, -1, false);
    }
    return true;
}

/* Collects what was started too. True when the control plane is among the dead. */
static bool reap_monitor_children(struct monitor *w, int *ret_status)
{
    int status;
    pid_t pid;
    bool ended = false;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < GROUP_COUNT_; i++)
            children_ended(&w->groups[i], pid);
        gate_ended(w->gate, pid);
        jobs_ended(&w->jobs, pid, on_job_answer, w);
        for (size_t i = 0; i < w->options->n_companions; i++)
            companion_ended(&w->options->companions[i], pid, status);
        if (pid == w->child) {
            *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            ended = true;
        }
    }
    return ended;
}

/* child 0: signals are dropped. */
static void pass_signals(int signals, pid_t child)
{
    struct signalfd_siginfo info;

    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (child && info.ssi_signo != SIGCHLD)
            kill(child, (int)info.ssi_signo);
}

/* Workers end with their sockets, and have something to write until then, unless they hang. */
static void await_workers(struct monitor *w, struct pollfd *signals, int64_t deadline)
{
    int status;

    while (w->groups[WORKERS].n && clock_mono() < deadline) {
        poll(signals, 1, clock_poll_ms(deadline));
        pass_signals(signals->fd, 0);
        reap_monitor_children(w, &status);
    }
}

static void kill_children(const struct children *of)
{
    for (size_t i = 0; i < of->n; i++)
        kill(of->child[i].pid, SIGKILL);
}

/* The descriptors that are always watched, and the jobs behind them. */
enum { WAIT_SOCK, WAIT_SIGNALS, WAIT_ADDRESSES, WAIT_JOBS };

static const struct {
    const char *what;
    size_t max;
} groups[GROUP_COUNT_] = {
    [COPIES] = { "copies of workspaces", COPIES_MAX },
    [LAUNCHERS] = { "launchers", LAUNCHERS_MAX },
    [WORKERS] = { "egress workers", WORKERS_MAX },
    [LAYER_WORKERS] = { "jobs on layers", LAYER_WORKERS_MAX },
    [FETCHERS] = { "fetch processes", FETCH_PROCESSES_MAX },
};

static void init_monitor(struct monitor *w, int sock, pid_t child, const struct monitor_options *o)
{
    *w = (struct monitor){ .sock = sock, .child = child, .options = o, .no_gate = GATE_CLOSED };
    w->gate = o->gate ? o->gate : &w->no_gate;
    for (size_t i = 0; i < GROUP_COUNT_; i++) {
        w->groups[i].what = groups[i].what;
        w->groups[i].max = groups[i].max;
    }
    fcntl(sock, F_SETFL, O_NONBLOCK);
}

/* A daemon that has a log file bounds it. */
static void bound_log(struct monitor *w)
{
    int64_t now = clock_mono();
    struct err e;

    if (!w->options->log_state || now < w->log_at)
        return;
    w->log_at = now + LOG_CHECK_NS;
    if (log_file_bound(w->options->log_state, LOG_FILE_BYTES_MAX, &e) < 0)
        LOG(ERROR, "daemon.log_not_bounded", LOG_S("error", e.msg));
}

/* Of two times, of which 0 is never. */
static int64_t earlier_deadline(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* Of a job, of another try to remove groups of workers, of a process that starts again, or of the
 * log; 0: none. */
static int64_t next_deadline(struct monitor *w)
{
    int64_t next = jobs_deadline(&w->jobs);

    for (size_t i = 0; i < w->options->n_companions; i++)
        next = earlier_deadline(next, companion_restart(&w->options->companions[i]));
    if (!gate_tidy(w->gate))
        next = earlier_deadline(next, clock_mono() + TIDY_NS);
    return w->options->log_state ? earlier_deadline(next, w->log_at) : next;
}

int monitor_run(int sock, pid_t child, const struct monitor_options *o)
{
    static const int passed[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
    AUTO_CLOSE int signals = signals_open(passed, COUNT_OF(passed), NULL);
    static struct monitor w;
    struct pollfd waits[WAIT_JOBS + JOBS_MAX] = {
        [WAIT_SOCK] = { .fd = sock, .events = POLLIN },
        [WAIT_SIGNALS] = { .fd = signals, .events = POLLIN },
    };
    int status = 1;

    init_monitor(&w, sock, child, o);
    waits[WAIT_ADDRESSES] = (struct pollfd){ .fd = w.gate->news, .events = POLLIN };
    while (!reap_monitor_children(&w, &status)) {
        size_t n;
        int64_t deadline;

        bound_log(&w);
        n = WAIT_JOBS + jobs_poll(&w.jobs, &waits[WAIT_JOBS]);
        deadline = next_deadline(&w);

        if (poll(waits, (nfds_t)n, deadline ? clock_poll_ms(deadline) : -1) < 0 && errno != EINTR)
            break;
        pass_signals(signals, child);
        jobs_run(&w.jobs, on_job_answer, &w);
        if (waits[WAIT_ADDRESSES].revents)
            gate_refresh(w.gate);
        if (waits[WAIT_SOCK].revents && !serve_some(&w))
            waits[WAIT_SOCK].fd = -1; /* it is about to end */
    }
    kill_children(&w.groups[FETCHERS]); /* they have nothing to finish */
    await_workers(&w, &waits[WAIT_SIGNALS], clock_mono() + WORKERS_END_NS);
    kill_children(&w.groups[WORKERS]);
    await_workers(&w, &waits[WAIT_SIGNALS], clock_mono() + WORKERS_END_NS);
    return status;
}

/* --- the control plane's side --- */

static void name_sandbox(struct monitor_request *message, const char *sandbox)
{
    snprintf(message->sandbox, sizeof message->sandbox, "%s", sandbox);
}

int monitor_sync(void *q, const struct control_sync *m, struct err *e)
{
    int fds[MONITOR_FDS_MAX] = { [MONITOR_FD_REPORT] = m->report,
                                 [MONITOR_FD_TAR] = m->tar,
                                 [MONITOR_FD_MANIFEST_OUT] = m->manifest_out };
    size_t n = MONITOR_FDS_LEAST;
    struct monitor_request message = { .kind = MONITOR_SYNC,
                                       .receive = m->receive,
                                       .flags = m->flags };

    const struct {
        int fd;
        uint32_t bit;
    } more[] = { { m->manifest_in, MONITOR_HAS_MANIFEST_IN },
                 { m->client, MONITOR_HAS_CLIENT },
                 { m->accept, MONITOR_HAS_ACCEPT } };

    for (size_t i = 0; i < COUNT_OF(more); i++)
        if (more[i].fd >= 0) {
            message.has |= more[i].bit;
            fds[n++] = more[i].fd;
        }
    name_sandbox(&message, m->sandbox);
    snprintf(message.top, sizeof message.top, "%s", m->top);
    return requests_notify(q, &message, fds, n, e);
}

int monitor_places(void *q, uint64_t worker, const struct gate_place *list, size_t n,
                   struct control_request *r, struct err *e)
{
    struct monitor_request message = { .kind = MONITOR_PLACES, .worker = worker };
    AUTO_CLOSE int fd = -1;
    int made = monitor_request_make_places(list, n, &fd, e);

    return made < 0 ? made : requests_send(q, &message, &fd, 1, r, e);
}

int monitor_grant(struct requests *q, const struct launcher_options *o,
                  const struct control_grant *g, struct control_request *r, struct err *e)
{
    struct monitor_request message = { .kind = MONITOR_GRANT,
                                       .receive = g->writable,
                                       .dry = g->dry,
                                       .workspace = g->workspace,
                                       .mounts = g->mounts,
                                       .writable = g->writable_mounts };
    int fd = g->handed >= 0 ? g->handed : g->client, named = 0;

    name_sandbox(&message, g->sandbox);
    message.grant = g->handed >= 0 ? MONITOR_GRANT_HANDED : MONITOR_GRANT_NAMED;
    /* The check of a grant takes the path on record. */
    if (g->handed < 0 && fd >= 0 && !g->open_mounts)
        named = monitor_request_name_dir(&message, o, g->path, e);
    if (named < 0)
        return named;
    if (fd < 0)
        message.kind = g->open_mounts ? MONITOR_MOUNTS : MONITOR_CHECK;
    return requests_send(q, &message, &fd, fd < 0 ? 0 : 1, r, e);
}

void monitor_forget(void *q, const char *sandbox)
{
    struct monitor_request message = { .kind = MONITOR_REMOVE_GRANT };
    struct err e;

    name_sandbox(&message, sandbox);
    if (requests_notify(q, &message, NULL, 0, &e) < 0)
        LOG(ERROR, "warden.failed", LOG_S("error", e.msg));
}
