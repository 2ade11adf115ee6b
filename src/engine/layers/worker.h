/* SPDX-License-Identifier: Apache-2.0 */
/* A layer worker's process: receives one job, confines itself, runs the job and reports the
 * result. */
#ifndef ENGINE_LAYERS_WORKER_H
#define ENGINE_LAYERS_WORKER_H

#include "engine/layers/job.h"
#include "engine/layers/storage.h"
#include "lib/tar/decompress.h"

/* The state of a running job. */
struct layer_worker {
    struct layers_job job;
    struct storage storage;
    int sock;
    int fds[LAYERS_FDS_MAX]; /* of the job; -1: none */
    int box;                 /* the job's box, if it is on disk; else -1 */
    struct layers_said done; /* the DONE reply: the job fills in bytes, entries, text */
    int64_t reported_ns;
    bool one_identity;            /* only one owner can be stored */
    struct staging *unfinished;   /* removed when the job is cancelled; NULL: left to the sweep */
    struct staging staging;       /* of a capture, begun before the sandbox is frozen; … */
    int ahead;                    /* … with its pre-copied files (engine/layers/ahead.h); or -1 */
    struct decompress decompress; /* of the first descriptor, if the kind reads an archive */
};

/* Serves one job on `sock`; `storage` is a descriptor of the storage directory. `untrusted`: the
 * peer has fewer privileges, so only some directories that it passes are read (source.c). Returns
 * the exit status. */
int layer_worker_run(int sock, int storage, bool untrusted);

/* For an untrusted peer, before confinement: -ERR_DENIED if a descriptor of the job is a directory
 * that the job may not read. */
int layer_worker_check_sources(const struct layer_worker *k, int storage, struct err *e);

/* For jobs. Reports progress from time to time; exits if the job was cancelled. */
void layer_worker_report_progress(struct layer_worker *k, uint64_t bytes, uint64_t entries);
/* The same as a callback; ctx is the layer worker. */
void layer_worker_on_progress(void *ctx, uint64_t bytes, uint64_t entries);
void layer_worker_check_cancelled(struct layer_worker *k); /* exits if the job was cancelled */
void layer_worker_report_line(struct layer_worker *k, const char *text);
void layer_worker_report_taken(struct layer_worker *k);

/* Names at the top of a writable layer that the runtime makes for every sandbox; ended by NULL. */
extern const char *const layer_worker_skipped_names[];

/* The jobs, a file each. */
typedef int layer_job_fn(struct layer_worker *k, struct err *e);
layer_job_fn layer_worker_list, layer_worker_sweep, layer_worker_remove, layer_worker_unpack,
    layer_worker_digest, layer_worker_capture, layer_worker_diff, layer_worker_compare,
    layer_worker_flatten, layer_worker_take, layer_worker_clear, layer_worker_export,
    layer_worker_manifest, layer_worker_import, layer_worker_sift;
layer_job_fn layer_worker_unpack_prepare, layer_worker_archive_prepare; /* run before confinement */
layer_job_fn layer_worker_capture_prepare;                              /* run before READY */

#endif
