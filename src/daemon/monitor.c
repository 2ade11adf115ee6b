#include "daemon/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "api/certificate.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "daemon/ask.h"
#include "daemon/children.h"
#include "daemon/copies.h"
#include "daemon/fetch_process.h"
#include "daemon/grants.h"
#include "daemon/headers.h"
#include "daemon/jobs.h"
#include "daemon/keepers.h"
#include "ipc/channel.h"
#include "proc/signals.h"

#define WORKERS_END_NS (2 * NS_PER_S)
#define LOG_PAUSE_NS   NS_PER_S
#define TIDY_NS        (20 * NS_PER_MS)

enum {
    LAUNCHERS_MAX = 64,
    ASKS_AT_ONCE = 16,   /* requests between two looks at signals and jobs */
    LINES_A_SECOND = 20, /* of the log, about requests that failed */
};

struct warden {
    int sock;
    pid_t child;
    const struct warden_options *options;
    struct copies copies;
    struct children launchers, workers, keepers, fetchers;
    struct jobs jobs;
    struct gate no_gate, *gate;
    int64_t lines_from; /* when the current second of the log began */
    unsigned lines;
};

/* A control plane that was taken over shall not fill the log. */
static void log_failure(struct warden *w, const struct err *e)
{
    int64_t now = clock_mono();

    if (now - w->lines_from > LOG_PAUSE_NS) {
        w->lines_from = now;
        w->lines = 0;
    }
    if (w->lines++ < LINES_A_SECOND)
        LOG(ERROR, "warden.failed", LOG_S("error", e->msg));
}

/* A control plane that does not read its answers loses them, and gives its requests up by itself.
 */
static void send_answer(struct warden *w, uint64_t id, int r, const struct err *e, int fd)
{
    struct warden_answer answer = { .id = id, .r = r };

    if (r < 0) {
        answer.err = *e;
        log_failure(w, e);
    }
    (void)ipc_send(w->sock, &answer, sizeof answer, &fd, fd < 0 ? 0 : 1, NULL);
}

static void on_job_answer(void *user, const struct job *j, int r, const struct err *e, int fd)
{
    send_answer(user, j->id, r, e, fd);
}

/* --- what jobs do, in their own processes --- */

struct program_job {
    const struct warden_options *options;
    const struct warden_ask *ask;
    int sock;
    const struct gate *gate;
};

/* An untrusted control plane shows no host directory to sandboxes: their workspaces are copies. */
static int run_launcher(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct launcher_options *o = &p->options->launcher;
    const struct launcher_options none = { .untrusted = true,
                                           .store = o->store,
                                           .driver = o->driver,
                                           .limited = o->limited,
                                           .tag = o->tag };

    (void)ret_fd;
    return launcher_exec(o->untrusted ? &none : o, p->sock, channel, e);
}

static int run_keeper(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    (void)ret_fd;
    return keeper_exec(p->options->storage, p->sock, channel, e);
}

static int run_worker(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    (void)ret_fd;
    return worker_exec(&p->options->worker, p->gate, p->sock, channel, e);
}

static int run_fetch(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    (void)ret_fd;
    return fetch_process_exec(&p->options->fetch, p->sock, channel, e);
}

static int run_headers(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    (void)channel;
    if (!p->options->headers_file)
        return err_set(e, ERR_INVALID, "hub.headers_file is not configured");
    return headers_open(p->options->headers_file, ret_fd, e);
}

static int run_certificate(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;

    (void)channel;
    return certificate_pass(p->options->domain, ret_fd, e);
}

static struct grants grants_of(const struct warden_options *o)
{
    return (struct grants){ o->grants, &o->launcher, &o->doors };
}

static int run_grant(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct warden_ask *a = p->ask;
    const struct grants g = grants_of(p->options);
    const char *sandbox = a->dry ? NULL : a->sandbox;

    (void)channel;
    (void)ret_fd;
    if (sandbox && !grant_name_valid(sandbox))
        return err_set(e, ERR_INVALID, "a workspace of no sandbox");
    if (a->grant == ASK_GRANT_HANDED)
        return grant_make_handed(&g, sandbox, p->sock, a->receive, e);
    return grant_make_named(&g, sandbox, p->sock, a->root, a->path, a->receive, e);
}

static int run_check(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct grants g = grants_of(p->options);
    AUTO_CLOSE int dir = -1;
    struct grant found;

    (void)channel;
    (void)ret_fd;
    return grant_open(&g, p->ask->sandbox, &found, &dir, e);
}

static int run_forget(const void *ctx, int *channel, int *ret_fd, struct err *e)
{
    const struct program_job *p = ctx;
    const struct grants g = grants_of(p->options);

    (void)channel;
    (void)ret_fd;
    return grant_remove(&g, p->ask->sandbox, e);
}

/* --- requests --- */

/* `needs_socket`: one descriptor comes with it; `of`: it is of a program, which is counted there.
 */
static int start_job(struct warden *w, const struct warden_ask *ask, const struct ipc_fds *fds,
                     job_fn *run, bool needs_socket, struct children *of, struct err *e)
{
    const struct program_job p = { w->options, ask, needs_socket && fds->n ? fds->fd[0] : -1,
                                   w->gate };
    pid_t pid;
    int r = 0;

    if (fds->n != (needs_socket ? 1 : 0))
        return err_set(e, ERR_INVALID, "a request with %zu descriptors", fds->n);
    if (of)
        r = children_check(of, e);
    if (r >= 0 && of)
        r = ask_check_socket(fds->fd[0], e);
    if (r >= 0)
        r = jobs_start(&w->jobs, ask->kind, ask->id, run, &p, &pid, e);
    if (r >= 0 && of)
        children_add(of, pid, ask->id);
    return r;
}

/* Its group is there before its process, so that requests about the worker find it at once. */
static int start_egress_worker(struct warden *w, const struct warden_ask *ask,
                               const struct ipc_fds *fds, struct err *e)
{
    int r = gate_add(w->gate, ask->id, e);

    if (r < 0)
        return r;
    r = start_job(w, ask, fds, run_worker, true, &w->workers, e);
    gate_started(w->gate, r < 0 ? 0 : w->workers.child[w->workers.n - 1].pid);
    return r;
}

static int set_places(struct warden *w, const struct warden_ask *ask, const struct ipc_fds *fds,
                      struct err *e)
{
    static struct gate_place list[GATE_PLACES_MAX];
    size_t n = 0;
    int r = fds->n == 1 ? ask_read_places(fds->fd[0], list, &n, e)
                        : err_set(e, ERR_INVALID, "a request with %zu descriptors", fds->n);

    if (r >= 0)
        r = gate_places_check(list, n, e);
    if (r >= 0)
        r = gate_set(w->gate, ask->worker, list, n, e);
    if (r >= 0)
        send_answer(w, ask->id, 0, NULL, -1);
    return r;
}

static void end_child(const struct children *of, uint64_t id)
{
    pid_t pid = children_find(of, id);

    if (pid > 0)
        kill(pid, SIGKILL);
}

static int serve_kind(struct warden *w, const struct warden_ask *ask, const struct ipc_fds *fds,
                      struct err *e)
{
    switch ((enum warden_kind)ask->kind) {
    case WARDEN_LAUNCHER:
        return start_job(w, ask, fds, run_launcher, true, &w->launchers, e);
    case WARDEN_EGRESS:
        return start_egress_worker(w, ask, fds, e);
    case WARDEN_KEEPER:
        return start_job(w, ask, fds, run_keeper, true, &w->keepers, e);
    case WARDEN_FETCH:
        return start_job(w, ask, fds, run_fetch, true, &w->fetchers, e);
    case WARDEN_END_FETCH:
        end_child(&w->fetchers, ask->worker);
        return 0;
    case WARDEN_HEADERS:
        return start_job(w, ask, fds, run_headers, false, NULL, e);
    case WARDEN_CERTIFICATE:
        return start_job(w, ask, fds, run_certificate, false, NULL, e);
    case WARDEN_GRANT:
        return start_job(w, ask, fds, run_grant, true, NULL, e);
    case WARDEN_CHECK:
        return start_job(w, ask, fds, run_check, false, NULL, e);
    case WARDEN_FORGET:
        return start_job(w, ask, fds, run_forget, false, NULL, e);
    case WARDEN_MIRROR:
        copies_start(
            &w->copies,
            &(struct grants){ w->options->grants, &w->options->launcher, &w->options->doors }, ask,
            fds);
        return 0;
    case WARDEN_PLACES:
        return set_places(w, ask, fds, e);
    case WARDEN_END_EGRESS:
        end_child(&w->workers, ask->worker);
        return 0;
    case WARDEN_KIND_COUNT_:
        break;
    }
    return err_set(e, ERR_INVALID, "a request of no known kind");
}

static void serve_one(struct warden *w, const struct warden_ask *ask, const struct ipc_fds *fds)
{
    struct err e = { 0 };
    int r = ask_check(ask, &e);

    if (r >= 0)
        r = serve_kind(w, ask, fds, &e);
    if (r < 0)
        send_answer(w, ask->id, r, &e, -1);
}

/* False when the control plane has closed its end, or broke the protocol. */
static bool serve_some(struct warden *w)
{
    for (int i = 0; i < ASKS_AT_ONCE; i++) {
        struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
        struct warden_ask ask;
        struct err e;
        ssize_t n = ipc_recv(w->sock, &ask, sizeof ask, &fds, &e);

        if (n == -(ssize_t)ERR_BUSY)
            return true;
        if (n == 0)
            return false;
        if (n == (ssize_t)sizeof ask)
            serve_one(w, &ask, &fds);
        else
            log_failure(w, n < 0 ? &e
                                 : &(struct err){ .code = ERR_INVALID,
                                                  .msg = "a request of the wrong size" });
    }
    return true;
}

/* Collects what was started too. True when the control plane is among the dead. */
static bool reap(struct warden *w, int *ret_status)
{
    int status;
    pid_t pid;
    bool ended = false;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        copies_ended(&w->copies, pid);
        children_ended(&w->launchers, pid);
        children_ended(&w->workers, pid);
        gate_ended(w->gate, pid);
        children_ended(&w->keepers, pid);
        children_ended(&w->fetchers, pid);
        jobs_ended(&w->jobs, pid);
        if (pid == w->child) {
            *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            ended = true;
        }
    }
    return ended;
}

static int open_signals(void)
{
    static const int list[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };

    return signals_open(list, COUNT_OF(list), NULL);
}

/* child 0: to nobody. */
static void pass_signals(int signals, pid_t child)
{
    struct signalfd_siginfo info;

    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (child && info.ssi_signo != SIGCHLD)
            kill(child, (int)info.ssi_signo);
}

/* Workers end with their sockets, and have something to write until then, unless they hang. */
static void await_workers(struct warden *w, struct pollfd *signals, int64_t deadline)
{
    int status;

    while (w->workers.n && clock_mono() < deadline) {
        poll(signals, 1, clock_poll_ms(deadline));
        pass_signals(signals->fd, 0);
        reap(w, &status);
    }
}

static void end_workers(struct warden *w, struct pollfd *signals)
{
    for (size_t i = 0; i < w->fetchers.n; i++) /* they have nothing to finish */
        kill(w->fetchers.child[i].pid, SIGKILL);
    await_workers(w, signals, clock_mono() + WORKERS_END_NS);
    for (size_t i = 0; i < w->workers.n; i++)
        kill(w->workers.child[i].pid, SIGKILL);
    await_workers(w, signals, clock_mono() + WORKERS_END_NS);
}

/* The descriptors that are always watched, and the jobs behind them. */
enum { WAIT_SOCK, WAIT_SIGNALS, WAIT_ADDRESSES, WAIT_JOBS };

static void init_warden(struct warden *w, int sock, pid_t child, const struct warden_options *o)
{
    w->sock = sock;
    w->child = child;
    w->options = o;
    w->no_gate = GATE_CLOSED;
    w->gate = o->gate ? o->gate : &w->no_gate;
    w->launchers.what = "launchers";
    w->launchers.max = LAUNCHERS_MAX;
    w->workers.what = "egress workers";
    w->workers.max = WORKERS_MAX;
    w->keepers.what = "jobs on layers";
    w->keepers.max = KEEPERS_MAX;
    w->fetchers.what = "fetch processes";
    w->fetchers.max = FETCH_PROCESSES_MAX;
    fcntl(sock, F_SETFL, O_NONBLOCK);
}

/* Of a job, or of another try to remove groups of workers; 0: none. */
static int64_t next_deadline(struct warden *w)
{
    int64_t job = jobs_deadline(&w->jobs), tidy = clock_mono() + TIDY_NS;

    if (gate_tidy(w->gate))
        return job;
    return job && job < tidy ? job : tidy;
}

int warden_run(int sock, pid_t child, const struct warden_options *o)
{
    AUTO_CLOSE int signals = open_signals();
    static struct warden w;
    struct pollfd waits[WAIT_JOBS + JOBS_MAX] = {
        [WAIT_SOCK] = { .fd = sock, .events = POLLIN },
        [WAIT_SIGNALS] = { .fd = signals, .events = POLLIN },
    };
    int status = 1;

    init_warden(&w, sock, child, o);
    waits[WAIT_ADDRESSES] = (struct pollfd){ .fd = w.gate->news, .events = POLLIN };
    while (!reap(&w, &status)) {
        size_t n = WAIT_JOBS + jobs_poll(&w.jobs, &waits[WAIT_JOBS]);
        int64_t deadline = next_deadline(&w);

        if (poll(waits, (nfds_t)n, deadline ? clock_poll_ms(deadline) : -1) < 0 && errno != EINTR)
            break;
        pass_signals(signals, child);
        jobs_run(&w.jobs, on_job_answer, &w);
        if (waits[WAIT_ADDRESSES].revents)
            gate_refresh(w.gate);
        if (waits[WAIT_SOCK].revents && !serve_some(&w))
            waits[WAIT_SOCK].fd = -1; /* it is about to end */
    }
    end_workers(&w, &waits[WAIT_SIGNALS]);
    return status;
}

/* --- the control plane's side --- */

static void name_sandbox(struct warden_ask *ask, const char *sandbox)
{
    snprintf(ask->sandbox, sizeof ask->sandbox, "%s", sandbox);
}

int warden_mirror(struct requests *q, const struct control_mirror *m, struct err *e)
{
    int fds[ASK_FDS_MAX] = {
        [ASK_FD_REPORT] = m->report, [ASK_FD_TAR] = m->tar, [ASK_FD_MANIFEST_OUT] = m->manifest_out
    };
    size_t n = ASK_FDS_LEAST;
    struct warden_ask ask = { .kind = WARDEN_MIRROR, .receive = m->receive, .flags = m->flags };

    if (m->manifest_in >= 0) {
        ask.has |= ASK_HAS_MANIFEST_IN;
        fds[n++] = m->manifest_in;
    }
    if (m->client >= 0) {
        ask.has |= ASK_HAS_CLIENT;
        fds[n++] = m->client;
    }
    if (m->accept >= 0) {
        ask.has |= ASK_HAS_ACCEPT;
        fds[n++] = m->accept;
    }
    name_sandbox(&ask, m->sandbox);
    snprintf(ask.top, sizeof ask.top, "%s", m->top);
    return requests_tell(q, &ask, fds, n, e);
}

int warden_places(struct requests *q, uint64_t worker, const struct gate_place *list, size_t n,
                  struct control_request *r, struct err *e)
{
    struct warden_ask ask = { .kind = WARDEN_PLACES, .worker = worker };
    AUTO_CLOSE int fd = -1;
    int made = ask_make_places(list, n, &fd, e);

    return made < 0 ? made : requests_send(q, &ask, &fd, 1, r, e);
}

int warden_grant(struct requests *q, const struct launcher_options *o,
                 const struct control_grant *g, struct control_request *r, struct err *e)
{
    struct warden_ask ask = { .kind = WARDEN_GRANT, .receive = g->writable, .dry = g->dry };
    int fd = g->handed >= 0 ? g->handed : g->client, named = 0;

    name_sandbox(&ask, g->sandbox);
    ask.grant = g->handed >= 0 ? ASK_GRANT_HANDED : ASK_GRANT_NAMED;
    if (g->handed < 0)
        named = ask_name_dir(&ask, o, g->path, e);
    if (named < 0)
        return named;
    if (fd < 0)
        ask.kind = WARDEN_CHECK;
    return requests_send(q, &ask, &fd, fd < 0 ? 0 : 1, r, e);
}

void warden_forget(struct requests *q, const char *sandbox)
{
    struct warden_ask ask = { .kind = WARDEN_FORGET };
    struct err e;

    name_sandbox(&ask, sandbox);
    if (requests_tell(q, &ask, NULL, 0, &e) < 0)
        LOG(ERROR, "warden.failed", LOG_S("error", e.msg));
}
