#include "daemon/warden.h"

#include <errno.h>
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
#include "daemon/copies.h"
#include "daemon/headers.h"
#include "daemon/keepers.h"
#include "ipc/channel.h"
#include "proc/signals.h"

#define WORKERS_END_NS (2 * NS_PER_S)

/* --- launchers --- */

/* Who is not trusted shows no host directory at all: its workspaces are copies. */
static int give_launcher(const struct warden_options *w, int *ret, struct err *e)
{
    const struct launcher_options *o = &w->launcher;
    const struct launcher_options none = { .untrusted = true,
                                           .store = o->store,
                                           .driver = o->driver,
                                           .limited = o->limited,
                                           .tag = o->tag };
    struct launcher l = { .sock = -1 };
    int r = launcher_start_with(o->untrusted ? &none : o, &l, e);

    if (r >= 0)
        *ret = l.sock;
    return r;
}

/* --- serving --- */

struct warden {
    int sock;
    pid_t child;
    const struct warden_options *options;
    struct copies copies;
    struct workers workers;
    struct keepers keepers;
};

static int give_headers(const struct warden_options *o, int *ret, struct err *e)
{
    if (!o->headers_file)
        return err_set(e, ERR_INVALID, "there is no hub.headers_file");
    return headers_open(o->headers_file, ret, e);
}

static int give(struct warden *w, enum warden_kind kind, struct warden_answer *a, int *ret)
{
    const struct warden_options *o = w->options;
    pid_t pid = 0;
    int r;

    switch (kind) {
    case WARDEN_LAUNCHER:
        return give_launcher(o, ret, &a->err);
    case WARDEN_KEEPER:
        return keepers_start(&w->keepers, o->storage, ret, &a->err);
    case WARDEN_EGRESS:
        r = workers_start(&w->workers, &o->worker, ret, &pid, &a->err);
        a->pid = pid;
        return r;
    case WARDEN_CERTIFICATE:
        return certificate_pass(o->domain, ret, &a->err);
    default:
        return give_headers(o, ret, &a->err);
    }
}

static void serve_one(struct warden *w, const struct warden_ask *ask, struct ipc_fds *fds)
{
    struct warden_answer answer = { 0 };
    AUTO_CLOSE int fd = -1;
    int r = ask_check(ask, &answer.err);

    if (r >= 0 && ask->kind == WARDEN_MIRROR) {
        copies_start(&w->copies, &w->options->launcher, ask, fds);
        return;
    }
    if (r >= 0 && ask->kind == WARDEN_END_EGRESS) {
        workers_end(&w->workers, ask->pid);
        return;
    }
    if (r >= 0)
        r = give(w, ask->kind, &answer, &fd);
    answer.r = r;
    if (r < 0)
        LOG(ERROR, "warden.failed", LOG_S("error", answer.err.msg));
    ipc_send(w->sock, &answer, sizeof answer, &fd, r < 0 ? 0 : 1, NULL);
}

/* Collects what was started too. True when the control plane is among the dead. */
static bool reap(struct warden *w, int *ret_status)
{
    int status;
    pid_t pid;
    bool ended = false;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        copies_ended(&w->copies, pid);
        workers_ended(&w->workers, pid);
        keepers_ended(&w->keepers, pid);
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

/* They end with their sockets, and have something to write until then, unless they hang. */
static void end_workers(struct warden *w, struct pollfd *signals)
{
    int64_t deadline = clock_mono() + WORKERS_END_NS;
    int status;

    while (w->workers.n && clock_mono() < deadline) {
        poll(signals, 1, clock_poll_ms(deadline));
        pass_signals(signals->fd, 0);
        reap(w, &status);
    }
    for (size_t i = 0; i < w->workers.n; i++)
        if (kill(w->workers.pid[i], SIGKILL) == 0)
            waitpid(w->workers.pid[i], &status, 0);
}

int warden_run(int sock, pid_t child, const struct warden_options *o)
{
    AUTO_CLOSE int signals = open_signals();
    static struct warden w;
    struct pollfd waits[2] = { { .fd = sock, .events = POLLIN },
                               { .fd = signals, .events = POLLIN } };
    int status = 1;

    w = (struct warden){ .sock = sock, .child = child, .options = o };
    while (!reap(&w, &status)) {
        struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
        struct warden_ask ask;

        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            break;
        pass_signals(signals, child);
        if (!waits[0].revents)
            continue;
        if (ipc_recv(sock, &ask, sizeof ask, &fds, NULL) == (ssize_t)sizeof ask)
            serve_one(&w, &ask, &fds);
        else
            waits[0].fd = -1; /* it is about to end */
    }
    end_workers(&w, &waits[1]);
    return status;
}

/* --- the control plane's side --- */

static int ask_for(int sock, enum warden_kind kind, int *ret, pid_t *ret_pid, struct err *e)
{
    const struct warden_ask ask = { .kind = kind };
    struct ipc_fds got AUTO(ipc_fds_done) = { .n = 0 };
    struct warden_answer answer;
    ssize_t size;
    int r = ipc_send(sock, &ask, sizeof ask, NULL, 0, e);

    if (r < 0)
        return err_wrap(e, r, "asking the warden");
    size = ipc_recv(sock, &answer, sizeof answer, &got, e);
    if (size < 0)
        return err_wrap(e, (int)size, "asking the warden");
    if (size == (ssize_t)sizeof answer && answer.r < 0) {
        if (e)
            *e = answer.err;
        return answer.r;
    }
    if (size != (ssize_t)sizeof answer || got.n != 1)
        return err_set(e, ERR_UPSTREAM, "the warden is gone");
    *ret = take_fd(&got.fd[0]);
    if (ret_pid)
        *ret_pid = answer.pid;
    return 0;
}

int warden_launcher(int sock, int *ret, struct err *e)
{
    return ask_for(sock, WARDEN_LAUNCHER, ret, NULL, e);
}

int warden_headers(int sock, int *ret, struct err *e)
{
    return ask_for(sock, WARDEN_HEADERS, ret, NULL, e);
}

int warden_certificate(int sock, int *ret, struct err *e)
{
    return ask_for(sock, WARDEN_CERTIFICATE, ret, NULL, e);
}

int warden_egress(int sock, int *ret, pid_t *ret_pid, struct err *e)
{
    return ask_for(sock, WARDEN_EGRESS, ret, ret_pid, e);
}

int warden_keeper(int sock, int *ret, struct err *e)
{
    return ask_for(sock, WARDEN_KEEPER, ret, NULL, e);
}

void warden_end_egress(int sock, pid_t pid)
{
    const struct warden_ask ask = { .kind = WARDEN_END_EGRESS, .pid = pid };
    struct err e;

    if (ipc_send(sock, &ask, sizeof ask, NULL, 0, &e) < 0)
        LOG(ERROR, "warden.failed", LOG_S("error", e.msg));
}

int warden_mirror(int sock, const struct launcher_options *o, const struct control_mirror *m,
                  struct err *e)
{
    const int fds[ASK_FDS_MAX] = { [ASK_FD_REPORT] = m->report,
                                   [ASK_FD_TAR] = m->tar,
                                   [ASK_FD_MANIFEST_OUT] = m->manifest_out,
                                   [ASK_FD_MANIFEST_IN] = m->manifest_in };
    struct warden_ask ask = {
        .kind = WARDEN_MIRROR, .receive = m->receive, .flags = m->flags, .uid = m->uid
    };
    int r = ask_name_dir(&ask, o, m->path, e);

    if (r < 0)
        return r;
    snprintf(ask.top, sizeof ask.top, "%s", m->top);
    r = ipc_send(sock, &ask, sizeof ask, fds, m->manifest_in < 0 ? ASK_FDS_MAX - 1 : ASK_FDS_MAX,
                 e);
    return err_wrap(e, r, "asking the warden");
}
