/* SPDX-License-Identifier: Apache-2.0 */
/* The backend ext.local: sandboxes of our own runtime on this machine. Private to the module.
 *
 *     local.c      the row of the registry, the instance, and leftovers of earlier daemon runs
 *     box.c        the life cycle of one box, and its events
 *     channel.c    its control connection to the PID 1 inside
 *     process.c    its processes
 *     egress.c     the sockets of its network boundary, and the holders of a connection
 *     dial.c       connections to its ports
 *     hold.c       freezing, and access to its writable layer
 *     assign.c     gives a prepared box its owner
 *     teardown.c   its end
 *     launcher.c   the launchers, which build and remove
 *     plan.c       translates profile and spec to a launch plan
 *     run_dir.c    state on disk: run/ID/ in the state directory
 *
 * The directory of a sandbox is made before a launcher builds it and removed after a launcher has
 * confirmed its removal. So after any crash the ids of all remains are in run/, and other ids are
 * not ours. */
#ifndef BACKENDS_LOCAL_LOCAL_H
#define BACKENDS_LOCAL_LOCAL_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "backends/backend.h"
#include "backends/defaults.h"
#include "lib/ipc/control.h"
#include "lib/loop/fd.h"
#include "lib/loop/list.h"
#include "lib/loop/timer.h"
#include "engine/runtime/launcher.h"
#include "engine/runtime/supervisor.h"

enum {
    LOCAL_LAUNCHERS = 2,      /* they build in parallel: about one per processor */
    LOCAL_WINDOW = 4,         /* pending requests of one launcher */
    LOCAL_LAUNCHER_TRIES = 6, /* launchers in a row that die before an answer */
    LOCAL_SWEEP_AT_ONCE = 16,
    LOCAL_OUTBOX_MAX = 4096, /* queued messages for a PID 1 that does not read */
    LOCAL_SLOTS_MAX =
        1 << 15, /* PID 1 has fewer rows; the others failed and are reported in this batch */
    LOCAL_WHO_MAX = CONTROL_WHO_MAX, /* pending queries of PID 1 */
    LOCAL_DIALS_MAX = 1024,          /* pending connections */
};

#define LOCAL_READY_NS    (20 * NS_PER_S)   /* for the probe to run inside */
#define LOCAL_ADOPT_NS    (10 * NS_PER_S)   /* for PID 1 to list its processes */
#define LOCAL_ANSWER_NS   (60 * NS_PER_S)   /* for a launcher's next answer */
#define LOCAL_LAST_ASK_NS (100 * NS_PER_MS) /* for PID 1 to report its usage, before it is killed */
#define LOCAL_DEATH_NS    (5 * NS_PER_S)    /* for a sandbox to end itself */
#define LOCAL_RETRY_NS                                                                             \
    (20 * NS_PER_MS) /* before the second launcher in a row; doubled each
                                               time */

struct backend;
struct local_box;

/* --- State on disk (run_dir.c). ---
 *
 *     run/ID/control     the socket that PID 1 listens on
 *     run/ID/defaults    user, working directory and environment of its programs
 *     run/ID/still       it may be frozen */
struct run_dir {
    int fd;
};

int run_dir_open(struct run_dir *d, int state, struct err *e);
void run_dir_done(struct run_dir *d);
int run_dir_make(const struct run_dir *d, const char *id,
                 struct err *e); /* -ERR_CONFLICT: it exists */
int run_dir_remove(const struct run_dir *d, const char *id,
                   struct err *e); /* succeeds if it does not exist */
bool run_dir_has(const struct run_dir *d, const char *id);
/* The socket listens already, so that a client after a crash need not know whether the sandbox will
 * still start: its connection waits as long as a process holds the socket, and ends with the last
 * of them. */
int run_dir_bind(const struct run_dir *d, const char *id, int *ret, struct err *e);
/* A non-blocking connection; -ERR_NOT_FOUND if no process listens. */
int run_dir_connect(const struct run_dir *d, const char *id, int *ret, struct err *e);
int run_dir_save(const struct run_dir *d, const char *id, struct str defaults, struct err *e);
int run_dir_load(const struct run_dir *d, const char *id, struct buf *ret, struct err *e);
int run_dir_set_frozen(const struct run_dir *d, const char *id, bool still, struct err *e);
bool run_dir_is_frozen(const struct run_dir *d, const char *id);
int run_dir_each(const struct run_dir *d, void (*each)(void *user, const char *id), void *user,
                 struct err *e);

/* --- Plans (plan.c). --- */
struct local_plan {
    struct plan plan;
    int fds[3 + PLAN_LAYERS_MAX + PLAN_MOUNTS_MAX]; /* of the plan, in its order */
    size_t n;
};

enum { LOCAL_FD_CONTROL, LOCAL_FD_LISTENER }; /* -1 until just before it is sent */

struct cgroup_owner local_owner(const struct backend_owner *o);
int local_plan_new(const struct backend_context *c, const char *id, const struct backend_spec *s,
                   struct local_plan **ret, struct err *e);
void local_plan_free(struct local_plan *p);
void local_plan_freep_(struct local_plan **p);

/* --- Launchers (launcher.c). --- */
struct local_request {
    struct link link;
    struct local_lane *lane; /* NULL: not queued */
    enum launch_type type;
    bool sent;
};

/* A launcher, and its successors when it dies. */
struct local_lane {
    struct backend *x;
    struct launcher launcher;
    uint32_t generation; /* counts launchers: boxes of an earlier one are foreign to this one */
    struct loop_fd fd;
    struct loop_timer timer; /* timeout of the next answer, or delay of the next attempt */
    struct loop_later later;
    struct list assigns, destroys, creates; /* not sent yet */
    struct list sent;                       /* not answered yet */
    size_t n_sent, n;                       /* sent; all */
    unsigned tries;
    struct err why; /* of the last failure */
};

void local_lane_init(struct local_lane *l, struct backend *x);
void local_lane_done(struct local_lane *l);
/* Queues a request (CREATE, DESTROY, ASSIGN, FREEZE, THAW). The answer is reported through
 * local_on_created(), local_on_destroyed() and so on, from the loop. ASSIGN is sent to the launcher
 * that made the box. */
void local_lane_ask(struct local_box *b, enum launch_type type);
/* Cancels a request that was not sent: true. Otherwise it continues. */
bool local_request_cancel(struct local_request *q);

/* --- The control connection (channel.c). --- */
struct local_channel {
    struct loop_fd fd; /* .fd -1: none */
    struct list outbox;
    unsigned n_outbox;
};

/* Handles a message of PID 1; descriptors that are not taken stay in fds. */
typedef void local_message_fn(struct local_box *b, const union supervisor_message *m,
                              struct ipc_fds *fds);

/* Requests of one kind to PID 1 that have the same answer each. */
struct local_answers {
    unsigned pending;
    unsigned lost; /* reported from the loop */
};

int local_channel_open(struct local_box *b, int sock, struct err *e); /* takes sock */
void local_channel_close(struct local_box *b);
bool local_channel_is_open(const struct local_box *b);
bool local_is_reachable(const struct local_box *b); /* it is up, and the connection open */
/* Sends now or as soon as there is room. A broken connection is reported by the loop. */
void local_channel_post(struct local_box *b, const void *message, size_t n);
void local_channel_post_request(struct local_box *b, enum control_type type, uint32_t tag);
void local_channel_post_one(struct local_box *b, enum control_type type, uint32_t tag,
                            uint32_t proc);
/* The answer has the tag: local_process_on_killed(). */
void local_channel_post_kill(struct local_box *b, uint32_t tag, uint32_t proc, int sig,
                             enum control_scope scope);
int local_channel_start(struct local_box *b, uint32_t tag, const struct process_start *s,
                        struct err *e); /* -ERR_BUSY: the queue is full */
/* Sends a request whose answer is pending then; at once lost if the box is not up. */
void local_answers_ask(struct local_box *b, struct local_answers *a, enum control_type type,
                       uint32_t tag);
bool local_answers_take(struct local_answers *a); /* an answer came; false: none is pending */
void local_answers_lose(struct local_answers *a); /* all pending ones */
/* Takes a lost one, which the caller reports; false: none, or the box is freed. */
bool local_answers_take_lost(struct local_box *b, struct local_answers *a);

/* --- Processes (process.c). --- */
struct process_slot {
    struct backend_process *p; /* NULL: dropped, or kept without an owner */
    struct err *failed;        /* why a start was not sent; reported from the loop */
    uint32_t turn;             /* number of uses of the slot */
    uint32_t proc;             /* 0 until it started */
    int32_t pid;
    uint16_t next; /* next free slot, or next of the same bucket */
    uint16_t next_failed;
    bool used, kept, has_stdin, tty;
    bool started, attaching, ended, close_stdin;
    int16_t sig; /* to send as soon as it has started; 0: none */
    uint8_t scope;
    uint32_t how;
    int32_t status, sys;
    uint32_t oom_kills;
    int64_t cpu_ns, peak_bytes;
};

/* Maps tags to slots and process numbers to slots without a search. Indexes count from 1. */
struct process_table {
    struct process_slot *slots;
    uint16_t *buckets; /* by `proc`, as many as there are slots */
    uint16_t cap, free, failed;
};

enum {
    TAG_SLOT_BITS = 16, /* the rest is the slot's turn; slot 0: one of these */
    TAG_NONE = 0,
    TAG_LIST = 1 << TAG_SLOT_BITS,
    TAG_USAGE = 2 << TAG_SLOT_BITS,
    TAG_LAST_USAGE = 3 << TAG_SLOT_BITS,
    TAG_LISTENERS = 4 << TAG_SLOT_BITS,
    TAG_UPPER = 5 << TAG_SLOT_BITS,
    TAG_STAND = 6 << TAG_SLOT_BITS,
    TAG_JOIN = 7 << TAG_SLOT_BITS,
    TAG_WHO_FIRST = 1 << 8, /* turn of slot 0: a query for the holders of a socket */
    TAG_WHO_COUNT = (1 << 15) - TAG_WHO_FIRST,
    TAG_DIAL_FIRST = 1 << 15, /* likewise: a pending connection */
    TAG_DIAL_COUNT = 1 << 15,
};

void local_process_start(struct backend_box *b, struct backend_process *p,
                         const struct process_start *s);
void local_process_signal(struct backend_process *p, int sig, enum backend_scope scope);
void local_process_close_stdin(struct backend_process *p);
int local_process_resize(struct backend_process *p, int terminal, uint16_t rows, uint16_t cols,
                         struct err *e);
void local_process_drop(struct backend_process *p);
void local_process_reattach(struct backend_box *b, struct backend_process *p, uint32_t proc);
void local_process_forget(struct backend_box *b, uint32_t proc);

local_message_fn local_process_on_started, local_process_on_attached, local_process_on_exited,
    local_process_on_killed;
void local_process_on_failed(struct local_box *b, const struct control_failed *m);

int local_process_how(uint32_t how); /* enum control_how as enum backend_how */

/* Adds a kept process that PID 1 has listed. */
void local_process_adopt(struct local_box *b, const struct control_proc *p);
void local_process_report_failed(struct local_box *b); /* of starts that were not sent */
void local_process_lose_all(struct local_box *b, const char *why);
void local_process_table_done(struct local_box *b); /* reports nothing */

/* --- The network boundary (egress.c). --- */
struct local_egress {
    struct local_answers listeners;
    struct list pending, lost; /* struct owner_query */
    unsigned n_pending;
    uint32_t last; /* of a query's tag */
};

void local_egress_listeners(struct backend_box *b);
void local_egress_who(struct backend_box *b, uint64_t tag, uint64_t inode);
local_message_fn local_egress_on_listening, local_egress_on_who_is;
bool local_egress_on_failed(struct local_box *b,
                            const struct control_failed *m); /* false: not a request of this file */
void local_egress_lose_all(struct local_box *b);             /* marks pending answers as lost */
void local_egress_report_lost(struct local_box *b);          /* from the loop */
void local_egress_done(struct local_box *b);                 /* reports nothing */

/* --- Connections to ports (dial.c). --- */
struct local_dials {
    struct list pending, lost; /* struct backend_dial */
    unsigned n_pending;
    uint32_t last; /* tag */
};

void local_dial(struct backend_box *b, struct backend_dial *d, uint16_t port, int family);
void local_dial_drop(struct backend_dial *d);
local_message_fn local_dial_on_dialled;
bool local_dial_on_failed(struct local_box *b, const struct control_failed *m);
void local_dial_lose_all(struct local_box *b);
void local_dial_report_lost(struct local_box *b); /* from the loop */
void local_dial_done(struct local_box *b);        /* reports nothing */

/* --- Freezing, and the writable layer (hold.c). --- */
struct local_hold {
    struct local_request request;
    bool waits; /* for PID 1 to enter the groups of its owner */
    bool due;   /* a result must be reported */
    int r;
    struct err why;
    struct loop_timer poll; /* the next check whether all processes are stopped */
    int64_t deadline;
    struct local_answers uppers;
};

void local_freeze(struct backend_box *b);
void local_thaw(struct backend_box *b);
void local_upper(struct backend_box *b);
local_message_fn local_hold_on_stood, local_hold_on_upper;
bool local_hold_on_failed(struct local_box *b, const struct control_failed *m); /* as above */
void local_hold_report(struct local_box *b);                                    /* from the loop */
void local_hold_lose_all(struct local_box *b);
void local_hold_report_lost(struct local_box *b);
void local_hold_done(struct local_box *b);
/* From launchers. */
void local_on_held(struct local_box *b);
void local_on_hold_failed(struct local_box *b, int r, const struct err *e);
void local_on_hold_lost(struct local_box *b);

/* --- The owner of a prepared box (assign.c). --- */
struct local_assign {
    struct local_request request;
    struct cgroup_owner owner;
    bool prepared;  /* it has no owner yet */
    bool joining;   /* PID 1 has not entered the groups of its owner yet */
    struct err why; /* of the launcher's failure */
};

void local_assign(struct backend_box *b, const struct backend_owner *o);
local_message_fn local_assign_on_joined;
void local_assign_report_lost(struct local_box *b); /* from the loop; PID 1 has exited or will
                                                       exit */
bool local_is_foreign(const struct local_box *b);   /* no running launcher has made it */

/* --- Teardown (end.c). --- */
struct local_end {
    struct local_request request; /* to remove the rest */
    int r;
    struct err why;
    struct backend_report report; /* of the last teardown */
    struct loop_fd death;         /* pidfd of PID 1 */
    bool death_sure;              /* … which is known to be PID 1's */
    bool requested;               /* PID 1 was asked to end, or cannot be reached */
};

void local_end_begin(struct local_box *b);
void local_end_on_used(struct local_box *b);
void local_end_on_close(struct local_box *b);
void local_end_stop(struct local_box *b); /* stops its timer, pidfd and request */
void local_on_destroyed(struct local_box *b, const struct launch_destroyed *m);
void local_on_destroy_lost(struct local_box *b);

/* --- A box. --- */
enum local_state {
    BOX_OFF, /* does not exist; or known only by its directory, from an earlier run or a failed
                teardown */
    BOX_CREATING,
    BOX_UP,
    BOX_ADOPTING,
    BOX_ENDING,
};

/* Events that the owner waits for. */
enum local_pending {
    PENDING_PROVISION = 1 << 0,
    PENDING_READY = 1 << 1,
    PENDING_ADOPT = 1 << 2,
    PENDING_TEARDOWN = 1 << 3,
    PENDING_FREEZE = 1 << 4,
    PENDING_THAW = 1 << 5,
};

/* The probe that reports `ready`. */
enum probe_state { PROBE_NONE, PROBE_RUNS, PROBE_DONE };
struct local_probe {
    struct backend_process process;
    enum probe_state state;
    int r;
    bool makes_workdir;   /* its first half … */
    bool workdir_by_user; /* … as the default user, if there is no root inside */
};

struct local_box {
    struct backend_box backend;
    struct backend *x;
    enum local_state state;
    unsigned pending; /* enum local_pending */
    unsigned refs;    /* functions on the stack and pending requests that refer to this box */
    bool freed;
    bool gone; /* it died by itself, which is not reported yet */
    int r;     /* of the last failure, with its reason */
    struct err why;
    struct loop_later later; /* reports due events */
    struct loop_timer timer; /* timeout of the state, or of the probe */
    struct link link;        /* in a list of the sweep */

    struct local_plan *plan; /* until it is sent */
    struct local_request create;
    struct local_lane *maker; /* the lane whose launcher made it, in that generation */
    uint32_t maker_generation;
    struct buf defaults; /* of its starts */

    bool other_release;                /* an adopted box: its PID 1 is not of this version … */
    char release[CONTROL_RELEASE_MAX]; /* … but of this one; "" if it does not name it */
    struct local_channel channel;
    struct process_table processes;
    struct local_probe probe;
    struct local_answers usages;
    int64_t cpu_ns; /* the most that was reported */
    struct local_egress egress;
    struct local_dials dials;
    struct local_hold hold;
    struct local_assign assign;
    struct local_end end;
};

struct backend {
    const struct backend_context *c;
    struct run_dir run;
    struct local_lane lanes[LOCAL_LAUNCHERS];
    struct list strays, sweeping;
    unsigned n_sweeping;
};

static inline struct local_box *local_box_of(struct backend_box *b)
{
    return container_of(b, struct local_box, backend);
}

/* box.c. A box that its owner has freed exists while it is referenced. */
struct backend_box *local_box_new(struct backend *x, const char *id,
                                  const struct backend_box_events *events, void *owner);
void local_box_free(struct backend_box *b);
void local_provision(struct backend_box *b, const struct backend_spec *s);
void local_wait_ready(struct backend_box *b);
void local_adopt(struct backend_box *b, const char *handle);
void local_teardown(struct backend_box *b);
void local_usage(struct backend_box *b);
bool local_alive(struct backend_box *b);
/* Continues the adoption of a box that was found frozen; by_pid1: its PID 1 must resume the
 * processes. */
void local_adopt_after_thaw(struct local_box *b, bool by_pid1);

void local_box_ref(struct local_box *b);
void local_box_unref(struct local_box *b);
void local_report_later(struct local_box *b); /* reports due events from the loop */

/* From launchers. */
int local_prepare_create(struct local_box *b, struct err *e); /* just before the plan is sent */
void local_on_created(struct local_box *b, const struct launch_created *m);
void local_on_create_failed(struct local_box *b, int r, const struct err *e, const char *step);
void local_on_create_lost(struct local_box *b, const struct err *e); /* it may exist */

/* From the control connection. */
local_message_fn local_on_procs, local_on_used;
void local_report_oom(struct local_box *b, uint32_t kills); /* counted by PID 1; 0: not reported */
void local_on_refused(struct local_box *b,
                      const struct control_failed *m); /* a failed list or usage
                                                                               request */
void local_on_channel_end(struct local_box *b, int r,
                          const struct err *e); /* the connection is closed already */

/* Finishes a teardown: reports it and all pending operations. */
void local_finish_end(struct local_box *b, int r, const struct err *e);

#endif
