/* SPDX-License-Identifier: Apache-2.0 */
/* Captures the files that a sandbox has written as a new layer; one capture of a sandbox at a time.
 *
 * The backend hands over the writable directory, a layer worker gets ready, the sandbox is frozen,
 * its files are taken, and it is thawed (or stays frozen, for a pause) before the layer is forced
 * to disk. After any failure the sandbox is thawed. */
#ifndef CONTROL_SANDBOX_CAPTURE_H
#define CONTROL_SANDBOX_CAPTURE_H

#include "control/layer/layer_worker.h"

struct caller;
struct capture;
typedef void capture_fn(struct capture *c, int r, const struct err *e);

/* Embedded in its owner. */
struct capture {
    /* in */
    bool stay_frozen; /* do not thaw it when the capture is done */
    bool in_memory;   /* with stay_frozen: only freeze it. `layer` is "" */
    /* Its account's share of jobs on layers is used; NULL: the sandbox's, and the capture is not
     * refused. */
    const struct caller *caller;
    capture_fn *done;
    /* Bytes taken so far; may be NULL. */
    void (*progress)(struct capture *c, uint64_t bytes);
    /* out */
    char layer[ID_MAX]; /* the capture holds a reference, which the owner must release */
    uint64_t bytes, entries;
    bool kept; /* with stay_frozen: the layer does not exist until it is taken (LAYERS_TAKE) */
    int64_t pause_ns; /* how long the sandbox was frozen; 0: it still is */
    /* private */
    struct sandbox *sandbox_;
    struct layer_job job_;
    int64_t frozen_ns_;
    bool paused_; /* the sandbox was paused before: no freeze is needed */
    bool frozen_, freezing_, thawing_, finished_;
    bool held_; /* `layer` is referenced, though the layer may not exist yet */
    int r_;
    struct err err_;
    struct loop_later later_;
};

/* `done` is never called from inside. -ERR_CONFLICT: the sandbox is not running; -ERR_BUSY: another
 * capture is under way; -ERR_QUOTA: too many jobs of the caller wait. */
void capture_start(struct sandbox *s, struct capture *c);
/* Of a sandbox whose box is gone: its files on disk, which stay in place (`kept`). -ERR_NOT_FOUND:
 * its files were in memory. */
void capture_remains(struct sandbox *s, struct capture *c);
/* Results from the sandbox's box. */
void capture_on_upper(struct sandbox *s, int r, const struct err *e, int *fd);
void capture_on_held(struct sandbox *s, bool frozen, int r, const struct err *e);
/* The sandbox ends, or its box is gone: fails the capture, unless the sandbox is paused and its
 * files are on disk. */
void capture_abort(struct sandbox *s);

#endif
