/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: the files of sandboxes at a moment. All snapshots are in memory. */
#ifndef CONTROL_SNAPSHOT_SNAPSHOTS_H
#define CONTROL_SNAPSHOT_SNAPSHOTS_H

#include "control/image/base_image.h"
#include "control/sandbox/capture.h"
#include "control/control.h"
#include "lib/map/map.h"
#include "control/layer/layers.h"
#include "control/layer/digest.h"
#include "lib/quota/quota.h"

struct snapshot {
    struct map_entry entry;
    struct arena arena; /* holds the data of the other members */
    struct snapshot_record record;
    struct quota_hold stored, taken; /* its bytes; itself … */
    struct quota_hold apart;         /* … and its bytes as a checkpoint */
    struct json_strs layers;
    struct base_image base; /* the stored image below them */
    bool stays;             /* its layers could not be flattened */
    struct link checkpoint; /* in the list of its sandbox (checkpoints.h) */
};

int snapshots_load(struct control *c, struct err *e); /* blocks; for the start */
void snapshots_close(struct control *c);

/* Flattens the snapshots with high stacks in the background, one at a time. */
void snapshots_flatten(struct control *c);
void snapshots_flatten_stop(struct control *c);
void dedup_stop(struct control *c); /* ends the deduplication that is under way */

/* By its id, if the caller may see it, or by its name among the snapshots of the caller's owner that
 * the caller may see: the newest one; else NULL. */
struct snapshot *snapshot_find(struct control *c, const struct caller *who, struct str id);
/* Each snapshot that the caller may see, in no order; without checkpoints. */
void snapshots_each(struct control *c, const struct caller *who,
                    void (*each)(const struct snapshot *s, void *user), void *user);

/* Whether a name is valid: it has no control characters, and does not look like an id. */
int snapshot_name_check(struct str name, struct err *e);

enum { SNAPSHOTS_PER_OWNER = 1000, CHECKPOINTS_PER_OWNER = 1000 };

/* Deletes a snapshot; its layers are removed with their last references. */
struct snapshot_delete_op {
    void (*done)(struct snapshot_delete_op *op, int r, const struct err *e);
    struct control *control_;
    char id_[ID_MAX];
    struct store_txn txn_;
};
void snapshot_delete(struct control *c, const struct snapshot *s, struct snapshot_delete_op *op);

/* Of a snapshot that is a checkpoint of its sandbox (checkpoints.h). */
struct checkpoint_note {
    int64_t number, parent, changed;
    const char *cause;
    int64_t spare;  /* a checkpoint that is not removed to make room for it; 0: none */
    bool automatic; /* it may use half of the owner's budget */
};

/* Takes a snapshot of a live or paused sandbox. -ERR_QUOTA if its owner, or the caller's family of
 * tokens, has too many. */
struct snapshot_op {
    const struct caller *caller;
    const char *name;                         /* "" or NULL: none */
    int64_t keep_ns;                          /* after this time it is deleted; 0: never */
    const struct checkpoint_note *checkpoint; /* NULL: it is no checkpoint */
    /* out */
    const struct snapshot *snapshot; /* borrowed until the next turn of the loop */
    void (*done)(struct snapshot_op *op, int r, const struct err *e);
    /* private */
    struct sandbox *sandbox_;
    struct snapshot *new_;
    struct capture capture_;
    struct flatten_op flatten_;
    struct snapshot_delete_op dropping_;
    struct arena arena_;
};
/* It cannot be cancelled: the owner stays until done. */
void sandbox_snapshot(struct sandbox *s, struct snapshot_op *op);

/* Deletes the expired snapshots of all owners. */
void snapshots_expire(struct control *c);

enum { DIFF_BYTES_MAX = 16 << 20 }; /* -ERR_TOO_BIG beyond */

/* The changes of a live or paused sandbox since it was created, or compared with a snapshot, as
 * records of engine/layers/changes.h in a file that the owner gets with done. */
struct diff_op {
    const struct caller *caller; /* must be able to see that snapshot */
    const char *against;         /* its id or name; NULL: since the sandbox was created */
    int file;                    /* -1: none */
    uint64_t changes;
    void (*done)(struct diff_op *op, int r, const struct err *e);
    struct sandbox *sandbox_;
    struct layer_job job_;
    char layer_[LAYER_NAME_MAX]; /* of a paused sandbox; referenced */
    struct link link_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
void sandbox_diff(struct sandbox *s, struct diff_op *op);

/* Exports a snapshot as one file (engine/layers/archive.h), which the owner gets with done. */
struct export_op {
    const struct caller *caller;
    const char *id;    /* the snapshot's */
    bool without_base; /* leaves out the image's layers: the importing daemon must have them */
    /* The file has so many bytes now; a failure ends the export. May be NULL. */
    int (*grew)(struct export_op *op, uint64_t bytes, struct err *e);
    int file;
    void (*done)(struct export_op *op, int r, const struct err *e);
    struct control *control_;
    struct arena arena_;
    struct json_strs layers_, base_; /* referenced */
    struct digest_op digesting_;
    struct layer_job job_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
/* It cannot be cancelled: the owner stays until done. */
void snapshot_export(struct control *c, const struct snapshot *s, struct export_op *op);

/* Imports such a file as a new snapshot of the caller. -ERR_INVALID: not a snapshot file, or
 * damaged; -ERR_NOT_FOUND if it was exported without the image's layers, and they are not here. */
struct import_op {
    const struct caller *caller;
    const char *name;                /* NULL: the file's */
    int file;                        /* position 0; stays the owner's */
    const struct snapshot *snapshot; /* out; borrowed until the next turn of the loop */
    void (*done)(struct import_op *op, int r, const struct err *e);
    struct control *control_;
    struct arena arena_;
    int text_; /* of the manifest */
    struct snapshot_manifest *manifest_;
    struct json_strs names_;       /* of its layers here; referenced … */
    struct layer_record *records_; /* … and their rows */
    struct snapshot *new_;
    struct layer_job job_;
    struct store_txn txn_;
    struct event_record event_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
void snapshot_import(struct control *c, struct import_op *op);

/* Checks the digests of all layers of a snapshot, its own and its image's. */
void snapshot_verify(struct control *c, const struct snapshot *s, struct digest_op *op);

/* --- for this module --- */

int snapshot_new(const struct snapshot_record *r, struct snapshot **ret, struct err *e);
void snapshot_free(struct snapshot *s);
/* Charges it to its owner, before it is stored, until it is freed. */
void snapshot_count(struct control *c, struct snapshot *s);
void snapshot_keep(struct control *c, struct snapshot *s);    /* it is on disk */
void snapshot_leave(struct control *c, struct snapshot *s);   /* out of the map */
void snapshot_release(struct control *c, struct snapshot *s); /* and it is not in the map */
struct snapshot *snapshot_known(const struct control *c, struct str id); /* NULL: unknown */
/* Whether the owner, and the caller's family of tokens, may have another snapshot of that size:
 * -ERR_QUOTA, or -ERR_FULL. */
int snapshot_check_quota(struct control *c, const char *owner, const struct caller *by,
                         uint64_t bytes, struct err *e);
/* The same for a checkpoint, without the rest of what recording it needs. An automatic one leaves
 * half of the bytes to snapshots and other checkpoints. */
int snapshot_check_checkpoint(struct control *c, const char *owner, const struct caller *by,
                              uint64_t bytes, bool automatic, struct err *e);
uint64_t snapshot_room(const struct control *c, const struct caller *of); /* bytes it may add */
uint64_t checkpoint_room(const struct control *c, const struct caller *of, bool automatic);

/* Replaces a snapshot's layers by an equivalent list. done is not called if the call fails. */
struct replace_layers_op {
    char id[ID_MAX];
    struct json_strs layers; /* referenced by the owner until done */
    void (*done)(struct replace_layers_op *op, int r, const struct err *e);
    struct control *control_;
    struct snapshot *next_;
    struct store_txn txn_;
};
int snapshot_replace_layers(struct control *c, struct replace_layers_op *op, struct err *e);

/* Creates several sandboxes with the files of this one, as by create. All of them, or none: if one
 * fails, the others are destroyed before the error is reported. */
enum { FORK_MAX = 100 };
struct fork_undo;
struct fork_op {
    const struct caller *caller;
    unsigned count;
    int64_t ttl_ns;   /* 0: that of this sandbox's request */
    bool keep_env;    /* copy the variables that it was created with */
    const char *name; /* of the copy, with a count of 1; NULL: none */
    bool partly;      /* keep those that were created if another failed: the owner reports each */
    /* out */
    struct create_op *made; /* `count` entries; record NULL: not created */
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
    struct fork_undo *undo_; /* for each that was created */
    const char *left_;       /* a sandbox that could not be destroyed */
    int r_;
    struct err err_;
};
/* Then call fork_op_done(). It cannot be cancelled. */
void sandbox_fork(struct sandbox *s, struct fork_op *op);
void fork_op_done(struct fork_op *op);

#endif
