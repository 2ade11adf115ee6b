/* A sandbox in memory, as the files of this module see it. */
#ifndef CONTROL_SANDBOX_H
#define CONTROL_SANDBOX_H

#include "control/capture.h"
#include "control/change.h"
#include "control/facts.h"
#include "control/idle.h"
#include "control/layers.h"
#include "control/owner_share.h"
#include "control/plane.h"
#include "control/salvage.h"
#include "control/workspace.h"

enum { SANDBOX_ARENA_MAX = 512 << 10 };

struct sandbox {
    struct control *control;
    struct index_entry entry;
    struct owner *owner, *family; /* family NULL: it counts in no part of its owner's */
    struct arena arena;           /* what record, facts and request point to */
    struct sandbox_record record; /* as it is on disk */
    struct create_request request;
    struct facts facts;      /* what record.detail says */
    struct profile *profile; /* NULL if it is not in the catalog any more */
    const struct extension_ops *ops;
    struct ext_box *box;            /* NULL: not made, or gone for good */
    struct outlet_counters counted; /* of what it reached, by an earlier life of the daemon */
    struct ext_image image;         /* that it is made of; n is 0 where it stands on none */
    struct usage *usage;            /* that it was seen with; NULL: not yet (usage.h) */
    struct policy_text *policy; /* that holds for what it reaches; NULL: it has no network … */
    struct egress_head_record last_line; /* of its egress log, when its outlet was closed … */
    char last_line_text[192];            /* … as the detail of an event */
    char kept_text[ID_MAX + 32];         /* likewise of its destroy */
    char approved_for[ID_MAX];           /* … and the peer a master approved it for; "": none */

    struct list changes;     /* struct change: submitted, the first one under way */
    struct list creators;    /* struct create_op that wait for the end of the creation */
    struct list destroyers;  /* struct sandbox_op that wait for the end */
    struct list activations; /* struct sandbox_op that wait until it is active on disk */
    struct list runs;        /* struct run_op */
    struct list diffs;       /* struct diff_op that wait for what it writes */
    struct list processes;   /* struct process, processes.h */

    /* making and unmaking */
    struct loop_later no_extension;
    struct loop_timer retry;
    struct transfer *transfer;       /* of its workspace, under way */
    struct workspace_op mirroring;   /* our own, before it is ready */
    struct salvage *salvage;         /* a destroy brings its workspace back; NULL: none does … */
    struct workspace_op brought;     /* what the last such sync did; see has_brought */
    struct control_request granting; /* of its workspace's directory, before it is made … */
    bool awaits_grant;               /* … and not answered yet */
    bool salvage_acts;               /* the salvage is what asks for something now */
    bool has_brought;
    struct control_client client; /* of who creates it, until that is done */
    struct outlet_op applying; /* its policy, before it is ready; its end, before that of its box */
    void (*after_outlet)(struct sandbox *s);
    void (*after_teardown)(struct sandbox *s); /* NULL: no teardown is under way */

    /* standing still */
    struct capture *capture; /* of what it wrote, under way */
    struct resume *resume;   /* under way (pause.c) */
    struct list stops; /* struct sandbox_op that wait for its processes to be gone (stop.c) … */
    bool stopping;     /* … which they are about to be */
    struct json_strs stack; /* the layers that it is rebuilt on */
    bool pausing;           /* on its way to be paused */
    bool still;             /* paused by this life of the daemon: its box is frozen … */
    bool found_still;       /* … by an earlier one: its box is not known yet */

    /* its time; clock_boot() */
    struct loop_timer quiet; /* since when nothing runs: active → ready */
    struct loop_timer due;
    int64_t failed_ns;
    struct idle idle;

    struct err failure;     /* told when everything is removed */
    struct salvage_end end; /* how it is destroyed */
    unsigned refs, tries;
    unsigned programs; /* that run */
    char failed_step[32];
    const char *step; /* of being made: static; NULL: it is not, or has not begun */
    uint64_t copied;  /* of its workspace, while that is the step */
    char expire_reason[RECORD_REASON_MAX];
    char *details[2];            /* texts of its facts: on disk, and on their way there */
    struct arena labels[2];      /* the same of its labels, once they were set … */
    unsigned labels_at;          /* … and which of them is on disk */
    struct create_op *assigning; /* waits for its prepared box to be assigned; NULL: none does */
    bool stored;                 /* it is on disk at all */
    bool destroying;             /* asked for; nothing else matters any more */
    bool untold_failure;         /* everything is removed, but a destroy came first */
    bool activating;
    bool asked_usage; /* and not heard yet */
    bool expiring;    /* told so; killed after a grace period */
};

/* A sandbox for this record, whose texts are copied; in the index, with one reference. */
int sandbox_new(struct control *c, const struct sandbox_record *r, struct sandbox **ret,
                struct err *e);

/* The account that it counts in. */
static inline struct account sandbox_account(const struct sandbox *s)
{
    return account_of(s->control, s->record.owner, s->record.family);
}

/* The record is on disk now. */
void sandbox_changed(struct sandbox *s, const struct sandbox_record *now);

/* It stands on these, of that snapshot; NULL: of none. */
void sandbox_take_layers(struct sandbox *s, const struct json_strs *layers, const char *snapshot);

/* … and those on that image. */
int sandbox_take_base(struct sandbox *s, const struct base *b, struct err *e);

static inline struct layers_floor sandbox_floor(const struct sandbox *s)
{
    if (s->facts.base.layers.n)
        return (struct layers_floor){ FLOOR_IMAGE, s->facts.base.layers };
    return (struct layers_floor){ s->profile && !s->profile->image ? FLOOR_HOST : FLOOR_UNSEEN,
                                  { NULL, 0 } };
}

/* Writes the facts into the record that is about to be stored. */
void sandbox_put_facts(struct sandbox *s, struct sandbox_record *next);

/* Ends an operation that needs nothing more, from the loop. */
void sandbox_op_finish(struct sandbox_op *op, struct sandbox *s, int r, const struct err *e);

/* Ends one from the loop: op->sandbox is its reference. And all of a list. */
void sandbox_op_tell(struct sandbox_op *op, int r, const struct err *e);
void sandbox_ops_tell(struct list *ops, int r, const struct err *e);

/* Whether a caller sees it. */
bool sandbox_visible(const struct caller *who, const struct sandbox_record *r);

/* --- make.c --- */
extern const struct ext_box_events sandbox_box_events;
void sandbox_take_box(struct sandbox *s, struct ext_box *b); /* b may be NULL */
void sandbox_make(struct sandbox *s); /* provision, probe, ready; or failed */
/* The last step: what it may reach is in force. It has a box. */
void sandbox_open_outlet(struct sandbox *s);
/* Fills in what a record says from the moment it is ready. */
void sandbox_enter_ready(struct sandbox *s, struct sandbox_record *next);

void sandbox_note_box(struct sandbox *s); /* what its new box is called, into its facts */

/* --- pause.c --- */
/* As sandbox_pause(); with `stop`, it is on record that its processes end, and they are to be. */
void sandbox_begin_pause(struct sandbox *s, const struct actor *who, bool stop,
                         struct sandbox_op *op);
void sandbox_held(struct ext_box *b, bool frozen, int r, const struct err *e);
void sandbox_take_up_paused(struct sandbox *s);
/* While it is resumed: it stands; it was found, or not; it could not be built, and stays paused. */
void resume_begin(struct sandbox *s); /* it was asked for before it was stopped */
void resume_ready(struct sandbox *s);
void resume_adopted(struct sandbox *s, int r, const struct ext_found *found, size_t n);
void resume_abort(struct sandbox *s);           /* it is being destroyed */
void resume_answered(struct sandbox *s, int r); /* upper of extension.h: whoever was let go lives */
void resume_failed(struct sandbox *s, enum err_code code, const char *reason);

/* --- stop.c --- */
void stop_paused(struct sandbox *s, struct sandbox_op *op); /* it is on record: now they end */
void stop_abort(struct sandbox *s);                         /* it is being destroyed */

/* --- diff.c --- */
void diff_upper(struct sandbox *s, int r, const struct err *e, const int *fd);

/* --- egress.c --- */
void sandbox_take_policy(struct sandbox *s, struct policy_text *t, uint64_t generation,
                         const char *approved_for); /* NULL or "": nobody */
void sandbox_put_policy(const struct sandbox *s, struct store_txn *t);
int sandbox_load_policy(struct sandbox *s, struct err *e); /* of an earlier life; blocks */
void sandbox_reopen_outlet(struct sandbox *s);             /* its box was found again */
void sandbox_close_outlet(struct sandbox *s, void (*after)(struct sandbox *s));
void sandbox_count_egress(struct sandbox *s); /* into its facts */

/* --- create.c --- */
void sandbox_assigned(struct ext_box *b, int r, const struct err *e); /* its prepared box was */
void sandbox_tell_creators(struct sandbox *s, int r, const struct err *e);
/* The workspace's grant is answered: who does not wait for the sandbox is told. */
void sandbox_tell_granted(struct sandbox *s);
/* It is at this step now, and so far into it. */
void sandbox_tell_step(struct sandbox *s, const char *step, uint64_t bytes);

/* --- unmake.c --- */
/* Destroys it now: what is left of its workspace is settled. */
void sandbox_destroy_now(struct sandbox *s, const struct salvage_end *end);
void sandbox_expire(struct sandbox *s, const char *reason); /* its time is over */
void sandbox_tell_destroyers(struct sandbox *s, int r, const struct err *e);
/* It is being destroyed, and that is not what asks. */
static inline bool sandbox_is_ending(const struct sandbox *s)
{
    return s->destroying || (s->salvage && !s->salvage_acts);
}
void sandbox_unmake(struct sandbox *s); /* its state is `destroying` on disk: goes on from there */
/* Removes what there is of it, whatever it takes, then calls after. */
void sandbox_teardown(struct sandbox *s, void (*after)(struct sandbox *s));
/* Somebody waits for a removal that has failed so far: it is tried at once, and they are told. */
void sandbox_retry_now(struct sandbox *s);
void sandbox_torn_down(struct ext_box *b, int r, const struct err *e, const struct ext_report *rep);
void sandbox_tell_stuck(struct sandbox *s, const struct err *e);
/* It died, or cannot be used any more: removes the rest, then it is `failed`. */
void sandbox_fail(struct sandbox *s, const char *step, const char *reason);
/* It is `failed`: it is kept for a while, or destroyed if it never was ready. */
void sandbox_settle_failed(struct sandbox *s);
/* The same while it is made; what the request itself got wrong stays the asker's mistake. */
void sandbox_refuse(struct sandbox *s, const char *step, const struct err *e);

/* --- run.c --- */
/* Whether it is there to be used now, for something that takes these bits of its extension. */
int sandbox_check_usable(const struct sandbox *s, unsigned can, struct err *e);
/* True if it is active already; else op hears when it is. */
bool sandbox_activate(struct sandbox *s, const struct actor *who, struct sandbox_op *op);
void sandbox_settle(struct sandbox *s);        /* becomes ready in a moment if nothing runs */
void sandbox_program_ended(struct sandbox *s); /* s->programs was counted up for it */

/* --- ttl.c --- */
void ttl_start(struct sandbox *s); /* it is ready, or was found again */
void ttl_hurry(struct sandbox *s); /* it is expiring, and what ran has ended */
void ttl_stop(struct sandbox *s);
/* When it ends if it is not used: the earlier of its deadline and its idle deadline. */
int64_t ttl_end(const struct sandbox *s);
/* The record's time is at least so long from now, within what it may be. */
void ttl_prolong(struct sandbox_record *next, int64_t duration_ns);
void ttl_resume(struct sandbox *s);      /* a destroy did not happen after all */
void ttl_keep_failed(struct sandbox *s); /* for people to look at; not for ever */
void ttl_usage(struct ext_box *b, int r, const struct ext_usage *u);

/* --- recover.c --- */
void sandbox_adopted(struct ext_box *b, int r, const struct err *e, const struct ext_found *found,
                     size_t n);

#endif
