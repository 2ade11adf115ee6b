/* What a sandbox has written, as a new layer: one at a time of a sandbox.
 *
 * It is asked for what it writes, a keeper gets ready, the sandbox is brought to a standstill, its
 * files are taken, and it goes on (or stays still, for a pause) before the layer is forced to disk.
 * Whatever fails, it goes on. */
#ifndef CONTROL_CAPTURE_H
#define CONTROL_CAPTURE_H

#include "control/keeper.h"

struct capture;
typedef void capture_fn(struct capture *c, int r, const struct err *e);

/* A member of its owner. */
struct capture {
    /* in */
    bool stay; /* still, when it is done */
    capture_fn *done;
    /* How much was taken so far; may be NULL. */
    void (*progress)(struct capture *c, uint64_t bytes);
    /* out */
    char layer[ID_MAX]; /* a reference is held on it: the owner's to give back */
    uint64_t bytes, entries;
    bool kept;        /* with `stay`: there is no such layer before it is taken (LAYERS_TAKE) */
    int64_t pause_ns; /* for how long it stood still; 0: it still does */
    /* private */
    struct sandbox *sandbox_;
    struct keeper_job job_;
    int64_t still_ns_;
    bool paused_; /* nothing of it moves anyway */
    bool frozen_, freezing_, thawing_, finished_;
    bool held_; /* its layer has its name, though it may not be there yet */
    int r_;
    struct err err_;
    struct loop_later later_;
};

/* Nothing is told from inside. -ERR_CONFLICT: it is not running; -ERR_BUSY: another is under way.
 */
void capture_start(struct sandbox *s, struct capture *c);
/* The sandbox's box tells. */
void capture_upper(struct sandbox *s, int r, const struct err *e, int *fd);
void capture_held(struct sandbox *s, bool frozen, int r, const struct err *e);
/* The sandbox ends, or its box is gone: told as a failure, but for one that is paused and whose
 * files are on disk. */
void capture_abort(struct sandbox *s);

#endif
