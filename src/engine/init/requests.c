/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the requests of clients to PID 1. */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

static union {
    struct control_head head;
    char room[IPC_MESSAGE_MAX];
} request;

/* Answers the current request. */
static int answer_request(int conn, struct control_head *m, enum control_type type, size_t n)
{
    control_fill(m, type, request.head.tag, n);
    conns_answer(conn, m, n);
    return 0;
}

/* Signals a process; of one that has ended, only its remaining descendants. */
static int signal_one(struct proc *p, const struct control_kill *k)
{
    bool tree = k->scope == CONTROL_TREE || k->sig == SIGKILL;

    if (p->state == PROC_ENDED && !(tree && kill_marked(p, k->sig) > 0))
        return ESRCH;
    if (k->sig == SIGKILL)
        p->killing = true;
    else if (p->state == PROC_ENDED)
        return 0;
    else if (tree)
        return kill_marked(p, k->sig) > 0 ? 0 : ESRCH;
    else
        return kill(k->scope == CONTROL_GROUP ? -p->pid : p->pid, k->sig) < 0 ? errno : 0;
    return 0;
}

static int serve_kill(int conn, struct err *e)
{
    struct control_kill k;
    struct control_killed m = { 0 };
    struct proc *p;

    control_read(&request, &k, sizeof k);
    m.proc = k.proc;
    p = procs_by_id(k.proc);
    if (k.scope == CONTROL_ALL)
        starts_kill_all(k.sig, k.grace_ns, &m);
    else
        m.sys = p ? signal_one(p, &k) : ESRCH;
    return answer_request(conn, &m.head, CONTROL_KILLED, sizeof m);
}

static int serve_control_ping(int conn, struct err *e)
{
    struct control_pong pong = { .release = SANDBOXER_VERSION };

    return answer_request(conn, &pong.head, CONTROL_PONG, sizeof pong);
}

static struct control_proc describe_proc(const struct proc *p)
{
    static const enum control_state states[] = { [PROC_STARTING] = CONTROL_STARTING,
                                                 [PROC_RUNNING] = CONTROL_RUNNING,
                                                 [PROC_ENDED] = CONTROL_ENDED };

    return (struct control_proc){ .proc = p->id,
                                  .pid = p->pid,
                                  .what = p->what,
                                  .tag = p->tag,
                                  .started_ns = p->started_ns,
                                  .cookie = p->cookie,
                                  .flags = p->flags | (p->reported ? CONTROL_TOLD : 0),
                                  .state = states[p->state],
                                  .how = p->end.how,
                                  .status = p->end.status,
                                  .sys = p->end.sys,
                                  .oom_kills = p->end.oom_kills,
                                  .cpu_ns = p->end.cpu_ns,
                                  .peak_bytes = p->end.peak_bytes };
}

static int send_list(int conn, const struct control_one *asked)
{
    static union {
        struct control_procs m;
        char room[sizeof(struct control_procs) + CONTROL_PROCS_MAX * sizeof(struct control_proc)];
    } out;
    size_t n = 0;
    int sent;

    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        out.m.list[n++] = describe_proc(p);
    out.m.count = (uint32_t)n;
    out.m.entry_size = sizeof out.m.list[0];
    control_fill(&out.m.head, CONTROL_PROCS, asked->head.tag,
                 sizeof out.m + n * sizeof out.m.list[0]);
    sent = conns_send(conn, &out, out.m.head.size, NULL, 0);
    for (struct proc *p = procs_next(NULL); p && sent > 0; p = procs_next(p))
        starts_adopt(p, conn);
    return sent;
}

static int serve_list(int conn, struct err *e)
{
    conns_answer_by(conn, send_list, &(struct control_one){ .head = request.head });
    return 0;
}

static int send_stdio(int conn, const struct control_one *asked)
{
    struct control_attached m = { .proc = asked->proc };
    struct proc *p = procs_by_id(asked->proc);

    if (!p) { /* forgotten by another client while the answer waited */
        struct err gone;

        (void)err_set(&gone, ERR_NOT_FOUND, "there is no process %u", asked->proc);
        conns_fail(conn, asked->head.tag, "process", &gone);
        return 1;
    }
    m.flags = p->flags & (START_STDIN | START_TTY);
    control_fill(&m.head, CONTROL_ATTACHED, asked->head.tag, sizeof m);
    return conns_send(conn, &m, sizeof m, p->stdio, p->n_stdio);
}

/* The kept process that a request names. */
static int find_kept_proc(struct control_one *asked, struct proc **ret, struct err *e)
{
    struct proc *p;

    control_read(&request, asked, sizeof *asked);
    p = procs_by_id(asked->proc);
    if (!p)
        return err_set(e, ERR_NOT_FOUND, "there is no process %u", asked->proc);
    if (!(p->flags & START_KEEP))
        return err_set(e, ERR_INVALID, "process %u is not kept, so it cannot be attached to",
                       asked->proc);
    *ret = p;
    return 0;
}

static int serve_attach(int conn, struct err *e)
{
    struct control_one asked;
    struct proc *p;
    int r = find_kept_proc(&asked, &p, e);

    if (r < 0)
        return r;
    if (!p->ready)
        return err_set(e, ERR_BUSY, "process %u has not started yet, or never did", asked.proc);
    conns_answer_by(conn, send_stdio, &asked);
    return 0;
}

static int serve_close_stdin(int conn, struct err *e)
{
    struct control_one asked;
    struct proc *p;
    int r = find_kept_proc(&asked, &p, e);

    if (r < 0)
        return r;
    if (p->flags & START_TTY)
        return err_set(e, ERR_INVALID, "the input of a terminal cannot be closed; send it ^D");
    if (!p->started)
        return err_set(e, ERR_BUSY, "process %u has not started yet", asked.proc);
    if (p->flags & START_STDIN) {
        close(p->stdio[0]);
        memmove(p->stdio, p->stdio + 1, (size_t)--p->n_stdio * sizeof p->stdio[0]);
        p->flags &= ~(uint32_t)START_STDIN;
    }
    return answer_request(conn, &asked.head, CONTROL_DONE, sizeof asked);
}

static int serve_forget(int conn, struct err *e)
{
    struct control_one asked;
    struct proc *p;

    control_read(&request, &asked, sizeof asked);
    p = procs_by_id(asked.proc);
    if (!p)
        return err_set(e, ERR_NOT_FOUND, "there is no process %u", asked.proc);
    if (p->state != PROC_ENDED)
        return err_set(e, ERR_CONFLICT, "process %u has not ended", asked.proc);
    starts_forget(p);
    return answer_request(conn, &asked.head, CONTROL_DONE, sizeof asked);
}

static int serve_usage(int conn, struct err *e)
{
    struct control_used m = { 0 };

    usage_read(&m);
    return answer_request(conn, &m.head, CONTROL_USED, sizeof m);
}

/* The sockets of the network boundary, and the top directory of the writable layer: a read-only mount
 * without the mounts that cover parts of it. PID 1 does not use them: it holds them as long as the
 * sandbox lives and passes them to clients outside. */
static struct listeners kept_listeners = { .fd = { [0 ... LISTENER_COUNT_ - 1] = -1 } };

void requests_keep(uint32_t slots)
{
    for (int i = 0; i < LISTENER_COUNT_; i++)
        if (slots & (1u << i)) {
            kept_listeners.fd[i] = INIT_LISTENERS + i;
            fcntl(kept_listeners.fd[i], F_SETFD, FD_CLOEXEC);
        }
    fcntl(INIT_UPPER, F_SETFD, FD_CLOEXEC);
    fcntl(INIT_BOX, F_SETFD, FD_CLOEXEC);
}

static int send_listeners(int conn, const struct control_one *asked)
{
    struct control_listening m = { 0 };
    int fds[LISTENER_COUNT_];
    size_t n = listeners_pack(&kept_listeners, fds, &m.slots);

    control_fill(&m.head, CONTROL_LISTENING, asked->head.tag, sizeof m);
    return conns_send(conn, &m, sizeof m, fds, (int)n);
}

static int serve_listeners(int conn, struct err *e)
{
    if (kept_listeners.fd[0] < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "this sandbox has no egress listeners: it was created without egress");
    conns_answer_by(conn, send_listeners, &(struct control_one){ .head = request.head });
    return 0;
}

static int send_upper(int conn, const struct control_one *asked)
{
    const int fd = INIT_UPPER;
    struct control_head m;

    control_fill(&m, CONTROL_UPPER_IS, asked->head.tag, sizeof m);
    return conns_send(conn, &m, sizeof m, &fd, 1);
}

static int serve_upper(int conn, struct err *e)
{
    conns_answer_by(conn, send_upper, &(struct control_one){ .head = request.head });
    return 0;
}

static int serve_freeze(int conn, struct err *e)
{
    struct control_stood m = { 0 };

    m.running = kill_freeze(request.head.type == CONTROL_STAND);
    return answer_request(conn, &m.head, CONTROL_STOOD, sizeof m);
}

static int serve_who(int conn, struct err *e)
{
    struct control_who asked;

    control_read(&request, &asked, sizeof asked);
    return owner_scans_add(conn, &asked, e);
}

static int serve_dial(int conn, struct err *e)
{
    struct control_dial asked;

    control_read(&request, &asked, sizeof asked);
    dial_serve(conn, &asked);
    return 0;
}

static int serve_join(int conn, struct err *e)
{
    struct control_one m = { 0 };

    groups_enter(conn);
    return answer_request(conn, &m.head, CONTROL_DONE, sizeof m);
}

static int serve_end(int conn, struct err *e)
{
    _exit(0);
}

/* The error of a failed function is sent as the answer; a function that succeeds has answered. */
static int (*const requests[])(int conn, struct err *e) = {
    [CONTROL_PING] = serve_control_ping,   [CONTROL_KILL] = serve_kill,
    [CONTROL_LIST] = serve_list,           [CONTROL_ATTACH] = serve_attach,
    [CONTROL_FORGET] = serve_forget,       [CONTROL_CLOSE_STDIN] = serve_close_stdin,
    [CONTROL_USAGE] = serve_usage,         [CONTROL_END] = serve_end,
    [CONTROL_LISTENERS] = serve_listeners, [CONTROL_WHO] = serve_who,
    [CONTROL_DIAL] = serve_dial,           [CONTROL_UPPER] = serve_upper,
    [CONTROL_STAND] = serve_freeze,        [CONTROL_GO_ON] = serve_freeze,
    [CONTROL_JOIN] = serve_join,
};

static int serve_start(const struct init_options *o, int conn, const struct ipc_fds *fds,
                       struct err *e)
{
    struct control_start s;

    control_read(&request, &s, sizeof s);
    /* The probe of a prepared sandbox makes the working directory and stats it: neither runs
     * workload code. */
    if (groups_pending() && s.what != START_STAT && s.what != START_MKDIR)
        return err_set(e, ERR_CONFLICT, "the sandbox has no owner yet");
    /* A shorter request has no cookie: those bytes are text. */
    if (s.text_at < sizeof s)
        memset((char *)&s + s.text_at, 0, sizeof s - s.text_at);
    return starts_add(o, conn, &s, request.room + s.text_at, fds, e);
}

static int serve_request(const struct init_options *o, int conn, const struct ipc_fds *fds,
                         struct err *e)
{
    uint16_t type = request.head.type;

    if (type == CONTROL_START)
        return serve_start(o, conn, fds, e);
    if (type < COUNT_OF(requests) && requests[type])
        return requests[type](conn, e);
    return err_set(e, ERR_DENIED, "PID 1 does not accept messages of type %u", type);
}

void requests_read(const struct init_options *o, int conn)
{
    struct ipc_fds fds = { .n = 0 };
    struct err e;
    ssize_t n = ipc_recv(conn, &request, sizeof request, &fds, &e);
    const char *step = "request";
    int r;

    if (n == -(int)ERR_BUSY)
        return;
    if (n == 0 || n == -(int)ERR_SYS) {
        if ((conn == INIT_CONTROL && o->ephemeral) || groups_pending())
            _exit(0); /* which kills everything inside */
        conns_drop(conn);
        return;
    }
    r = n < 0 ? (int)n : control_check(&request, (size_t)n, &e);
    if (r >= 0) {
        step = request.head.type == CONTROL_START ? "start" : "request";
        r = serve_request(o, conn, &fds, &e);
    }
    if (r < 0)
        conns_fail(conn, n >= (ssize_t)sizeof request.head ? request.head.tag : 0, step, &e);
    ipc_fds_done(&fds);
}
