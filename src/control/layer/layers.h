/* Layers of the storage, and who needs them.
 *
 * A captured layer ("lay_…") is kept as long as somebody names it: a snapshot, or a sandbox that
 * was built on it or was paused. All of these are in memory, so counting them is, too; what nobody
 * names any more is removed by a keeper, one after the other, when the log that says so is forced
 * to disk: a power cut must not bring back a record that names it. At the start, when everybody has
 * been heard of, what lies there without a name is removed. So whoever needs a layer first makes
 * it, then names it on disk: a crash in between leaves nothing but what is swept.
 *
 * A layer that lasts has a row, which says what it holds (control/measure.h): of one that was
 * captured it is written when that is known, and goes with what let go of it; of an image's, before
 * the image is (control/images.h). */
#ifndef CONTROL_LAYERS_H
#define CONTROL_LAYERS_H

#include "base/buf.h"
#include "control/index.h"
#include "control/keeper.h"
#include "json/bind.h"
#include "oci/manifest.h"
#include "store/store.h"

enum {
    LAYERS_OF_SNAPSHOT_MAX = 20, /* where one could not be made of them */
    LAYERS_HIGH = 12,            /* on a higher stack nothing is built before it is one layer */
    LAYERS_FLAT = 8,             /* a snapshot on a higher one gets one layer, when there is time */
};
_Static_assert((int)LAYERS_OF_SNAPSHOT_MAX + (int)OCI_LAYERS_MAX <= (int)LAYERS_STACK_MAX,
               "snapshots fit on any image");

/* What is below the layers of a snapshot: the host's system directories, or layers of an image;
 * FLOOR_UNSEEN: a directory that no keeper can look into, or nobody knows any more. */
struct layers_floor {
    enum { FLOOR_UNSEEN, FLOOR_HOST, FLOOR_IMAGE } kind;
    struct json_strs image; /* borrowed until the keeper has started */
};

/* One that somebody names, or that is on record. */
struct layer {
    struct index_entry entry;
    struct link link;    /* doomed, or leaving */
    struct link waiting; /* to be measured (control/measuring.h) … */
    int64_t due_ns;      /* … from then on */
    unsigned refs;
    bool on_record;             /* it has a row … */
    bool leaving;               /* … which is gone or going */
    struct layer_record record; /* its name, and the rest as far as it is known */
};

struct layers {
    struct index known;  /* struct layer */
    struct list doomed;  /* to be removed … */
    struct list leaving; /* … when the store has forced what let go of them, … */
    bool forcing;        /* … which it is doing */
    struct store_txn txn;
    struct list boxes;     /* of whom what they wrote is, on disk */
    bool on_disk;          /* some write there */
    struct keeper_job job; /* the one that is under way */
    struct control *control;
    unsigned steps; /* of the start that are still to be done */
};

void layers_open(struct control *c); /* when every sandbox and snapshot is known */
void layers_close(struct control *c);

void layer_ref(struct control *c, const char *name);
void layer_unref(struct control *c, const char *name);
void layers_ref(struct control *c, const struct json_strs *names);
void layers_unref(struct control *c, const struct json_strs *names);
bool layer_used(struct control *c, const char *name);

bool layer_is_captured(const char *name); /* and not an image's */
/* NULL: nobody names it, and it is not on record. */
struct layer *layer_known(struct control *c, const char *name);
/* It has this row, or none any more. */
void layer_keep_row(struct control *c, const struct layer_record *r);
void layer_lose_row(struct control *c, struct layer *l);

/* Names as records have them, with a blank between. */
int layers_join(const struct json_strs *names, struct buf *out);
/* A sandbox is no more: what it wrote is removed, if it is on disk. */
void layers_clear_box(struct control *c, const char *id);

/* What a stack is to be called from now on: itself, or if it is too high, one new layer that shows
 * the same. Each name is held for the owner: layers_unref(). */
struct flatten_op {
    struct layers_floor on; /* in; FLOOR_UNSEEN: it stays as it is */
    unsigned most;          /* in: how high it may be */
    struct json_strs stack; /* in and out; borrowed until done */
    void (*done)(struct flatten_op *op);
    struct control *control_;
    struct keeper_job job_;
    struct loop_later later_;
    char layer_[ID_MAX];
    const char *one_;
};
void layers_flatten(struct control *c, struct flatten_op *op);
void layers_flatten_cancel(struct flatten_op *op); /* nothing is told; harmless when it is over */

/* `first` above the others, on the arena. -ERR_TOO_BIG if that is too high a stack. */
int layers_stack(const char *first, const struct json_strs *below, struct arena *a,
                 struct json_strs *ret, struct err *e);

#endif
