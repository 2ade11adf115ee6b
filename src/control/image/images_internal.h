/* The inside of images, for the files that make, fill and remove them. */
#ifndef CONTROL_IMAGES_INSIDE_H
#define CONTROL_IMAGES_INSIDE_H

#include "control/images.h"
#include "control/keeper.h"
#include "control/plane.h"
#include "control/registry.h"

enum {
    IMAGES_PARALLEL = 3, /* layers of one image under way at a time */
    IMAGES_REQUESTS = 64,
    IMAGE_ARENA_MAX = 64 << 20,
};

struct images {
    struct control *control;
    struct fetcher_share requests;
    int dir;               /* images/ in the state directory: archives on their way */
    struct list images;    /* struct image */
    struct list makings;   /* struct making */
    struct list jobs;      /* struct image_job */
    struct image_op start; /* what an earlier life left is removed */
    unsigned commits;      /* that the store has */
};

/* --- images.c --- */
/* NULL: it is not on record, or leaving. */
struct layer *layer_find(struct images *x, const char *name);
void layer_add(struct images *x, const struct layer_record *r);
/* The row of one that is leaving could not be removed, or was: unless it came again meanwhile. */
void layer_stays(struct images *x, const char *name);
void layer_forget(struct images *x, const char *name);
/* Replaces the one of the same name. */
int image_add(struct images *x, const struct image_record *r, struct err *e);
void image_forget(struct images *x, const char *ref);
void image_digest(struct str text, char ret[static OCI_DIGEST_MAX]); /* of a document */
bool layer_is_used(struct images *x, const char *name);
void event_fill(struct event_record *v, const struct caller *who, const char *type,
                const char *reason);

/* --- image_make.c: an image whose parts are known --- */

enum part_state { PART_WAITS, PART_FETCHES, PART_UNPACKS, PART_STORES, PART_DONE };

/* A layer on its way. */
struct part {
    struct making *making;
    enum part_state state;
    char layer[LAYER_NAME_MAX];
    char digest[OCI_DIGEST_MAX]; /* of the blob; "": it is a part of an archive that was checked */
    uint64_t at, size;           /* where it is in the file */
    int fd;                      /* the blob, or the archive */
    uint64_t bytes;              /* of the step it is at */
    bool resumed;                /* a part of the blob was here before */
    struct registry_get get;
    struct keeper_job job;
    struct store_txn txn;
};

struct making {
    struct images *images;
    struct image_op *op; /* NULL: nobody listens any more */
    struct caller caller;
    char ref[OCI_REFERENCE_MAX];
    char digest[OCI_DIGEST_MAX];
    struct buf config_text;
    struct arena arena;
    struct oci_config config;
    struct registry registry;
    bool from_registry, squash;
    struct oci_reference asked;
    struct oci_platform platform;
    struct registry_get get; /* of documents */
    struct oci_manifest manifest;
    unsigned indexes; /* that led to the manifest */
    struct part *parts;
    size_t n;
    int budget;    /* what they may hold, for keepers; -1: none is unpacked yet */
    unsigned busy; /* things that must end before this may be freed */
    struct err err;
    bool failed, ending;
    int64_t told_ns;
    struct store_txn txn;
    struct event_record event;
    struct work_job sifting;
    bool sifts; /* a thread plans it: its parts are not ours to see */
    struct sift *sift;
    struct loop_later later;
    struct link link;
};

static inline size_t making_parts(const struct making *m)
{
    return m->sifts ? 0 : m->n;
}

struct making *making_new(struct control *c, const struct caller *who, struct image_op *op);
/* Ends it: with what went wrong. Tells once, frees when nothing of it is under way. */
void making_fail(struct making *m, const struct err *e);
void making_tell(struct making *m, const char *step, uint64_t bytes, uint64_t total);
/* Keeps the configuration's text, if it is not too long. */
int making_set_config(struct making *m, struct str text, struct err *e);
/* config_text is there: reads it, and makes a part for each layer; the owner fills in where it
 * comes from. */
int making_plan(struct making *m, struct err *e);
/* Everything is known: brings the layers, then the image. */
void making_go(struct making *m);
/* Something that was under way of a failed one has ended. */
void making_settle(struct making *m);
void making_cancel(struct making *m);
void makings_wake(struct images *x); /* what somebody waited for may be over */

/* --- image_sift.c: what an archive holds --- */
struct sift;
void sift_start(struct making *m, struct image_import *p);
bool sift_goes_on(struct sift *s); /* there is another image in it, which is now the one */
void sift_go_on(struct making *m); /* brings that */
bool sift_has_several(const struct sift *s);
void sift_stop(struct sift *s); /* harmless on NULL, and on one that is over */
void sift_free(struct sift *s);

/* --- image_jobs.c: removing and verifying --- */

struct image_job {
    struct images *images;
    struct image_op *op; /* NULL: nobody listens any more */
    struct keeper_job keeper;
    struct measure_op measure;
    struct list names; /* of layers that were found */
    struct store_txn txn;
    struct event_record event;
    char ref[OCI_REFERENCE_MAX]; /* of an image that is removed */
    char layer[LAYER_NAME_MAX];  /* that it is at */
    bool storing;
    bool removing; /* layer: nobody may make it meanwhile */
    struct err err;
    struct loop_later later;
    struct link link;
};
/* Tells `op`, which may be NULL, why one failed, when the layers that it made are gone. */
void images_undo(const struct making *m, struct image_op *op);
void image_job_cancel(struct image_job *j); /* its listener leaves */
void image_job_drop(struct image_job *j);   /* at the end of everything */

#endif
