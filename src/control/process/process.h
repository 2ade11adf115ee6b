/* A background process in memory, as the files about processes see it.
 *
 *     STARTING ─→ RUNNING ─→ DRAINING ─→ RECORDING ─→ ENDED
 *        │                  (over: the rest of its output, then its end goes on record)
 *        └─→ DOOMED         (it must not run: killed, and forgotten when it is gone) */
#ifndef CONTROL_PROCESS_H
#define CONTROL_PROCESS_H

#include "control/owner_share.h"
#include "control/processes.h"
#include "control/sandbox.h"

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
    int channel;  /* what is read here is told as this; 0: it is written to only */
    bool writing; /* somebody waits for room */
};

struct process {
    unsigned refs;
    struct control *control;
    struct sandbox *sandbox; /* NULL: destroyed */
    struct link link;        /* in its sandbox */
    enum process_phase phase;
    bool over;   /* the box has told its end */
    bool counts; /* among the sandbox's programs */
    bool held;   /* a watcher is far behind */

    struct arena arena; /* request and cookie are as the spec says */
    struct process_request request;
    uint64_t cookie;
    uint32_t proc;
    int pid;
    int64_t started_ns, exited_ns;
    struct ext_end end;
    char end_msg[PROCESS_MSG_MAX];

    /* the start */
    struct process_op *op;
    struct actor who;
    struct sandbox_op active;
    unsigned waits;
    int r;
    struct err err;

    struct ext_process ext;
    struct process_stream stream[EXT_STDIO_MAX];
    struct loop_timer drain;
    struct output output;
    struct quota_hold kept, counted; /* bytes of its output; itself */
    struct list watchers;
    struct loop_timer stall;
    struct buf detail; /* of its event that is being recorded */
    struct buf spec;   /* of its row that is being recorded */
};

/* --- processes.c --- */
struct process *process_new(struct sandbox *s);
/* Whom its processes count for: the account is that of the sandbox. */
struct quota_who process_holder(const struct sandbox *s, const struct account *a);
void process_bound_output(struct process *p); /* counts the files of its output from now on */
/* From its sandbox. Watchers read on, from files that may have no name any more, to its end. */
void process_remove(struct process *p);
/* Its row's `spec`: what was asked for, how it is found again, and what memory cost it. */
int process_write_spec(const struct process_request *q, uint64_t cookie, int pid,
                       uint32_t oom_kills, struct buf *out, struct err *e);
int process_read_spec(struct process *p, struct str spec, struct err *e);
void process_count(struct process *p); /* it is one of the programs that run */
/* Its end is known: reads the rest, records it. */
void process_over(struct process *p, const struct ext_end *end);
void process_finish(struct process *p); /* without waiting for more output */
void process_doom(struct process *p);
void process_not_started(struct process *p); /* the box went before it answered */
bool process_is_shown(const struct process *p);
extern const struct ext_process_events process_ext_events;

/* --- process_io.c --- */
void io_take(struct process *p); /* the descriptors that the box handed out */
void io_start(struct process *p);
void io_update(struct process *p);      /* what is wanted may have changed */
bool io_reads(const struct process *p); /* there may be more to read */
void io_drain(struct process *p);       /* reads what is there now */
void io_close(struct process *p);

/* --- watcher.c --- */
void watchers_wake(struct process *p); /* there is more to read, or it ended */
void watchers_room(struct process *p);
void watchers_leave(struct process *p); /* detaches them all without a word */

#endif
