/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of a layer worker: one job, one process, one socket of packets.
 *
 * A layer worker (program sandboxer-layers) is the only process that touches the trees of layers,
 * which belong to root or to the ids of sandboxes. The control plane, which has no privileges, lets
 * the monitor start one for each job and sends one message of this fixed layout, with descriptors.
 * The layer worker checks the message, confines itself to the storage directory and replies:
 *
 *     → job, descriptors
 *     ← READY                 it is confined and can begin
 *     → GO                    only for kinds that wait (table in job.c): a capture waits until the
 *                             sandbox is frozen
 *     ← PROGRESS …, LINE …    bytes and entries so far; results
 *     ← TAKEN                 everything was read: the sandbox may be thawed
 *     ← DONE                  the last message: r and err, or the result
 *
 * Closing the socket, or its direction to the layer worker, cancels the job. A layer worker that is
 * killed at any moment leaves a complete layer, or nothing but an entry in tmp/, which the next
 * LAYERS_SWEEP removes. */
#ifndef ENGINE_LAYERS_JOB_H
#define ENGINE_LAYERS_JOB_H

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
    /* Layer workers at the same time: those that callers cause (control/layer/layer_slots.h), and
     * those of the daemon itself, with the ones that are on their way out. */
    LAYERS_OF_CALLERS_MAX = 48,
    LAYERS_OF_DAEMON_MAX = 16,
};

enum layers_kind {
    LAYERS_LIST = 1, /* LINE: the name of a layer, or the id of a box on disk */
    LAYERS_SWEEP,    /* removes unfinished entries of tmp/ */
    LAYERS_REMOVE,   /* removes job.name; succeeds if it does not exist */
    LAYERS_UNPACK,   /* makes job.name from an archive. Descriptors: the file, or one of which a
                        part is the packed layer; the budget of its image (engine/layers/budget.h).
                        DONE: its digest */
    LAYERS_DIGEST,   /* digests job.name; DONE: its digest (engine/layers/digest.h) */
    LAYERS_CAPTURE,  /* captures the data of job.box, if it is on disk; else descriptor: its top
                        directory; waits for GO. DONE: text is "kept" if it stays in place */
    LAYERS_DIFF,     /* descriptors: as CAPTURE, and a file for the changes against `below` (records
                        of changes.h). Or the file alone: then job.name is compared or, while that
                        does not exist, the data of job.box on disk */
    LAYERS_COMPARE,  /* as DIFF, but compares the whole view with that of `against` */
    LAYERS_EXPORT,   /* descriptors: the file to write (engine/layers/archive.h), its manifest;
                      exports the layers `below`; `against` are their digests, with '-' for ':' */
    LAYERS_MANIFEST, /* descriptors: an exported file, and the file that its manifest is written
                        to */
    LAYERS_IMPORT,   /* imports the file's layers under the names of `below`; layers of images must
                        exist already and are skipped; `against` as above. LINE: the name of a new
                        layer, its bytes and entries */
    LAYERS_FLATTEN,  /* flattens `below`, on top of `against`, into job.name; with a descriptor, on
                        top of the host's /usr */
    LAYERS_TAKE,     /* makes job.name from the data of job.box, in which nothing runs, unless
                        job.name exists; then the box is not on disk */
    LAYERS_CLEAR,    /* removes the data of the boxes `below` */
    LAYERS_SIFT,     /* descriptors: an archive of images, and a file for the list of its parts:
                        struct archive_parts of engine/layers/parts.h */
    LAYERS_KIND_COUNT_,
};

enum layers_flags {
    LAYERS_SQUASH = 1 << 0, /* UNPACK: the sandbox's root owns everything */
    LAYERS_KEEP = 1 << 1,   /* CAPTURE: data on disk is synced and stays in place, for a TAKE of
                               this name */
    LAYERS_IDLE = 1 << 2,   /* DIGEST: at idle priority */
    LAYERS_FROZEN = 1 << 3, /* CAPTURE: the sandbox is frozen already */
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
    uint32_t flags; /* enum layers_flags that the kind allows */
    char name[LAYER_NAME_MAX];
    char box[ID_MAX];            /* the id of a sandbox, or empty */
    uint64_t at, size;           /* UNPACK: the part of the file; size 0: all of it */
    char packed[LAYER_NAME_MAX]; /* UNPACK: digest of its packed bytes, "sha256-…"; or empty */
    uint64_t bytes_max, entries_max; /* of the result; 0: the defaults of lib/tar/tree.h */
    uint64_t free_min;               /* bytes to leave free on the disk */
    uint64_t n_below;                /* the layers of the job, uppermost first */
    char below[LAYERS_STACK_MAX][LAYER_NAME_MAX];
    uint64_t n_against; /* a second stack; or as the kind defines */
    char against[LAYERS_STACK_MAX][LAYER_NAME_MAX];
};

struct layers_said {
    uint32_t magic, version;
    uint32_t word;
    int32_t r;                  /* DONE */
    uint64_t bytes, entries;    /* PROGRESS, DONE: so far */
    char text[LAYERS_TEXT_MAX]; /* LINE; DONE: as the kind defines */
    struct err err;             /* DONE */
};

/* True for the name of an image layer ("sha256-…") or a captured one ("lay_…"). */
bool layer_name_valid(const char *name);

bool box_name_valid(const char *name); /* the id of a sandbox */

void layers_job_fill(struct layers_job *job, enum layers_kind kind, const char *name);
void layers_said_fill(struct layers_said *reply, enum layers_word word);

/* Checks a job and the number of its descriptors. */
int layers_job_check(const struct layers_job *job, size_t size, size_t n_fds, struct err *e);
/* Checks a reply: layout, a known word, terminated texts. */
int layers_said_check(const struct layers_said *reply, size_t size, struct err *e);
bool layers_kind_waits(enum layers_kind kind);           /* for GO */
bool layers_kind_without_storage(enum layers_kind kind); /* runs without access to the storage */

#endif
