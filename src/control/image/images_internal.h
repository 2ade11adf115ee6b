/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of images, for the files that create, fill and remove them. */
#ifndef CONTROL_IMAGE_IMAGES_INTERNAL_H
#define CONTROL_IMAGE_IMAGES_INTERNAL_H

#include "control/image/images.h"
#include "control/layer/digest.h"
#include "control/layer/layer_slots.h"
#include "control/layer/layer_worker.h"
#include "control/plane/plane.h"
#include "control/image/image_registry.h"

enum {
    IMAGES_PARALLEL = 3, /* layers of one image in parallel */
    IMAGES_REQUESTS = 64,
    IMAGE_ARENA_MAX = 64 << 20,
};

struct images {
    struct control *control;
    struct fetcher_share requests;
    int dir;               /* images/ in the state directory: archives being downloaded */
    struct list images;    /* struct image */
    struct list makings;   /* struct image_making */
    struct list jobs;      /* struct image_job */
    struct image_op start; /* removes the garbage of earlier daemon runs */
    unsigned commits;      /* in the store, under way */
};

/* --- images.c --- */
/* Removing the row of a layer failed, or succeeded; the layer may have been added again
 * meanwhile. */
void layer_cancel_removal(struct images *x, const char *name);
void layer_forget(struct images *x, const char *name);
/* Replaces the image of the same name. */
int image_add(struct images *x, const struct image_record *r, struct err *e);
void image_forget(struct images *x, const char *ref);
void image_digest(struct str text, char ret[static OCI_DIGEST_MAX]); /* of a document */
bool layer_is_used(struct images *x, const char *name);

/* --- image_make.c: an image whose parts are known --- */

enum image_part_state { PART_WAITS, PART_FETCHES, PART_UNPACKS, PART_STORES, PART_DONE };

/* A layer that is being fetched or unpacked. */
struct image_part {
    struct image_making *making;
    enum image_part_state state;
    char layer[LAYER_NAME_MAX];
    char digest[OCI_DIGEST_MAX]; /* of the blob; "": a part of an archive, which was checked */
    uint64_t at, size;           /* its range in the file */
    int fd;                      /* the blob, or the archive */
    uint64_t bytes;              /* progress of the current step */
    bool resumed;                /* a part of the blob was here before */
    struct registry_get get;
    struct layer_job job;
    struct store_txn txn;
};

struct image_making {
    struct images *images;
    struct image_op *op; /* NULL: no caller waits */
    struct caller caller;
    char ref[OCI_REFERENCE_MAX];
    char digest[OCI_DIGEST_MAX];
    struct buf config_text;
    struct arena arena;
    struct oci_config config;
    struct registry registry;
    bool from_registry, squash;
    struct oci_reference requested;
    struct oci_platform platform;
    struct registry_get get; /* for documents */
    struct oci_manifest manifest;
    unsigned indexes; /* that led to the manifest */
    struct image_part *parts;
    size_t n;
    /* For layer workers: the bytes and files that the layers may have; -1: none is unpacked yet. */
    int budget;
    unsigned busy; /* operations that must end before this may be freed */
    struct err err;
    bool failed, ending;
    int64_t reported_ns;
    struct store_txn txn;
    struct event_record event;
    struct thread_job sifting;
    bool sifts; /* a thread is planning it: its parts must not be accessed */
    struct sift *sift;
    struct loop_later later;
    struct link link;
};

static inline size_t image_making_parts(const struct image_making *m)
{
    return m->sifts ? 0 : m->n;
}

struct image_making *image_making_new(struct control *c, const struct caller *who,
                                      struct image_op *op);
/* Fails it. Reports once, and is freed when nothing of it is under way. */
void image_making_fail(struct image_making *m, const struct err *e);
void image_making_report(struct image_making *m, const char *step, uint64_t bytes, uint64_t total);
/* Sets the configuration's text, unless it is too long. */
int image_making_set_config(struct image_making *m, struct str text, struct err *e);
/* Parses config_text and makes a part for each layer; the caller then fills in where each comes
 * from. */
int image_making_plan(struct image_making *m, struct err *e);
/* Fetches and unpacks missing layers, then stores the image. */
void image_making_continue(struct image_making *m);
/* An operation of a failed one has ended. */
void image_making_settle(struct image_making *m);
void image_making_cancel(struct image_making *m);
void image_makings_wake(struct images *x); /* a layer that others wait for may be complete */

/* --- image_sift.c: the contents of an archive --- */
struct sift;
/* Selects the next image of the archive; false: that was the last. */
bool sift_next_image(struct sift *s);
void sift_read_image(struct image_making *m); /* reads the selected image */
bool sift_has_several(const struct sift *s);
void sift_stop(struct sift *s); /* harmless on NULL, and on a stopped one */
void sift_free(struct sift *s);

/* --- image_jobs.c: removing and verifying --- */

struct image_job {
    struct images *images;
    struct image_op *op;  /* NULL: no caller waits */
    struct caller caller; /* whose account its jobs count for; no owner: the daemon */
    struct layer_job layer_worker;
    struct digest_op digesting;
    struct list names; /* of layers to be removed */
    struct store_txn txn;
    struct event_record event;
    char ref[OCI_REFERENCE_MAX]; /* of the image that is being removed */
    char layer[LAYER_NAME_MAX];  /* the current layer */
    bool storing;
    bool removing; /* `layer` must not be created meanwhile */
    struct err err;
    struct loop_later later;
    struct link link;
};
/* Removes the layers of a failed one, then reports its error to `op`, which may be NULL. */
void images_undo(const struct image_making *m, struct image_op *op);
void image_job_cancel(struct image_job *j); /* its caller leaves */
void image_job_drop(struct image_job *j);   /* when the daemon ends */

#endif
