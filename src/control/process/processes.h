/* Background processes: they outlive the request that started them, and the daemon.
 *
 * Output is read as it comes and kept in files per process below the state directory (the last
 * PROCESS_KEEP bytes), so that a process is never held up because nobody looks, and what was read
 * survives our death. What was not read yet stays in the pipe: after a restart the process is found
 * by its cookie and attached to again. */
#ifndef CONTROL_PROCESSES_H
#define CONTROL_PROCESSES_H

#include <sys/types.h>

#include "control/control.h"
#include "control/output.h"

enum {
    PROCESS_KEEP = OUTPUT_KEEP,
    PROCESSES_MAX = 256 /* kept per sandbox, the oldest ended ones go first */
};

struct process; /* counted; belongs to its sandbox until that is destroyed */

/* For the view. */
struct process_view {
    uint32_t proc; /* its name in the sandbox */
    int pid;
    const struct process_request *request;
    int64_t started_ns, exited_ns; /* wall clock */
    bool running;                  /* can be signalled and written to */
    bool ended;                    /* and that is on record: a little after it ran */
    struct ext_end end;
    uint64_t lost_bytes; /* of output that is not kept any more */
};

struct process *process_ref(struct process *p);
void process_unref(struct process *p);
void process_view(const struct process *p, struct process_view *ret);

/* Starts one; done when it runs and is on record. It cannot be cancelled: the owner stays until
 * done. The request is copied. */
struct process_op {
    const struct process_request *request;
    bool programs;           /* as in struct run_op */
    struct process *process; /* out of a start: referenced for the owner */
    char step[24];           /* out: where it failed, as in struct ext_process */
    void (*done)(struct process_op *op, int r, const struct err *e);
    struct sandbox_op op_;
};
void process_start(struct sandbox *s, const struct actor *who, struct process_op *op);

struct process *process_find(struct sandbox *s, uint32_t proc); /* NULL; referenced */
/* In the order they were started; `each` must not start or stop any. */
typedef void process_each_fn(void *user, struct process *p);
void process_each(struct sandbox *s, process_each_fn *each, void *user);

/* One that has ended, its output with it, is not there any more; -ERR_CONFLICT while it runs. Done
 * when that is on disk. op->process is what to forget, of a sandbox that is there, and stays the
 * owner's. */
void process_forget(struct process_op *op, const struct actor *who);

/* -ERR_CONFLICT from each of these where the process has ended. */
int process_signal(struct process *p, int sig, enum ext_scope scope, struct err *e);
int process_resize(struct process *p, uint16_t rows, uint16_t cols, struct err *e);
/* Takes up to data.n bytes: how many, or 0 if it is full now: watchers hear `room` when it is not
 * any more. */
ssize_t process_stdin(struct process *p, struct str data, struct err *e);
int process_close_stdin(struct process *p, struct err *e); /* idempotent */

/* Somebody who watches. First what is kept (unless live_only), then what comes; then how it ended.
 * Everything is told from the loop. A watcher that returns false from `output` has taken those
 * bytes and is full: nothing more until watcher_resume(). When it is far behind, the process waits
 * too (as with a terminal), but not longer than a bound, after which the watcher is told
 * `fell_behind`.
 *
 * `ended` and `fell_behind` are the last word: the watcher is detached by then, and its owner may
 * free it there. From inside the other two it may be stopped, but not freed. */
struct watcher;
struct watcher_events {
    bool (*output)(struct watcher *w, int channel /* 1 stdout, 2 stderr */, struct str data);
    void (*ended)(struct watcher *w, const struct ext_end *end);
    void (*fell_behind)(struct watcher *w);
    void (*room)(struct watcher *w); /* stdin takes bytes again; may be NULL */
    /* All that there is was told, and it runs; at least once unless it ended. May be NULL, and may
     * stop the watcher. */
    void (*caught_up)(struct watcher *w);
};
struct watcher {
    const struct watcher_events *events;
    struct process *process; /* NULL: detached */
    struct output_cursor cursor_;
    bool full_, room_;
    int64_t full_since_;
    struct link link_;
    struct loop_later later_;
};
void process_watch(struct process *p, struct watcher *w, bool live_only);
void watcher_pause(struct watcher *w); /* as if its `output` had returned false */
void watcher_resume(struct watcher *w);
void watcher_stop(struct watcher *w); /* harmless on a detached one */

/* --- for this module --- */
/* After a restart: those of the store and those that the box still has, brought together. With none
 * found, what ran is recorded as lost. control_adopted() waits for it. */
void processes_found(struct sandbox *s, const struct ext_found *found, size_t n);
/* The box is gone: what still runs on record has ended with it. */
void processes_lost(struct sandbox *s);
void processes_drop(struct sandbox *s);  /* it is destroyed: ends told as lost, files removed */
void processes_leave(struct sandbox *s); /* it leaves our memory only: what runs goes on */
#endif
