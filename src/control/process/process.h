/* SPDX-License-Identifier: Apache-2.0 */
/* A background process in memory, for the files of this folder.
 *
 *     STARTING ─→ RUNNING ─→ DRAINING ─→ RECORDING ─→ ENDED
 *        │                  (it has ended: read the rest of its output, then record the end)
 *        └─→ DOOMED         (it must not run: kill it, and remove it when it has ended) */
#ifndef CONTROL_PROCESS_PROCESS_H
#define CONTROL_PROCESS_PROCESS_H

#include "control/owner/owner_share.h"
#include "control/process/processes.h"
#include "control/sandbox/sandbox.h"

enum process_phase {
    PROCESS_STARTING,
    PROCESS_RUNNING,
    PROCESS_DRAINING,
    PROCESS_RECORDING,
    PROCESS_ENDED,
    PROCESS_DOOMED,
};

enum { PROCESS_MSG_MAX = 200 };

struct process_stream {
    struct process *process;
    struct loop_fd source;
    int fd;
    int channel;  /* channel of the bytes that are read here; 0: write-only */
    bool writing; /* a writer waits for room */
};

struct process {
    unsigned refs;
    struct control *control;
    struct sandbox *sandbox; /* NULL: destroyed */
    struct link link;        /* in its sandbox */
    enum process_phase phase;
    bool end_reported; /* the backend has reported its end */
    bool counts;       /* counted in the sandbox's programs */
    bool held;         /* reading is suspended: a watcher is far behind */
    unsigned signals;  /* that were sent and may not be delivered yet */
    bool attaching;    /* found after a restart: its descriptors are on their way … */
    bool parked;       /* … as soon as its sandbox, which is paused, is resumed */

    struct arena arena; /* holds the data of the request */
    struct process_request request;
    uint64_t cookie;
    uint32_t proc;
    int pid;
    int64_t started_ns, exited_ns;
    struct backend_end end;
    char end_msg[PROCESS_MSG_MAX];

    /* starting */
    struct process_op *op;
    struct actor who;
    struct command_run *command; /* its record; NULL: none, or complete */
    char command_id[ID_MAX];     /* "": none */
    struct sandbox_op active;
    unsigned waits;
    int r;
    struct err err;

    struct backend_process backend;
    struct process_stream stream[BACKEND_STDIO_MAX];
    struct loop_timer drain;
    struct process_output output;
    struct quota_hold kept, counted; /* bytes of its output; itself */
    struct list watchers;
    struct loop_timer stall;
    struct buf detail; /* of the event that is being recorded */
    struct buf spec;   /* of the row that is being recorded */
};

/* --- processes.c --- */
struct process *process_new(struct sandbox *s);
/* The quota holder for processes of the sandbox, whose account is `a`. */
struct quota_who process_holder(const struct sandbox *s, const struct account *a);
void process_open_output(struct process *p, enum output_mode mode);
void process_bound_output(struct process *p); /* charges its output files from now on */
/* Removes it from its sandbox. Watchers can read to its end, also from files that were unlinked. */
void process_remove(struct process *p);
int process_read_spec(struct process *p, struct str spec, struct err *e);
void process_count(struct process *p); /* counts it as a running program */
/* It has ended: reads the rest of its output, then records the end. */
void process_on_end(struct process *p, const struct backend_end *end);
void process_finish(struct process *p);     /* without waiting for further output */
void process_fail_start(struct process *p); /* the box was torn down before it answered */
extern const struct backend_process_events process_backend_events;

/* --- process_io.c --- */
void io_take(struct process *p); /* takes the descriptors from the backend */
void io_start(struct process *p);
void io_update(struct process *p);      /* applies changed read and write interests */
bool io_reads(const struct process *p); /* whether a stream may have further output */
void io_drain(struct process *p);       /* reads the available output */
void io_close(struct process *p);       /* and stops its timers */

/* --- watcher.c --- */
void watchers_wake(struct process *p); /* there is output to read, or it ended */
void watchers_room(struct process *p);
void watchers_leave(struct process *p); /* detaches all, without a callback */

#endif
