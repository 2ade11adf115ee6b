#include "control/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/sandbox.h"
#include "control/spec.h"
#include "json/writer.h"
#include "loop/fd.h"
#include "mirror/report.h"

enum { LINES_BYTES_MAX = 1 << 20 };
enum { ESCAPED_MAX = 6, LINE_OVERHEAD = 64 }; /* bytes of a byte in JSON; of a line beside them */

enum phase { PHASE_MKDIR, PHASE_MOVE };

/* One copy, either way. It is over when the process inside and the one outside both are. */
struct transfer {
    struct sandbox *sandbox;
    struct workspace_op *op;
    struct actor actor;
    bool receive; /* sandbox to host */
    enum phase phase;
    struct ext_process process;
    bool inside_open, outside_open;
    struct loop_fd report_source;
    struct loop_timer silence; /* since the report was last heard of */
    int report;
    struct mirror_report_reader reader;
    struct json_writer lines;
    unsigned n_applied, n_left; /* lines of changes that were made, and that were not */
    struct loop_later later;
    struct err err; /* what went wrong */
    bool effect;    /* … maybe because the other side did */
};

int workspace_check(const struct control *c, const struct caller *who,
                    const struct create_request *q, struct err *e)
{
    const char *repo = spec_repo(q);

    if (!repo || q->workspace.access == ASK_ACCESS_NONE)
        return 0;
    if (repo[0] != '/')
        return err_set(e, ERR_INVALID, "inputs.repo: '%s' is not an absolute path", repo);
    if (q->workspace.mode != ASK_MODE_MIRROR)
        return err_set(e, ERR_INVALID, "inputs.repo: a %s workspace mirrors no directory",
                       workspace_mode_names[q->workspace.mode]);
    if (c->context.roots_only && strncmp(who->owner, "uid:", 4) != 0)
        return err_set(e, ERR_DENIED, "inputs.repo: %s has no files on this machine", who->owner);
    return 0;
}

static bool request_syncs(const struct create_request *q)
{
    return q->workspace.access == ASK_ACCESS_RW && q->workspace.mode == ASK_MODE_MIRROR &&
           spec_repo(q);
}

static bool request_mirrors(const struct control *c, const struct create_request *q)
{
    return request_syncs(q) ||
           (c->context.roots_only && spec_repo(q) && q->workspace.access == ASK_ACCESS_RO);
}

bool workspace_syncs(const struct sandbox *s)
{
    return request_syncs(&s->request);
}

bool workspace_mirrored(const struct sandbox *s)
{
    return request_mirrors(s->control, &s->request);
}

void workspace_op_done(struct workspace_op *op)
{
    buf_done(&op->lines);
}

/* --- the manifest: mirror/ID below the state directory --- */

static int open_manifest(const struct sandbox *s, const char *suffix, int flags)
{
    char name[64 + ID_MAX];
    int state = s->control->context.state;

    if (mkdirat(state, "mirror", 0700) < 0 && errno != EEXIST)
        return -1;
    snprintf(name, sizeof name, "mirror/%s%s", s->record.id, suffix);
    return openat(state, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void take_manifest(const struct sandbox *s)
{
    char from[64 + ID_MAX], to[64 + ID_MAX];
    int state = s->control->context.state;

    snprintf(from, sizeof from, "mirror/%s.new", s->record.id);
    snprintf(to, sizeof to, "mirror/%s", s->record.id);
    if (renameat(state, from, state, to) < 0)
        LOG(WARN, "workspace.manifest", LOG_S("sandbox", s->record.id),
            LOG_S("error", strerror(errno)));
}

void workspace_forget(struct sandbox *s)
{
    static const char *const suffixes[] = { "", ".new" };
    char name[64 + ID_MAX];

    for (size_t i = 0; workspace_mirrored(s) && i < COUNT_OF(suffixes); i++) {
        snprintf(name, sizeof name, "mirror/%s%s", s->record.id, suffixes[i]);
        unlinkat(s->control->context.state, name, 0);
    }
    if (workspace_mirrored(s) && s->control->forget_grant)
        s->control->forget_grant(s->control->user, s->record.id);
}

/* --- the grant of its directory --- */

static int copy_fd(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void workspace_take_client(struct sandbox *s, const struct control_client *c)
{
    if (c && workspace_mirrored(s))
        s->client = (struct control_client){ copy_fd(c->connection), copy_fd(c->handed) };
}

void workspace_drop_client(struct sandbox *s)
{
    drop_fd(&s->client.connection);
    drop_fd(&s->client.handed);
}

int workspace_grant(struct sandbox *s, control_request_fn *done, struct err *e)
{
    const struct control_grant g = { .sandbox = s->record.id,
                                     .path = spec_repo(&s->request),
                                     .writable = workspace_syncs(s),
                                     .client = s->client.connection,
                                     .handed = s->client.handed };
    int r;

    s->granting.done = done;
    r = s->control->grant(s->control->user, &g, &s->granting, e);
    workspace_drop_client(s); /* a copy would keep the client from seeing its connection's end */
    return r;
}

int workspace_try_grant(struct control *c, const struct create_request *request,
                        const struct control_client *client, struct control_request *q,
                        struct err *e)
{
    const struct control_grant g = { .sandbox = "",
                                     .path = spec_repo(request),
                                     .writable = request_syncs(request),
                                     .dry = true,
                                     .client = client ? client->connection : -1,
                                     .handed = client ? client->handed : -1 };
    int r;

    if (!request_mirrors(c, request) || !c->grant)
        return 0;
    r = c->grant(c->user, &g, q, e);
    return r < 0 ? r : 1;
}

/* --- the end --- */

/* When one side fails, so does the other, and either may be heard first. Who reads the stream
 * cannot know why it breaks off; who writes it is told by a broken pipe. */
static void note(struct transfer *t, int r, const struct err *e, bool effect)
{
    if (r >= 0 || (t->err.code && (effect || !t->effect)))
        return;
    t->err = *e;
    t->effect = effect;
}

static void close_lines(struct transfer *t)
{
    json_end_array(&t->lines);
    if (json_writer_finish(&t->lines, NULL) < 0)
        buf_done(&t->op->lines);
}

static void tell(struct transfer *t)
{
    struct workspace_op *op = t->op;
    struct sandbox *s = t->sandbox;
    struct err e = t->err;

    close_lines(t);
    op->report = t->reader.end.report;
    if (op->report.manifest && !(op->flags & MIRROR_DRY_RUN))
        take_manifest(s);
    if (s->transfer == t)
        s->transfer = NULL;
    drop_fd(&t->report);
    free(t);
    op->done(op, e.code ? -(int)e.code : 0, e.code ? &e : NULL);
    sandbox_unref(s);
}

static void synced(struct change *c, int r, const struct err *e)
{
    struct transfer *t = c->user;

    note(t, r, e, false);
    free((void *)(uintptr_t)c->detail.p);
    tell(t);
}

/* What came back, and above all what did not, is on record. */
static void record_sync(struct transfer *t)
{
    const struct mirror_report *rep = &t->reader.end.report;
    struct change *c = change_new(t->sandbox, &t->actor, t->err.code ? t->err.msg : "sync");
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    for (unsigned i = 0; i < MIRROR_ACTION_COUNT_; i++) {
        json_key(&w, str_from(mirror_action_name((enum mirror_action)i)));
        json_put_uint(&w, rep->count[i]);
    }
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    c->type = "sandbox.synced";
    c->always = true; /* the request was checked, and a destroy syncs in any case */
    c->detail = (struct str){ strdup(text.p), text.n };
    c->done = synced;
    c->user = t;
    change_submit(c);
}

static void over(struct transfer *t)
{
    if (t->inside_open || t->outside_open)
        return;
    if (t->receive && !(t->op->flags & MIRROR_DRY_RUN))
        record_sync(t);
    else
        tell(t);
}

static void over_later(struct loop_later *l)
{
    over(container_of(l, struct transfer, later));
}

/* --- outside: the report of the process that copies --- */

/* Changes that were made have a share of the answer, so that a sandbox cannot crowd out the names
 * that were held back, which the user must see to accept them. */
static bool has_room_for(struct transfer *t, const struct mirror_line *line)
{
    bool applied = line->action <= MIRROR_OVERWRITTEN;
    unsigned *count = applied ? &t->n_applied : &t->n_left;
    size_t most = applied ? LINES_BYTES_MAX / 2 : LINES_BYTES_MAX;
    size_t need = ESCAPED_MAX * (line->path.n + strlen(line->reason)) + LINE_OVERHEAD;

    return (*count)++ < SYNC_LINES_MAX && t->op->lines.n + need <= most;
}

static void on_line(void *ctx, const struct mirror_line *line)
{
    struct transfer *t = ctx;

    if (!has_room_for(t, line))
        return;
    json_begin_object(&t->lines);
    json_key(&t->lines, STR("action"));
    json_put_str(&t->lines, str_from(mirror_action_name(line->action)));
    json_key(&t->lines, STR("path"));
    json_put_lossy(&t->lines, line->path);
    json_key(&t->lines, STR("reason"));
    json_put_lossy(&t->lines, str_from(line->reason));
    json_end_object(&t->lines);
}

static void on_moved(void *ctx, uint64_t bytes)
{
    const struct transfer *t = ctx;

    if (t->op->moved)
        t->op->moved(t->op, bytes);
}

static void outside_over(struct transfer *t)
{
    struct err e;

    loop_fd_stop(&t->report_source);
    loop_timer_stop(&t->silence);
    drop_fd(&t->report);
    if (!t->reader.ended)
        note(t, err_set(&e, ERR_UPSTREAM, "the process that copies the workspace died"), &e, true);
    else
        note(t, t->reader.end.r, &t->reader.end.e, t->receive);
    t->outside_open = false;
    if (t->err.code && t->inside_open && t->process.box)
        t->process.box->ops->signal(&t->process, SIGKILL, EXT_SCOPE_TREE);
    over(t);
}

/* A process that hangs in a file system cannot be ended: what it has to say has no reader any more,
 * and the stream breaks off. */
static void on_silence(struct loop_timer *timer)
{
    struct transfer *t = container_of(timer, struct transfer, silence);
    struct err e;

    note(t,
         err_set(&e, ERR_TIMEOUT, "copying the workspace makes no progress: does %s hang?",
                 spec_repo(&t->sandbox->request)),
         &e, false);
    outside_over(t);
}

static void await_report(struct transfer *t)
{
    struct control *c = t->sandbox->control;

    loop_timer_stop(&t->silence);
    loop_timer_start(c->loop, &t->silence, clock_mono() + c->config->workspaces.patience,
                     on_silence, NULL);
}

static void on_report(struct loop_fd *f, unsigned events)
{
    struct transfer *t = container_of(f, struct transfer, report_source);
    char room[16 << 10];
    ssize_t n = read(t->report, room, sizeof room);
    struct err e;

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && mirror_report_feed(&t->reader, (struct str){ room, (size_t)n }, &e) >= 0) {
        await_report(t);
        return;
    }
    outside_over(t);
}

/* Our end does not block; the other one is for a process that may. */
static int open_report(struct transfer *t, int *ret, struct err *e)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    t->report = fds[0];
    *ret = fds[1];
    return fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "preparing a pipe") : 0;
}

/* -1 where no path is accepted. */
static int store_accepted(const struct workspace_accept *a, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    size_t total = 0;

    if (!a || a->paths.n == 0)
        return 0;
    if (a->paths.n > WORKSPACE_ACCEPT_MAX)
        return err_set(e, ERR_TOO_BIG, "accept: more than %d paths", WORKSPACE_ACCEPT_MAX);
    fd = memfd_create("accepted", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "making a list of accepted paths");
    for (size_t i = 0; i < a->paths.n; i++) {
        size_t n = strlen(a->paths.p[i]) + 1;

        total += n;
        if (total > WORKSPACE_ACCEPT_BYTES)
            return err_set(e, ERR_TOO_BIG, "accept: the paths have more than %d bytes together",
                           WORKSPACE_ACCEPT_BYTES);
        if (write(fd, a->paths.p[i], n) != (ssize_t)n)
            return err_sys(e, "making a list of accepted paths");
    }
    *ret = take_fd(&fd);
    return 0;
}

static int start_outside(struct transfer *t, int tar, struct err *e)
{
    struct sandbox *s = t->sandbox;
    AUTO_CLOSE int in = t->receive ? open_manifest(s, "", O_RDONLY) : -1;
    AUTO_CLOSE int out = open_manifest(s, ".new", O_RDWR | O_CREAT | O_TRUNC);
    AUTO_CLOSE int report = -1, accept = -1;
    struct control_mirror ask = { .sandbox = s->record.id,
                                  .receive = t->receive,
                                  .flags = t->op->flags,
                                  .top = t->receive ? &WORKSPACE_PATH[1] : "",
                                  .tar = tar,
                                  .manifest_in = in,
                                  .manifest_out = out,
                                  .client = t->op->accept ? t->op->accept->client : -1 };
    int r;

    if (out < 0)
        return err_sys(e, "opening the workspace's manifest");
    r = open_report(t, &report, e);
    if (r >= 0)
        r = store_accepted(t->op->accept, &accept, e);
    ask.report = report;
    ask.accept = accept;
    if (r >= 0)
        r = s->control->mirror(s->control->user, &ask, e);
    if (r >= 0)
        r = loop_fd_start(s->control->loop, &t->report_source, t->report, LOOP_READ, on_report, e);
    t->outside_open = r >= 0;
    if (r >= 0)
        await_report(t);
    return r;
}

/* --- inside: MKDIR, then UNPACK or PACK --- */

static void start_inside(struct transfer *t);

/* The stream's descriptor goes to the process outside, which waits on it as on any pipe. */
static void hand_over(struct transfer *t)
{
    int *fd = &t->process.stdio[t->receive ? 1 : 0];
    struct err e;
    int r;

    fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) & ~O_NONBLOCK);
    r = start_outside(t, *fd, &e);
    note(t, r, &e, false);
    for (int i = 0; i < EXT_STDIO_MAX; i++)
        drop_fd(&t->process.stdio[i]);
}

static void on_started(struct ext_process *p, int r, const struct err *e)
{
    struct transfer *t = container_of(p, struct transfer, process);

    if (r < 0) {
        note(t, r, e, false);
        t->inside_open = false;
        over(t);
    } else if (t->phase == PHASE_MOVE) {
        hand_over(t);
    }
}

static bool is_broken_pipe(const struct ext_end *end)
{
    return end->sys == EPIPE || (end->how == EXT_SIGNALLED && end->status == SIGPIPE);
}

static void on_ended(struct ext_process *p, const struct ext_end *end)
{
    struct transfer *t = container_of(p, struct transfer, process);
    bool good = end->how == EXT_EXITED && end->status == 0;
    struct err e;

    for (int i = 0; i < EXT_STDIO_MAX; i++)
        drop_fd(&t->process.stdio[i]);
    if (!good)
        note(t,
             err_set(&e, ERR_UPSTREAM, "inside: %s",
                     end->msg && end->msg[0] ? end->msg : "it ended"),
             &e, t->receive ? is_broken_pipe(end) : t->phase == PHASE_MOVE);
    if (good && t->phase == PHASE_MKDIR && !t->err.code) {
        t->phase = PHASE_MOVE;
        start_inside(t);
        return;
    }
    t->inside_open = false;
    over(t);
}

static const struct ext_process_events events = { .started = on_started, .ended = on_ended };

static void start_inside(struct transfer *t)
{
    static const char *const path[] = { WORKSPACE_PATH, NULL };
    const struct ext_start start = {
        .what = t->phase == PHASE_MKDIR ? EXT_MKDIR
                : t->receive            ? EXT_PACK
                                        : EXT_UNPACK,
        .flags = t->phase == PHASE_MOVE && !t->receive ? EXT_STDIN : 0,
        .user = "0",
        .cwd = "/", /* the profile's may be the directory that is about to be made */
        .argv = path,
        .mode = 0755,
    };

    t->process = (struct ext_process){ .events = &events, .stdio = { -1, -1, -1 } };
    t->inside_open = true;
    t->sandbox->ops->start(t->sandbox->box, &t->process, &start);
}

static void begin(struct sandbox *s, const struct actor *who, bool receive, struct workspace_op *op)
{
    struct transfer *t = calloc(1, sizeof *t);
    int r = 0;

    if (!t)
        abort();
    *t = (struct transfer){
        .sandbox = sandbox_ref(s), .op = op, .actor = *who, .receive = receive, .report = -1
    };
    buf_init(&op->lines, LINES_BYTES_MAX);
    json_writer_init(&t->lines, &op->lines, JSON_COMPACT);
    json_begin_array(&t->lines);
    mirror_report_reader_init(&t->reader, on_line, t);
    t->reader.moved = on_moved;
    if (!(receive ? workspace_syncs(s) : workspace_mirrored(s)))
        r = err_set(&t->err, ERR_CONFLICT, "sandbox %s mirrors no directory", s->record.id);
    else if (s->transfer)
        r = err_set(&t->err, ERR_BUSY, "the workspace of %s is being copied", s->record.id);
    else if (receive)
        r = sandbox_check_usable(s, 0, &t->err);
    else if (!s->box || s->after_teardown)
        r = err_set(&t->err, ERR_CONFLICT, "sandbox %s is not there any more", s->record.id);
    if (r < 0) {
        t->op->flags |= MIRROR_DRY_RUN; /* nothing to record */
        loop_later(s->control->loop, &t->later, over_later, NULL);
        return;
    }
    s->transfer = t;
    t->phase = receive ? PHASE_MOVE : PHASE_MKDIR;
    start_inside(t);
}

void workspace_copy_in(struct sandbox *s, struct workspace_op *op)
{
    begin(s, &ACTOR_DAEMON, false, op);
}

void workspace_sync(struct sandbox *s, const struct actor *who, struct workspace_op *op)
{
    begin(s, who, true, op);
}
