/* ext.local from inside: sandboxes of our own runtime on this machine. Private to the module.
 *
 *     local.c            the row of the registry, the instance, and what earlier lives left behind
 *     local_box.c        the life of one box, and everything that is told about it
 *     local_channel.c    its control connection to the PID 1 inside
 *     local_process.c    what runs in it
 *     local_start.c      a start request as PID 1 wants it: user, environment
 *     local_egress.c     the sockets of its network boundary, and who holds a connection
 *     local_dial.c       connections to its ports
 *     local_hold.c       how it is brought to a standstill, and what it has written
 *     local_assign.c     how one that was prepared gets its owner
 *     local_end.c        how it is taken down
 *     local_launcher.c   the launchers, which build and remove
 *     local_plan.c       profile and spec as a launch plan
 *     local_run_dir.c    what is on disk: run/ID/ in the state directory
 *
 * The directory of a sandbox is made before a launcher is asked for it and removed after one has
 * confirmed that it is gone. So whatever a crash leaves, its id is in run/, and what is not there
 * is not ours. */
#ifndef EXTENSIONS_LOCAL_H
#define EXTENSIONS_LOCAL_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "extensions/extension.h"
#include "ipc/control.h"
#include "loop/fd.h"
#include "loop/list.h"
#include "loop/timer.h"
#include "runtime/launcher.h"
#include "runtime/supervisor.h"

enum {
    LOCAL_LAUNCHERS = 2,      /* they build at the same time, so as many as there are processors */
    LOCAL_WINDOW = 4,         /* requests that one launcher has not answered yet */
    LOCAL_LAUNCHER_TRIES = 6, /* launchers in a row that die without having answered anything */
    LOCAL_SWEEP_AT_ONCE = 16,
    LOCAL_OUTBOX_MAX = 4096, /* messages that wait for a PID 1 that does not read */
    LOCAL_SLOTS_MAX =
        1 << 15, /* PID 1 has fewer rows; the others failed and are told in this batch */
    LOCAL_DEFAULTS_MAX = 128 << 10,
    LOCAL_WHO_MAX = CONTROL_WHO_MAX, /* questions that PID 1 has not answered yet */
    LOCAL_DIALS_MAX = 1024,          /* connections likewise */
};

#define LOCAL_READY_NS    (20 * NS_PER_S)   /* for the probe to run inside */
#define LOCAL_ADOPT_NS    (10 * NS_PER_S)   /* for PID 1 to tell what it has */
#define LOCAL_ANSWER_NS   (60 * NS_PER_S)   /* for a launcher's next answer */
#define LOCAL_LAST_ASK_NS (100 * NS_PER_MS) /* for PID 1 to say what was used, before it dies */
#define LOCAL_DEATH_NS    (5 * NS_PER_S)    /* for a sandbox to end itself */
#define LOCAL_RETRY_NS    (20 * NS_PER_MS)  /* before the second launcher in a row; then doubled */

struct extension;
struct local_box;

/* --- What is on disk (local_run_dir.c). ---
 *
 *     run/ID/control     the socket that PID 1 listens on
 *     run/ID/defaults    user, working directory and environment of its programs
 *     run/ID/still       it may be frozen
 */
struct run_dir {
    int fd;
};

int run_dir_open(struct run_dir *d, int state, struct err *e);
void run_dir_done(struct run_dir *d);
int run_dir_make(const struct run_dir *d, const char *id,
                 struct err *e); /* -ERR_CONFLICT: is there */
int run_dir_remove(const struct run_dir *d, const char *id,
                   struct err *e); /* nothing there is fine */
bool run_dir_has(const struct run_dir *d, const char *id);
/* It listens already, so that whoever comes after a crash need not guess whether the sandbox will
 * still come up: a connection waits as long as anybody holds the socket, and ends with the last of
 * them. */
int run_dir_bind(const struct run_dir *d, const char *id, int *ret, struct err *e);
/* A connection that does not block; -ERR_NOT_FOUND if nobody listens. */
int run_dir_connect(const struct run_dir *d, const char *id, int *ret, struct err *e);
int run_dir_save(const struct run_dir *d, const char *id, struct str defaults, struct err *e);
int run_dir_load(const struct run_dir *d, const char *id, struct buf *ret, struct err *e);
int run_dir_mark(const struct run_dir *d, const char *id, bool still, struct err *e);
bool run_dir_marked(const struct run_dir *d, const char *id);
int run_dir_each(const struct run_dir *d, void (*each)(void *user, const char *id), void *user,
                 struct err *e);

/* --- Plans (local_plan.c). --- */
struct local_plan {
    struct plan plan;
    int fds[2 + PLAN_LAYERS_MAX + PLAN_MOUNTS_MAX]; /* the plan's, in its order */
    size_t n;
};

enum { LOCAL_FD_CONTROL, LOCAL_FD_LISTENER }; /* -1 until just before it is sent */

struct cgroup_owner local_owner(const struct ext_owner *o);
int local_plan_new(const struct ext_context *c, const char *id, const struct ext_spec *s,
                   struct local_plan **ret, struct err *e);
void local_plan_free(struct local_plan *p);
void local_plan_freep_(struct local_plan **p);

/* --- Starts (local_start.c). --- */
/* What every start in a box begins with: strings, each ended by NUL: user, working directory,
 * variables. It is kept on disk, because a box outlives the profile that it was made from. */
int local_defaults_write(const struct ext_spec *s, struct buf *ret, struct err *e);
bool local_defaults_valid(struct str defaults);
/* The working directory among valid ones; "": the home of the user. */
const char *local_usual_cwd(struct str defaults);
const char *local_usual_user(const struct ext_spec *s);

/* Texts are borrowed from both or on the arena. */
int local_start_fill(struct str defaults, const struct ext_start *s, struct arena *a,
                     struct supervisor_start *ret, struct err *e);

/* --- Launchers (local_launcher.c). --- */
struct local_request {
    struct link link;
    struct lane *lane; /* NULL: not under way */
    enum launch_type type;
    bool sent;
};

/* One launcher, and the next one when it dies. */
struct lane {
    struct extension *x;
    struct launcher launcher;
    uint32_t life; /* counts launchers: what an earlier one has made is a stranger to this one */
    struct loop_fd fd;
    struct loop_timer timer; /* the next answer, or the next try, is due */
    struct loop_later later;
    struct list assigns, destroys, creates; /* not sent yet */
    struct list sent;                       /* not answered yet */
    size_t n_sent, n;                       /* sent; all */
    unsigned tries;
    struct err why; /* of the last failure */
};

void local_lane_init(struct lane *l, struct extension *x);
void local_lane_done(struct lane *l);
/* The answer comes through local_created(), local_destroyed() and so on, from the loop. */
void local_lane_create(struct extension *x, struct local_box *b);
void local_lane_destroy(struct extension *x, struct local_box *b);
void local_lane_hold(struct extension *x, struct local_box *b, bool freeze);
void local_lane_assign(struct local_box *b); /* to the launcher that made it */
/* Takes a request back that was not sent: true. Otherwise it goes on. */
bool local_request_cancel(struct local_request *q);

/* --- Processes (local_process.c). --- */
struct slot {
    struct ext_process *p; /* NULL: dropped, or kept and nobody's */
    struct err *failed;    /* a start that was not sent: why; told from the loop */
    uint32_t turn;         /* how often the slot was used */
    uint32_t proc;         /* 0 until it started */
    int32_t pid;
    uint16_t next; /* free, or of the same bucket */
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

/* Tags lead to slots and processes' names to tags without a search. Indexes count from 1. */
struct process_table {
    struct slot *slots;
    uint16_t *buckets; /* by `proc`, as many as there are slots */
    uint16_t cap, free, failed;
};

enum {
    TAG_SLOT_BITS = 16, /* the rest is the slot's turn; 0 in the slot's place: one of these */
    TAG_NOBODY = 0,
    TAG_LIST = 1 << TAG_SLOT_BITS,
    TAG_USAGE = 2 << TAG_SLOT_BITS,
    TAG_LAST_USAGE = 3 << TAG_SLOT_BITS,
    TAG_LISTENERS = 4 << TAG_SLOT_BITS,
    TAG_UPPER = 5 << TAG_SLOT_BITS,
    TAG_STAND = 6 << TAG_SLOT_BITS,
    TAG_JOIN = 7 << TAG_SLOT_BITS,
    TAG_WHO_FIRST = 1 << 8, /* in the turn's place: one of the questions who holds a socket */
    TAG_WHO_COUNT = (1 << 15) - TAG_WHO_FIRST,
    TAG_DIAL_FIRST = 1 << 15, /* likewise: one of the connections that are being made */
    TAG_DIAL_COUNT = 1 << 15,
};

void local_process_start(struct local_box *b, struct ext_process *p, const struct ext_start *s);
void local_process_signal(struct ext_process *p, int sig, enum ext_scope scope);
void local_process_close_stdin(struct ext_process *p);
void local_process_drop(struct ext_process *p);
void local_process_reattach(struct local_box *b, struct ext_process *p, uint32_t proc);
void local_process_forget(struct local_box *b, uint32_t proc);

/* News from PID 1; descriptors that are not taken stay in fds. */
void local_process_on_started(struct local_box *b, const struct control_started *m,
                              struct ipc_fds *fds);
void local_process_on_attached(struct local_box *b, const struct control_attached *m,
                               struct ipc_fds *fds);
void local_process_on_failed(struct local_box *b, const struct control_failed *m);
void local_process_on_exited(struct local_box *b, const struct control_exited *m);

int local_process_how(uint32_t how); /* enum control_how as enum ext_how */

/* Remembers a kept process that PID 1 has told of. */
void local_process_adopt(struct local_box *b, const struct control_proc *p);
void local_process_tell_failed(struct local_box *b); /* starts that were not sent */
void local_process_lose_all(struct local_box *b, const char *why);
void local_process_table_done(struct local_box *b); /* nothing is told */

/* --- The network boundary (local_egress.c). --- */
struct egress {
    unsigned listeners, lost_listeners; /* answers that are due, and that will not come */
    struct list asked, lost;            /* struct question */
    unsigned n_asked;
    uint32_t last; /* tag of a question */
};

void local_egress_listeners(struct ext_box *b);
void local_egress_who(struct ext_box *b, uint64_t tag, uint64_t inode);
void local_egress_on_listening(struct local_box *b, const struct control_listening *m,
                               struct ipc_fds *fds);
void local_egress_on_who_is(struct local_box *b, const struct control_who_is *m,
                            const struct ipc_fds *fds);
bool local_egress_on_failed(struct local_box *b,
                            const struct control_failed *m); /* false: not asked here */
void local_egress_lose_all(struct local_box *b);             /* what is due will not come */
void local_egress_tell_lost(struct local_box *b);            /* from the loop */
void local_egress_done(struct local_box *b);                 /* nothing is told */

/* --- Connections to ports (local_dial.c). --- */
struct dials {
    struct list asked, lost; /* struct ext_dial */
    unsigned n_asked;
    uint32_t last; /* tag */
};

void local_dial(struct ext_box *b, struct ext_dial *d, uint16_t port, int family);
void local_dial_drop(struct ext_dial *d);
void local_dial_on_dialled(struct local_box *b, const struct control_head *m, struct ipc_fds *fds);
bool local_dial_on_failed(struct local_box *b, const struct control_failed *m);
void local_dial_lose_all(struct local_box *b);
void local_dial_tell_lost(struct local_box *b); /* from the loop */
void local_dial_done(struct local_box *b);      /* nothing is told */

/* --- Standing still (local_hold.c). --- */
void local_freeze(struct ext_box *b);
void local_thaw(struct ext_box *b);
void local_upper(struct ext_box *b);
void local_hold_on_stood(struct local_box *b, const struct control_stood *m);
void local_hold_on_upper(struct local_box *b, const struct control_head *m, struct ipc_fds *fds);
bool local_hold_on_failed(struct local_box *b, const struct control_failed *m); /* as above */
void local_hold_tell(struct local_box *b);                                      /* from the loop */
void local_hold_lose_all(struct local_box *b);
void local_hold_tell_lost(struct local_box *b);
void local_hold_done(struct local_box *b);
/* From launchers. */
void local_held(struct local_box *b);
void local_hold_failed(struct local_box *b, int r, const struct err *e);
void local_hold_lost(struct local_box *b);

/* --- The owner of a prepared box (local_assign.c). --- */
void local_assign(struct ext_box *b, const struct ext_owner *o);
void local_assign_on_joined(struct local_box *b);
/* From launchers. What becomes of the box is told by PID 1, which ends if it gets no groups. */
void local_assign_failed(struct local_box *b, const struct err *e);
void local_assign_tell_lost(struct local_box *b);  /* from the loop; PID 1 ended, or is to end */
bool local_is_stranger(const struct local_box *b); /* no launcher that lives has made it */

/* --- A box. --- */
enum local_state {
    BOX_OFF, /* not there; or of an earlier life or a failed end, which only its directory tells */
    BOX_CREATING,
    BOX_UP,
    BOX_ADOPTING,
    BOX_ENDING,
};

/* What the owner waits for. */
enum local_asked {
    ASKED_PROVISION = 1 << 0,
    ASKED_READY = 1 << 1,
    ASKED_ADOPT = 1 << 2,
    ASKED_TEARDOWN = 1 << 3,
    ASKED_FREEZE = 1 << 4,
    ASKED_THAW = 1 << 5,
};

enum local_probe { PROBE_NONE, PROBE_RUNS, PROBE_DONE };

struct local_box {
    struct ext_box ext;
    struct extension *x;
    enum local_state state;
    unsigned asked; /* enum local_asked */
    unsigned holds; /* functions on the stack and requests under way that know this box */
    bool freed;
    bool gone;            /* it died by itself, and that was not told yet */
    unsigned usages;      /* answers that are due */
    unsigned lost_usages; /* … and will not come */
    struct egress egress;
    struct dials dials;
    int64_t cpu_ns;
    struct ext_report report; /* of the end of what was there */
    int r, end_r, probe_r;    /* of the last failure; of the last end; of the last probe */
    struct err why, end_why, assign_why, held_why; /* of failures; code ERR_OK: none */
    struct loop_later later;
    struct loop_timer timer; /* of the state, or of the probe */
    struct link link;        /* swept */

    struct buf defaults;
    struct local_plan *plan; /* until it is sent */
    struct local_request create, destroy, hold, assign;
    struct cgroup_owner owner;
    bool prepared;     /* it has no owner yet */
    bool joining;      /* PID 1 has not entered the groups of its owner yet … */
    bool freeze_waits; /* … and is to be frozen then */
    bool held;         /* what became of freezing or thawing is to be told */
    int held_r;
    struct loop_timer stand; /* the next look whether everything stands still */
    int64_t stand_by;
    unsigned uppers, lost_uppers; /* answers that are due, and that will not come */
    struct lane *maker;           /* whose launcher made it, in that life */
    uint32_t maker_life;

    struct loop_fd control; /* .fd is -1: none */
    struct list outbox;
    unsigned n_outbox;
    struct process_table processes;
    struct ext_process probe;
    enum local_probe probed;
    bool makes_workdir;   /* the first half of the probe … */
    bool workdir_by_user; /* … as the usual user, since there is no root inside */

    struct loop_fd death; /* a pidfd of PID 1, while it ends */
    bool told_to_end;     /* … or it cannot be told */
    bool death_sure;      /* it is known to be that of PID 1 */
};

struct extension {
    const struct ext_context *c;
    struct run_dir run;
    struct lane lanes[LOCAL_LAUNCHERS];
    struct list strays, sweeping;
    unsigned n_sweeping;
};

static inline struct local_box *local_box_of(struct ext_box *b)
{
    return container_of(b, struct local_box, ext);
}

/* local_box.c. A box that its owner has freed lives on while it is held. */
struct ext_box *local_box_new(struct extension *x, const char *id,
                              const struct ext_box_events *events, void *owner);
void local_box_free(struct ext_box *b);
void local_provision(struct ext_box *b, const struct ext_spec *s);
void local_wait_ready(struct ext_box *b);
void local_adopt(struct ext_box *b, const char *handle);
void local_teardown(struct ext_box *b);
void local_usage(struct ext_box *b);
bool local_alive(struct ext_box *b);
/* It was found frozen and goes on now; by_pid1: that is still to be told to its PID 1. */
void local_adopt_thawed(struct local_box *b, bool by_pid1);

void local_hold(struct local_box *b);
void local_release(struct local_box *b);
void local_soon(struct local_box *b); /* tells from the loop what is due */

/* From launchers. */
int local_prepare(struct local_box *b, struct err *e); /* just before the plan is sent */
void local_created(struct local_box *b, const struct launch_created *m);
void local_create_failed(struct local_box *b, int r, const struct err *e, const char *step);
void local_create_lost(struct local_box *b, const struct err *e); /* may exist or not */

/* From the control connection. */
void local_on_procs(struct local_box *b, const struct control_procs *m);
void local_on_used(struct local_box *b, const struct control_used *m);
void local_tell_oom(struct local_box *b,
                    uint32_t kills); /* what PID 1 counts; 0: nothing to tell */
void local_on_refused(struct local_box *b, const struct control_failed *m); /* one of the two */
void local_on_end(struct local_box *b, int r, const struct err *e); /* it is closed already */

/* The end: of what the owner waited for, of a create or of the box itself. */
void local_ended(struct local_box *b, int r, const struct err *e);

/* local_channel.c */
int local_channel_open(struct local_box *b, int sock, struct err *e); /* takes sock */
void local_channel_close(struct local_box *b);
static inline bool local_channel_is_open(const struct local_box *b)
{
    return b->control.fd >= 0;
}
/* Sends, now or as soon as there is room. A connection that broke ends through the loop. */
void local_channel_post(struct local_box *b, const void *message, size_t n);
void local_channel_post_ask(struct local_box *b, enum control_type type, uint32_t tag);
void local_channel_post_one(struct local_box *b, enum control_type type, uint32_t tag,
                            uint32_t proc);
void local_channel_post_kill(struct local_box *b, uint32_t proc, int sig, enum control_scope scope);
int local_channel_start(struct local_box *b, uint32_t tag, const struct supervisor_start *s,
                        struct err *e); /* -ERR_BUSY: there is no room */

/* local_end.c */
void local_end_begin(struct local_box *b);
void local_end_on_used(struct local_box *b);
void local_end_on_close(struct local_box *b);
void local_end_stop(struct local_box *b); /* lets go of what it waits for */
void local_destroyed(struct local_box *b, const struct launch_destroyed *m);
void local_destroy_failed(struct local_box *b, int r, const struct err *e);
void local_destroy_lost(struct local_box *b);

#endif
