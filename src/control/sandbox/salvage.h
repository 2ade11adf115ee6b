/* SPDX-License-Identifier: Apache-2.0 */
/* The last sync of a sandbox that is about to be destroyed, and the changes of its workspace that
 * this sync does not bring to the host. Where no caller asked for a sync (DESTROY_COMPARE, or
 * workspace.at_end of its request), both sides are only compared, after its programs were ended, and
 * each change is left.
 *
 *     sync ── all brought back ──────────────────────────────► destroying
 *      └ something is left ─┬ refuse ──► as it was, with an error
 *                           ├ keep ────► paused ─► snapshot ─► destroying, with its id on record
 *                           │                         └ cannot be stored ─► stays paused
 *                           └ discard ────────────────────────► destroying
 *
 * The sandbox is `destroying` on record only when all of this is done. A daemon that is killed
 * before finds it as it was, or paused with its reason, and then continues. */
#ifndef CONTROL_SANDBOX_SALVAGE_H
#define CONTROL_SANDBOX_SALVAGE_H

#include "backends/backend.h"
#include "control/control.h"
#include "engine/sync/sync.h"

/* How a sandbox ends: the request, and its outcome. */
struct salvage_end {
    struct actor actor;
    char reason[RECORD_REASON_MAX];
    enum destroy_sync sync;
    enum destroy_unsynced unsynced;
    bool expired; /* its time is over: recorded as `expired` */
    bool refuses;
    char kept[ID_MAX]; /* the snapshot of the changes that were not brought back; "": none */
    int64_t kept_until_ns;
    char why[RECORD_REASON_MAX];
};

/* Whether it has a workspace to be brought back before it is destroyed. */
bool salvage_wanted(const struct sandbox *s, enum destroy_sync sync);
/* Ends with sandbox_destroy_now(), or with an error to all that wait for the destroy. */
void salvage_begin(struct sandbox *s, const struct salvage_end *end);
/* Another request to destroy it: the one that allows more counts, and the one that brings more
 * back, until the changes are being stored. */
void salvage_join(struct sandbox *s, const struct salvage_end *end);
/* An answer of its box: the programs that were to end may be gone. */
void salvage_on_usage(struct sandbox *s, int r, const struct backend_usage *u);
/* After a start: continues, if the sandbox was paused to be stored. */
bool salvage_resume(struct sandbox *s);
/* Called while the sandbox is being paused: notes the reason in its detail, if the pause is for
 * storing it. */
bool salvage_note_pause(struct sandbox *s);

#endif
