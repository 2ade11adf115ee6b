/* What a keeper is asked and what it says: one job, one process, one socket of packets.
 *
 * A keeper (program sandboxer-layers) is the only one that touches the trees of layers, which
 * belong to root or to the ids of sandboxes. The control plane, which has no rights, has one
 * started for each job by the warden and sends one message of this fixed layout, with descriptors;
 * the keeper checks it, confines itself to the storage directory and answers:
 *
 *     → job, descriptors
 *     ← READY                 it is confined and can begin
 *     → GO                    only where the table in job.c says that it waits: what is captured
 * may have to be brought to a standstill first ← PROGRESS …, LINE …    how far it is; what was
 * found ← TAKEN                 what was to be read has been: the sandbox may go on ← DONE the last
 * word: r and err, or what was made
 *
 * Closing the socket cancels. Killed at any moment, a keeper leaves a layer whole, or nothing but
 * an entry in tmp/, which the next LAYERS_SWEEP removes. */
#ifndef LAYERS_JOB_H
#define LAYERS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

enum {
    LAYERS_MAGIC = 0x5259414c, /* "LAYR" */
    LAYERS_VERSION = 5,
    LAYER_NAME_MAX = 80, /* "sha256-" and 64 digits, with a NUL */
    LAYERS_TEXT_MAX = 256,
    LAYERS_FDS_MAX = 2,
    LAYERS_STACK_MAX = 160, /* an image's, and those of snapshots on it */
    LAYERS_NAMES_MAX = LAYERS_STACK_MAX * LAYER_NAME_MAX, /* as one text */
};

enum layers_kind {
    LAYERS_LIST = 1, /* LINE: the name of a layer, or the id of a box, that is there */
    LAYERS_SWEEP,    /* removes what was left unfinished */
    LAYERS_REMOVE,   /* job.name; one that is not there is fine */
    LAYERS_UNPACK,   /* job.name from an archive. Descriptors: a file, or one of which a part is its
                        packed bytes; what all layers of its image may hold (layers/budget.h).
                        DONE: its measure */
    LAYERS_MEASURE,  /* job.name as it is now; DONE: its measure (layers/measure.h) */
    LAYERS_CAPTURE,  /* what job.box writes, if it is on disk; else descriptor: the top of that;
                        waits for GO. DONE: text says "kept" if it was */
    LAYERS_DIFF,     /* descriptors: the same, and a file for what has changed against `below`:
                        records as changes.h has them. Or the file alone: then it is about job.name,
                        or, while that is not there, about what job.box has on disk */
    LAYERS_COMPARE,  /* the same, for what it shows beside what `against` shows */
    LAYERS_EXPORT,   /* descriptors: a file to write (layers/archive.h), its manifest; `below` go
                        into it, and `against` are their measures, with '-' for ':' */
    LAYERS_MANIFEST, /* descriptors: such a file, and where its manifest shall go */
    LAYERS_IMPORT,   /* such a file's layers under the names of `below`; images' must be here
                        already, and are read past; `against` as above. LINE: the name of one that
                        was made, its bytes and entries */
    LAYERS_FLATTEN,  /* job.name becomes what `below` shows on `against`; or, with a descriptor, on
                        the host's /usr */
    LAYERS_TAKE,     /* what job.box, in which nothing runs any more, has on disk becomes job.name,
                        unless that is there; then nothing of the box is on disk */
    LAYERS_CLEAR,    /* removes what the boxes of `below` have on disk */
    LAYERS_SIFT,     /* descriptors: an archive of images, and a file for what it holds: struct
                        parts of layers/parts.h */
    LAYERS_KIND_COUNT_,
};

enum layers_flags {
    LAYERS_SQUASH = 1 << 0, /* UNPACK: everything belongs to the sandbox's root */
    LAYERS_KEEP = 1 << 1,   /* CAPTURE: what is on disk is forced there and stays where it is, for a
                               TAKE of this name */
    LAYERS_IDLE = 1 << 2,   /* MEASURE: while nobody else wants the machine */
    LAYERS_STILL = 1 << 3,  /* CAPTURE: the sandbox stands still already */
};

enum layers_word {
    LAYERS_READY = 64,
    LAYERS_GO,
    LAYERS_PROGRESS,
    LAYERS_LINE,
    LAYERS_TAKEN,
    LAYERS_DONE,
    LAYERS_WORD_END_,
};

struct layers_job {
    uint32_t magic, version;
    uint32_t kind;
    uint32_t flags; /* enum layers_flags, of the kind */
    char name[LAYER_NAME_MAX];
    char box[ID_MAX];                /* the id of a sandbox, or empty */
    uint64_t at, size;               /* UNPACK: the part of the file; size 0: all of it */
    char packed[LAYER_NAME_MAX];     /* UNPACK: what its bytes must be, "sha256-…"; or empty */
    uint64_t bytes_max, entries_max; /* of what it makes; 0: the defaults of tree/tree.h */
    uint64_t free_min;               /* bytes that it leaves free on the disk */
    uint64_t n_below;                /* layers that it is about, uppermost first */
    char below[LAYERS_STACK_MAX][LAYER_NAME_MAX];
    uint64_t n_against; /* a stack as it was; or as the kind says */
    char against[LAYERS_STACK_MAX][LAYER_NAME_MAX];
};

struct layers_said {
    uint32_t magic, version;
    uint32_t word;
    int32_t r;                  /* DONE */
    uint64_t bytes, entries;    /* PROGRESS, DONE: so far */
    char text[LAYERS_TEXT_MAX]; /* LINE; DONE: what the kind says there */
    struct err err;             /* DONE */
};

/* A layer of an image ("sha256-…") or one that was captured ("lay_…"). */
bool layer_name_valid(const char *name);

bool box_name_valid(const char *name); /* the id of a sandbox */

void layers_job_fill(struct layers_job *job, enum layers_kind kind, const char *name);
void layers_said_fill(struct layers_said *said, enum layers_word word);

/* Everything about a job and the number of its descriptors. */
int layers_job_check(const struct layers_job *job, size_t size, size_t n_fds, struct err *e);
/* What the other side said: layout, a known word, texts that end. */
int layers_said_check(const struct layers_said *said, size_t size, struct err *e);
bool layers_kind_waits(enum layers_kind kind); /* for GO */
bool layers_kind_aside(
    enum layers_kind kind); /* needs nothing of the storage, and has none of it */

#endif
