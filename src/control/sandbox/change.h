/* A change of a sandbox: moves from state to state, an event each, in one transaction.
 *
 * Changes of one sandbox are made one after the other, in the order they were submitted: the table
 * of states is asked when a change's turn comes, and the sandbox shows the new state when it is on
 * disk. Then the events are told, then `done` is called. */
#ifndef CONTROL_CHANGE_H
#define CONTROL_CHANGE_H

#include "control/control.h"

enum { CHANGE_MOVES_MAX = 3 };

struct change;
typedef void change_done_fn(struct change *c, int r, const struct err *e);

struct change {
    enum sandbox_state to[CHANGE_MOVES_MAX]; /* one after the other */
    unsigned n_to;
    const char *type; /* of an event that is no move; NULL: none */
    struct actor actor;
    char reason[RECORD_REASON_MAX];
    char step[32];
    struct str detail; /* of the event: JSON; borrowed until it is done */
    bool stubborn;     /* must happen: tried again until the store takes it */
    bool always;       /* recorded also if its owner has caused as many events as it may */

    /* Asked when its turn comes, beside the table of states; may be NULL. */
    int (*check)(const struct change *c, struct err *e);
    /* Edits the record beside its state; may be NULL. */
    void (*edit)(struct change *c, struct sandbox_record *next);
    /* Puts more into the same transaction; may be NULL. */
    void (*also)(struct change *c, struct store_txn *t);
    change_done_fn *done; /* may be NULL; the change is freed afterwards */
    void *user;
    int64_t number; /* for edit */

    struct sandbox *sandbox; /* referenced */
    struct sandbox_record next_;
    struct store_txn txn_;
    struct loop_timer again_;
    struct loop_later later_;
    struct link link_;
};

struct change *change_new(struct sandbox *s, const struct actor *who, const char *reason);
void change_to(struct change *c, enum sandbox_state to);
/* Gives it away. -ERR_CONFLICT is told to done where the table of states does not allow it. */
void change_submit(struct change *c);

#endif
