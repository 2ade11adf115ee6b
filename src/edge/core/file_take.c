/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_take.h"

#include <errno.h>
#include <unistd.h>

#include "edge/core/exec.h"
#include "base/units.h"
#include "backends/fault.h"

enum { PIECE = 64 << 10 };

void file_failure(const struct backend_end *end, struct err *ret)
{
    const char *why = end->msg && end->msg[0] ? end->msg : "the operation failed";
    char limit[EXEC_LIMIT_TEXT], size[24];

    *ret = (struct err){ .code = ERR_OK };
    if (end->how == BACKEND_LOST)
        (void)err_set(ret, ERR_CONFLICT, "the sandbox ended before the operation");
    else if (backend_end_is_oom(end))
        (void)err_set(ret, ERR_SYS, "killed: %s", exec_oom_text(end, limit));
    else if (end->how != BACKEND_EXITED)
        (void)err_set(ret, ERR_SYS, "the operation was killed");
    else if ((end->sys == ENOSPC || end->sys == EDQUOT) && end->disk_limit) {
        units_show_bytes(end->disk_limit, size);
        (void)err_set(ret, backend_fault_code(end->sys), "%s (the sandbox's disk limit is %s)", why,
                      size);
    } else if (end->status || end->sys) /* without an errno the arguments were refused */
        (void)err_set(ret, end->sys ? backend_fault_code(end->sys) : ERR_INVALID, "%s", why);
    ret->sys = end->sys;
}

void file_not_started(struct call *c, const struct run_op *op, const struct err *e)
{
    c->no_user = e->code == ERR_NOT_FOUND && strcmp(op->process.step, "user") == 0;
}

static void finish_take_if_ended(struct file_take *t)
{
    struct call *c = t->call;

    if (!t->ended_ || t->out_ >= 0)
        return;
    if (!t->failure_.code && t->too_big_)
        (void)err_set(&t->failure_, ERR_TOO_BIG, "the answer has more than %d bytes",
                      FILE_TAKE_MAX);
    t->done(t, t->failure_.code ? &t->failure_ : NULL);
    buf_done(&t->data);
    call_unref(c);
}

static void on_take_output(struct loop_fd *s, unsigned events)
{
    static char room[PIECE];
    struct file_take *t = container_of(s, struct file_take, output_);
    ssize_t n = read(t->out_, room, sizeof room);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        t->too_big_ |= buf_add(&t->data, (struct str){ room, (size_t)n }) < 0;
        return;
    }
    loop_fd_stop(&t->output_);
    drop_fd(&t->out_);
    finish_take_if_ended(t);
}

static void on_take_started(struct run_op *op, int r, const struct err *e)
{
    struct file_take *t = container_of(op, struct file_take, op_);

    if (r < 0) {
        file_not_started(t->call, op, e);
        t->ended_ = true;
        t->failure_ = *e;
        finish_take_if_ended(t);
        return;
    }
    drop_fd(&op->process.stdio[0]);
    t->out_ = take_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]);
    if (t->out_ >= 0)
        loop_fd_start(t->call->api->loop, &t->output_, t->out_, LOOP_READ, on_take_output, NULL);
}

static void on_take_ended(struct run_op *op, const struct backend_end *end)
{
    struct file_take *t = container_of(op, struct file_take, op_);

    t->ended_ = true;
    file_failure(end, &t->failure_);
    finish_take_if_ended(t);
}

static const struct run_op_events events = { .started = on_take_started, .ended = on_take_ended };

void file_take_start(struct file_take *t, struct call *c, enum start_what what,
                     const char *const *paths, const char *user, uint32_t mode, file_take_fn *done)
{
    const struct process_start start = {
        .what = what, .user = user, .cwd = "/", .argv = paths, .mode = mode
    };

    *t = (struct file_take){ .call = call_ref(c), .done = done, .out_ = -1 };
    buf_init(&t->data, FILE_TAKE_MAX);
    t->op_.events = &events;
    t->op_.actor = &c->caller.actor;
    sandbox_run(c->sandbox, &start, &t->op_);
}

const char *file_parent(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');

    return !slash || slash == path ? "/"
                                   : arena_dup(a, (struct str){ path, (size_t)(slash - path) });
}
