#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "proc/caps.h"

enum { EVENTS = 32 };

static const struct init_options *options;
static int epoll_fd, signal_fd;
static int connections[INIT_CONNECTIONS_MAX]; /* descriptors; -1 is a free place */
static int first_connection = INIT_CONTROL;
static union {
    struct control_head head;
    struct control_start start;
    struct control_kill kill;
    char room[IPC_MESSAGE_MAX];
} request;

static void watch(int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static bool is_connection(int fd)
{
    for (size_t i = 0; i < COUNT_OF(connections); i++)
        if (connections[i] == fd)
            return true;
    return false;
}

/* Outsiders have no number in our pid namespace; whoever has one is inside and may not be here. */
static bool is_outsider(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid == 0;
}

static bool add_connection(int fd)
{
    for (size_t i = 0; i < COUNT_OF(connections); i++)
        if (connections[i] < 0) {
            fcntl(fd, F_SETFL, O_NONBLOCK);
            fcntl(fd, F_SETFD, FD_CLOEXEC);
            connections[i] = fd;
            watch(fd);
            return true;
        }
    return false;
}

static void accept_connection(void)
{
    int fd = accept4(INIT_LISTENER, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0 && (!is_outsider(fd) || !add_connection(fd)))
        close(fd);
}

static void drop_connection(int fd)
{
    if (fd == first_connection && options->ephemeral)
        _exit(0); /* and with us, everything in here */
    for (size_t i = 0; i < COUNT_OF(connections); i++)
        if (connections[i] == fd)
            connections[i] = -1;
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (p->conn == fd)
            p->conn = -1;
    close(fd);
}

static void answer_failure(int conn, uint32_t tag, const char *step, const struct err *e)
{
    struct control_failed m = { .code = e->code, .sys = e->sys };

    control_fill(&m.head, CONTROL_FAILED, tag, sizeof m);
    snprintf(m.step, sizeof m.step, "%s", step);
    snprintf(m.msg, sizeof m.msg, "%.*s", (int)sizeof m.msg - 1, e->msg);
    ipc_send(conn, &m, sizeof m, NULL, 0, NULL);
}

/* starting */

static pid_t fork_marked(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_NEWUTS | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* Later than any clock if need be: a client may ask for the longest time there is. */
static int64_t deadline_after(int64_t ns)
{
    int64_t now = clock_mono();

    return ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

/* The kernel gives the number of a namespace that is gone to a new one: then nothing of its former
 * holder is alive, and whoever still looks for it would find the new one's processes. */
static void mark(struct proc *p)
{
    uint64_t own = kill_mark_of(p->pid);

    for (struct proc *old = procs_next(NULL); old; old = procs_next(old))
        if (old->mark == own)
            old->mark = 0;
    p->mark = own;
}

static int start(int conn, const struct control_start *s, const struct ipc_fds *fds, struct err *e)
{
    bool wants_fd = s->flags & CONTROL_TEXT_FD;
    struct proc *p;
    int sync[2], r;

    if (fds->n != (wants_fd ? 1u : 0u))
        return err_set(e, ERR_INVALID, "%zu descriptors with a start", fds->n);
    p = procs_add();
    if (!p)
        return err_set(e, ERR_BUSY, "%d processes are started already", CONTROL_PROCS_MAX);
    r = ipc_pair(sync, e);
    if (r < 0)
        goto failed;
    p->pid = fork_marked();
    if (p->pid == 0)
        exec_child(options, s, wants_fd ? fds->fd[0] : -1, sync[1]);
    close(sync[1]);
    if (p->pid < 0) {
        close(sync[0]);
        r = errno == EAGAIN ? err_set(e, ERR_BUSY, "the sandbox's process limit is reached")
                            : err_sys(e, "making a process");
        goto failed;
    }
    fcntl(sync[0], F_SETFL, O_NONBLOCK);
    watch(sync[0]);
    p->sync = sync[0];
    p->conn = conn;
    p->tag = s->head.tag;
    p->what = (enum control_what)s->what;
    p->started_ns = clock_read_(CLOCK_BOOTTIME);
    p->grace_ns = s->grace_ns;
    p->deadline = s->timeout_ns ? deadline_after(s->timeout_ns) : 0;
    mark(p);
    return 0;
failed:
    p->pid = 0;
    procs_release(p);
    return r;
}

/* False if the client's queue is full and it must be said again. */
static bool announce_start(struct proc *p)
{
    struct control_started m = { .proc = p->id, .pid = p->pid };

    if (!p->ready || p->started || p->failed)
        return true;
    control_fill(&m.head, CONTROL_STARTED, p->tag, sizeof m);
    if (p->conn >= 0 &&
        ipc_send(p->conn, &m, sizeof m, p->stdio, (size_t)p->n_stdio, NULL) == -(int)ERR_BUSY)
        return false;
    for (int i = 0; i < p->n_stdio; i++)
        drop_fd(&p->stdio[i]);
    p->n_stdio = 0;
    return p->started = true;
}

/* What dies before it has anything to hand out does not start: its end is all there is to say. */
static void note_start(struct proc *p)
{
    p->ready = p->n_stdio > 0;
    if (p->state == PROC_STARTING)
        p->state = PROC_RUNNING;
}

static void hear_child(struct proc *p, const struct child_message *m, struct ipc_fds *fds)
{
    switch (m->word) {
    case CHILD_READY:
        for (p->n_stdio = 0; (size_t)p->n_stdio < fds->n && p->n_stdio < INIT_STDIO_MAX;
             p->n_stdio++)
            p->stdio[p->n_stdio] = take_fd(&fds->fd[p->n_stdio]);
        if (p->what != CONTROL_PROGRAM)
            note_start(p); /* a program has started when its execve() has */
        break;
    case CHILD_FAILED:
        if (p->started)
            break;
        p->failed = true;
        control_fill(&p->failure.head, CONTROL_FAILED, p->tag, sizeof p->failure);
        p->failure.code = m->code;
        p->failure.sys = m->sys;
        memcpy(p->failure.step, m->step, sizeof p->failure.step);
        memcpy(p->failure.msg, m->msg, sizeof p->failure.msg);
        break;
    case CHILD_RESULT:
        p->end.sys = m->sys ? m->sys : EIO;
        memcpy(p->end.msg, m->msg, sizeof p->end.msg);
        break;
    default:
        break;
    }
}

/* Everything a starting child has to say; at the end of file, a program has started. */
static void read_sync(struct proc *p)
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
        ipc_fds_done(&fds);
        drop_fd(&p->sync);
        note_start(p);
        return;
    }
}

/* ending */

/* The last word about a start; false if it could not be said and must be said again. */
static bool deliver(struct proc *p)
{
    int r;

    if (p->conn < 0)
        return false;
    r = p->failed ? ipc_send(p->conn, &p->failure, sizeof p->failure, NULL, 0, NULL)
                  : ipc_send(p->conn, &p->end, sizeof p->end, NULL, 0, NULL);
    return r >= 0 || r == -(int)ERR_UPSTREAM;
}

static void deliver_news(void)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (announce_start(p) && p->state == PROC_ENDED && !p->killing && deliver(p)) {
            if (options->one_shot)
                _exit(0); /* taking us down goes on while the client reads the news */
            procs_release(p);
        }
}

static void note_end(struct proc *p, int status, const struct rusage *used)
{
    if (p->sync >= 0)
        read_sync(p);
    if (p->sync >= 0) { /* a helper's RESULT has been read; nothing else can come */
        drop_fd(&p->sync);
        note_start(p);
    }
    p->state = PROC_ENDED;
    p->deadline = 0;
    control_fill(&p->end.head, CONTROL_EXITED, p->tag, sizeof p->end);
    p->end.proc = p->id;
    p->end.how = p->timed_out          ? CONTROL_BY_TIMEOUT
                 : WIFSIGNALED(status) ? CONTROL_BY_SIGNAL
                                       : CONTROL_BY_EXIT;
    p->end.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    p->end.cpu_ns = ((int64_t)used->ru_utime.tv_sec + used->ru_stime.tv_sec) * NS_PER_S +
                    ((int64_t)used->ru_utime.tv_usec + used->ru_stime.tv_usec) * NS_PER_US;
    p->end.peak_bytes = (int64_t)used->ru_maxrss * 1024;
    /* After a timeout, what the program left behind is not left to live. */
    if (p->timed_out)
        p->killing = true;
}

static void reap(void)
{
    struct signalfd_siginfo info;
    struct rusage used;
    int status;
    pid_t pid;

    while (read(signal_fd, &info, sizeof info) > 0)
        ;
    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
        struct proc *p = procs_by_pid(pid);

        if (p)
            note_end(p, status, &used);
    }
}

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
            (p->looks++ < INIT_KILL_LOOKS ? kill_marked(p, SIGKILL) : kill_at_standstill(p)) > 0;
    }
}

/* requests */

static void serve_kill(int conn, const struct control_kill *k)
{
    struct control_killed m = { .proc = k->proc };
    struct proc *p = procs_by_id(k->proc);

    if (!p || p->state == PROC_ENDED)
        m.sys = ESRCH;
    else if (k->sig == SIGKILL)
        p->killing = true;
    else if (k->scope == CONTROL_TREE)
        m.sys = kill_marked(p, k->sig) > 0 ? 0 : ESRCH;
    else
        m.sys = kill(k->scope == CONTROL_GROUP ? -p->pid : p->pid, k->sig) < 0 ? errno : 0;
    control_fill(&m.head, CONTROL_KILLED, k->head.tag, sizeof m);
    ipc_send(conn, &m, sizeof m, NULL, 0, NULL);
}

/* A list also adopts what a connection that is gone had started: its end is told here from now on.
 */
static void serve_list(int conn, uint32_t tag)
{
    static union {
        struct control_procs m;
        char room[sizeof(struct control_procs) + CONTROL_PROCS_MAX * sizeof(struct control_proc)];
    } out;
    size_t n = 0;

    for (struct proc *p = procs_next(NULL); p; p = procs_next(p)) {
        out.m.list[n++] = (struct control_proc){ .proc = p->id,
                                                 .pid = p->pid,
                                                 .what = p->what,
                                                 .tag = p->tag,
                                                 .started_ns = p->started_ns };
        if (p->conn < 0)
            p->conn = conn;
    }
    out.m.count = (uint32_t)n;
    control_fill(&out.m.head, CONTROL_PROCS, tag, sizeof out.m + n * sizeof out.m.list[0]);
    ipc_send(conn, &out, out.m.head.size, NULL, 0, NULL);
}

static void serve(int conn, const struct ipc_fds *fds)
{
    struct control_head pong;
    struct err e;

    switch (request.head.type) {
    case CONTROL_PING:
        control_fill(&pong, CONTROL_PONG, request.head.tag, sizeof pong);
        ipc_send(conn, &pong, sizeof pong, NULL, 0, NULL);
        break;
    case CONTROL_START:
        if (start(conn, &request.start, fds, &e) < 0)
            answer_failure(conn, request.head.tag, "start", &e);
        break;
    case CONTROL_KILL:
        serve_kill(conn, &request.kill);
        break;
    case CONTROL_LIST:
        serve_list(conn, request.head.tag);
        break;
    default:
        (void)err_set(&e, ERR_DENIED, "PID 1 does not take messages of type %u", request.head.type);
        answer_failure(conn, request.head.tag, "request", &e);
    }
}

static void read_request(int conn)
{
    struct ipc_fds fds = { .n = 0 };
    struct err e;
    ssize_t n = ipc_recv(conn, &request, sizeof request, &fds, &e);
    int r;

    if (n == -(int)ERR_BUSY)
        return;
    if (n == 0 || n == -(int)ERR_SYS) {
        drop_connection(conn);
        return;
    }
    r = n < 0 ? (int)n : control_check(&request, (size_t)n, &e);
    if (r < 0)
        answer_failure(conn, n >= (ssize_t)sizeof request.head ? request.head.tag : 0, "request",
                       &e);
    else
        serve(conn, &fds);
    ipc_fds_done(&fds);
}

/* the loop */

static int next_wait_ms(void)
{
    int64_t nearest = 0;

    for (struct proc *p = procs_next(NULL); p; p = procs_next(p)) {
        if (p->killing)
            return INIT_KILL_RETRY_MS;
        if (p->conn >= 0 && (p->state == PROC_ENDED || (p->ready && !p->started)))
            return INIT_SEND_RETRY_MS;
        if (p->deadline && (!nearest || p->deadline < nearest))
            nearest = p->deadline;
    }
    return clock_poll_ms(nearest);
}

static void dispatch(int fd)
{
    struct proc *p;

    if (fd == signal_fd)
        reap();
    else if (fd == INIT_LISTENER && options->listens)
        accept_connection();
    else if (is_connection(fd))
        read_request(fd);
    else if ((p = procs_by_sync(fd)))
        read_sync(p);
}

static void loop(void)
{
    struct epoll_event events[EVENTS];

    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, next_wait_ms());

        for (int i = 0; i < n; i++)
            dispatch(events[i].data.fd);
        enforce_deadlines();
        continue_kills();
        deliver_news();
    }
}

static int open_sources(struct err *e)
{
    sigset_t all;

    /* All blocked: what reaches PID 1 is read from a descriptor or does not reach it. */
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return err_sys(e, "blocking signals");
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    signal_fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (signal_fd < 0 || epoll_fd < 0)
        return err_sys(e, "opening event sources");
    for (size_t i = 0; i < COUNT_OF(connections); i++)
        connections[i] = -1;
    watch(signal_fd);
    return 0;
}

/* From here on PID 1 itself lives under what it imposes on the workload. */
static int confine(struct err *e)
{
    uint64_t keep = caps_permitted();
    int r;

    /* Nobody inside reads our memory, environment or descriptors. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "setting process attributes");
    r = caps_ambient(0, e);
    if (r >= 0)
        r = caps_set(keep, 0, e);
    if (r >= 0)
        r = landlock_enter(e);
    return r < 0 ? r : filter_load(options->may_set_ids, e);
}

int init_run(const struct init_options *o)
{
    struct err e;

    options = o;
    setsid();
    /* Without confinement there is no sandbox; nothing has been started yet, so ending is safe. */
    if (open_sources(&e) < 0 || confine(&e) < 0) {
        answer_failure(INIT_CONTROL, 0, "confine", &e);
        return 125;
    }
    if (!is_outsider(INIT_CONTROL) || !add_connection(INIT_CONTROL))
        return 125;
    if (o->listens) {
        if (listen(INIT_LISTENER, INIT_CONNECTIONS_MAX) < 0)
            return 125;
        watch(INIT_LISTENER);
    }
    loop();
    return 125;
}
