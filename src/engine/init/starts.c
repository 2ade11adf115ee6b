#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"

/* The end of everything inside, when it was asked for. */
static struct {
    uint32_t last; /* what is started later stays */
    bool killing;  /* until a look finds nothing more */
    unsigned looks;
    int64_t deadline; /* 0: none */
} everything;

/* starting */

static pid_t fork_marked(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_NEWUTS | groups_clone_flags() | SIGCHLD, NULL, NULL,
                          NULL, NULL);
}

/* Later than any clock if need be: a client may ask for the longest time there is. */
static int64_t deadline_after(int64_t ns)
{
    int64_t now = clock_mono();

    return ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

/* The kernel gives the number of a namespace that is gone to a new one: then nothing of its former
 * holder is alive, and whoever still looks for it would find the new one's processes. */
static void mark(struct proc *p, uint64_t own)
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

/* Kept processes hold descriptors for as long as they are kept; the rest must still fit. */
static int make_room(const struct control_start *s, struct err *e)
{
    uint64_t held = INIT_STDIO_MAX + 1, limit;

    if (!(s->flags & CONTROL_KEEP))
        return 0;
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        held += (uint64_t)p->n_stdio + (p->sync >= 0 ? INIT_STDIO_MAX + 1 : 0);
    limit = exec_raise_files();
    if (held + INIT_SPARE_FDS + INIT_CONNECTIONS_MAX > limit)
        return err_set(e, ERR_BUSY,
                       "kept processes hold %llu of %llu descriptors: forget some that have ended",
                       (unsigned long long)held, (unsigned long long)limit);
    return 0;
}

static int check_room(const struct control_start *s, const struct ipc_fds *fds, struct err *e)
{
    size_t text = s->flags & CONTROL_TEXT_FD ? 1 : 0;
    size_t lent = s->flags & CONTROL_LENT ? CONTROL_LENT_MAX : 0;

    if (fds->n < text || fds->n > text + lent)
        return err_set(e, ERR_INVALID, "%zu descriptors with a start", fds->n);
    return make_room(s, e);
}

static void fill(struct proc *p, int conn, const struct control_start *s)
{
    p->conn = conn;
    p->tag = s->head.tag;
    p->cookie = s->cookie;
    p->what = (enum control_what)s->what;
    p->flags = s->flags & (CONTROL_KEEP | CONTROL_TTY | CONTROL_STDIN | CONTROL_WHOLE);
    if (p->flags & CONTROL_TTY)
        p->flags &= ~(uint32_t)CONTROL_STDIN;
    p->started_ns = clock_read_(CLOCK_BOOTTIME);
    p->grace_ns = s->grace_ns;
    p->deadline = s->timeout_ns ? deadline_after(s->timeout_ns) : 0;
}

int starts_add(const struct init_options *o, int conn, const struct control_start *s,
               const char *text, const struct ipc_fds *fds, struct err *e)
{
    struct proc *p;
    int sync[2], r = check_room(s, fds, e);

    if (r < 0)
        return r;
    p = procs_add();
    if (!p)
        return err_set(e, ERR_BUSY,
                       "%d processes run, or have ended and were not told or forgotten",
                       CONTROL_PROCS_MAX);
    r = ipc_pair(sync, e);
    if (r < 0)
        goto failed;
    p->kills = oom_kills();
    oom_before_start();
    p->pid = fork_marked();
    if (p->pid == 0)
        exec_child(o, s, text, fds, sync[1]);
    oom_after_start();
    close(sync[1]);
    if (p->pid < 0) {
        close(sync[0]);
        r = errno == EAGAIN ? err_set(e, ERR_BUSY,
                                      "the process limit of the sandbox, or of all sandboxes of "
                                      "its owner, is reached")
                            : err_sys(e, "making a process");
        goto failed;
    }
    fcntl(sync[0], F_SETFL, O_NONBLOCK);
    /* A program has nothing to say that is wanted before its execve(), which closes the socket. */
    if (s->what == CONTROL_PROGRAM)
        init_watch_end(sync[0]);
    else
        init_watch(sync[0]);
    p->sync = sync[0];
    fill(p, conn, s);
    mark(p, kill_mark_of(p->pid));
    return 0;
failed:
    p->pid = 0;
    procs_release(p);
    return r;
}

static uint32_t tag_of(const struct proc *p)
{
    return p->adopted ? 0 : p->tag;
}

static void drop_stdio(struct proc *p)
{
    for (int i = 0; i < p->n_stdio; i++)
        drop_fd(&p->stdio[i]);
    p->n_stdio = 0;
}

/* False if the client's queue is full and it must be said again. */
static bool announce_start(struct proc *p)
{
    struct control_started m = { .proc = p->id, .pid = p->pid, .cookie = p->cookie };

    if (!p->ready || p->started || p->failed)
        return true;
    control_fill(&m.head, CONTROL_STARTED, tag_of(p), sizeof m);
    if (p->conn >= 0 && conns_tell(p->conn, &m, sizeof m, p->stdio, p->n_stdio) == 0)
        return false;
    if (!(p->flags & CONTROL_KEEP))
        drop_stdio(p);
    return p->started = true;
}

/* What dies before it has anything to hand out does not start: its end is all there is to say. */
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

/* Nobody could talk to it, or be told how it started. */
static void give_up(struct proc *p)
{
    static const struct child_message m = {
        .code = ERR_BUSY, .step = "stdio", .msg = "no descriptors are left in the sandbox's PID 1"
    };

    note_failure(p, &m);
    p->killing = true;
}

/* What was refused without asking the kernel, in its words: they are all that travels. */
static int errno_of(uint32_t code)
{
    switch (code) {
    case ERR_INVALID:
        return EINVAL;
    case ERR_NOT_FOUND:
        return ENOENT;
    case ERR_DENIED:
        return EACCES;
    case ERR_CONFLICT:
        return EEXIST;
    case ERR_TOO_BIG:
        return EFBIG;
    case ERR_BUSY:
        return EBUSY;
    case ERR_UNSUPPORTED:
        return EOPNOTSUPP;
    default:
        return EIO;
    }
}

static void hear_child(struct proc *p, const struct child_message *m, struct ipc_fds *fds)
{
    switch (m->word) {
    case CHILD_READY:
        if (!p->mark) /* it ended before we looked, perhaps not without leaving something behind */
            mark(p, m->mark);
        for (p->n_stdio = 0; (size_t)p->n_stdio < fds->n && p->n_stdio < INIT_STDIO_MAX;
             p->n_stdio++)
            p->stdio[p->n_stdio] = take_fd(&fds->fd[p->n_stdio]);
        if (p->what != CONTROL_PROGRAM)
            note_start(p); /* a program has started when its execve() has */
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

/* Everything a starting child has to say; at the end of file, a program has started. */
void starts_hear(struct proc *p)
{
    for (;;) {
        struct ipc_fds fds = { .n = 0 };
        struct child_message m;
        ssize_t n = ipc_recv(p->sync, &m, sizeof m, &fds, NULL);

        if (n == -(int)ERR_BUSY)
            return;
        if (n == (ssize_t)sizeof m) {
            m.step[sizeof m.step - 1] = m.msg[sizeof m.msg - 1] = '\0';
            hear_child(p, &m, &fds);
            ipc_fds_done(&fds);
            continue;
        }
        if (n == -(int)ERR_TOO_BIG) /* its descriptors did not fit: nobody would hear of it */
            give_up(p);
        drop_fd(&p->sync);
        note_start(p);
        return;
    }
}

/* ending */

/* The last word about a start: what conns_tell() says. */
static int deliver(struct proc *p)
{
    if (p->failed) {
        control_fill(&p->failure.head, CONTROL_FAILED, tag_of(p), sizeof p->failure);
        return conns_tell(p->conn, &p->failure, sizeof p->failure, NULL, 0);
    }
    control_fill(&p->end.head, CONTROL_EXITED, tag_of(p), sizeof p->end);
    return conns_tell(p->conn, &p->end, sizeof p->end, NULL, 0);
}

static bool is_kept(const struct proc *p)
{
    return (p->flags & CONTROL_KEEP) && !p->failed;
}

static void tell(const struct init_options *o, struct proc *p)
{
    int said = p->told || p->conn < 0 ? 0 : deliver(p);

    if (said != 0 && o->one_shot)
        _exit(0); /* taking us down goes on while the client reads the news */
    if (said > 0)
        p->told = true;
    else if (said < 0)
        p->conn = -1; /* somebody else may come and ask */
    if (p->told && !is_kept(p))
        procs_release(p);
}

void starts_tell(const struct init_options *o)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (announce_start(p) && p->state == PROC_ENDED && !p->killing)
            tell(o, p);
}

void starts_orphan(int conn)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (p->conn == conn)
            p->conn = -1;
}

/* What a connection that is gone has started is told here from now on, and a kept one's end again:
 * who was told may have died before it could remember. */
void starts_adopt(struct proc *p, int conn)
{
    if (p->conn >= 0)
        return;
    p->conn = conn;
    p->adopted = true;
    p->told = false;
}

void starts_forget(struct proc *p)
{
    p->flags &= ~(uint32_t)CONTROL_KEEP;
    p->told = true;
    drop_stdio(p);
}

static void note_end(struct proc *p, int status, const struct rusage *used)
{
    if (p->sync >= 0)
        starts_hear(p);
    if (p->sync >= 0) { /* a helper's RESULT has been read; nothing else can come */
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
    /* After a timeout, what the program left behind is not left to live; nor where that was asked
     * for. */
    if (p->timed_out || (p->flags & CONTROL_WHOLE))
        p->killing = true;
}

/* A workload can stop processes of its own user, also those that serve a request: file operations,
 * and programs before their execve(). None of them ever stops by itself, so one that stands is
 * ended, and its request fails; else whoever made the request would wait for ever. */
static bool is_serving(struct proc *p)
{
    if (p->state == PROC_STARTING && p->sync >= 0)
        starts_hear(p); /* it may have become a program by now */
    return p->state == PROC_STARTING || (p->state == PROC_RUNNING && p->what != CONTROL_PROGRAM);
}

static bool is_stopped(pid_t pid)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void end_stopped(struct proc *p)
{
    static const struct child_message m = { .code = ERR_BUSY,
                                            .sys = EBUSY,
                                            .step = "start",
                                            .msg = "a process of the sandbox stopped the start" };

    p->stopped = true;
    if (p->state == PROC_STARTING && p->what == CONTROL_PROGRAM) {
        note_failure(p, &m);
    } else {
        p->end.sys = EBUSY;
        snprintf(p->end.msg, sizeof p->end.msg, "a process of the sandbox stopped the operation");
    }
    kill(p->pid, SIGKILL);
}

static void watch_stops(void)
{
    if (kill_standing()) /* we stopped them, and will let them go */
        return;
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (!p->stopped && is_serving(p) && is_stopped(p->pid))
            end_stopped(p);
}

void starts_reap(void)
{
    struct rusage used;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
        struct proc *p = procs_by_pid(pid);

        if (p)
            note_end(p, status, &used);
    }
    watch_stops();
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
            (kill_stands_still(p->looks) ? kill_at_standstill(p) : kill_marked(p, SIGKILL)) > 0;
        p->looks++;
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
        (kill_stands_still(everything.looks) ? kill_others_at_standstill(everything.last)
                                             : kill_others(everything.last, SIGKILL)) > 0;
    everything.looks = everything.killing ? everything.looks + 1 : 0;
}

void starts_enforce(void)
{
    enforce_deadlines();
    continue_kills();
    end_everything();
    kill_let_go_again();
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
