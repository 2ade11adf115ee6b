/* SPDX-License-Identifier: Apache-2.0 */
/* Images: root file systems for sandboxes, besides the host's own system.
 *
 * An image is a row that names layers; a layer is a row and a tree in the storage, created and
 * removed by layer workers (engine/layers/job.h). A row is written when its tree is complete, and
 * removed before the tree is, so that a kill at any moment leaves garbage at most, which the next
 * start removes. A layer is kept by pulls and imports under way, by images that name it, and by
 * sandboxes and snapshots that are built on it. All images are in memory as well: there are few. */
#ifndef CONTROL_IMAGE_IMAGES_H
#define CONTROL_IMAGE_IMAGES_H

#include "control/owner/caller.h"
#include "engine/layers/job.h"
#include "lib/loop/list.h"
#include "domain/oci/config.h"
#include "domain/oci/reference.h"

struct control;
struct sandbox;

struct image {
    char ref[OCI_REFERENCE_MAX];
    char digest[OCI_DIGEST_MAX]; /* of its manifest */
    char id[OCI_DIGEST_MAX];     /* of its configuration */
    struct str text;             /* of the configuration, unchanged */
    struct oci_config config;
    struct json_strs layers; /* names, the lowest first */
    uint64_t bytes;          /* of its layers, unpacked */
    int64_t created_ns;
    struct arena arena_;
    struct link link_;
};

/* Loads the rows of the store. */
int images_open(struct control *c, struct err *e);
/* Begins to remove orphans: after all sandboxes of earlier daemon runs are loaded. */
void images_sweep(struct control *c);
/* Whether no pull, import or removal is under way. */
bool images_are_idle(struct control *c);
/* Cancels operations; c->changes counts those that must finish. */
void images_stop(struct control *c);
void images_close(struct control *c);

/* The image of that name, as users write it: the tag defaults to "latest", the registry to the
 * configured one. The message of -ERR_NOT_FOUND says how to get it. */
int images_find(struct control *c, struct str name, const struct image **ret, struct err *e);
const struct image *images_next(struct control *c, const struct image *after); /* NULL: the first */

/* The number of live sandboxes and snapshots that are built on its layers, and the id of one. */
size_t image_users(struct control *c, const struct image *im, char ret_one[static ID_MAX]);

/* A long operation; embedded in its owner. */
struct image_op;
typedef void image_op_fn(struct image_op *op, int r, const struct err *e);
struct image_op {
    image_op_fn *done; /* once, from the loop */
    /* Progress: "manifest", "fetch", "unpack", bytes of that step, and their total, or 0; called
     * now and then. May be NULL. */
    void (*at)(struct image_op *op, const char *step, uint64_t bytes, uint64_t total);
    /* An import: an image is complete, and others of its archive follow. May be NULL. */
    void (*made)(struct image_op *op, const char *ref);
    /* out */
    char ref[OCI_REFERENCE_MAX]; /* the image; the last one, of several */
    /* Prune: layers, bytes in total; verify: layers that were digested … */
    uint64_t removed, bytes;
    uint64_t first; /* … and those whose digest was recorded for the first time */
    struct image_making *making_;
    struct image_job *job_;
};

struct image_pull {
    struct str ref;
    struct str platform;    /* empty: this machine's */
    struct str credentials; /* USER:PASSWORD, or empty */
    bool squash;            /* all its files are owned by root */
};
/* Pulls an image, or the layers that are missing. The data of `p` is borrowed during the call. */
void images_pull(struct control *c, const struct caller *who, const struct image_pull *p,
                 struct image_op *op);

struct image_import {
    struct str name;     /* empty: the archive's name; selects one of several images */
    struct str platform; /* for an archive with several; empty: this machine's */
    int fd;              /* the archive, uncompressed, in a file; ownership is taken */
    bool squash;
};
/* Imports all images of an archive, one at a time: if one fails, those before it stay. */
void images_import(struct control *c, const struct caller *who, struct image_import *p,
                   struct image_op *op);

/* -ERR_CONFLICT while a sandbox or snapshot uses it, -ERR_NOT_FOUND. Its layers are removed now if
 * no other image names them, else by a later prune. */
void images_remove(struct control *c, const struct caller *who, struct str ref,
                   struct image_op *op);
/* Removes layers without references, and the remains of pulls that are not under way. */
void images_prune(struct control *c, const struct caller *who, struct image_op *op);
/* The same, but a pull that broke off less than a day ago can be continued. */
void images_prune_old(struct control *c, struct image_op *op);
/* Checks the digests of its configuration and its layers. The message of -ERR_CONFLICT names the
 * damaged one. */
void images_verify(struct control *c, const struct caller *who, struct str ref,
                   struct image_op *op);

/* Creates an image from a sandbox that is built on one: its layers, with the sandbox's files on
 * top; programs run as in the original image. -ERR_CONFLICT if the sandbox is built on the system
 * of this machine. */
struct commit_op {
    const struct caller *caller;
    const char *image;           /* its new name */
    char ref[OCI_REFERENCE_MAX]; /* out */
    int64_t pause_ns;            /* out: how long the sandbox was frozen */
    void (*done)(struct commit_op *op, int r, const struct err *e);
};
/* It cannot be cancelled: the owner stays until done. */
void sandbox_commit(struct sandbox *s, struct commit_op *op);

/* done is not called; cancels what can be cancelled. Harmless on a completed operation. */
void image_op_cancel(struct image_op *op);

#endif
