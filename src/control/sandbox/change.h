/* SPDX-License-Identifier: Apache-2.0 */
/* A change of a sandbox: state transitions, with one event each, in one transaction.
 *
 * Changes of one sandbox are applied one at a time, in the order of submission: the state table is
 * checked when a change's turn comes, and the sandbox shows the new state when it is on disk. Then
 * the events are published, then `done` is called. */
#ifndef CONTROL_SANDBOX_CHANGE_H
#define CONTROL_SANDBOX_CHANGE_H

#include "control/control.h"

enum { CHANGE_MOVES_MAX = 3, CHANGE_TEXT_MAX = 512 };

struct change;
typedef void change_done_fn(struct change *c, int r, const struct err *e);

struct change {
    enum sandbox_state to[CHANGE_MOVES_MAX]; /* one after the other */
    unsigned n_to;
    const char *type; /* of an event that is no state transition; NULL: none */
    struct actor actor;
    char reason[RECORD_REASON_MAX];
    char step[32];
    struct str detail;          /* of the event: JSON; borrowed until the change is done */
    char text[CHANGE_TEXT_MAX]; /* room for it */
    bool stubborn;              /* retried until the store accepts it */
    bool always;                /* recorded even if the owner has used up its events */

    /* Checked in addition to the state table when the change's turn comes; may be NULL. */
    int (*check)(const struct change *c, struct err *e);
    /* Edits the record's other fields; may be NULL. */
    void (*edit)(struct change *c, struct sandbox_record *next);
    /* Adds to the same transaction; may be NULL. */
    void (*also)(struct change *c, struct store_txn *t);
    change_done_fn *done; /* may be NULL; the change is freed afterwards */
    void *user;
    int64_t number; /* for edit */

    struct sandbox *sandbox; /* referenced */
    struct sandbox_record next_;
    struct store_txn txn_;
    struct loop_timer retry_;
    struct loop_later later_;
    struct link link_;
};

struct change *change_new(struct sandbox *s, const struct actor *who, const char *reason);
void change_to(struct change *c, enum sandbox_state to);
/* Takes ownership of the change. `done` gets -ERR_CONFLICT if the state table forbids it. */
void change_submit(struct change *c);

#endif
