/* SPDX-License-Identifier: Apache-2.0 */
/* Computes digests of layers (engine/layers/digest.h), one layer at a time: compares each with the
 * digest on record, or stores the first one. */
#ifndef CONTROL_LAYER_DIGEST_H
#define CONTROL_LAYER_DIGEST_H

#include "control/layer/layer_worker.h"
#include "control/layer/layers.h"

struct caller;
struct digest_recording;

/* Embedded in its owner. */
struct digest_op {
    /* in */
    /* Its account's share of digests is used; NULL: the daemon, at idle priority, and its layers
     * are not referenced meanwhile. */
    const struct caller *caller;
    /* Bytes that were read so far; may be NULL. */
    void (*at)(struct digest_op *op, uint64_t bytes);
    /* -ERR_CONFLICT: a layer is damaged; -ERR_QUOTA: too many digests of the caller wait; without a
     * caller, -ERR_NOT_FOUND: the layer does not exist. */
    void (*done)(struct digest_op *op, int r, const struct err *e);
    /* out */
    size_t n, first; /* layers with a digest; those stored for the first time */
    uint64_t bytes;
    /* private */
    struct control *control_;
    char names_[LAYERS_STACK_MAX][LAYER_NAME_MAX];
    size_t count_;
    bool running_;
    struct layer_job job_;
    struct digest_recording *recording_; /* the transaction that it waits for */
    struct loop_later later_;
    int r_;
    struct err err_;
};

/* Adds layers, before the start. More than LAYERS_STACK_MAX are an error, which done gets. */
void digest_add(struct digest_op *op, const struct json_strs *names);
void digest_start(struct control *c, struct digest_op *op);
void digest_cancel(struct digest_op *op); /* done is not called; harmless after the end */

/* The digest on record: "sha256:…", or "" if unknown. */
const char *layer_digest(struct control *c, const char *name);

#endif
