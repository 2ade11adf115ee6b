/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/session_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/own.h"
#include "base/units.h"
#include "cli/ending.h"
#include "cli/verb.h"
#include "lib/ipc/channel.h"
#include "lib/proc/signals.h"

/* With a network the program waits until the policy is in force. */
static int send_first(struct session_run *r, struct err *e)
{
    struct session *s = r->s;

    if (s->network)
        return supervisor_request(s->control, LISTENERS_TAG, CONTROL_LISTENERS, e);
    if (s->collect)
        return session_make_files(r, e);
    return supervisor_start(s->control, TAG, r->start, e);
}

/* Both requests go out at once: PID 1 finds its first one waiting when it starts. */
static int send_requests(struct session_run *r, struct err *e)
{
    struct session *s = r->s;
    int fds[1 + PLAN_LAYERS_MAX + PLAN_MOUNTS_MAX], pair[2], n = 1, ret = ipc_pair(pair, e);

    if (ret < 0)
        return ret;
    s->control = pair[0];
    fds[0] = pair[1];
    for (uint32_t i = 0; i < s->plan.n_layers + s->plan.n_mounts; i++)
        fds[n++] = s->fds[i];
    ret = send_first(r, e);
    if (ret >= 0)
        ret = launcher_create(&s->launcher, &s->plan, fds, (size_t)n, e);
    close(pair[1]);
    return ret;
}

void session_destroy(struct session_run *r)
{
    struct err e;

    r->ended = true;
    stream_close(&r->streams[STREAM_IN]);
    if (r->destroying)
        return;
    r->destroying = true;
    if (launcher_destroy(&r->s->launcher, r->s->plan.id, &e) < 0)
        r->destroyed = true;
}

void session_fail(struct session_run *r, int status, const char *what)
{
    if (!r->said) /* the first reason is the reason */
        cli_report("%s", what);
    r->said = true;
    r->status = status;
    session_destroy(r);
}

static void note_unenforced(const struct session_run *r, uint32_t what)
{
    char memory[24];

    what &= r->s->asked_limits;
    if (!what || r->s->quiet)
        return;
    units_show_bytes(r->s->plan.memory, memory);
    cli_report("note: not enforced here:%s%s%s%s%s; --strict makes this an error",
               what & LAUNCH_NO_MEMORY ? " memory limit " : "",
               what & LAUNCH_NO_MEMORY ? memory : "", what & LAUNCH_NO_PIDS ? " pids limit" : "",
               what & LAUNCH_NO_CPU ? " cpu limit" : "",
               geteuid() == 0 ? "" : " (this user has no cgroup to use)");
}

/* The launcher died: another one finds what is left by the sandbox's id. */
static void clean_up_after_launcher(struct session_run *r)
{
    struct session *s = r->s;
    union launch_answer answer;
    struct err e;

    drop_fd(&s->control); /* PID 1 ends with it */
    launcher_done(&s->launcher);
    if (launcher_start(&s->launcher, &e) < 0 || launcher_destroy(&s->launcher, s->plan.id, &e) < 0)
        return;
    launcher_answer_with(&s->launcher, &answer, NULL, &e);
}

static void receive_launcher_answer(struct session_run *r)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    union launch_answer answer;
    struct err e = { 0 };

    if (launcher_answer_with(&r->s->launcher, &answer, &fds, &e) < 0) {
        session_fail(r, EXIT_TOOL_FAILED, e.msg);
        r->destroyed = true;
        if (e.code == ERR_UPSTREAM)
            clean_up_after_launcher(r);
        return;
    }
    if (answer.head.type == LAUNCH_CREATED) {
        r->created = true;
        note_unenforced(r, answer.created.unenforced);
        if (fds.n >= 3) { /* the first is a pidfd, which we do without */
            r->s->layer = take_fd(&fds.fd[1]);
            r->s->userns = take_fd(&fds.fd[2]);
        }
        if (r->s->control < 0 && !r->ended)
            session_fail(r, EXIT_TOOL_FAILED, "the sandbox's supervisor died");
        session_start(r);
    }
    if (answer.head.type == LAUNCH_RELEASED)
        r->destroyed = true;
    if (answer.head.type == LAUNCH_DESTROYED) {
        r->destroyed = true;
        r->oom_kills = answer.destroyed.oom_kills;
        if (answer.destroyed.leftover)
            cli_report("note: %u cgroups of %s could not be removed", answer.destroyed.leftover,
                       r->s->plan.id);
    }
}

static void begin_program(struct session_run *r, const struct control_started *m,
                          struct ipc_fds *fds)
{
    bool tty = r->start->flags & START_TTY;

    if (!streams_connect(r->streams, fds->fd, fds->n, tty, r->start->flags & START_STDIN)) {
        session_fail(r, EXIT_TOOL_FAILED,
                     "the sandbox sent another number of descriptors than expected");
        return;
    }
    r->proc = m->proc;
    if (r->start->timeout_ns)
        r->deadline = clock_mono() + r->start->timeout_ns + r->start->grace_ns + BACKSTOP_NS;
    if (tty)
        r->master = r->streams[STREAM_OUT].from;
    if (tty && isatty(STDIN_FILENO) == 1)
        terminal_raw(&r->terminal);
}

static void start_failed(struct session_run *r, const struct control_failed *m)
{
    bool program = strcmp(m->step, "program") == 0;

    session_fail(r,
                 !program           ? EXIT_TOOL_FAILED
                 : m->sys == ENOENT ? EXIT_NOT_FOUND
                                    : EXIT_NOT_EXECUTABLE,
                 m->msg);
}

/* PID 1 shares the program's processors and may be late; the launcher does not. */
static void time_out_run(struct session_run *r)
{
    if (r->collecting) {
        session_fail(r, EXIT_TOOL_FAILED,
                     "the output was not collected in time; try again, or write less to it");
        return;
    }
    r->status = EXIT_TIMED_OUT;
    terminal_restore(&r->terminal);
    ending_timed_out(r->start->timeout_ns);
    session_destroy(r);
}

/* Whether only the exiting PID 1 is left, without mounts of the caller's: then the caller does not
 * wait for the teardown by the launcher. */
static bool can_leave(const struct session_run *r, const struct control_exited *m)
{
    const struct session *s = r->s;

    return m->alone && r->created && !s->plan.n_mounts && !s->plan.n_layers && !s->network;
}

static void program_ended(struct session_run *r, const struct control_exited *m)
{
    struct err e;

    if (!r->proc && m->how == CONTROL_BY_EXIT) {
        session_fail(r, EXIT_TOOL_FAILED, "the program could not be started");
        return;
    }
    switch (m->how) {
    case CONTROL_BY_TIMEOUT:
        time_out_run(r);
        return;
    case CONTROL_BY_SIGNAL:
        r->status = EXIT_SIGNALLED + m->status;
        r->killed = m->status == SIGKILL;
        break;
    default:
        r->status = m->status & 0xff;
    }
    if (r->s->collect && !r->n_signals) {
        session_collect(r);
    } else if (can_leave(r, m)) {
        r->oom_kills = m->oom_total;
        /* The launcher acknowledges it: a killed one would not clean up. */
        r->destroying = launcher_release(&r->s->launcher, &e) >= 0;
        session_destroy(r); /* the rest of it */
    } else {
        session_destroy(r);
    }
}

/* --- PID 1 --- */

static void receive_supervisor_message(struct session_run *r)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    static union supervisor_message m;
    struct err e = { 0 };
    int got = supervisor_next(r->s->control, &m, &fds, &e);

    if (got <= 0) {
        drop_fd(&r->s->control);
        /* While the sandbox is being built, the launcher reports the reason. */
        if (!r->ended && (got < 0 || r->proc || r->created)) {
            r->killed = true;
            session_fail(r, EXIT_TOOL_FAILED,
                         got < 0 ? e.msg : "the sandbox ended before its program did");
        }
        return;
    }
    if (m.head.tag >= MAKE_TAG && m.head.tag <= COLLECT_TAG)
        session_receive_files(r, &m, &fds);
    else if (m.head.type == CONTROL_STARTED)
        begin_program(r, &m.started, &fds);
    else if (m.head.type == CONTROL_FAILED && (m.head.tag & WHO_TAG))
        session_receive_who_is(r, m.head.tag, NULL);
    else if (m.head.type == CONTROL_FAILED)
        start_failed(r, &m.failed);
    else if (m.head.type == CONTROL_LISTENING && r->s->network)
        session_serve_network(r, &m.listening, &fds);
    else if (m.head.type == CONTROL_WHO_IS)
        session_receive_who_is(r, m.head.tag, &m.who_is);
    else if (m.head.type == CONTROL_EXITED)
        program_ended(r, &m.exited);
}

/* Passes a signal on to the program; the third signal destroys the sandbox. */
static void pass_signal_to_program(struct session_run *r, int sig)
{
    struct err e;

    r->n_signals++;
    if (!r->proc || r->collecting || r->n_signals >= FORCE_AFTER_SIGNALS) {
        r->status = EXIT_SIGNALLED + sig;
        session_destroy(r);
        return;
    }
    supervisor_kill(r->s->control, TAG, r->proc, sig, CONTROL_GROUP, &e);
}

static void receive_run_signal(struct session_run *r)
{
    struct signalfd_siginfo info;

    if (read(r->signals, &info, sizeof info) != (ssize_t)sizeof info || r->ended)
        return;
    if (info.ssi_signo == SIGWINCH) {
        if (r->master >= 0)
            terminal_resize(r->master);
        return;
    }
    pass_signal_to_program(r, (int)info.ssi_signo);
}

static int64_t find_due(const struct session_run *r)
{
    int64_t network = r->s->network ? network_due(r->s->network) : 0;

    return network && (!r->deadline || network < r->deadline) ? network : r->deadline;
}

static void run_session_loop(struct session_run *r)
{
    enum { LAUNCHER, SUPERVISOR, SIGNALS, NETWORK, TAR, FIRST_STREAM };
    enum { FIRST_LISTENER = FIRST_STREAM + STREAMS, WAITS = FIRST_LISTENER + NETWORK_LISTENERS };
    struct pollfd waits[WAITS];
    /* poll() rejects more entries than RLIMIT_NOFILE. */
    nfds_t n = r->s->network ? WAITS : FIRST_LISTENER;

    while (!r->ended || !r->destroyed || stream_open(&r->streams[STREAM_OUT]) ||
           stream_open(&r->streams[STREAM_ERR])) {
        waits[LAUNCHER] =
            (struct pollfd){ .fd = r->destroyed ? -1 : r->s->launcher.sock, .events = POLLIN };
        waits[SUPERVISOR] = (struct pollfd){ .fd = r->s->control, .events = POLLIN };
        waits[SIGNALS] = (struct pollfd){ .fd = r->signals, .events = POLLIN };
        waits[NETWORK] =
            (struct pollfd){ .fd = r->s->network ? r->s->network->sock : -1, .events = POLLIN };
        waits[TAR] = (struct pollfd){ .fd = r->tar, .events = POLLIN };
        for (int i = 0; i < STREAMS; i++)
            stream_poll(&r->streams[i], &waits[FIRST_STREAM + i]);
        network_poll(r->ended ? NULL : r->s->network, &waits[FIRST_LISTENER]);
        if (poll(waits, n, r->ended ? -1 : clock_poll_ms(find_due(r))) < 0 && errno != EINTR)
            break;
        if (r->deadline && !r->ended && clock_mono() >= r->deadline)
            time_out_run(r);
        for (int i = 0; i < STREAMS; i++)
            if (waits[FIRST_STREAM + i].revents)
                stream_move(&r->streams[i]);
        if (waits[TAR].revents && r->tar >= 0)
            session_receive_tar(r);
        if (waits[SUPERVISOR].revents && r->s->control >= 0)
            receive_supervisor_message(r);
        if (waits[LAUNCHER].revents)
            receive_launcher_answer(r);
        if (waits[NETWORK].revents && r->s->network)
            session_receive_network(r, r->s->network);
        if (r->s->network && !r->ended) {
            network_refuse(r->s->network, &waits[FIRST_LISTENER]);
            session_tick_network(r);
        }
        if (waits[SIGNALS].revents)
            receive_run_signal(r);
    }
}

int session_run(struct session *s, const struct process_start *start)
{
    struct session_run r = {
        .s = s, .start = start, .signals = -1, .master = -1, .tar = -1, .status = EXIT_TOOL_FAILED
    };
    static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
    struct err e = { 0 };

    for (int i = 0; i < STREAMS; i++)
        stream_init(&r.streams[i], -1, -1, false, NULL);
    r.signals = signals_open(list, COUNT_OF(list), &e);
    if (r.signals < 0 || send_requests(&r, &e) < 0) {
        cli_report("%s", e.msg);
        return EXIT_TOOL_FAILED;
    }
    run_session_loop(&r);
    terminal_restore(&r.terminal);
    if (streams_lost(r.streams, NULL) && r.status == 0)
        r.status = EXIT_TOOL_FAILED; /* even if the program succeeded */
    if (s->network)
        network_end(s->network, s->quiet);
    ending_memory(&(struct ending_memory){ r.oom_kills, s->plan.memory, r.killed }, s->quiet);
    drop_fd(&r.tar);
    drop_fd(&r.signals);
    return r.status;
}
