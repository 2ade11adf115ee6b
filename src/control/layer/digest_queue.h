/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of captured layers are computed in the background, one layer at a time.
 *
 * A capture must cost the same for any amount of data, so it reads no contents. Layers are read
 * some seconds later, at the lowest priority: a layer that is removed before costs nothing. A layer
 * that turns out to equal one of an older snapshot of the same owner is deduplicated
 * (control/snapshot/dedup.c). A crash loses nothing: layers without a digest are queued again by the
 * next start. */
#ifndef CONTROL_LAYER_DIGEST_QUEUE_H
#define CONTROL_LAYER_DIGEST_QUEUE_H

#include "control/layer/digest.h"

struct digest_queue {
    struct control *control;
    struct list waiting; /* struct layer, in the order of their due times */
    struct loop_timer timer;
    char layer[LAYER_NAME_MAX]; /* the current one; "": none */
    struct digest_op op;
};

void digest_queue_open(struct control *c); /* when all layers are known */
void digest_queue_close(struct control *c);

/* Queues a referenced layer that is complete on disk, or whose snapshot was just stored. */
void digest_queue_add(struct control *c, const char *name);
void digest_queue_forget(struct control *c, struct layer *l); /* its last reference was dropped */

/* The current layer has a digest: replaces it in snapshots by an older layer of the same content
 * (control/snapshot/dedup.c), and then calls digest_queue_next(). */
void digest_queue_dedup(struct control *c);
void digest_queue_next(struct control *c); /* continues with the next layer */

#endif
