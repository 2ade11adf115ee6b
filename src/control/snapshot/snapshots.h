/* Snapshots: what sandboxes had written at a moment. All of them are in memory. */
#ifndef CONTROL_SNAPSHOTS_H
#define CONTROL_SNAPSHOTS_H

#include "control/base.h"
#include "control/capture.h"
#include "control/control.h"
#include "control/index.h"
#include "control/layers.h"
#include "control/measure.h"
#include "quota/quota.h"

struct snapshot {
    struct index_entry entry;
    struct arena arena; /* what the rest points to */
    struct snapshot_record record;
    struct quota_hold stored, taken; /* its bytes; itself */
    struct json_strs layers;
    struct base base; /* the stored image below them */
    bool stays;       /* its layers could not become one */
};

int snapshots_load(struct control *c, struct err *e); /* blocks; for the start */
void snapshots_close(struct control *c);

/* Makes one layer of the many of a snapshot, then of the next, while nobody waits for it. */
void snapshots_flatten(struct control *c);
void snapshots_flatten_stop(struct control *c);

/* By its id, or the name that its owner gave it, if the caller may see it; else NULL. */
struct snapshot *snapshot_find(struct control *c, const struct caller *who, struct str id);
/* Each that the caller may see, in no order. */
void snapshots_each(struct control *c, const struct caller *who,
                    void (*each)(const struct snapshot *s, void *user), void *user);

/* Whether an owner may give this name: it has no control characters, and is no id. */
int snapshot_name_check(struct str name, struct err *e);

enum { SNAPSHOTS_PER_OWNER = 1000 };

/* Takes one of a live or paused sandbox. -ERR_QUOTA where its owner, or the caller's family of
 * tokens, has as many as it may have. */
struct snapshot_op {
    const struct caller *caller;
    const char *name; /* "" or NULL: none */
    int64_t keep_ns;  /* after this time it is deleted; 0: never */
    /* out */
    const struct snapshot *snapshot; /* borrowed until the next turn of the loop */
    void (*done)(struct snapshot_op *op, int r, const struct err *e);
    /* private */
    struct sandbox *sandbox_;
    struct snapshot *new_;
    struct capture capture_;
    struct flatten_op flatten_;
    struct arena arena_;
};
/* It cannot be cancelled: the owner stays until done. */
void sandbox_snapshot(struct sandbox *s, struct snapshot_op *op);

/* Forgets it; its layers go when nothing stands on them. */
struct unsnap_op {
    void (*done)(struct unsnap_op *op, int r, const struct err *e);
    struct control *control_;
    char id_[ID_MAX];
    struct store_txn txn_;
};
void snapshot_delete(struct control *c, const struct snapshot *s, struct unsnap_op *op);

/* Deletes those whose time is over, whoever's. */
void snapshots_expire(struct control *c);

/* What a live or paused sandbox has changed since it was made, or against a snapshot, as records of
 * layers/changes.h in a file that is the owner's once it is done. */
struct diff_op {
    const struct caller *caller; /* who may see that snapshot */
    const char *against;         /* its id or name; NULL: as it was made */
    int file;                    /* -1: none */
    uint64_t changes;
    void (*done)(struct diff_op *op, int r, const struct err *e);
    struct sandbox *sandbox_;
    struct keeper_job job_;
    char layer_[LAYER_NAME_MAX]; /* of a paused one; held */
    struct link link_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
void sandbox_diff(struct sandbox *s, struct diff_op *op);

/* As one file, to be kept or moved (layers/archive.h); it is the owner's once it is done. */
struct export_op {
    const struct caller *caller;
    const char *id;    /* the snapshot's */
    bool without_base; /* the image's layers are left out: whoever imports it has them */
    int file;
    void (*done)(struct export_op *op, int r, const struct err *e);
    struct control *control_;
    struct arena arena_;
    struct json_strs layers_, base_; /* held */
    struct measure_op measure_;
    struct keeper_job job_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
/* It cannot be cancelled: the owner stays until done. */
void snapshot_export(struct control *c, const struct snapshot *s, struct export_op *op);

/* A new snapshot, the caller's, of such a file. -ERR_INVALID: it is none, or damaged;
 * -ERR_NOT_FOUND where it was exported without the image's layers, and they are not here. */
struct import_op {
    const struct caller *caller;
    const char *name;                /* NULL: what the file says */
    int file;                        /* from its start; the owner's */
    const struct snapshot *snapshot; /* out; borrowed until the next turn of the loop */
    void (*done)(struct import_op *op, int r, const struct err *e);
    struct control *control_;
    struct arena arena_;
    int text_; /* of the manifest */
    struct manifest *manifest_;
    struct json_strs names_;       /* of its layers here; held … */
    struct layer_record *records_; /* … and what is known of each */
    struct snapshot *new_;
    struct keeper_job job_;
    struct store_txn txn_;
    struct event_record event_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
void snapshot_import(struct control *c, struct import_op *op);

/* Measures all layers of a snapshot, its own and its image's. */
void snapshot_verify(struct control *c, const struct snapshot *s, struct measure_op *op);

/* --- for this module --- */

int snapshot_new(const struct snapshot_record *r, struct snapshot **ret, struct err *e);
void snapshot_free(struct snapshot *s);
/* Counts it as its owner's, from before it is on its way to disk until it is freed. */
void snapshot_count(struct control *c, struct snapshot *s);
void snapshot_keep(struct control *c, struct snapshot *s); /* it is on disk */
/* Whether the owner, and the caller's family of tokens, may have one more of that size: -ERR_QUOTA,
 * or -ERR_FULL. */
int snapshot_check_quota(struct control *c, const char *owner, const struct caller *by,
                         uint64_t bytes, struct err *e);
uint64_t snapshot_room(const struct control *c, const struct caller *of); /* bytes it may add */

/* Other layers in the place of a snapshot's, which show the same. On failure nothing is told. */
struct restack_op {
    char id[ID_MAX];
    struct json_strs layers; /* the owner holds them until done */
    void (*done)(struct restack_op *op, int r, const struct err *e);
    struct control *control_;
    struct snapshot *next_;
    struct store_txn txn_;
};
int snapshot_restack(struct control *c, struct restack_op *op, struct err *e);

/* Several sandboxes that begin with what this one has written, each its own: as by create. All of
 * them, or none: what was made before one failed is destroyed before that is told. */
enum { FORK_MAX = 100 };
struct fork_undo;
struct fork_op {
    const struct caller *caller;
    unsigned count;
    int64_t ttl_ns; /* 0: as long as this one was to live */
    bool keep_env;  /* they have the variables that it was created with, too */
    bool partly;    /* those that were made stay where another failed: the owner tells of each */
    /* out */
    struct create_op *made; /* as many as count; record NULL: it was not */
    int64_t pause_ns;
    void (*done)(struct fork_op *op, int r, const struct err *e);
    /* private */
    struct sandbox *sandbox_;
    struct capture capture_;
    struct flatten_op flatten_;
    struct json_strs layers_;
    struct arena arena_;
    struct create_request request_;
    unsigned next_, pending_, undone_;
    struct fork_undo *undo_; /* beside those that were made */
    const char *left_;       /* one that could not be destroyed */
    int r_;
    struct err err_;
};
/* As above; then fork_op_done(). */
void sandbox_fork(struct sandbox *s, struct fork_op *op);
void fork_op_done(struct fork_op *op);

#endif
