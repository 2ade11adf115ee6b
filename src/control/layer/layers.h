/* SPDX-License-Identifier: Apache-2.0 */
/* Layers in the storage, with reference counts.
 *
 * A captured layer ("lay_…") is kept while it is referenced: by a snapshot, or by a sandbox that
 * was built on it or was paused. All of these are in memory, and so are the counts. A layer worker
 * removes unreferenced layers, one at a time, after the store was forced to disk: a power cut must
 * not bring back a record that names a removed layer. After a start, when all records are loaded,
 * unreferenced layers on disk are removed. So a new layer is created first and then stored in a
 * record: a crash in between leaves only an orphan.
 *
 * A permanent layer has a row with its digest (control/layer/digest.h). The row of a captured layer
 * is written when the digest is known, and removed with the last reference; the row of an image's
 * layer is written before the image's (control/image/images.h). */
#ifndef CONTROL_LAYER_LAYERS_H
#define CONTROL_LAYER_LAYERS_H

#include "base/buf.h"
#include "lib/map/map.h"
#include "control/layer/layer_worker.h"
#include "lib/json/bind.h"
#include "lib/loop/timer.h"
#include "domain/oci/manifest.h"
#include "domain/store/store.h"

enum {
    LAYERS_OF_SNAPSHOT_MAX = 20, /* if they cannot be flattened */
    LAYERS_HIGH = 12,            /* a higher stack is flattened before a sandbox is built on it */
    LAYERS_FLAT = 8,             /* a snapshot with a higher stack is flattened in the background */
};
_Static_assert((int)LAYERS_OF_SNAPSHOT_MAX + (int)OCI_LAYERS_MAX <= (int)LAYERS_STACK_MAX,
               "snapshots fit on any image");

/* The base below the layers of a snapshot: the host's system directories, or the layers of an
 * image. FLOOR_UNSEEN: a directory that layer workers cannot read, or unknown. */
struct layers_floor {
    enum { FLOOR_UNSEEN, FLOOR_HOST, FLOOR_IMAGE } kind;
    struct json_strs image; /* borrowed until layers_flatten() returns */
};

/* A layer that is referenced, or has a row. */
struct layer {
    struct map_entry entry;
    struct link link;    /* in doomed, or leaving */
    struct link waiting; /* in the digest queue (control/layer/digest_queue.h) … */
    int64_t due_ns;      /* … when its turn comes */
    unsigned refs;
    bool on_record;             /* it has a row … */
    bool leaving;               /* … which is removed, or being removed */
    struct layer_record record; /* its name, and the other fields if known */
};

struct layers {
    struct map known;    /* struct layer */
    struct list doomed;  /* to be removed … */
    struct list leaving; /* … when the store has been forced to disk, … */
    bool forcing;        /* … which is under way */
    struct store_txn txn;
    struct list boxes;           /* struct cleared_box: directories to be removed … */
    struct loop_timer clear_due; /* … at this time, together */
    bool on_disk;                /* sandboxes write to disk there */
    struct layer_job job;        /* the current job */
    struct control *control;
    unsigned steps; /* remaining steps after the start */
};

void layers_open(struct control *c); /* when every sandbox and snapshot is known */
void layers_close(struct control *c);

void layer_ref(struct control *c, const char *name);
void layer_unref(struct control *c, const char *name);
void layers_ref(struct control *c, const struct json_strs *names);
void layers_unref(struct control *c, const struct json_strs *names);
bool layer_used(struct control *c, const char *name);

bool layer_is_captured(const char *name); /* and not part of an image */
/* NULL: neither referenced nor on record. */
struct layer *layer_known(struct control *c, const char *name);
/* NULL: not on record, or being removed. */
struct layer *layer_on_record(struct control *c, const char *name);
/* Sets the layer's row, or notes that it has none. */
void layer_set_row(struct control *c, const struct layer_record *r);
void layer_delete_row(struct control *c, struct layer *l);

/* Appends names to a list of a job, as far as they fit. */
void layers_list(const struct json_strs *names, char to[][LAYER_NAME_MAX], uint64_t *n);
/* Joins names with blanks, as records have them. */
int layers_join(const struct json_strs *names, struct buf *out);
/* A sandbox was destroyed: removes its writable directory, if it is on disk. */
void layers_clear_box(struct control *c, const char *id);

/* Flattens a stack if it is higher than `most`: the result is the same stack, or one new layer with
 * the same contents. The owner gets references to the result: layers_unref(). */
struct flatten_op {
    struct layers_floor on; /* in; FLOOR_UNSEEN: never flattened */
    unsigned most;          /* in: maximum height */
    struct json_strs stack; /* in and out; borrowed until done */
    void (*done)(struct flatten_op *op);
    struct control *control_;
    struct layer_job job_;
    struct loop_later later_;
    char layer_[ID_MAX];
    const char *one_;
};
/* charge: as of layer_worker_queue(); NULL: the daemon itself. */
void layers_flatten(struct control *c, const struct layer_charge *charge, struct flatten_op *op);
void layers_flatten_cancel(struct flatten_op *op); /* done is not called; harmless after the end */

/* A stack with `first` on top, on the arena. -ERR_TOO_BIG if it is too high. */
int layers_stack(const char *first, const struct json_strs *below, struct arena *a,
                 struct json_strs *ret, struct err *e);

#endif
