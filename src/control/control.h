/* The control plane: sandboxes and what happens to them, over extensions and a store.
 *
 * Everything here runs on the loop's thread. An operation is a struct that its owner embeds, starts
 * with a call, and hears from once through `done`, never from inside the starting call. Whoever
 * wants to know how a thing goes on listens to events. Nothing is told before it is on disk. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include "config/config.h"
#include "control/caller.h"
#include "extensions/extension.h"
#include "loop/timer.h"
#include "model/process.h"
#include "model/record.h"
#include "model/request.h"
#include "profile/catalog.h"
#include "store/store.h"

struct control; /* control/plane.h has its members; only this module looks inside */
struct sandbox;
struct policy_text;
struct base;
struct gate_place;

/* A workspace to be copied by a process with the rights of the user who granted its directory;
 * descriptors stay ours. */
struct control_mirror {
    const char *sandbox; /* whose grant it is */
    bool receive;        /* sandbox to host */
    unsigned flags;      /* enum mirror_flag */
    const char *top;
    int tar, manifest_in, manifest_out; /* -1: none */
    int client; /* the connection of the client that accepts names which are held back; -1: none */
    int accept; /* the paths that it accepts, NUL-terminated, in a file in memory; -1: none */
    int report; /* a pipe: what it does, and how it ends, or why it was not started */
};

/* A request to the supervisor that is answered later. A member of its owner. `done` is called once,
 * from the loop; *fd, which may be -1, is closed afterwards unless it is taken. */
struct control_request;
typedef void control_request_fn(struct control_request *q, int r, const struct err *e, int *fd);
struct control_request {
    control_request_fn *done;
    struct link link_;
    uint64_t id_;
    int64_t deadline_;
};

/* A host directory that a client grants to a sandbox as its workspace. The supervisor asks the
 * kernel who the client is: by its connection, or by the socket it made to hand the directory over
 * (ipc/handover.h). Without either, it only checks that the directory granted before can be opened.
 */
struct control_grant {
    const char *sandbox;
    const char *path; /* of the request */
    bool writable;
    bool dry;           /* the client could grant it: nothing is recorded or used up */
    int client, handed; /* -1: none */
};

/* What a client's connection can prove: descriptors that stay the owner's. */
struct control_client {
    int connection; /* -1: it came by no unix socket */
    int handed;     /* -1: it handed over no directory */
};

/* Where sandboxes write to (uppers/driver.h), for people and programs that ask. */
struct control_storage {
    const char *driver, *why;
    bool on_disk, limited;
    uint64_t free_min; /* bytes that keepers leave free there */
};

struct control_setup {
    struct loop *loop;
    struct work_pool *work;
    const struct config *config;
    uid_t owner; /* the user who runs the daemon: an administrator beside root */
    int state;   /* the state directory */
    struct control_storage storage;
    struct json_strs profiles;     /* directories; the later count */
    struct keyring *keys;          /* of secrets in the store; NULL: they are not sealed */
    struct ext_context extensions; /* loop, work and state are filled in from here */
    /* Has such a process started, and does not wait for it. */
    int (*mirror)(void *user, const struct control_mirror *m, struct err *e);
    /* Grants, or checks a grant; and removes one. */
    int (*grant)(void *user, const struct control_grant *g, struct control_request *q,
                 struct err *e);
    void (*cancel)(void *user, struct control_request *q);
    void (*forget_grant)(void *user, const char *sandbox);
    /* A descriptor to read what hub.headers_file says now. */
    int (*headers)(void *user, int *ret, struct err *e);
    /* A connected socket to a new egress worker, and a number that names it. It may not run yet; if
     * it cannot be started, the socket ends. */
    int (*egress_worker)(void *user, int *ret, uint64_t *ret_id, struct err *e);
    /* Ends one that may not end by itself. */
    void (*end_egress_worker)(void *user, uint64_t id);
    /* Replaces the addresses that it may connect to beside public ones (gate/gate.h). NULL: nothing
     * keeps workers from any. */
    int (*egress_places)(void *user, uint64_t id, const struct gate_place *list, size_t n,
                         struct control_request *q, struct err *e);
    /* The same for the fetch process (fetcher/fetcher.h), which makes requests for us. */
    int (*fetch_process)(void *user, int *ret, uint64_t *ret_id, struct err *e);
    void (*end_fetch_process)(void *user, uint64_t id);
    /* A connected socket to a new keeper of layers (layers/job.h), likewise: if it cannot be
     * started, DONE says why. */
    int (*keeper)(void *user, int *ret, struct err *e);
    void (*on_open)(void *user);
    void *user;
};

/* Opens the store, loads profiles and takes up what an earlier life left: reconnects, finishes or
 * unwinds. Blocks until the store is read; reconnecting goes on in the loop, and on_open is called
 * when every sandbox has been heard of. Requests come after that. */
int control_open(const struct control_setup *s, struct control **ret, struct err *e);
/* Lets sandboxes live on. Calls done when nothing is under way any more. */
void control_close(struct control *c, void (*on_closed)(void *user));

/* Reads the profiles and the hub's headers again; the old ones stay if that fails. */
void control_reload(struct control *c);

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

/* What a sandbox reaches. */
struct sandbox_egress {
    uint64_t generation; /* of the policy that shall hold … */
    uint64_t in_force;   /* … and that does; 0: none, nothing passes */
    uint32_t endpoints;
    uint64_t allowed, denied, bytes_out, bytes_in;
};

/* A view for whoever shows it; borrowed until the next turn of the loop. */
struct sandbox_view {
    const struct sandbox_record *record;
    /* Wall clock as of now; 0: it has no deadline any more. */
    int64_t expires_ns;  /* when it ends unless it is used … */
    int64_t deadline_ns; /* … and when it ends in any case */
    const char *step;    /* that it is at, while it is being made; "" */
    uint64_t memory;     /* its limit; 0: none, or not known any more */
    uint32_t oom_kills;  /* that the limit has cost it: told when everything of it is removed */
};

/* Finds one by id or unique prefix, within what the caller may see; dead ones too. */
struct find_op {
    const struct caller *caller;
    struct str id;
    const char *label; /* whose value names a live one, the newest, as well; NULL: none does */
    /* The id may be the start of one that is the caller's own: for people at a terminal. A live one
     * comes before those that are finished. */
    bool may_be_short;
    /* out: a live one, referenced for the owner … */
    struct sandbox *sandbox;
    /* … or the record of one that is finished */
    struct sandbox_record *record;
    void (*done)(struct find_op *op, int r, const struct err *e);
    /* private */
    struct control *control_;
    struct store_query query_;
    struct loop_later later_;
    struct err busy_;
    char text_[ID_MAX];
    bool is_start_; /* text_ is an id, or may be the start of one */
};
/* It cannot be cancelled: the owner stays until done, which is soon. */
void control_find(struct control *c, struct find_op *op);
/* True, and *ret is referenced, if a full id of a live sandbox was given: no waiting. */
bool control_find_now(struct control *c, const struct caller *who, struct str id,
                      struct sandbox **ret);
void find_op_done(struct find_op *op); /* releases what done was given */
/* Fails with this code, for a caller who wants to use a sandbox that is finished: says when and why
 * it ended. */
int record_fail_ended(const struct sandbox_record *r, enum err_code code, struct err *e);

/* create: `ready` (or failed) is the end of it; with no_wait, `requested` is. A
 * workspace is granted by the client's connection: no end comes before the supervisor has granted
 * or refused it. */
struct create_op {
    /* in */
    const struct caller *caller;
    const struct create_request *request;
    struct str body;            /* the request as it came, for the idempotency key */
    struct str idempotency_key; /* empty: none; of a token, no other caller's is the same */
    bool no_wait;
    const char *recreated_from; /* an id, or NULL */
    /* Nothing is made: done says whether the create would be refused, as things are, once this one
     * is gone. With `repeated`, it was made before. NULL: creates. */
    const struct sandbox *instead_of;
    bool one_shot; /* the caller destroys it; so does the daemon's next start */
    const struct control_client *client; /* for a workspace; NULL: the caller has no connection */
    const struct json_strs
        *layers;              /* that it is built on, in place of a snapshot's; NULL: none … */
    const struct base *base;  /* … and the image below them */
    void *fork;               /* the owner's */
    const char *approved_for; /* the peer or token that a master approved its network for; NULL */
    /* out */
    struct sandbox_record
        *record;   /* on the arena below; also of a failed one; NULL if there is none */
    bool repeated; /* the key was used before: this is the first one's */
    struct arena arena;
    void (*done)(struct create_op *op, int r, const struct err *e);
    /* How far it is, for who waits: "provision", "probe", "workspace" and what of that was copied
     * so far. May be NULL. */
    void (*at)(struct create_op *op, const char *step, uint64_t bytes);
    int64_t expires_ns, deadline_ns; /* as in struct sandbox_view, as of done */
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
    bool unpooled_;   /* a prepared box could not be handed over: one is built for it */
    char key_[128];   /* as the store has it */
    bool shared_key_; /* one of the owner's, as they were before tokens had their own */
    bool other_body_;
    struct control_request granting_; /* of the workspace, if nothing is made */
};
/* What op points to must stay until done. It cannot be cancelled: if the client leaves, the owner
 * waits for done all the same. */
void control_create(struct control *c, struct create_op *op);

/* What a request would make, without making it: for whoever decides whether it may be. */
struct create_plan {
    struct policy_text *policy; /* referenced; NULL: no network */
    int64_t ttl_ns, memory_mb, cpu_milli;
    enum workspace_access access; /* to the workspace; ASK_ACCESS_NONE: there is none */
};
int control_plan(struct control *c, const struct create_op *op, struct create_plan *ret,
                 struct err *e);
void create_plan_done(struct create_plan *p);

struct sandbox *sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);
struct sandbox_view sandbox_view(const struct sandbox *s);
enum sandbox_state sandbox_state(const struct sandbox *s);
/* Where programs start that are not told otherwise; NULL: in the home of their user. */
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
void sandbox_op_cancel(struct sandbox_op *op); /* nothing is told any more; it goes on */

enum destroy_sync { DESTROY_SYNC, DESTROY_NO_SYNC, DESTROY_FORCE_SYNC };
/* What becomes of changes of its workspace that cannot be brought back; in ascending order of what
 * is allowed. */
enum destroy_unsynced {
    DESTROY_REFUSE,  /* it is not destroyed: -ERR_CONFLICT */
    DESTROY_KEEP,    /* as a snapshot of its owner; it stays paused if there cannot be one */
    DESTROY_DISCARD, /* they are lost */
};
/* Ends when it is destroyed. Any number at once. Changes that cannot be brought back are kept. */
void sandbox_destroy(struct sandbox *s, const struct actor *who, const char *reason,
                     enum destroy_sync sync, struct sandbox_op *op);
void sandbox_destroy_as(struct sandbox *s, const struct actor *who, const char *reason,
                        enum destroy_sync sync, enum destroy_unsynced unsynced,
                        struct sandbox_op *op);
/* Its changes could be neither brought back nor stored: only a destroy that discards them ends it
 * for sure. */
bool sandbox_is_held(const struct sandbox *s);
/* What the sync of its last destroy did; NULL: there was none. */
struct workspace_op;
const struct workspace_op *sandbox_brought(const struct sandbox *s);
/* The snapshot that its destroy has kept; "": none. */
const char *sandbox_kept(const struct sandbox *s);
/* Live for `duration` from now; not past max, not less than before. */
void sandbox_extend(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                    struct sandbox_op *op);

/* The same, but it may also be less than before. */
void sandbox_set_ttl(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                     struct sandbox_op *op);

/* Each one that is not finished, whoever's: until `each` returns true. */
typedef bool sandbox_each_fn(void *user, struct sandbox *s);
void control_each(struct control *c, sandbox_each_fn *each, void *user);
size_t control_count(const struct control *c); /* how many these are at most */

/* Ends when it stands still, what it wrote is safe, and that is on disk; one that is paused
 * already is. */
void sandbox_pause(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
/* Ends when it goes on, or is built again on what it wrote where its processes are gone. */
void sandbox_resume(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
/* The same, and it lives for `duration` from then, if that is more than it had left; not past max.
 */
void sandbox_resume_for(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                        struct sandbox_op *op);

/* Ends when its processes are gone and what it wrote is safe: it is paused, and built again when it
 * is resumed. */
void sandbox_stop(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
bool sandbox_stopped(const struct sandbox *s); /* and not only paused */

/* What comes of a sandbox that nobody uses. */
struct sandbox_rest {
    int64_t idle_ns; /* for how long nobody may use it; 0: as its profile says */
    bool stops;      /* then it is stopped; else destroyed */
    int64_t keep_ns; /* for how long it is kept when it is stopped; 0: as long as any may be */
};
struct sandbox_rest sandbox_rest(const struct sandbox *s);
void sandbox_set_rest(struct sandbox *s, const struct actor *who, const struct sandbox_rest *rest,
                      struct sandbox_op *op);
/* In place of those that it has; borrowed until it is done. Those that the caller must see on every
 * sandbox stay. */
void sandbox_set_labels(struct sandbox *s, const struct caller *who, const struct json_map *labels,
                        struct sandbox_op *op);

/* A page of the list: as the store's query, within what the caller sees. */
int control_list(struct control *c, const struct caller *who, struct store_query *q,
                 store_answer_fn *answer, struct err *e);

/* --- Egress. --- */

/* False: it has no network. */
bool sandbox_egress(const struct sandbox *s, struct sandbox_egress *ret);
struct str sandbox_policy(const struct sandbox *s);               /* JSON; empty: none */
struct policy_text *sandbox_policy_text(const struct sandbox *s); /* borrowed; NULL: no network */
/* The peer or token that a master approved the policy in force for; "": nobody. */
const char *sandbox_approved_for(const struct sandbox *s);
/* The ceiling that the policy is under, as egress_ceiling_write() has it; empty: none. */
struct str sandbox_policy_ceiling(const struct sandbox *s);
/* Whole and at once, in place of the one before (control/policy_text.h). Done when it is on disk
 * and in force; what it does not allow is closed then. -ERR_TIMEOUT: it is on disk, and nothing
 * passes until a worker is there to hold it. approved_for: as in struct create_op. */
typedef void egress_set_fn(void *user, int r, const struct err *e);
void sandbox_set_policy(struct sandbox *s, const struct actor *who, struct policy_text *t,
                        const char *approved_for, egress_set_fn *done, void *user);

/* What a sandbox like this would cost for its time; nothing is made. */
int control_estimate(struct control *c, const struct caller *who, const struct create_request *q,
                     struct ext_quote *ret, struct err *e);

/* --- The end of sandboxes. --- */

/* Each one that the caller sees and whose time is over, or that nobody uses; with `apply`, that one
 * is ended now and not only when it is next looked at. */
typedef void due_fn(void *user, const struct sandbox_view *v, const char *reason);
void control_due(struct control *c, const struct caller *who, bool apply, due_fn *each, void *user);

/* What dead sandboxes left on this machine: things of no sandbox that we know. Looks at all of it.
 * -ERR_CONFLICT where a record could not be read: its sandbox may be alive. */
typedef void stale_fn(void *user, const char *extension, const char *id, const char *what);
int control_stale(struct control *c, stale_fn *each, void *user, struct err *e);
/* Begins to remove it, which goes on by itself, and tells what was not on its way out already. */
int control_reap_stale(struct control *c, stale_fn *each, void *user, struct err *e);

/* --- Being in use: as long as one is held, a sandbox is not idle. --- */
void sandbox_attach(struct sandbox *s);
void sandbox_detach(struct sandbox *s);
void sandbox_touch(struct sandbox *s); /* a request came */

/* --- Processes. --- */

/* A program or file operation of a request: its descriptors and its end go to the owner as they
 * come. The sandbox becomes active, durably, before `started` is told. */
struct run_op;
struct run_op_events {
    void (*started)(struct run_op *op, int r, const struct err *e);
    void (*ended)(struct run_op *op, const struct ext_end *end);
};
struct run_op {
    struct ext_process process; /* stdio and proc are in here */
    const struct run_op_events *events;
    const struct actor *actor; /* who starts it; NULL: the daemon */
    bool programs;             /* the policy was asked about a program; else only files */
    struct sandbox *sandbox;   /* referenced while it is under way */
    struct sandbox_op active_;
    int waits_;
    int r_;
    struct err err_;
    struct link link_;
    struct loop_later later_;
    bool counts_, told_, ended_;
    struct ext_end end_;
    char end_msg_[200];
};
void sandbox_run(struct sandbox *s, const struct ext_start *start, struct run_op *op);
void run_op_signal(struct run_op *op, int sig, enum ext_scope scope);
/* The owner goes: a program is killed with everything it started, nothing is told any more. */
void run_op_cancel(struct run_op *op);

/* 0, or -ERR_DENIED: whoever starts a program says that the policy was asked about one. A request
 * that was let pass as less does not get to run anything inside. */
int run_check_program(bool programs, struct err *e);

/* Fills a start from a checked request; texts are on the arena. What the sandbox was created with
 * is among its variables, unless the request has others of the name. */
int process_start_fill(const struct sandbox *s, const struct process_request *q, struct arena *a,
                       struct ext_start *ret, struct err *e);

/* --- Events. --- */

/* A subscriber hears of events that were committed after it started; for what was before, ask the
 * store first. */
struct event_subscriber;
typedef void event_fn(struct event_subscriber *s, const struct event_record *v);
struct event_subscriber {
    event_fn *on_event;
    struct link link_;
};
void control_subscribe(struct control *c, struct event_subscriber *s, event_fn *fn);
void event_unsubscribe(struct event_subscriber *s);
/* Tells an event that is on disk to whoever listens. */
void control_publish(struct control *c, const struct event_record *v);
/* Of one that is being told: its sandbox, whose labels may count, is still known then. */
bool event_visible(const struct control *c, const struct caller *who, const struct event_record *v);

/* --- For the edges. --- */
struct store *control_store(struct control *c);
struct loop *control_loop(struct control *c);
struct work_pool *control_work(struct control *c);
const struct config *control_config(const struct control *c);
struct catalog *control_catalog(struct control *c);
struct metrics *control_metrics(struct control *c);
/* A file without a name in the state directory: a descriptor. */
int control_scratch(struct control *c, struct err *e);

#endif
