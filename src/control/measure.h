/* Measures layers (layers/measure.h), one after the other: what one holds is compared with what is
 * on record of it, or put on record, if nothing is yet. */
#ifndef CONTROL_MEASURE_H
#define CONTROL_MEASURE_H

#include "control/keeper.h"
#include "control/layers.h"

struct recording;

enum { MEASURES_MAX = 4 }; /* that somebody waits for, at a time */

/* A member of its owner. */
struct measure_op {
    /* in */
    bool idle; /* while nobody else wants the machine; its layers are not held meanwhile */
    /* How much was read so far; may be NULL. */
    void (*at)(struct measure_op *op, uint64_t bytes);
    /* -ERR_CONFLICT: one is not what it was; -ERR_BUSY: too many are measured; idle,
     * -ERR_NOT_FOUND: there is none. */
    void (*done)(struct measure_op *op, int r, const struct err *e);
    /* out */
    size_t n, first; /* layers that were measured; for the first time */
    uint64_t bytes;
    /* private */
    struct control *control_;
    char names_[LAYERS_STACK_MAX][LAYER_NAME_MAX];
    size_t count_;
    bool running_;
    struct keeper_job job_;
    struct recording *recording_; /* that it waits for */
    struct loop_later later_;
    int r_;
    struct err err_;
};

/* These, too; before it is started. More than LAYERS_STACK_MAX are an error, told by done. */
void measure_add(struct measure_op *op, const struct json_strs *names);
void measure_start(struct control *c, struct measure_op *op);
void measure_cancel(struct measure_op *op); /* nothing is told; harmless when it is over */

/* What is on record of one: "sha256:…", or "" while it is not known. */
const char *layer_measure(struct control *c, const char *name);

#endif
