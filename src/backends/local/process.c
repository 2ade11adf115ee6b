/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a box: a table of slots, one for each start that has not finished. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/arena.h"
#include "base/own.h"
#include "backends/fault.h"
#include "backends/local/local.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow ownership by lists and tables */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { FIRST_SLOTS = 4, TEXT_MAX = CONTROL_TEXT_MAX, SLOT_MASK = (1 << TAG_SLOT_BITS) - 1 };

/* the table */

static uint16_t *proc_bucket(struct process_table *t, uint32_t proc)
{
    return &t->buckets[proc % t->cap];
}

static void join_bucket(struct process_table *t, uint16_t i)
{
    uint16_t *at = proc_bucket(t, t->slots[i - 1].proc);

    t->slots[i - 1].next = *at;
    *at = i;
}

static void leave_bucket(struct process_table *t, uint16_t i)
{
    uint16_t *at = proc_bucket(t, t->slots[i - 1].proc);

    while (*at && *at != i)
        at = &t->slots[*at - 1].next;
    if (*at)
        *at = t->slots[i - 1].next;
}

static void grow_table(struct process_table *t)
{
    uint16_t old = t->cap;

    if (old >= LOCAL_SLOTS_MAX)
        abort(); /* more starts in one batch than this process can have clients */
    t->cap = old ? (uint16_t)(2 * old) : FIRST_SLOTS;
    t->slots = reallocarray(t->slots, t->cap, sizeof *t->slots);
    t->buckets = reallocarray(t->buckets, t->cap, sizeof *t->buckets);
    if (!t->slots || !t->buckets)
        abort();
    memset(t->slots + old, 0, (size_t)(t->cap - old) * sizeof *t->slots);
    memset(t->buckets, 0, t->cap * sizeof *t->buckets);
    for (uint16_t i = t->cap; i > old; i--) {
        t->slots[i - 1].next = t->free;
        t->free = i;
    }
    for (uint16_t i = 1; i <= old; i++)
        if (t->slots[i - 1].used && t->slots[i - 1].proc)
            join_bucket(t, i);
}

static uint16_t take_slot(struct process_table *t)
{
    uint16_t i;
    struct process_slot *s;

    if (!t->free)
        grow_table(t);
    i = t->free;
    s = &t->slots[i - 1];
    t->free = s->next;
    *s = (struct process_slot){ .used = true, .turn = s->turn + 1 };
    return i;
}

static void free_slot(struct process_table *t, uint16_t i)
{
    struct process_slot *s = &t->slots[i - 1];

    if (s->proc)
        leave_bucket(t, i);
    free(s->failed);
    *s = (struct process_slot){ .turn = s->turn, .next = t->free };
    t->free = i;
}

static uint32_t slot_tag(const struct process_table *t, uint16_t i)
{
    return t->slots[i - 1].turn << TAG_SLOT_BITS | i;
}

/* The slot of a tag, or 0 if its process has finished. */
static uint16_t slot_by_tag(const struct process_table *t, uint32_t tag)
{
    uint16_t i = (uint16_t)(tag & SLOT_MASK);

    return i && i <= t->cap && t->slots[i - 1].used && slot_tag(t, i) == tag ? i : 0;
}

static uint16_t slot_by_proc(struct process_table *t, uint32_t proc)
{
    uint16_t i = t->cap && proc ? *proc_bucket(t, proc) : 0;

    while (i && t->slots[i - 1].proc != proc)
        i = t->slots[i - 1].next;
    return i;
}

static void set_slot_proc(struct process_table *t, uint16_t i, uint32_t proc)
{
    if (t->slots[i - 1].proc || !proc)
        return;
    t->slots[i - 1].proc = proc;
    join_bucket(t, i);
}

void local_process_table_done(struct local_box *b)
{
    struct process_table *t = &b->processes;

    for (uint16_t i = 1; i <= t->cap; i++) {
        if (t->slots[i - 1].p)
            t->slots[i - 1].p->box = NULL;
        free(t->slots[i - 1].failed);
    }
    free(t->slots);
    free(t->buckets);
    *t = (struct process_table){ 0 };
}

/* reporting to the owner */

/* NULL: the process has no owner. */
static struct backend_process *release_process(struct process_slot *s)
{
    struct backend_process *p = take_ptr(s->p);

    if (p)
        p->box = NULL;
    return p;
}

/* Reports the end of a process with an owner; frees the slot before, unless it is kept. */
static void report_ended(struct local_box *b, uint16_t i, const char *msg)
{
    struct process_table *t = &b->processes;
    struct process_slot *s = &t->slots[i - 1];
    struct backend_end end = { .how = (enum backend_how)s->how,
                               .status = s->status,
                               .sys = s->sys,
                               .msg = msg && msg[0] ? msg : NULL,
                               .cpu_ns = s->cpu_ns,
                               .peak_bytes = s->peak_bytes,
                               .oom_kills = s->oom_kills };
    struct backend_process *p = release_process(s);

    if (!s->kept)
        free_slot(t, i);
    p->events->ended(p, &end);
}

/* starting */

static void adopt_owner(struct local_box *b, uint16_t i, struct backend_process *p)
{
    b->processes.slots[i - 1].p = p;
    p->box = &b->backend;
    p->tag_ = slot_tag(&b->processes, i);
    p->proc = 0;
    p->pid = 0;
    memset(p->stdio, -1, sizeof p->stdio);
}

static void fail_start_later(struct local_box *b, uint16_t i, const struct err *e)
{
    struct process_table *t = &b->processes;
    struct process_slot *s = &t->slots[i - 1];

    s->failed = new0(sizeof *s->failed);
    *s->failed = *e;
    s->next_failed = t->failed;
    t->failed = i;
    local_report_later(b);
}

void local_process_report_failed(struct local_box *b)
{
    struct process_table *t = &b->processes;

    while (t->failed && !b->freed) {
        uint16_t i = t->failed;
        struct process_slot *s = &t->slots[i - 1];
        struct err e = *s->failed;
        struct backend_process *p = release_process(s);

        t->failed = s->next_failed;
        free_slot(t, i);
        if (p)
            p->events->started(p, -(int)e.code, &e);
    }
}

static int send_process_start(struct local_box *b, uint16_t i, const struct process_start *s,
                              struct err *e)
{
    struct arena a AUTO(arena_done) = ARENA_INIT(TEXT_MAX);
    struct process_start start;
    int r;

    if (!local_channel_is_open(b))
        return err_set(e, ERR_CONFLICT, "sandbox %s is not running", b->backend.id);
    r = backend_start_fill(buf_str(&b->defaults), s, &a, &start, e);
    return r < 0 ? r : local_channel_start(b, slot_tag(&b->processes, i), &start, e);
}

void local_process_start(struct backend_box *backend, struct backend_process *p,
                         const struct process_start *s)
{
    struct local_box *b = local_box_of(backend);
    uint16_t i = take_slot(&b->processes);
    struct process_slot *slot = &b->processes.slots[i - 1];
    struct err e = { 0 };

    adopt_owner(b, i, p);
    slot->kept = s->flags & START_KEEP;
    slot->tty = s->flags & START_TTY;
    slot->has_stdin = s->flags & START_STDIN && !slot->tty;
    if (send_process_start(b, i, s, &e) < 0)
        fail_start_later(b, i, &e);
}

void local_process_reattach(struct backend_box *backend, struct backend_process *p, uint32_t proc)
{
    struct local_box *b = local_box_of(backend);
    struct process_table *t = &b->processes;
    uint16_t i = slot_by_proc(t, proc);
    struct err e = { 0 };

    if (i && local_channel_is_open(b) && !t->slots[i - 1].p && t->slots[i - 1].kept) {
        adopt_owner(b, i, p);
        t->slots[i - 1].attaching = true;
        local_channel_post_one(b, CONTROL_ATTACH, p->tag_, proc);
        return;
    }
    if (i && t->slots[i - 1].p)
        (void)err_set(&e, ERR_CONFLICT, "process %u is already attached", proc);
    else
        (void)err_set(&e, ERR_NOT_FOUND, "there is no process %u to attach to", proc);
    i = take_slot(t);
    adopt_owner(b, i, p);
    fail_start_later(b, i, &e);
}

/* requests */

static struct process_slot *find_process_slot(struct backend_process *p)
{
    struct local_box *b = p->box ? local_box_of(p->box) : NULL;
    uint16_t i = b ? slot_by_tag(&b->processes, p->tag_) : 0;

    return i ? &b->processes.slots[i - 1] : NULL;
}

static const enum control_scope scopes[] = { [BACKEND_SCOPE_ONE] = CONTROL_ONE,
                                             [BACKEND_SCOPE_GROUP] = CONTROL_GROUP,
                                             [BACKEND_SCOPE_TREE] = CONTROL_TREE };

/* Before the process has a number, a signal is deferred; SIGKILL is not replaced by another one. */
static void signal_slot(struct local_box *b, struct process_slot *s, uint32_t tag, int sig,
                        enum control_scope scope)
{
    if (s->proc && !s->ended)
        local_channel_post_kill(b, tag, s->proc, sig, scope);
    else if (!s->proc && s->sig != SIGKILL) {
        s->sig = (int16_t)sig;
        s->scope = (uint8_t)scope;
    }
}

void local_process_signal(struct backend_process *p, int sig, enum backend_scope scope)
{
    struct process_slot *s = find_process_slot(p);

    if (s)
        signal_slot(local_box_of(p->box), s, p->tag_, sig, scopes[scope]);
}

/* PID 1 holds a write end only for kept processes. */
static void close_stdin_of(struct local_box *b, struct process_slot *s)
{
    s->close_stdin = !s->proc;
    if (s->proc && s->kept)
        local_channel_post_one(b, CONTROL_CLOSE_STDIN, TAG_NONE, s->proc);
}

void local_process_close_stdin(struct backend_process *p)
{
    struct process_slot *s = find_process_slot(p);

    if (s)
        close_stdin_of(local_box_of(p->box), s);
}

int local_process_resize(struct backend_process *p, int terminal, uint16_t rows, uint16_t cols,
                         struct err *e)
{
    struct winsize size = { .ws_row = rows, .ws_col = cols };

    return ioctl(terminal, TIOCSWINSZ, &size) < 0 ? err_sys(e, "resizing the terminal") : 0;
}

void local_process_drop(struct backend_process *p)
{
    struct process_slot *s = find_process_slot(p);

    if (!s)
        return;
    if (!s->kept && !s->failed)
        signal_slot(local_box_of(p->box), s, TAG_NONE, SIGKILL, CONTROL_TREE);
    release_process(s);
}

void local_process_forget(struct backend_box *backend, uint32_t proc)
{
    struct local_box *b = local_box_of(backend);
    uint16_t i = slot_by_proc(&b->processes, proc);

    local_channel_post_one(b, CONTROL_FORGET, TAG_NONE, proc);
    if (!i || !b->processes.slots[i - 1].ended)
        return;
    release_process(&b->processes.slots[i - 1]);
    free_slot(&b->processes, i);
}

/* messages */

static bool take_stdio(struct backend_process *p, struct ipc_fds *fds, bool tty, bool has_stdin)
{
    size_t at = 0;

    if (fds->n != (tty ? 1 : has_stdin ? 3 : 2))
        return false;
    if (tty || has_stdin)
        p->stdio[0] = take_fd(&fds->fd[at++]);
    if (!tty) {
        p->stdio[1] = take_fd(&fds->fd[at++]);
        p->stdio[2] = take_fd(&fds->fd[at]);
    }
    return true;
}

/* Reports the start or the attachment; false: the descriptors are wrong, which may kill it. */
static bool report_started(struct local_box *b, struct process_slot *s, struct ipc_fds *fds,
                           bool tty, bool has_stdin, bool kill)
{
    struct backend_process *p = s->p;
    struct err e = { 0 };

    if (!take_stdio(p, fds, tty, has_stdin)) {
        int r = err_set(&e, ERR_UPSTREAM, "the sandbox sent %zu descriptors", fds->n);

        if (kill)
            signal_slot(b, s, TAG_NONE, SIGKILL, CONTROL_TREE);
        release_process(s);
        p->events->started(p, r, &e);
        return false;
    }
    p->proc = s->proc;
    p->pid = s->pid;
    p->events->started(p, 0, NULL);
    return true;
}

void local_process_on_started(struct local_box *b, const union supervisor_message *m,
                              struct ipc_fds *fds)
{
    uint16_t i = slot_by_tag(&b->processes, m->head.tag);
    struct process_slot *s = i ? &b->processes.slots[i - 1] : NULL;

    if (!s || s->started)
        return;
    set_slot_proc(&b->processes, i, m->started.proc);
    s->started = true;
    s->pid = m->started.pid;
    if (s->sig) /* requests that were deferred until the process had a number */
        local_channel_post_kill(b, m->head.tag, s->proc, s->sig, (enum control_scope)s->scope);
    if (s->close_stdin)
        close_stdin_of(b, s);
    s->sig = 0;
    if (s->p)
        report_started(b, s, fds, s->tty, s->has_stdin, true);
}

void local_process_on_attached(struct local_box *b, const union supervisor_message *m,
                               struct ipc_fds *fds)
{
    uint16_t i = slot_by_tag(&b->processes, m->head.tag);
    struct process_slot *s = i ? &b->processes.slots[i - 1] : NULL;
    struct backend_process *p;

    if (!s || !s->attaching)
        return;
    s->attaching = false;
    p = s->p;
    if (!p || !report_started(b, s, fds, m->attached.flags & START_TTY,
                              m->attached.flags & START_STDIN, false))
        return;
    i = slot_by_tag(&b->processes, m->head.tag); /* the callback may have changed the table */
    if (i && b->processes.slots[i - 1].p == p && b->processes.slots[i - 1].ended)
        report_ended(b, i, NULL);
}

void local_process_on_failed(struct local_box *b, const struct control_failed *m)
{
    struct process_table *t = &b->processes;
    uint16_t i = slot_by_tag(t, m->head.tag);
    struct process_slot *s = i ? &t->slots[i - 1] : NULL;
    struct backend_process *p;
    struct err e = { .code = m->code > ERR_OK && m->code < ERR_CODE_COUNT_ ? m->code : ERR_UPSTREAM,
                     .sys = m->sys };

    if (!s || (s->started && !s->attaching))
        return;
    if (e.code == ERR_SYS)
        e.code = backend_fault_code(e.sys);
    snprintf(e.msg, sizeof e.msg, "%.199s", m->msg);
    p = release_process(s);
    if (s->attaching)
        s->attaching = false; /* the process is unchanged */
    else
        free_slot(t, i);
    if (!p)
        return;
    snprintf(p->step, sizeof p->step, "%.23s", m->step);
    p->events->started(p, -(int)e.code, &e);
}

void local_process_on_killed(struct local_box *b, const union supervisor_message *m,
                             struct ipc_fds *fds)
{
    uint16_t i = slot_by_tag(&b->processes, m->head.tag);
    struct backend_process *p = i ? b->processes.slots[i - 1].p : NULL;

    if (p && p->events->signalled)
        p->events->signalled(p);
}

int local_process_how(uint32_t how)
{
    static const enum backend_how hows[] = { [CONTROL_BY_EXIT] = BACKEND_EXITED,
                                             [CONTROL_BY_SIGNAL] = BACKEND_SIGNALLED,
                                             [CONTROL_BY_TIMEOUT] = BACKEND_TIMED_OUT };

    return how < COUNT_OF(hows) ? (int)hows[how] : BACKEND_LOST;
}

static void note_slot_end(struct process_slot *s, const struct control_proc *p)
{
    s->ended = true;
    s->how = (uint32_t)local_process_how(p->how);
    s->status = p->status;
    s->sys = p->sys;
    s->oom_kills = p->oom_kills;
    s->cpu_ns = p->cpu_ns;
    s->peak_bytes = p->peak_bytes;
}

/* Reports a process that was killed before it had started as a failed start. */
static void report_never_started(struct local_box *b, uint16_t i)
{
    struct backend_process *p = release_process(&b->processes.slots[i - 1]);
    struct err e = { 0 };
    int r = err_set(&e, ERR_CONFLICT, "the process was killed before it had started");

    free_slot(&b->processes, i);
    p->events->started(p, r, &e);
}

void local_process_on_exited(struct local_box *b, const union supervisor_message *message,
                             struct ipc_fds *fds)
{
    const struct control_exited *m = &message->exited;
    struct process_table *t = &b->processes;
    uint16_t i = m->head.tag ? slot_by_tag(t, m->head.tag) : slot_by_proc(t, m->proc);
    struct process_slot *s = i ? &t->slots[i - 1] : NULL;
    const struct control_proc end = { .how = m->how,
                                      .status = m->status,
                                      .sys = m->sys,
                                      .oom_kills = m->oom_kills,
                                      .cpu_ns = m->cpu_ns,
                                      .peak_bytes = m->peak_bytes };

    local_report_oom(b, m->oom_total);
    if (!s || s->ended)
        return;
    note_slot_end(s, &end);
    if (s->p && !s->started)
        report_never_started(b, i);
    else if (s->p && !s->attaching)
        report_ended(b, i, m->msg);
    else if (!s->p && !s->kept)
        free_slot(t, i);
}

void local_process_adopt(struct local_box *b, const struct control_proc *p)
{
    uint16_t i = take_slot(&b->processes);
    struct process_slot *s = &b->processes.slots[i - 1];

    s->kept = s->started = true;
    s->tty = p->flags & START_TTY;
    s->has_stdin = p->flags & START_STDIN;
    s->pid = p->pid;
    set_slot_proc(&b->processes, i, p->proc);
    if (p->state == CONTROL_ENDED)
        note_slot_end(s, p);
}

/* Owners may start, drop and free processes from inside; new starts fail. */
void local_process_lose_all(struct local_box *b, const char *why)
{
    struct process_table *t = &b->processes;

    for (uint16_t i = 1; i <= t->cap && !b->freed; i++) {
        struct process_slot *s = &t->slots[i - 1];
        bool started = s->started && !s->attaching;
        struct backend_process *p;
        struct err e = { 0 };

        if (!s->used || s->failed)
            continue;
        p = release_process(s);
        free_slot(t, i);
        if (p && started)
            p->events->ended(p, &(struct backend_end){ .how = BACKEND_LOST, .msg = why });
        else if (p)
            p->events->started(p, err_set(&e, ERR_UPSTREAM, "%s", why), &e);
    }
}
