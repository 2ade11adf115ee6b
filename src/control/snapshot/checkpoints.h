/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: numbered snapshots of one sandbox, which end with it, and the way back to them.
 *
 * The sandbox is `at` the checkpoint whose files it had last. A new one is taken only if files
 * differ from that one, which becomes its parent. So checkpoints are a tree, as changes of an
 * editor are: an undo goes to the sandbox's own past, and a number leads to any other branch. */
#ifndef CONTROL_SNAPSHOT_CHECKPOINTS_H
#define CONTROL_SNAPSHOT_CHECKPOINTS_H

#include "control/snapshot/snapshots.h"

struct change;

enum { CHECKPOINTS_MAX = 50 }; /* of a sandbox; the oldest is removed */

/* Whether a cause is valid: it has no control characters. */
int checkpoint_cause_check(struct str cause, struct err *e);

/* The checkpoint with that number, or the newest one before it; NULL: none. */
const struct snapshot *checkpoint_find(const struct sandbox *s, int64_t number);
const struct snapshot *checkpoint_at_most(const struct sandbox *s, int64_t number);
/* Each checkpoint, the oldest first. */
void checkpoints_each(const struct sandbox *s, void (*each)(const struct snapshot *x, void *user),
                      void *user);
int64_t checkpoint_now(const struct sandbox *s);   /* that it is at; 0: none */
int64_t checkpoint_undos(const struct sandbox *s); /* how often it went back */
unsigned undo_programs(const struct sandbox *s);   /* that run and would end */

/* Takes a checkpoint of a live or paused sandbox, unless its files are those of the last one.
 * Older ones of the sandbox make room for it. -ERR_QUOTA: there is none even so; -ERR_BUSY: another
 * one is being taken. */
struct checkpoint_op {
    const struct caller *caller;
    const char *cause; /* borrowed until done */
    bool automatic;    /* no person waits for it: it may use half of the owner's budget */
    /* out */
    const struct snapshot
        *checkpoint; /* with its files; borrowed until the next turn of the loop */
    bool taken;      /* and it is new */
    void (*done)(struct checkpoint_op *op, int r, const struct err *e);
    /* private */
    struct sandbox *sandbox_;
    struct diff_op diff_;
    struct snapshot_op snapshot_;
    struct checkpoint_note note_;
    struct loop_later later_;
    bool holds_; /* it has set sandbox_->checkpointing, and references it */
    void (*compared_)(struct checkpoint_op *op, int r, const struct err *e);
};
/* It cannot be cancelled: the owner stays until done. */
void checkpoint_take(struct sandbox *s, struct checkpoint_op *op);

/* Replaces the files of a live or paused sandbox by those of a checkpoint. Its processes end. The
 * files that it has are a checkpoint before that, so that nothing is lost. A sandbox that ran is
 * resumed; a paused one is stopped afterwards. Until the change is on record, a failure leaves it
 * with the files and in the state that it had, or paused. */
struct undo_op {
    const struct caller *caller;
    int64_t to; /* number; 0: the newest of its past with other files */
    /* out */
    int64_t number, kept;         /* the checkpoints with its files now, and with those before */
    int64_t changed;              /* paths that differed from checkpoint_now(); -1: unknown */
    char cause[RECORD_CAUSE_MAX]; /* of the checkpoint … */
    int64_t created_ns;           /* … and its time */
    void (*done)(struct undo_op *op, int r, const struct err *e);
    /* private */
    struct sandbox *sandbox_;
    unsigned step_;
    bool ran_, paused_;
    int64_t target_;
    struct sandbox_op moving_;
    struct checkpoint_op present_;
    struct capture capture_;
    struct arena names_; /* of layers_; and after those have replaced them, of old_layers_ */
    struct json_strs layers_, old_layers_;
    char layer_[LAYER_NAME_MAX], old_layer_[LAYER_NAME_MAX];
    bool replaced_;
    int64_t old_at_, bytes_, entries_, old_bytes_, old_entries_;
    int r_;
    struct err err_;
    struct loop_later later_;
};
/* It cannot be cancelled: the owner stays until done. */
void sandbox_undo(struct sandbox *s, struct undo_op *op);

/* Takes checkpoints at the interval of its request, if it has one, while the sandbox lives. */
void checkpoint_timer_start(struct sandbox *s); /* it is ready, or was adopted */
void checkpoint_timer_stop(struct sandbox *s);

/* Removes the checkpoints of a sandbox that is destroyed, and after a start those of sandboxes that
 * the daemon does not know. */
void checkpoints_remove(struct sandbox *s);
void checkpoints_sweep(struct control *c);

/* --- for this module --- */

void checkpoint_join(struct control *c, struct snapshot *s);
void checkpoint_leave(struct control *c, struct snapshot *s);
void checkpoint_fill(struct snapshot_record *r, const struct checkpoint_note *n);
/* The change that records it also notes that the sandbox is at it; then its result is known. */
void checkpoint_note_change(struct change *ch, const struct checkpoint_note *n);
void checkpoint_settle(struct sandbox *s, const struct checkpoint_note *n, int r);
/* Whether the sandbox may have one more, of that size. 1: an older one is being removed, and the
 * question is asked again when `drop` is done. */
int checkpoint_check_room(const struct sandbox *s, const struct caller *by,
                          const struct checkpoint_note *n, uint64_t bytes,
                          struct snapshot_delete_op *drop, struct err *e);
/* Whether it may if older ones are removed. */
int checkpoint_could_fit(const struct sandbox *s, const struct caller *by,
                         const struct checkpoint_note *n, uint64_t bytes, struct err *e);
void checkpoints_prune(const struct sandbox *s, int64_t spare); /* to CHECKPOINTS_MAX */

/* The parts of checkpoint_take(), for an owner that references the sandbox until done: compares
 * → op->compared_, with note_.changed; then records. */
void checkpoint_begin(struct sandbox *s, struct checkpoint_op *op);
void checkpoint_compare(struct checkpoint_op *op);
void checkpoint_record(struct checkpoint_op *op);

#endif
