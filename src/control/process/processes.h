/* SPDX-License-Identifier: Apache-2.0 */
/* Background processes: they outlive the request that started them, and the daemon.
 *
 * Output is read as it comes and kept in files per process below the state directory (the last
 * PROCESS_KEEP bytes), so that a process is never blocked by a missing reader, and its output
 * survives a crash of the daemon. Unread output stays in the pipe: after a restart the process is
 * found by its cookie and reattached. */
#ifndef CONTROL_PROCESS_PROCESSES_H
#define CONTROL_PROCESS_PROCESSES_H

#include <sys/types.h>

#include "control/control.h"
#include "control/process/output.h"

enum {
    PROCESS_KEEP = OUTPUT_KEEP,
    PROCESSES_MAX = 256 /* kept per sandbox; the oldest ended ones are removed first */
};

struct process; /* reference-counted; belongs to its sandbox until that is destroyed */

/* The public state of a process. */
struct process_view {
    uint32_t proc; /* its name in the sandbox */
    int pid;
    const struct process_request *request;
    int64_t started_ns, exited_ns; /* wall clock */
    bool running;                  /* can be signalled and written to */
    bool ended;                    /* its end is on record: a little after it ran */
    struct backend_end end;
    uint64_t lost_bytes; /* of output that was discarded */
};

struct process *process_ref(struct process *p);
void process_unref(struct process *p);
void process_view(const struct process *p, struct process_view *ret);

/* Starts a process; done is called when it runs and is on record. It cannot be cancelled: the owner
 * stays until done. The request is copied. */
struct process_op {
    const struct process_request *request;
    bool programs; /* as in struct run_op; likewise the next one */
    const char *client;
    struct process *process; /* result of a start: a reference for the owner */
    char step[24];           /* out: the step that failed, as in struct backend_process */
    void (*done)(struct process_op *op, int r, const struct err *e);
    struct sandbox_op op_;
};
void process_start(struct sandbox *s, const struct actor *who, struct process_op *op);

struct process *process_find(struct sandbox *s, uint32_t proc); /* a reference, or NULL */
/* In the order of their starts; `each` must not start or stop a process. */
typedef void process_each_fn(void *user, struct process *p);
void process_each(struct sandbox *s, process_each_fn *each, void *user);

/* Removes an ended process and its output; -ERR_CONFLICT while it runs. done is called when that is
 * on disk. op->process is the process, of an existing sandbox; its reference stays the owner's. */
void process_forget(struct process_op *op, const struct actor *who);

/* Each returns -ERR_CONFLICT if the process has ended. */
int process_signal(struct process *p, int sig, enum backend_scope scope, struct err *e);
/* Whether a signal may still be on its way; when the last one is delivered, watchers get `room`. */
bool process_is_signalled(const struct process *p);
int process_resize(struct process *p, uint16_t rows, uint16_t cols, struct err *e);
/* Writes up to data.n bytes and returns their number; 0 if the pipe is full: watchers get `room`
 * later. */
ssize_t process_stdin(struct process *p, struct str data, struct err *e);
int process_close_stdin(struct process *p, struct err *e); /* idempotent */

/* A watcher gets the kept output (unless live_only), then new output, then the end. All callbacks
 * come from the loop. A watcher that returns false from `output` has accepted those bytes and is
 * full: it gets nothing more until watcher_resume(). When it is far behind, the process is blocked,
 * too (as by a terminal), but only for a limited time; then the watcher gets `fell_behind`.
 *
 * `ended` and `fell_behind` are the last callbacks: the watcher is detached before, and its owner
 * may free it there. From inside the other callbacks it may be stopped, but not freed. */
struct watcher;
struct watcher_events {
    /* NULL: discards the output; then the watcher is never full and cannot fall behind. */
    bool (*output)(struct watcher *w, int channel /* 1 stdout, 2 stderr */, struct str data);
    void (*ended)(struct watcher *w, const struct backend_end *end);
    void (*fell_behind)(struct watcher *w);
    /* stdin accepts bytes again, or signals were delivered; may be NULL */
    void (*room)(struct watcher *w);
    /* All output was delivered, and the process runs; called at least once, unless it has ended.
     * May be NULL, and may stop the watcher. */
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
/* After a restart, of a paused sandbox: its processes can be seen before it is resumed. Also waited
 * for by control_note_adopted(). */
void processes_load(struct sandbox *s);
/* After a restart: matches the processes of the store with those that the box has. With none found,
 * running ones are recorded as lost. control_note_adopted() waits for it. */
void processes_reattach(struct sandbox *s, const struct backend_found *found, size_t n);
/* The box is gone: processes that run according to their rows have ended with it. */
void processes_lost(struct sandbox *s);
/* It is destroyed: reports running ones as lost, and removes the files. */
void processes_remove(struct sandbox *s);
/* It is removed from memory only: its processes keep running. */
void processes_leave(struct sandbox *s);
#endif
