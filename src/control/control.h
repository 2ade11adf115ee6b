/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: the lifecycle of sandboxes, on top of backends and a store.
 *
 * Everything here runs on the loop's thread. An operation is a struct that its owner embeds and
 * starts with a call; it calls `done` once, never from inside the starting call. Later changes are
 * published as events. Nothing is reported before it is on disk. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include "backends/backend.h"
#include "control/owner/caller.h"
#include "control/plane/access.h"
#include "control/plane/publish.h"
#include "control/plane/supervisor.h"
#include "domain/config/config.h"
#include "domain/model/process.h"
#include "domain/model/request.h"
#include "domain/profile/catalog.h"
#include "domain/store/store.h"
#include "lib/loop/timer.h"

struct control; /* control/plane/plane.h has its members; private to this module */
struct sandbox;
struct policy_text;
struct policy_bounds;
struct base_image;

struct control_setup {
    struct loop *loop;
    struct thread_pool *work;
    const struct config *config;
    uid_t owner; /* the user who runs the daemon: an administrator like root */
    int state;   /* the state directory */
    struct control_storage storage;
    struct json_strs profiles;       /* directories; later ones override earlier ones */
    struct keyring *keys;            /* of secrets in the store; NULL: they are not sealed */
    struct backend_context backends; /* loop, work and state are filled in from here */
    struct supervisor supervisor;
    void (*on_open)(void *user);
    void *user; /* of on_open */
};

/* Opens the store, loads profiles and recovers the sandboxes of earlier daemon runs: adopts
 * them, or finishes or undoes interrupted operations. Blocks until the store is read; adoption
 * continues in the loop, and on_open is called when every sandbox is settled. Requests may come
 * after that. */
int control_open(const struct control_setup *s, struct control **ret, struct err *e);
/* Leaves sandboxes running. Calls on_closed when no operation is under way. */
void control_close(struct control *c, void (*on_closed)(void *user));

/* Whether nothing needs the daemon: no sandbox, no operation, no job on layers or images, no hub that
 * waits for events. Prepared sandboxes and times of retention do not count. */
bool control_is_idle(struct control *c);

/* Reads the profiles again; the old ones stay if that fails. */
int control_reload_profiles(struct control *c, struct err *e);
/* Reads the hub's headers again; the old ones stay if that fails. */
void control_reload_hub(struct control *c);

/* --- Secrets. --- */

struct keyring;
struct keyring *control_keys(struct control *c); /* NULL: secrets are not sealed */

/* Makes a new key and seals every secret with it; then the older keys are removed from the key
 * file. A crash in between leaves both keys, and the next start finishes. Done is called from the
 * loop, or before the call returns if it fails at once. */
struct rotate_op {
    void (*done)(struct rotate_op *op, int r, const struct err *e);
    struct control *control_;
    struct store_txn txn_;
};
void control_rotate_key(struct control *c, struct rotate_op *op);

/* --- Sandboxes. --- */

/* Egress of a sandbox. */
struct sandbox_egress {
    uint64_t generation; /* of the wanted policy … */
    uint64_t in_force;   /* … and of the one in force; 0: none, everything is denied */
    const char *problem; /* why it is not in force; NULL: it is, or is being applied */
    const char *sandbox; /* the id; both borrowed until the next turn of the loop */
    uint32_t endpoints;
    uint64_t allowed, denied, bytes_out, bytes_in;
};

/* The public state of a sandbox; borrowed until the next turn of the loop. */
struct sandbox_view {
    const struct sandbox_record *record;
    /* Converted to the current wall clock; 0: no deadline. */
    int64_t expires_ns;  /* when it ends if it is not used … */
    int64_t deadline_ns; /* … and when it ends in any case */
    const char *step;    /* of provisioning; "": not provisioning */
    uint64_t memory;     /* its limit; 0: none, or unknown */
    uint32_t oom_kills;  /* counted when everything of it was removed */
};

/* Finds a sandbox by its id, then by its name, then by a unique prefix of its id, among those that
 * the caller may see. A destroyed one is found by its id alone; a name is looked up among the live
 * sandboxes of the caller's owner, also for an administrator. */
struct find_op {
    const struct caller *caller;
    struct str id;
    /* The value of this label is a name, too, and takes precedence over names: finds the newest
     * live sandbox that has it; NULL: no label. */
    const char *label;
    /* The id may be a prefix, of the caller's own sandboxes: for people at a terminal. Live
     * sandboxes come before destroyed ones. */
    bool may_be_short;
    /* out: a live sandbox, referenced for the owner … */
    struct sandbox *sandbox;
    /* … or the record of a destroyed one */
    struct sandbox_record *record;
    void (*done)(struct find_op *op, int r, const struct err *e);
    /* private */
    struct control *control_;
    struct store_query query_;
    struct loop_later later_;
    struct err busy_;
    char text_[ID_MAX];
    char shown_[SANDBOX_NAME_MAX]; /* the id as given, for messages */
    bool is_start_;                /* text_ is an id, or may be a prefix */
};
/* It cannot be cancelled: the owner stays until done, which comes soon. */
void control_find(struct control *c, struct find_op *op);
/* Without waiting: true, and *ret is a reference, if the full id of a live sandbox was given, in any
 * form (base/id.h). */
bool control_find_now(struct control *c, const struct caller *who, struct str id,
                      struct sandbox **ret);
/* The same for a name. */
bool control_find_named(struct control *c, const struct caller *who, struct str name,
                        struct sandbox **ret);
void find_op_done(struct find_op *op); /* releases the results */
/* Fails with this code, for a request on a destroyed sandbox: the message says when and why it
 * ended. */
int record_fail_ended(const struct sandbox_record *r, enum err_code code, struct err *e);

/* Create: done when the sandbox is ready or failed; with no_wait, when it is recorded. If a
 * workspace must be granted by the client's connection, done is not called before the supervisor
 * has answered. */
struct create_op {
    /* in */
    const struct caller *caller;
    const struct create_request *request;
    struct str body;            /* the unparsed request, for the idempotency key */
    struct str idempotency_key; /* empty: none; keys of tokens are private to them */
    bool no_wait;
    const char *recreated_from; /* an id, or NULL */
    /* Dry run: done gets the error that the create would have, assuming that this sandbox is gone.
     * With `repeated`, it was created before. NULL: creates. */
    const struct sandbox *instead_of;
    bool one_shot; /* the caller destroys it; so does the next start of the daemon */
    const struct control_client *client; /* for a workspace; NULL: the caller has no connection */
    const struct json_strs *layers; /* that it is built on, instead of a snapshot's; NULL: none … */
    const struct base_image *base; /* … and the image below them */
    void *fork;                    /* the owner's */
    /* The peer or token that a master approved its network for; or NULL. */
    const char *approved_for;
    /* out */
    struct sandbox_record *record; /* on the arena below; also of a failed sandbox; NULL: none */
    bool repeated;                 /* the key was used before: the result of the first request */
    struct arena arena;
    void (*done)(struct create_op *op, int r, const struct err *e);
    /* Progress, for waiting callers: "provision", "probe", "workspace" with the bytes that were
     * copied. May be NULL. */
    void (*at)(struct create_op *op, const char *step, uint64_t bytes);
    int64_t expires_ns, deadline_ns; /* as in struct sandbox_view, at the time of done */
    /* private */
    struct control *control_;
    struct sandbox *sandbox_;
    struct store_query query_;
    struct find_op find_;
    struct loop_later later_;
    struct link link_;
    unsigned char digest_[32];
    char first_[ID_MAX];
    bool assigned_;   /* its prepared box was assigned ahead */
    bool unpooled_;   /* handing over a prepared box failed: a new one is built */
    char key_[128];   /* as in the store */
    bool shared_key_; /* a key of the owner, from before tokens had their own */
    bool other_body_;
    struct control_request granting_; /* of the workspace, for a dry run */
};
/* Everything that op points to must stay until done. It cannot be cancelled: if the client leaves,
 * the owner still waits for done. */
void control_create(struct control *c, struct create_op *op);

/* The effects of a create request, without creating anything: for approval decisions. */
struct create_plan {
    struct policy_text *policy; /* referenced; NULL: no network */
    int64_t ttl_ns, memory_mb, cpu_milli;
    enum workspace_access access; /* to the workspace; ASK_ACCESS_NONE: no workspace */
};
int control_plan(struct control *c, const struct create_op *op, struct create_plan *ret,
                 struct err *e);
void create_plan_done(struct create_plan *p);

struct sandbox *sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);
struct sandbox_view sandbox_view(const struct sandbox *s);
enum sandbox_state sandbox_state(const struct sandbox *s);
/* The default working directory of programs; NULL: the home of their user. */
const char *sandbox_workdir(const struct sandbox *s);
/* As in struct sandbox_view. */
int64_t control_expires_ns(const struct control *c, const struct sandbox_record *r);
int64_t control_deadline_ns(const struct control *c, const struct sandbox_record *r);

/* One operation on a sandbox. */
struct sandbox_op;
typedef void sandbox_op_fn(struct sandbox_op *op, int r, const struct err *e);
struct sandbox_op {
    struct sandbox *sandbox; /* referenced while it is under way */
    sandbox_op_fn *done;
    struct link link_;
    struct loop_later later_;
    int r_;
    struct err err_;
};

enum destroy_sync {
    DESTROY_USUAL, /* workspace.at_end of its request: a sync, or a comparison */
    DESTROY_SYNC,
    DESTROY_NO_SYNC,
    DESTROY_FORCE_SYNC,
    DESTROY_COMPARE, /* nothing is brought back: each change counts as one that cannot be */
};
/* The treatment of changes of the workspace that cannot be brought back; in ascending order of
 * permissiveness. */
enum destroy_unsynced {
    DESTROY_REFUSE, /* the sandbox is not destroyed: -ERR_CONFLICT */
    DESTROY_KEEP,   /* stored as a snapshot of its owner; if that fails, the sandbox stays paused */
    DESTROY_DISCARD, /* they are lost */
};
/* Done when it is destroyed. May be called repeatedly. Changes that cannot be brought back are
 * kept. */
void sandbox_destroy(struct sandbox *s, const struct actor *who, const char *reason,
                     enum destroy_sync sync, struct sandbox_op *op);
void sandbox_destroy_as(struct sandbox *s, const struct actor *who, const char *reason,
                        enum destroy_sync sync, enum destroy_unsynced unsynced,
                        struct sandbox_op *op);
/* Its changes could be neither brought back nor stored: only a destroy that discards them is
 * certain to succeed. */
bool sandbox_is_held(const struct sandbox *s);
/* The result of the sync of its last destroy; NULL: none. */
struct workspace_op;
const struct workspace_op *sandbox_last_sync(const struct sandbox *s);
/* The snapshot that its destroy has kept; "": none. */
const char *sandbox_kept_snapshot(const struct sandbox *s);
/* Moves its deadline to `duration` from now; not past the maximum, and not to an earlier time. */
void sandbox_extend(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                    struct sandbox_op *op);

/* The same, also to an earlier time. */
void sandbox_set_ttl(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                     struct sandbox_op *op);

/* Each live sandbox of every owner, until `each` returns true. */
typedef bool sandbox_each_fn(void *user, struct sandbox *s);
void control_each(struct control *c, sandbox_each_fn *each, void *user);
size_t control_count(const struct control *c); /* upper bound of their number */

/* Done when its processes are frozen and its files are durable, on record; at once if it is
 * paused. */
void sandbox_pause(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
/* Done when it is thawed, or rebuilt on its files if its processes are gone. */
void sandbox_resume(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
/* The same, with a lifetime of at least `duration` from then on; not past the maximum. */
void sandbox_resume_for(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                        struct sandbox_op *op);

/* Done when its processes are gone and its files are durable: it is paused, and a resume rebuilds
 * it. */
void sandbox_stop(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
bool sandbox_stopped(const struct sandbox *s); /* and not only paused */
/* It is paused because its lifetime was over (on_timeout of its request). */
bool sandbox_timed_out(const struct sandbox *s);

/* Settings for an idle sandbox. */
struct sandbox_rest {
    int64_t idle_ns; /* how long it may be idle; 0: the profile's time */
    bool stops;      /* then it is stopped, else destroyed */
    int64_t keep_ns; /* retention of the stopped sandbox; 0: the maximum */
};
struct sandbox_rest sandbox_rest(const struct sandbox *s);
void sandbox_set_rest(struct sandbox *s, const struct actor *who, const struct sandbox_rest *rest,
                      struct sandbox_op *op);
/* Replaces its labels; borrowed until done. Labels of the caller's token stay. */
void sandbox_set_labels(struct sandbox *s, const struct caller *who, const struct json_map *labels,
                        struct sandbox_op *op);

/* A page of the list: a query of the store, limited to what the caller may see. */
int control_list(struct control *c, const struct caller *who, struct store_query *q,
                 store_answer_fn *answer, struct err *e);

/* --- Egress. --- */

/* False: it has no network. */
bool sandbox_egress(const struct sandbox *s, struct sandbox_egress *ret);
struct str sandbox_policy(const struct sandbox *s);               /* JSON; empty: none */
struct policy_text *sandbox_policy_text(const struct sandbox *s); /* borrowed; NULL: no network */
/* The peer or token that a master approved the current policy for; "": none. */
const char *sandbox_approved_for(const struct sandbox *s);
/* The bounds of a policy that `who` wants to set on it (control/egress/ceiling.h). */
int sandbox_ceiling(const struct sandbox *s, const struct caller *who, struct arena *a,
                    struct policy_bounds *ret, struct err *e);
/* The ceiling of the policy, as written by egress_ceiling_write(); empty: none. */
struct str sandbox_policy_ceiling(const struct sandbox *s);
/* Replaces the whole policy (control/egress/policy_text.h). Done when it is on disk and in force;
 * connections that it does not allow are closed then. -ERR_TIMEOUT: it is on disk, and everything
 * is denied until a worker has applied it. approved_for: as in struct create_op. */
typedef void egress_set_fn(void *user, int r, const struct err *e);
void sandbox_set_policy(struct sandbox *s, const struct actor *who, struct policy_text *t,
                        const char *approved_for, egress_set_fn *done, void *user);

/* The cost of such a sandbox for its lifetime; nothing is created. */
int control_estimate(struct control *c, const struct caller *who, const struct create_request *q,
                     struct backend_quote *ret, struct err *e);

/* --- Expiry and orphans. --- */

/* Each sandbox that the caller sees and that is past its deadline or idle; with `apply`, it is
 * ended now, and not at the next check. */
typedef void due_fn(void *user, const struct sandbox_view *v, const char *reason);
void control_due(struct control *c, const struct caller *who, bool apply, due_fn *each, void *user);

/* Orphans on this machine: resources without a known sandbox. Scans everything. -ERR_CONFLICT if a
 * record is unreadable: its sandbox may be alive. */
typedef void stale_fn(void *user, const char *backend, const char *id, const char *what);
int control_stale(struct control *c, stale_fn *each, void *user, struct err *e);
/* Begins to remove orphans, which continues in the background, and reports those that were not
 * being removed already. */
int control_reap_stale(struct control *c, stale_fn *each, void *user, struct err *e);

/* --- Use: a sandbox with attached clients is not idle. --- */
void sandbox_attach(struct sandbox *s);
void sandbox_detach(struct sandbox *s);
void sandbox_touch(struct sandbox *s); /* a request arrived */

/* --- Processes. --- */

/* A program or file operation of a request: the owner gets its descriptors and its end. The sandbox
 * is recorded as active before `started` is called. */
struct run_op;
struct run_op_events {
    void (*started)(struct run_op *op, int r, const struct err *e);
    void (*ended)(struct run_op *op, const struct backend_end *end);
};
struct run_op {
    struct backend_process process; /* has stdio and proc */
    const struct run_op_events *events;
    const struct actor *actor; /* NULL: the daemon */
    const char *client;        /* the interface, for the record of a program; static */
    const char *requested;     /* for the record, too: struct command_begin */
    struct command_run *command_;
    bool programs; /* the tool policy was asked about a program; else only files are allowed */
    struct sandbox *sandbox; /* referenced while it is under way */
    struct sandbox_op active_;
    int waits_;
    int r_;
    struct err err_;
    struct link link_;
    struct loop_later later_;
    bool counts_, reported_, ended_;
    struct backend_end end_;
    char end_msg_[200];
};
void sandbox_run(struct sandbox *s, const struct process_start *start, struct run_op *op);
void run_op_signal(struct run_op *op, int sig, enum backend_scope scope);
/* Sets the size of its terminal, if it runs and its owner still has the terminal. */
void run_op_resize(struct run_op *op, uint16_t rows, uint16_t cols);
/* The owner leaves: a program is killed with all its children, and no callback follows. */
void run_op_cancel(struct run_op *op);

/* The record of what a program that runs already is given to run: a piece of code, a command for a
 * shell. argv ends with NULL. -ERR_QUOTA, -ERR_FULL: it must not run. *ret: to be ended as in
 * control/event/commands.h; NULL: it is not recorded. */
int sandbox_record_input(const struct sandbox *s, const struct actor *who, const char *client,
                         const char *const *argv, struct command_run **ret, struct err *e);

/* 0, or -ERR_DENIED unless the tool policy was asked about a program: a request that was allowed as
 * something less must not run one. */
int run_check_program(bool programs, struct err *e);

/* Fills a start from a checked request; texts are on the arena. The variables of the sandbox are
 * added, unless the request sets them. */
int process_start_fill(const struct sandbox *s, const struct process_request *q, struct arena *a,
                       struct process_start *ret, struct err *e);

/* --- Events. --- */

/* control/plane/publish.h has the rest. */
/* For an event that is being published: the labels of its sandbox are still known. */
bool event_visible(const struct control *c, const struct caller *who, const struct event_record *v);

#endif
