/* Images: what can be created from, beside the host's own system.
 *
 * An image is a row that names layers; a layer is a row and a tree in the storage, made and removed
 * by keepers (layers/job.h). Rows are written when what they name is whole, and go before it is
 * removed, so that a kill at any moment leaves garbage at most, which the next start removes. What
 * of an image is under way in memory, an image that names it, or a sandbox or snapshot that stands
 * on it keeps a layer. All of it is in memory as well: there are few. */
#ifndef CONTROL_IMAGES_H
#define CONTROL_IMAGES_H

#include "control/control.h"
#include "layers/job.h"
#include "oci/config.h"
#include "oci/reference.h"

struct image {
    char ref[OCI_REFERENCE_MAX];
    char digest[OCI_DIGEST_MAX]; /* of its manifest */
    char id[OCI_DIGEST_MAX];     /* of its configuration */
    struct str text;             /* of the configuration, as it came */
    struct oci_config config;
    struct json_strs layers; /* names, the lowest first */
    uint64_t bytes;          /* of its layers, unpacked */
    int64_t created_ns;
    struct arena arena_;
    struct link link_;
};

/* Reads what is known. */
int images_open(struct control *c, struct err *e);
/* Begins to remove what is nobody's: once every sandbox of an earlier life is known. */
void images_sweep(struct control *c);
void images_stop(struct control *c); /* cancels what is under way; c->changes counts what stays */
void images_close(struct control *c);

/* The image of that name, as people write it: with the tag "latest" and the configured registry
 * where it names none. -ERR_NOT_FOUND says how to get it. */
int images_find(struct control *c, struct str name, const struct image **ret, struct err *e);
const struct image *images_next(struct control *c, const struct image *after); /* NULL: the first */

/* Live sandboxes and snapshots that stand on one of its layers: how many, and the id of one. */
size_t image_users(struct control *c, const struct image *im, char ret_one[static ID_MAX]);

/* Whether a layer is whole on disk and on record. */
bool images_have(struct control *c, const char *layer);

/* An operation that takes its time; a member of its owner. */
struct image_op;
typedef void image_op_fn(struct image_op *op, int r, const struct err *e);
struct image_op {
    image_op_fn *done; /* once, from the loop */
    /* How far it is: "manifest", "fetch", "unpack", bytes of that, and of how many, or 0; now and
     * then. May be NULL. */
    void (*at)(struct image_op *op, const char *step, uint64_t bytes, uint64_t total);
    /* An import: an image is there, and others of its archive follow. May be NULL. */
    void (*made)(struct image_op *op, const char *ref);
    /* out */
    char ref[OCI_REFERENCE_MAX]; /* what was made; the last, of several */
    uint64_t removed, bytes;     /* prune: layers, bytes in all; verify: layers looked at … */
    uint64_t first;              /* … and of these, for the first time */
    struct making *making_;
    struct image_job *job_;
};

struct image_pull {
    struct str ref;
    struct str platform;    /* empty: this machine's */
    struct str credentials; /* USER:PASSWORD, or empty */
    bool squash;            /* everything in it belongs to root */
};
/* Brings an image here, or what is new of it. What `p` points to is borrowed during the call. */
void images_pull(struct control *c, const struct caller *who, const struct image_pull *p,
                 struct image_op *op);

struct image_import {
    struct str name;     /* empty: what the archive calls it; of one with several, which */
    struct str platform; /* of an archive with several; empty: this machine's */
    int fd;              /* the archive, uncompressed, in a file of ours; taken over */
    bool squash;
};
/* All of an archive with several, one after the other: if one fails, those before it are there. */
void images_import(struct control *c, const struct caller *who, struct image_import *p,
                   struct image_op *op);

/* -ERR_CONFLICT while a sandbox or snapshot uses it, -ERR_NOT_FOUND. Its layers go with the next
 * prune, or with this, if nobody else names them. */
void images_remove(struct control *c, const struct caller *who, struct str ref,
                   struct image_op *op);
/* Removes layers that nobody names, and what was left of pulls that are not under way. */
void images_prune(struct control *c, struct image_op *op);
/* The same, but a pull that broke off less than a day ago can go on. */
void images_prune_old(struct control *c, struct image_op *op);
/* Hashes its configuration, and measures its layers again. -ERR_CONFLICT names what is not what it
 * was. */
void images_verify(struct control *c, struct str ref, struct image_op *op);

/* An image of a sandbox that stands on one: its layers, and what it has written on top; programs
 * are run as in it. -ERR_CONFLICT where it stands on the system of this machine. */
struct commit_op {
    const struct caller *caller;
    const char *image;           /* what to call it */
    char ref[OCI_REFERENCE_MAX]; /* out */
    int64_t pause_ns;            /* out: for how long the sandbox stood still */
    void (*done)(struct commit_op *op, int r, const struct err *e);
};
/* It cannot be cancelled: the owner stays until done. */
void sandbox_commit(struct sandbox *s, struct commit_op *op);

/* Nothing is told any more; what can be given up is. Harmless on one that is over. */
void image_op_cancel(struct image_op *op);

#endif
