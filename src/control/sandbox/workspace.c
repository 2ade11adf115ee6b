/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/io.h"
#include "base/log.h"
#include "base/own.h"
#include "control/sandbox/copy_slots.h"
#include "control/sandbox/grant_slots.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/spec.h"
#include "lib/json/writer.h"
#include "lib/loop/fd.h"
#include "engine/sync/report.h"

enum { LINES_BYTES_MAX = 1 << 20 };
enum {
    ESCAPED_MAX = 6,
    LINE_OVERHEAD = 64
}; /* bytes of an escaped byte in JSON; of a line besides its texts */

enum transfer_phase { PHASE_MKDIR, PHASE_MOVE };

/* One copy, in either direction. It ends when both the process inside and the one outside have
 * ended. */
struct transfer {
    struct sandbox *sandbox;
    struct workspace_op *op;
    struct actor actor;
    bool receive; /* sandbox to host */
    bool looks;   /* only compares the host with the manifest: nothing runs inside */
    bool ends;    /* the last sync before a destroy, which refuses all other operations */
    struct copy_slot *slot;
    enum transfer_phase phase;
    struct backend_process process;
    bool inside_open, outside_open;
    struct loop_fd report_source;
    struct loop_timer silence; /* since the last report, or since it began to wait */
    int report;
    struct sync_report_reader reader;
    struct json_writer lines;
    unsigned n_applied, n_left; /* lines of changes that were made, and that were not */
    struct loop_later later;
    struct err err; /* the first error … */
    bool effect;    /* … which may be a consequence of the other side's */
};

static bool request_syncs(const struct create_request *q)
{
    return q->workspace.access == ASK_ACCESS_RW && q->workspace.mode == ASK_MODE_SYNC &&
           spec_repo(q);
}

static bool request_mirrors(const struct control *c, const struct create_request *q)
{
    return request_syncs(q) ||
           (c->context.roots_only && spec_repo(q) && q->workspace.access == ASK_ACCESS_RO);
}

int workspace_check(struct control *c, const struct caller *who, const struct create_request *q,
                    struct err *e)
{
    const struct account a = account_of(c, who->owner, who->family);
    const char *repo = spec_repo(q);
    int r;

    if (!repo || q->workspace.access == ASK_ACCESS_NONE)
        return 0;
    if (repo[0] != '/')
        return err_set(e, ERR_INVALID, "inputs.repo: '%s' is not an absolute path", repo);
    if (q->workspace.mode != ASK_MODE_SYNC)
        return err_set(e, ERR_INVALID, "inputs.repo: a %s workspace cannot mirror a directory",
                       workspace_mode_names[q->workspace.mode]);
    if (c->context.roots_only && strncmp(who->owner, "uid:", 4) != 0)
        return err_set(e, ERR_DENIED, "inputs.repo: %s is not a user of this machine", who->owner);
    if (!request_mirrors(c, q))
        return 0;
    /* Checked before there is a sandbox, so that the caller gets the quota error. */
    r = grant_slots_check(c, &a, e);
    return r < 0 ? r : copy_slots_check(c, &a, e);
}

const char *workspace_directory(const struct sandbox *s)
{
    return spec_repo(&s->request);
}

bool workspace_syncs(const struct sandbox *s)
{
    return request_syncs(&s->request);
}

bool workspace_mirrored(const struct sandbox *s)
{
    return request_mirrors(s->control, &s->request);
}

bool workspace_granted(const struct sandbox *s)
{
    return workspace_mirrored(s) || s->request.mounts.n;
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
    if (flags & O_EXCL) /* a new file each time: an abandoned copy may still write to its own */
        unlinkat(state, name, 0);
    return openat(state, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void forget_workspace_of(struct control *c, const char *sandbox)
{
    static const char *const suffixes[] = { "", ".new", ".mounts" };
    char name[64 + ID_MAX];

    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        snprintf(name, sizeof name, "mirror/%s%s", sandbox, suffixes[i]);
        unlinkat(c->context.state, name, 0);
    }
    if (c->supervisor.forget_grant)
        c->supervisor.forget_grant(c->supervisor.user, sandbox);
}

void workspace_remove(struct sandbox *s)
{
    if (workspace_granted(s))
        forget_workspace_of(s->control, s->record.id);
}

void workspaces_sweep(struct control *c)
{
    int fd = openat(c->context.state, "mirror", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char id[ID_MAX];

    for (struct dirent *v; d && (v = readdir(d));) {
        struct str name;

        str_cut(str_from(v->d_name), '.', &name);
        if (id_valid("sbx_", name) && str_copy(name, id, sizeof id) && !control_knows(c, id))
            forget_workspace_of(c, id);
    }
    if (d)
        closedir(d);
}

/* --- the grant of its directory --- */

static int dup_client_fd(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void workspace_take_client(struct sandbox *s, const struct control_client *c)
{
    if (c && workspace_granted(s))
        s->client =
            (struct control_client){ dup_client_fd(c->connection), dup_client_fd(c->handed) };
}

void workspace_drop_client(struct sandbox *s)
{
    drop_fd(&s->client.connection);
    drop_fd(&s->client.handed);
}

int workspace_grant(struct sandbox *s, control_request_fn *done, struct err *e)
{
    const struct account a = sandbox_account(s);
    struct control_grant g = { .sandbox = s->record.id,
                               .workspace = workspace_mirrored(s),
                               .path = spec_repo(&s->request),
                               .writable = workspace_syncs(s),
                               .client = s->client.connection,
                               .handed = s->client.handed };
    int r = g.handed < 0 ? 0 : mounts_note_grant(s, e);

    mounts_fill_grant(&s->request, &g);
    s->granting.done = done;
    if (r >= 0)
        r = grant_slots_ask(s->control, &a, s->salvage, &g, &s->granting, e);
    workspace_drop_client(s);
    return r;
}

int workspace_try_grant(struct control *c, const struct caller *who,
                        const struct create_request *request, const struct control_client *client,
                        struct control_request *q, struct err *e)
{
    const struct account a = account_of(c, who->owner, who->family);
    struct control_grant g = { .sandbox = "",
                               .workspace = request_mirrors(c, request),
                               .path = spec_repo(request),
                               .writable = request_syncs(request),
                               .dry = true,
                               .client = client ? client->connection : -1,
                               .handed = client ? client->handed : -1 };
    int r;

    mounts_fill_grant(request, &g);
    if (!(g.workspace || g.mounts) || !c->supervisor.grant)
        return 0;
    r = grant_slots_ask(c, &a, false, &g, q, e);
    return r < 0 ? r : 1;
}

/* --- the outcome --- */

/* When one side fails, so does the other, and either may be reported first. The reader of the
 * stream cannot know why it breaks off; the writer gets a broken pipe. A cause replaces an
 * effect. */
static void note_transfer_error(struct transfer *t, int r, const struct err *e, bool effect)
{
    if (r >= 0 || (t->err.code && (effect || !t->effect)))
        return;
    t->err = *e;
    t->effect = effect;
}

static void finish_transfer(struct transfer *t)
{
    struct workspace_op *op = t->op;
    struct sandbox *s = t->sandbox;
    char from[64 + ID_MAX], to[64 + ID_MAX];
    int state = s->control->context.state;
    struct err e = t->err;

    fault_point("workspace.copied");
    json_end_array(&t->lines);
    if (json_writer_finish(&t->lines, NULL) < 0)
        buf_done(&op->lines);
    op->report = t->reader.end.report;
    snprintf(from, sizeof from, "mirror/%s.new", s->record.id);
    snprintf(to, sizeof to, "mirror/%s", s->record.id);
    if (op->report.manifest && !(op->flags & SYNC_DRY_RUN) && renameat(state, from, state, to) < 0)
        LOG(WARN, "workspace.manifest", LOG_S("sandbox", s->record.id),
            LOG_S("error", strerror(errno)));
    if (s->transfer == t)
        s->transfer = NULL;
    drop_fd(&t->report);
    copy_slot_free(t->slot);
    free(t);
    op->done(op, e.code ? -(int)e.code : 0, e.code ? &e : NULL);
    sandbox_unref(s);
}

static void on_sync_recorded(struct change *c, int r, const struct err *e)
{
    struct transfer *t = c->user;

    note_transfer_error(t, r, e, false);
    finish_transfer(t);
}

/* Records the counts of all changes, above all those that were not brought back. */
static void record_sync(struct transfer *t)
{
    const struct sync_report *rep = &t->reader.end.report;
    struct change *c = change_new(t->sandbox, &t->actor, t->err.code ? t->err.msg : "sync");
    size_t n = 0;

    for (unsigned i = 0; i < SYNC_ACTION_COUNT_ && n < sizeof c->text; i++)
        n += (size_t)snprintf(c->text + n, sizeof c->text - n, "%s\"%s\":%llu", i ? "," : "{",
                              sync_action_name((enum sync_action)i),
                              (unsigned long long)rep->count[i]);
    if (n + 1 < sizeof c->text)
        c->text[n++] = '}';
    c->type = "sandbox.synced";
    c->always = true; /* the request was checked before, and a destroy syncs in any case */
    c->detail = (struct str){ c->text, n };
    c->done = on_sync_recorded;
    c->user = t;
    change_submit(c);
}

static void finish_if_both_ended(struct transfer *t)
{
    if (t->inside_open || t->outside_open)
        return;
    if (t->receive && !(t->op->flags & SYNC_DRY_RUN))
        record_sync(t);
    else
        finish_transfer(t);
}

static void on_transfer_later(struct loop_later *l)
{
    finish_if_both_ended(container_of(l, struct transfer, later));
}

/* --- outside: the report of the copying process --- */

static const struct json_field line_fields[] = {
    { "action", JSON_KIND_ENUM, JSON_AT(struct sync_line, action), .required = true,
      .names = sync_action_names },
    { "path", JSON_KIND_SLICE, JSON_AT(struct sync_line, path), .required = true },
    { "reason", JSON_KIND_TEXT, JSON_AT(struct sync_line, reason), .required = true },
};
const struct json_shape sync_change_answer = { "SyncChange", JSON_FIELDS(line_fields) };

/* Lines of applied changes may use half of the answer, so that a sandbox cannot crowd out the paths
 * that were held back, which the user must see to accept them. */
static void on_sync_line(void *ctx, const struct sync_line *line)
{
    struct transfer *t = ctx;
    bool applied = line->action <= SYNC_OVERWRITTEN;
    unsigned *count = applied ? &t->n_applied : &t->n_left;
    size_t most = applied ? LINES_BYTES_MAX / 2 : LINES_BYTES_MAX;
    size_t need = ESCAPED_MAX * (line->path.n + strlen(line->reason)) + LINE_OVERHEAD;

    if ((*count)++ < SYNC_LINES_MAX && t->op->lines.n + need <= most)
        json_put_shape(&t->lines, &sync_change_answer, line);
}

static void on_sync_moved(void *ctx, uint64_t bytes)
{
    const struct transfer *t = ctx;

    if (t->op->moved)
        t->op->moved(t->op, bytes);
}

static void end_outside(struct transfer *t)
{
    struct err e;

    loop_fd_stop(&t->report_source);
    loop_timer_stop(&t->silence);
    drop_fd(&t->report);
    if (!t->reader.ended)
        note_transfer_error(
            t, err_set(&e, ERR_UPSTREAM, "the process that copies the workspace died"), &e, true);
    else
        note_transfer_error(t, t->reader.end.r, &t->reader.end.e, t->receive);
    t->outside_open = false;
    copy_slot_free(take_ptr(t->slot));
    if (t->err.code && t->inside_open && t->process.box)
        t->process.box->ops->signal(&t->process, SIGKILL, BACKEND_SCOPE_TREE);
    finish_if_both_ended(t);
}

/* A process that hangs in a file system cannot be killed: its report is discarded, and the stream
 * breaks off. */
static void on_report_silence(struct loop_timer *timer)
{
    struct transfer *t = container_of(timer, struct transfer, silence);
    struct err e;

    note_transfer_error(
        t,
        err_set(&e, ERR_TIMEOUT,
                "copying the workspace makes no progress: the file system of %s may hang",
                spec_repo(&t->sandbox->request)),
        &e, false);
    loop_fd_stop(&t->report_source);
    copy_slot_abandon(take_ptr(t->slot), take_fd(&t->report));
    end_outside(t);
}

static void await_report(struct transfer *t)
{
    struct control *c = t->sandbox->control;

    loop_timer_stop(&t->silence);
    loop_timer_start(c->loop, &t->silence, clock_mono() + c->config->workspaces.patience,
                     on_report_silence, NULL);
}

static void on_report(struct loop_fd *f, unsigned events)
{
    struct transfer *t = container_of(f, struct transfer, report_source);
    char room[16 << 10];
    ssize_t n = read(t->report, room, sizeof room);
    struct err e;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && sync_report_feed(&t->reader, (struct str){ room, (size_t)n }, &e) >= 0) {
        await_report(t);
        return;
    }
    end_outside(t);
}

/* Our end is non-blocking; the other end belongs to a process that may block. */
static int open_report(struct transfer *t, int *ret, struct err *e)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, "creating a pipe");
    t->report = fds[0];
    *ret = fds[1];
    return fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "preparing a pipe") : 0;
}

/* Writes the accepted paths to a memfd; *ret stays -1 without paths. */
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
        return err_sys(e, "writing the list of accepted paths");
    for (size_t i = 0; i < a->paths.n; i++) {
        const struct str path = { a->paths.p[i], strlen(a->paths.p[i]) + 1 };
        int r;

        total += path.n;
        if (total > WORKSPACE_ACCEPT_BYTES)
            return err_set(e, ERR_TOO_BIG, "accept: the paths have more than %d bytes together",
                           WORKSPACE_ACCEPT_BYTES);
        r = write_all(fd, path, e);
        if (r < 0)
            return err_wrap(e, r, "writing the list of accepted paths");
    }
    *ret = take_fd(&fd);
    return 0;
}

static int start_outside(struct transfer *t, int tar, struct err *e)
{
    struct sandbox *s = t->sandbox;
    AUTO_CLOSE int in = t->receive || t->looks ? open_manifest(s, "", O_RDONLY) : -1;
    AUTO_CLOSE int out = t->looks ? memfd_create("manifest", MFD_CLOEXEC)
                                  : open_manifest(s, ".new", O_RDWR | O_CREAT | O_EXCL);
    AUTO_CLOSE int report = -1, accept = -1;
    struct control_sync request = { .sandbox = s->record.id,
                                    .receive = t->receive,
                                    .flags = t->op->flags,
                                    .top = t->receive ? &WORKSPACE_PATH[1] : "",
                                    .tar = tar,
                                    .manifest_in = in,
                                    .manifest_out = out,
                                    .client = t->op->accept ? t->op->accept->client : -1 };
    int r;

    if (out < 0 || (t->looks && in < 0))
        return err_sys(e, "opening the workspace's manifest");
    r = open_report(t, &report, e);
    r = r < 0 ? r : store_accepted(t->op->accept, &accept, e);
    request.report = report;
    request.accept = accept;
    r = r < 0 ? r : s->control->supervisor.mirror(s->control->supervisor.user, &request, e);
    if (r >= 0)
        r = loop_fd_start(s->control->loop, &t->report_source, t->report, LOOP_READ, on_report, e);
    t->outside_open = r >= 0;
    if (r >= 0)
        await_report(t);
    return r;
}

/* --- inside: MKDIR, then UNPACK or PACK --- */

static void start_inside(struct transfer *t);

static void on_inside_started(struct backend_process *p, int r, const struct err *e)
{
    struct transfer *t = container_of(p, struct transfer, process);
    int fd = p->stdio[t->receive ? 1 : 0];
    struct err why;

    if (r < 0) {
        note_transfer_error(t, r, e, false);
        t->inside_open = false;
        finish_if_both_ended(t);
    } else if (t->phase == PHASE_MOVE) {
        /* The stream goes to the process outside, which needs a blocking descriptor. */
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        note_transfer_error(t, start_outside(t, fd, &why), &why, false);
        for (int i = 0; i < BACKEND_STDIO_MAX; i++)
            drop_fd(&p->stdio[i]);
    }
}

static void on_inside_ended(struct backend_process *p, const struct backend_end *end)
{
    struct transfer *t = container_of(p, struct transfer, process);
    bool good = end->how == BACKEND_EXITED && end->status == 0,
         broken = end->sys == EPIPE || (end->how == BACKEND_SIGNALLED && end->status == SIGPIPE);
    struct err e;

    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        drop_fd(&t->process.stdio[i]);
    if (!good)
        note_transfer_error(t,
                            err_set(&e, ERR_UPSTREAM, "inside: %s",
                                    end->msg && end->msg[0] ? end->msg : "the process ended"),
                            &e, t->receive ? broken : t->phase == PHASE_MOVE);
    if (good && t->phase == PHASE_MKDIR && !t->err.code) {
        t->phase = PHASE_MOVE;
        start_inside(t);
        return;
    }
    t->inside_open = false;
    finish_if_both_ended(t);
}

static const struct backend_process_events events = { .started = on_inside_started,
                                                      .ended = on_inside_ended };

static void start_inside(struct transfer *t)
{
    static const char *const path[] = { WORKSPACE_PATH, NULL };
    const struct process_start start = {
        .what = t->phase == PHASE_MKDIR ? START_MKDIR
                : t->receive            ? START_PACK
                                        : START_UNPACK,
        .flags = t->phase == PHASE_MOVE && !t->receive ? START_STDIN : 0,
        .user = "0",
        .cwd = "/", /* the profile's may be the directory that is about to be created */
        .argv = path,
        .mode = 0755,
    };

    t->process = (struct backend_process){ .events = &events, .stdio = { -1, -1, -1 } };
    t->inside_open = true;
    t->sandbox->ops->start(t->sandbox->box, &t->process, &start);
}

/* --- the start: waiting for a slot --- */

static int check_sandbox(const struct transfer *t, struct err *e)
{
    struct sandbox *s = t->sandbox;
    bool acts = s->salvage_acts;
    int r;

    if (!t->receive && (!s->box || s->after_teardown))
        return err_set(e, ERR_CONFLICT, "sandbox %s has ended", s->record.id);
    if (!t->receive)
        return 0;
    s->salvage_acts = t->ends;
    r = sandbox_check_usable(s, 0, e);
    s->salvage_acts = acts;
    return r;
}

/* Ends a copy that has not begun. */
static void end_transfer_early(struct transfer *t)
{
    t->op->flags |= SYNC_DRY_RUN; /* nothing to record */
    copy_slot_free(take_ptr(t->slot));
    loop_timer_stop(&t->silence);
    loop_later(t->sandbox->control->loop, &t->later, on_transfer_later, NULL);
}

/* The process outside needs a pipe, to which a look writes nothing. */
static void begin_look(struct transfer *t)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0) {
        (void)err_sys(&t->err, "creating a pipe");
    } else {
        (void)start_outside(t, fds[1], &t->err);
        close(fds[0]);
        close(fds[1]);
    }
    if (!t->outside_open)
        end_transfer_early(t);
}

static void on_copy_slot(struct turn *turn)
{
    struct transfer *t = container_of(turn, struct copy_slot, turn)->user;

    loop_timer_stop(&t->silence);
    if (check_sandbox(t, &t->err) < 0) {
        end_transfer_early(t);
        return;
    }
    t->phase = t->receive ? PHASE_MOVE : PHASE_MKDIR;
    if (t->looks)
        begin_look(t);
    else
        start_inside(t);
}

/* It waits as long as any copy before it makes progress. */
static void on_slot_wait(struct loop_timer *timer)
{
    struct transfer *t = container_of(timer, struct transfer, silence);
    struct control *c = t->sandbox->control;

    if (!copy_slot_hangs(t->slot)) {
        loop_timer_start(c->loop, timer, clock_mono() + c->config->workspaces.patience,
                         on_slot_wait, NULL);
        return;
    }
    (void)err_set(
        &t->err, ERR_TIMEOUT,
        "copying the workspace cannot begin: the file systems of all copies before it hang");
    end_transfer_early(t);
}

static int await_slot(struct transfer *t, struct err *e)
{
    struct sandbox *s = t->sandbox;
    const struct account a = sandbox_account(s);
    int r = copy_slot_new(s->control, &a, t->ends || (!t->receive && !t->looks), on_copy_slot, t,
                          &t->slot, e);

    if (r >= 0)
        loop_timer_start(s->control->loop, &t->silence,
                         clock_mono() + s->control->config->workspaces.patience, on_slot_wait,
                         NULL);
    return r;
}

static void begin_transfer(struct sandbox *s, const struct actor *who, bool receive,
                           struct workspace_op *op)
{
    struct transfer *t = new0(sizeof *t);
    int r;

    *t = (struct transfer){ .sandbox = sandbox_ref(s),
                            .op = op,
                            .actor = *who,
                            .receive = receive,
                            .looks = !receive && (op->flags & SYNC_DRY_RUN),
                            .ends = s->salvage_acts,
                            .report = -1 };
    buf_init(&op->lines, LINES_BYTES_MAX);
    json_writer_init(&t->lines, &op->lines, JSON_COMPACT);
    json_begin_array(&t->lines);
    sync_report_reader_init(&t->reader, on_sync_line, t);
    t->reader.moved = on_sync_moved;
    if (!(receive ? workspace_syncs(s) : workspace_mirrored(s)))
        r = err_set(&t->err, ERR_CONFLICT, "sandbox %s has no workspace that mirrors a directory",
                    s->record.id);
    else if (s->transfer && !t->looks)
        r = err_set(&t->err, ERR_BUSY, "the workspace of %s is being copied already", s->record.id);
    else
        r = check_sandbox(t, &t->err);
    r = r < 0 ? r : await_slot(t, &t->err);
    if (r < 0)
        end_transfer_early(t);
    else if (!t->looks)
        s->transfer = t;
}

void workspace_stop_waiting(struct sandbox *s)
{
    struct transfer *t = s->transfer;

    if (!t || !t->slot || !turn_waits(&t->slot->turn))
        return;
    (void)err_set(&t->err, ERR_CONFLICT, "sandbox %s is being destroyed", s->record.id);
    end_transfer_early(t);
}

void workspace_copy_in(struct sandbox *s, struct workspace_op *op)
{
    begin_transfer(s, &ACTOR_DAEMON, false, op);
}

void workspace_look(struct sandbox *s, struct workspace_op *op)
{
    op->flags = SYNC_DRY_RUN;
    begin_transfer(s, &ACTOR_DAEMON, false, op);
}

void workspace_sync(struct sandbox *s, const struct actor *who, struct workspace_op *op)
{
    begin_transfer(s, who, true, op);
}
