/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"

/* State of a request to kill everything inside. */
static struct {
    uint32_t last; /* later starts are spared */
    bool killing;  /* until a scan finds no process */
    unsigned scans;
    int64_t deadline; /* 0: none */
} everything;

/* starting */

/* Saturates: a client may ask for the longest possible time. */
static int64_t deadline_after(int64_t ns)
{
    int64_t now = clock_mono();

    return ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

/* The kernel reuses the inode number of a namespace that is gone: then no process of its former row
 * is alive, and that row must not match processes of the new one. */
static void set_proc_mark(struct proc *p, uint64_t own)
{
    for (struct proc *other = procs_next(NULL); own && other; other = procs_next(other)) {
        if (other->mark != own || other == p)
            continue;
        if (other->id > p->id)
            return;
        other->mark = 0;
    }
    p->mark = own;
}

/* Kept processes hold their descriptors until they are forgotten. */
static int check_start_descriptors(const struct control_start *s, const struct ipc_fds *fds,
                                   struct err *e)
{
    size_t text = s->flags & CONTROL_TEXT_FD ? 1 : 0;
    size_t lent = s->flags & CONTROL_LENT ? START_LENT_MAX : 0;
    uint64_t held = INIT_STDIO_MAX + 1, limit;

    if (fds->n < text || fds->n > text + lent)
        return err_set(e, ERR_INVALID, "a start request has %zu descriptors", fds->n);
    if (!(s->flags & START_KEEP))
        return 0;
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        held += (uint64_t)p->n_stdio + (p->sync >= 0 ? INIT_STDIO_MAX + 1 : 0);
    limit = exec_raise_files();
    if (held + INIT_SPARE_FDS + INIT_CONNECTIONS_MAX > limit)
        return err_set(
            e, ERR_BUSY,
            "kept processes hold %llu of PID 1's %llu descriptors: forget some that have ended",
            (unsigned long long)held, (unsigned long long)limit);
    return 0;
}

static void fill_proc(struct proc *p, int conn, const struct control_start *s)
{
    p->conn = conn;
    p->tag = s->head.tag;
    p->cookie = s->cookie;
    p->what = (enum start_what)s->what;
    p->flags = s->flags & (START_KEEP | START_TTY | START_STDIN | START_WHOLE);
    if (p->flags & START_TTY)
        p->flags &= ~(uint32_t)START_STDIN;
    p->started_ns = clock_read_(CLOCK_BOOTTIME);
    p->grace_ns = s->grace_ns;
    p->deadline = s->timeout_ns ? deadline_after(s->timeout_ns) : 0;
}

int starts_add(const struct init_options *o, int conn, const struct control_start *s,
               const char *text, const struct ipc_fds *fds, struct err *e)
{
    struct proc *p;
    int sync[2], r = check_start_descriptors(s, fds, e);

    if (r < 0)
        return r;
    p = procs_add();
    if (!p)
        return err_set(
            e, ERR_BUSY,
            "all %d process slots are in use: wait for processes to end, or forget kept ones",
            CONTROL_PROCS_MAX);
    r = ipc_pair(sync, e);
    if (r < 0)
        goto failed;
    p->kills = oom_kills();
    oom_before_start();
    p->pid = (pid_t)syscall(SYS_clone, CLONE_NEWUTS | groups_clone_flags() | SIGCHLD, NULL, NULL,
                            NULL, NULL);
    if (p->pid == 0)
        exec_child(o, s, text, fds, sync[1]);
    oom_after_start();
    close(sync[1]);
    if (p->pid < 0) {
        close(sync[0]);
        r = errno == EAGAIN ? err_set(e, ERR_BUSY,
                                      "the process limit of the sandbox, or of all sandboxes of "
                                      "its owner, is reached")
                            : err_sys(e, "creating a process");
        goto failed;
    }
    fcntl(sync[0], F_SETFL, O_NONBLOCK);
    /* A program sends nothing of interest before its execve(), which closes the socket. */
    if (s->what == START_PROGRAM)
        init_watch_end(sync[0]);
    else
        init_watch(sync[0]);
    p->sync = sync[0];
    fill_proc(p, conn, s);
    set_proc_mark(p, kill_mark_of(p->pid));
    return 0;
failed:
    p->pid = 0;
    procs_release(p);
    return r;
}

static uint32_t reply_tag(const struct proc *p)
{
    return p->adopted ? 0 : p->tag;
}

static void close_kept_stdio(struct proc *p)
{
    for (int i = 0; i < p->n_stdio; i++)
        drop_fd(&p->stdio[i]);
    p->n_stdio = 0;
}

/* Sends CONTROL_STARTED; false if the client's queue is full and it must be sent again. */
static bool announce_start(struct proc *p)
{
    struct control_started m = { .proc = p->id, .pid = p->pid, .cookie = p->cookie };

    if (!p->ready || p->started || p->failed)
        return true;
    control_fill(&m.head, CONTROL_STARTED, reply_tag(p), sizeof m);
    if (p->conn >= 0 && conns_send(p->conn, &m, sizeof m, p->stdio, p->n_stdio) == 0)
        return false;
    if (!(p->flags & START_KEEP))
        close_kept_stdio(p);
    return p->started = true;
}

/* A process that dies before it has stdio to hand out did not start: only its end is reported. */
static void note_start(struct proc *p)
{
    p->ready = p->n_stdio > 0;
    if (p->state == PROC_STARTING)
        p->state = PROC_RUNNING;
}

static void note_failure(struct proc *p, const struct child_message *m)
{
    p->failed = true;
    p->failure.code = m->code;
    p->failure.sys = m->sys;
    p->failure.cookie = p->cookie;
    memcpy(p->failure.step, m->step, sizeof p->failure.step);
    memcpy(p->failure.msg, m->msg, sizeof p->failure.msg);
}

/* Maps an error of ours to an errno: only that is sent. */
static int errno_of(uint32_t code)
{
    static const int errnos[] = {
        [ERR_INVALID] = EINVAL,         [ERR_NOT_FOUND] = ENOENT, [ERR_DENIED] = EACCES,
        [ERR_CONFLICT] = EEXIST,        [ERR_TOO_BIG] = EFBIG,    [ERR_BUSY] = EBUSY,
        [ERR_UNSUPPORTED] = EOPNOTSUPP,
    };

    return code < COUNT_OF(errnos) && errnos[code] ? errnos[code] : EIO;
}

static void handle_child_message(struct proc *p, const struct child_message *m, struct ipc_fds *fds)
{
    switch (m->word) {
    case CHILD_READY:
        if (!p->mark) /* it ended before its mark was read, and may have left descendants */
            set_proc_mark(p, m->mark);
        for (p->n_stdio = 0; (size_t)p->n_stdio < fds->n && p->n_stdio < INIT_STDIO_MAX;
             p->n_stdio++)
            p->stdio[p->n_stdio] = take_fd(&fds->fd[p->n_stdio]);
        if (p->what != START_PROGRAM)
            note_start(p); /* a program has started after its execve() */
        break;
    case CHILD_FAILED:
        if (!p->started)
            note_failure(p, m);
        break;
    case CHILD_RESULT:
        p->end.sys = m->sys ? m->sys : errno_of(m->code);
        memcpy(p->end.msg, m->msg, sizeof p->end.msg);
        break;
    default:
        break;
    }
}

/* Reads all messages of a starting child; at the end of file, a program has started. */
void starts_receive(struct proc *p)
{
    static const struct child_message no_descriptors = {
        .code = ERR_BUSY, .step = "stdio", .msg = "no descriptors are left in the sandbox's PID 1"
    };

    for (;;) {
        struct ipc_fds fds = { .n = 0 };
        struct child_message m;
        ssize_t n = ipc_recv(p->sync, &m, sizeof m, &fds, NULL);

        if (n == -(int)ERR_BUSY)
            return;
        if (n == (ssize_t)sizeof m) {
            m.step[sizeof m.step - 1] = m.msg[sizeof m.msg - 1] = '\0';
            handle_child_message(p, &m, &fds);
            ipc_fds_done(&fds);
            continue;
        }
        if (n == -(int)ERR_TOO_BIG) { /* its descriptors could not be received */
            note_failure(p, &no_descriptors);
            p->killing = true;
        }
        drop_fd(&p->sync);
        note_start(p);
        return;
    }
}

/* ending */

/* Sends the last message about a start; the result of conns_send(). */
static int send_last_message(struct proc *p)
{
    if (p->failed) {
        control_fill(&p->failure.head, CONTROL_FAILED, reply_tag(p), sizeof p->failure);
        return conns_send(p->conn, &p->failure, sizeof p->failure, NULL, 0);
    }
    control_fill(&p->end.head, CONTROL_EXITED, reply_tag(p), sizeof p->end);
    return conns_send(p->conn, &p->end, sizeof p->end, NULL, 0);
}

/* All processes inside are descendants of PID 1, which inherits orphans. */
static bool is_alone(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0 &&
           errno == ECHILD;
}

static void report_end(const struct init_options *o, struct proc *p)
{
    int sent;

    p->end.alone = o->one_shot && is_alone();
    sent = p->reported || p->conn < 0 ? 0 : send_last_message(p);
    if (sent != 0 && o->one_shot)
        _exit(0); /* the teardown runs while the client reads the message */
    if (sent > 0)
        p->reported = true;
    else if (sent < 0)
        p->conn = -1; /* another client may adopt it */
    if (p->reported && (p->failed || !(p->flags & START_KEEP)))
        procs_release(p);
}

void starts_report(const struct init_options *o)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (announce_start(p) && p->state == PROC_ENDED && !p->killing)
            report_end(o, p);
}

void starts_orphan(int conn)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (p->conn == conn)
            p->conn = -1;
}

/* Reports starts of a closed connection to this one from now on, and the end of a kept process
 * again: the former client may have died before it stored it. */
void starts_adopt(struct proc *p, int conn)
{
    if (p->conn >= 0)
        return;
    p->conn = conn;
    p->adopted = true;
    p->reported = false;
}

void starts_forget(struct proc *p)
{
    p->flags &= ~(uint32_t)START_KEEP;
    p->reported = true;
    close_kept_stdio(p);
}

static void note_proc_end(struct proc *p, int status, const struct rusage *used)
{
    if (p->sync >= 0)
        starts_receive(p);
    if (p->sync >= 0) { /* the RESULT has been read; nothing else can come */
        drop_fd(&p->sync);
        note_start(p);
    }
    p->state = PROC_ENDED;
    p->deadline = 0;
    p->end.proc = p->id;
    p->end.cookie = p->cookie;
    p->end.how = p->timed_out          ? CONTROL_BY_TIMEOUT
                 : WIFSIGNALED(status) ? CONTROL_BY_SIGNAL
                                       : CONTROL_BY_EXIT;
    p->end.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (p->stopped && !p->failed) {
        p->end.how = CONTROL_BY_EXIT;
        p->end.status = 1;
    }
    p->end.cpu_ns = ((int64_t)used->ru_utime.tv_sec + used->ru_stime.tv_sec) * NS_PER_S +
                    ((int64_t)used->ru_utime.tv_usec + used->ru_stime.tv_usec) * NS_PER_US;
    p->end.peak_bytes = (int64_t)used->ru_maxrss * 1024;
    p->end.oom_total = oom_kills();
    p->end.oom_kills = p->end.oom_total - p->kills;
    /* After a timeout, or if the start asked for it, descendants are killed, too. */
    if (p->timed_out || (p->flags & START_WHOLE))
        p->killing = true;
}

/* A workload can stop processes of its own user, also those that serve a request: file operations,
 * and programs before their execve(). None of them ever stops by itself, so a stopped one is killed
 * and its request fails; otherwise the client would wait for ever. */
static bool is_serving(struct proc *p)
{
    if (p->state == PROC_STARTING && p->sync >= 0)
        starts_receive(p); /* it may have executed its program by now */
    return p->state == PROC_STARTING || (p->state == PROC_RUNNING && p->what != START_PROGRAM);
}

static bool is_stopped(pid_t pid)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void end_stopped(struct proc *p)
{
    static const struct child_message m = {
        .code = ERR_BUSY,
        .sys = EBUSY,
        .step = "start",
        .msg = "a process of the sandbox stopped (SIGSTOP) the starting process"
    };

    p->stopped = true;
    if (p->state == PROC_STARTING && p->what == START_PROGRAM) {
        note_failure(p, &m);
    } else {
        p->end.sys = EBUSY;
        snprintf(p->end.msg, sizeof p->end.msg,
                 "a process of the sandbox stopped (SIGSTOP) the file operation");
    }
    kill(p->pid, SIGKILL);
}

void starts_reap(void)
{
    struct rusage used;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
        struct proc *p = procs_by_pid(pid);

        if (p)
            note_proc_end(p, status, &used);
    }
    if (kill_is_frozen()) /* PID 1 stopped them, and will resume them */
        return;
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (!p->stopped && is_serving(p) && is_stopped(p->pid))
            end_stopped(p);
}

/* killing */

static void enforce_deadlines(void)
{
    int64_t now = clock_mono();

    for (struct proc *p = procs_next(NULL); p; p = procs_next(p)) {
        if (!p->deadline || p->deadline > now || p->state == PROC_ENDED)
            continue;
        if (!p->timed_out && p->grace_ns) {
            kill_marked(p, SIGTERM);
            p->deadline = deadline_after(p->grace_ns);
        } else {
            p->killing = true;
            p->deadline = 0;
        }
        p->timed_out = true;
    }
}

static void continue_kills(void)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p)) {
        if (!p->killing)
            continue;
        p->killing =
            (kill_scan_freezes(p->scans) ? kill_marked_frozen(p) : kill_marked(p, SIGKILL)) > 0;
        p->scans++;
    }
}

static void end_everything(void)
{
    if (everything.deadline && everything.deadline <= clock_mono()) {
        everything.deadline = 0;
        everything.killing = true;
    }
    if (!everything.killing)
        return;
    everything.killing =
        (kill_scan_freezes(everything.scans) ? kill_others_frozen(everything.last)
                                             : kill_others(everything.last, SIGKILL)) > 0;
    everything.scans = everything.killing ? everything.scans + 1 : 0;
}

void starts_enforce(void)
{
    enforce_deadlines();
    continue_kills();
    end_everything();
    kill_resume_again();
}

void starts_kill_all(int sig, int64_t grace_ns, struct control_killed *ret)
{
    everything.last = procs_last();
    if (sig == SIGKILL)
        everything.killing = true;
    else if (kill_others(everything.last, sig) == 0)
        ret->sys = ESRCH;
    everything.deadline = grace_ns && sig != SIGKILL ? deadline_after(grace_ns) : 0;
}

int starts_wait_ms(int64_t nearest)
{
    if (everything.deadline && (!nearest || everything.deadline < nearest))
        nearest = everything.deadline;
    if (kill_deadline() && (!nearest || kill_deadline() < nearest))
        nearest = kill_deadline();
    if (everything.killing)
        return INIT_KILL_RETRY_MS;
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p)) {
        if (p->killing)
            return INIT_KILL_RETRY_MS;
        if (p->deadline && (!nearest || p->deadline < nearest))
            nearest = p->deadline;
    }
    return clock_poll_ms(nearest);
}
