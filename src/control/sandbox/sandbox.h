/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox in memory, as the files of this module see it. */
#ifndef CONTROL_SANDBOX_SANDBOX_H
#define CONTROL_SANDBOX_SANDBOX_H

#include "control/sandbox/capture.h"
#include "control/sandbox/change.h"
#include "control/sandbox/sandbox_detail.h"
#include "control/sandbox/names.h"
#include "control/sandbox/idle.h"
#include "control/control.h"
#include "control/egress/egress_link.h"
#include "control/layer/layer_slots.h"
#include "control/layer/layers.h"
#include "control/owner/owner_share.h"
#include "control/owner/owners.h"
#include "control/plane/plane.h"
#include "control/sandbox/mounts.h"
#include "control/sandbox/salvage.h"
#include "control/sandbox/workspace.h"

enum { SANDBOX_ARENA_MAX = 512 << 10 };

struct sandbox {
    struct control *control;
    struct map_entry entry;
    struct map_entry named;   /* in control.names; id NULL: it is not there */
    char name_key[NAMES_KEY]; /* its id there */
    /* Family NULL: not counted in a family's part of its owner's share. */
    struct owner *owner, *family;
    struct arena arena; /* holds the data of record, detail and request, as they were loaded */
    struct sandbox_record record; /* as it is on disk */
    struct create_request request;
    struct sandbox_detail detail; /* parsed from record.detail */
    struct profile *profile;      /* NULL: no longer in the catalog */
    const struct backend_ops *ops;
    struct backend_box *box;             /* NULL: not provisioned, or gone for good */
    struct egress_link_counters counted; /* egress counters of earlier daemon runs */
    struct backend_image image;          /* the image that it is built on; n is 0: none */
    struct usage *usage;                 /* its samples; NULL: none yet (usage.h) */
    struct policy_text *policy;          /* its egress policy; NULL: it has no network … */
    struct egress_head_record last_line; /* of its egress log, when its egress link was closed */
    char approved_for[ID_MAX]; /* … and the peer that a master approved the policy for; "": none */

    struct list changes;     /* struct change: submitted, the first one under way */
    struct list creators;    /* struct create_op that wait for the end of the creation */
    struct list destroyers;  /* struct sandbox_op that wait for the end of the destroy */
    struct list activations; /* struct sandbox_op that wait until it is active on disk */
    struct list runs;        /* struct run_op */
    struct list diffs;       /* struct diff_op that wait for its writable directory */
    struct list processes;   /* struct process, processes.h */
    /* After a restart: its rows are being loaded (process_found.c), or are in `processes`. */
    struct process_reattach *loading;

    /* provisioning and teardown */
    struct loop_later no_backend;
    struct loop_timer retry;
    struct transfer *transfer;     /* a copy of its workspace, under way */
    struct workspace_op mirroring; /* the copy into the sandbox, before it is ready */
    /* Brings its workspace back before a destroy; NULL: none under way … */
    struct salvage *salvage;
    struct workspace_op last_sync; /* the result of the last such sync; see has_last_sync */
    /* To grant the files of its workspace and its mounts, before provisioning. */
    struct control_request granting;
    struct control_client client;   /* the client that creates it, until the grant */
    struct mounts_opening *opening; /* its mounts are being opened, for a box; NULL: they are not */
    int granted;                    /* … and were, for the box that is built next; -1: none */
    /* Its policy, before it is ready; the close of its link, before the teardown of its box. */
    struct egress_link_op applying;
    void (*after_egress_link)(struct sandbox *s);
    void (*after_teardown)(struct sandbox *s); /* NULL: no teardown is under way */

    /* pause, resume, stop */
    struct capture *capture; /* a capture of its files, under way */
    struct resume *resume;   /* under way (pause.c) */
    struct list stops;       /* struct sandbox_op that wait until its processes are gone (stop.c) */
    struct json_strs stack;  /* the layers that it is rebuilt on; on stack_arena */
    bool stopping;           /* its box is torn down, for `stops` */
    bool pausing;            /* a pause is under way */
    bool rescuing;           /* it died, and is about to be recorded as paused (rescue.c) */
    bool frozen;             /* paused by this daemon run: its box is frozen … */
    bool found_frozen;       /* … by an earlier one: its box is not adopted yet */
    bool processes_known;    /* `processes` has the rows of earlier daemon runs */
    bool awaits_grant;       /* `granting` is not answered yet */
    bool salvage_acts;       /* the current call comes from the salvage */
    bool checkpointing;      /* a checkpoint is taken, or an undo is under way */
    bool has_last_sync;

    /* timers and deadlines; clock_boot() */
    struct loop_timer quiet; /* no program has run since: active → ready */
    struct loop_timer due;
    struct loop_timer checkpoint_due; /* control/snapshot/checkpoint_timer.c */
    int64_t failed_ns;
    struct idle idle;

    struct err failure;     /* reported when everything is removed */
    struct salvage_end end; /* how it is destroyed */
    unsigned refs, tries;
    unsigned programs; /* programs that are running */
    char failed_step[32];
    const char *step; /* of provisioning: static; NULL: not begun, or over */
    uint64_t copied;  /* bytes of its workspace, during that step */
    char expire_reason[RECORD_REASON_MAX];
    /* Data of its detail that is replaced again and again: each has a place of its own, since the
     * arena above only grows. */
    char paused_layer[LAYER_NAME_MAX];
    char unsynced_why[RECORD_REASON_MAX], unsynced_reason[RECORD_REASON_MAX];
    char unsynced_error[RECORD_REASON_MAX];
    struct arena box_arena;      /* facts about its box, as of when that was recorded */
    struct arena layers_arena;   /* the layers that it is built on, once they were replaced … */
    struct arena stack_arena;    /* … and those that replace them next */
    char *details[2];            /* texts of its detail: on disk, and being stored */
    struct arena labels[2];      /* likewise its labels, once they were set … */
    unsigned labels_at;          /* … and which of them is on disk */
    struct create_op *assigning; /* waits for its prepared box to be assigned; NULL: none does */
    bool stored;                 /* its record is on disk */
    bool destroying;             /* a destroy was accepted: overrides every other operation */
    /* Everything is removed, but a destroy was accepted before the failure was recorded. */
    bool unrecorded_failure;
    bool activating;
    bool usage_requested; /* and not answered yet */
    bool expiring;        /* announced in an event; killed after a grace period */
};

/* A sandbox for this record, whose texts are copied; added to the map, with one reference. */
int sandbox_new(struct control *c, const struct sandbox_record *r, struct sandbox **ret,
                struct err *e);

/* Whether its box can still exist, and its deadline still counts: this machine was not restarted
 * since both were made. */
bool sandbox_of_this_boot(const struct control *c, const struct sandbox_record *r);

/* By its id; NULL: it is destroyed, or never existed. */
struct sandbox *sandbox_known(const struct control *c, const char *id);

/* The account that it is charged to. */
static inline struct account sandbox_account(const struct sandbox *s)
{
    return account_of(s->control, s->record.owner, s->record.family);
}

/* For jobs on its layers that its states depend on: pauses, ends, resumes. */
static inline struct layer_charge sandbox_layer_charge(const struct sandbox *s)
{
    return (struct layer_charge){ .account = sandbox_account(s), .must = true };
}

/* After a destroy: requests may still hold the sandbox in memory, but it no longer counts against
 * its owner, so that a recreate has room. */
void sandbox_leave_map(struct sandbox *s);
/* Sets the record, which is on disk now. */
void sandbox_update_record(struct sandbox *s, const struct sandbox_record *now);

/* Sets the layers that it is built on, and their snapshot (NULL: none) … */
void sandbox_take_layers(struct sandbox *s, const struct json_strs *layers, const char *snapshot);

/* Sets the stack that it is rebuilt on, with `first` on top; the names are copied. -ERR_TOO_BIG */
int sandbox_set_stack(struct sandbox *s, const char *first, const struct json_strs *below,
                      struct err *e);
/* Replaces the layers that it is built on by names that are on this arena, which gets the replaced
 * ones: those are valid until it is freed. */
void sandbox_exchange_layers(struct sandbox *s, const struct json_strs *names, struct arena *on);

/* … and the image below them. */
int sandbox_take_base(struct sandbox *s, const struct base_image *b, struct err *e);

static inline struct layers_floor sandbox_floor(const struct sandbox *s)
{
    if (s->detail.base.layers.n)
        return (struct layers_floor){ FLOOR_IMAGE, s->detail.base.layers };
    return (struct layers_floor){ s->profile && !s->profile->image ? FLOOR_HOST : FLOOR_UNSEEN,
                                  { NULL, 0 } };
}

/* Writes the detail into a record that is about to be stored. */
void sandbox_write_detail(struct sandbox *s, struct sandbox_record *next);

/* Completes an operation with this result, from the loop. */
void sandbox_op_finish(struct sandbox_op *op, struct sandbox *s, int r, const struct err *e);

/* Completes an operation now; op->sandbox is its reference. And every operation of a list. */
void sandbox_op_complete(struct sandbox_op *op, int r, const struct err *e);
void sandbox_ops_complete(struct list *ops, int r, const struct err *e);

/* Whether the caller may see it. */
bool sandbox_visible(const struct caller *who, const struct sandbox_record *r);

/* --- run.c --- */
struct command_run;
/* Whether a program may start whose record is charged to the owner of the sandbox. */
int sandbox_check_record(const struct sandbox *s, const struct actor *who, struct err *e);
/* Its start was requested. NULL: it is not recorded. */
struct command_run *sandbox_begin_record(const struct sandbox *s, const struct process_start *start,
                                         const struct actor *who, const char *client,
                                         const char *requested);

/* --- provision.c --- */
extern const struct backend_box_events sandbox_box_events;
void sandbox_take_box(struct sandbox *s, struct backend_box *b); /* b may be NULL */
void sandbox_provision(struct sandbox *s); /* provision, probe, ready; or failed */
/* Provisions a new box on these layers; step: reported to creators; NULL: none. */
int sandbox_build_box(struct sandbox *s, const struct json_strs *layers, const char *step,
                      struct err *e);
/* The last step before ready: puts the policy into force. The sandbox has a box. */
void sandbox_open_egress_link(struct sandbox *s);
/* Fills in the fields that a record has from the moment it is ready. */
void sandbox_enter_ready(struct sandbox *s, struct sandbox_record *next);

void sandbox_note_box(struct sandbox *s); /* notes the handle of its new box in its detail */
/* Notes the layer of its pause in its detail. */
void sandbox_note_paused_layer(struct sandbox *s, const char *layer);

/* --- pause.c --- */
/* As sandbox_pause(); with `stop`, the record says that its processes end, and they are ended. */
void sandbox_begin_pause(struct sandbox *s, const struct actor *who, bool stop,
                         struct sandbox_op *op);
/* Notes in its detail and record that it is paused with these files. */
void pause_note(struct sandbox *s, struct sandbox_record *next, const struct capture *c,
                bool stopped);
/* Freezes it without storing its files, and records it as paused. */
void pause_in_memory(struct sandbox *s, struct sandbox_op *op);
bool paused_in_memory(const struct sandbox *s);
/* -ERR_CONFLICT if it is paused in memory: then its files can be neither read nor kept. */
int pause_check_stored(const struct sandbox *s, struct err *e);
void sandbox_on_held(struct backend_box *b, bool frozen, int r, const struct err *e);
void sandbox_recover_paused(struct sandbox *s);
/* Steps of a resume: begin; box ready; box re-adopted, or not found; destroyed meanwhile; rebuild
 * failed, so the sandbox stays paused. */
void resume_begin(struct sandbox *s); /* requested before the stop was over */
void resume_record_ready(struct sandbox *s);
void resume_on_adopted(struct sandbox *s, int r, const struct backend_found *found, size_t n);
void resume_on_reattached(struct sandbox *s); /* its processes are known again */
void resume_abort(struct sandbox *s);         /* it is being destroyed */
/* The result of `upper` (backends/backend.h): whether the thawed box is alive. */
void resume_on_upper(struct sandbox *s, int r);
void resume_fail(struct sandbox *s, enum err_code code, const char *reason);

/* --- stop.c --- */
/* The stop is on record: ends the processes. */
void stop_paused(struct sandbox *s, struct sandbox_op *op);
void stop_abort(struct sandbox *s);                             /* it is being destroyed */
void stop_edit(struct change *ch, struct sandbox_record *next); /* records that */

/* --- rescue.c --- */
/* It died: true if it is being paused instead of failed; else nothing of it can be kept. */
bool rescue_begin(struct sandbox *s);
/* Whether that is under way, or follows its teardown. */
bool rescue_pending(const struct sandbox *s);

/* --- diff.c --- */
void diff_on_upper(struct sandbox *s, int r, const struct err *e, const int *fd);

/* --- egress.c --- */
void sandbox_take_policy(struct sandbox *s, struct policy_text *t, uint64_t generation,
                         const char *approved_for); /* NULL or "": no peer */
void sandbox_store_policy(const struct sandbox *s, struct store_txn *t);
/* That an earlier daemon run stored; blocks. */
void sandbox_load_policy(struct sandbox *s);
void sandbox_reopen_egress_link(struct sandbox *s); /* its box was adopted */
void sandbox_close_egress_link(struct sandbox *s, void (*after)(struct sandbox *s));
void sandbox_count_egress(struct sandbox *s); /* into its detail */

/* --- create.c --- */
/* Assigning its prepared box is done. */
void sandbox_on_assigned(struct backend_box *b, int r, const struct err *e);
void sandbox_notify_creators(struct sandbox *s, int r, const struct err *e);
/* The supervisor has answered the grant: completes the create that does not wait for the
 * sandbox. */
void sandbox_notify_granted(struct sandbox *s);
/* Notes the current step and its progress, and reports them to creators. */
void sandbox_report_step(struct sandbox *s, const char *step, uint64_t bytes);

/* --- teardown.c --- */
/* Destroys it without another sync: salvage is done. */
void sandbox_destroy_now(struct sandbox *s, const struct salvage_end *end);
void sandbox_expire(struct sandbox *s, const char *reason); /* its time is over */
void sandbox_notify_destroyers(struct sandbox *s, int r, const struct err *e);
/* Whether it is being destroyed, and the caller is not its salvage. */
static inline bool sandbox_is_ending(const struct sandbox *s)
{
    return s->destroying || (s->salvage && !s->salvage_acts);
}
/* Its state is `destroying` on disk: continues from there. */
void sandbox_begin_teardown(struct sandbox *s);
/* Removes everything of the sandbox, with retries until it succeeds, then calls after. */
void sandbox_teardown(struct sandbox *s, void (*after)(struct sandbox *s));
/* A caller waits for a teardown that is being retried: retries at once, and reports the result. */
void sandbox_retry_now(struct sandbox *s);
void sandbox_on_torn_down(struct backend_box *b, int r, const struct err *e,
                          const struct backend_report *rep);
void sandbox_report_stuck(struct sandbox *s, const struct err *e);
/* It died, or is not usable any longer: tears it down, then records it as `failed`. */
void sandbox_fail(struct sandbox *s, const char *step, const char *reason);
bool sandbox_is_failing(const struct sandbox *s); /* being torn down for that */
void sandbox_record_failure(struct sandbox *s);   /* nothing of it is left to be kept */
/* After `failed` is on record: keeps it for a while, or destroys it if it was never ready. */
void sandbox_settle_failed(struct sandbox *s);
/* The same during provisioning; errors of the request keep their code. */
void sandbox_refuse(struct sandbox *s, const char *step, const struct err *e);

/* --- run.c --- */
/* Whether it can be used now, for an operation that needs these capability bits of its backend. */
int sandbox_check_usable(const struct sandbox *s, unsigned can, struct err *e);
/* True if it is active already; else op is completed when it is. */
bool sandbox_activate(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
void sandbox_settle(struct sandbox *s);        /* records it as ready soon, if no program runs */
void sandbox_program_ended(struct sandbox *s); /* s->programs was incremented for it */

/* --- ttl.c --- */
void ttl_start(struct sandbox *s); /* it is ready, or was adopted */
void ttl_hurry(struct sandbox *s); /* it is expiring, and its programs have ended */
void ttl_stop(struct sandbox *s);
/* When it ends if it is not used: the earlier of its deadline and its idle deadline. */
int64_t ttl_end(const struct sandbox *s);
/* Moves the record's deadline to at least this far from now, within its maximum. */
void ttl_prolong(struct sandbox_record *next, int64_t duration_ns);
void ttl_resume(struct sandbox *s); /* a destroy could not be recorded: deadlines count again */
void ttl_keep_failed(struct sandbox *s); /* keeps it for inspection, for a limited time */
void ttl_on_usage(struct backend_box *b, int r, const struct backend_usage *u);

/* --- recover.c --- */
void sandbox_on_adopted(struct backend_box *b, int r, const struct err *e,
                        const struct backend_found *found, size_t n);

#endif
