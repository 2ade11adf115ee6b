/* A keeper's process: takes one job, confines itself, does it, says how it went. */
#ifndef LAYERS_KEEPER_H
#define LAYERS_KEEPER_H

#include "layers/job.h"
#include "layers/storage.h"
#include "tree/decompress.h"

/* What a job has while it runs. */
struct keeper {
    struct layers_job job;
    struct storage storage;
    int sock;
    int fds[LAYERS_FDS_MAX]; /* of the job; -1: not there */
    int box;                 /* the job's, if that is on disk; -1: it is not */
    struct layers_said done; /* its last word, to be filled: bytes, entries, text */
    int64_t told_ns;
    bool one_identity;      /* no ids but our own can be stored */
    struct growth *growing; /* goes when nobody wants it any more; NULL: the sweep's */
    struct growth growth;   /* of a capture, from before the sandbox stands still; … */
    int ahead;              /* … with what was copied of it by then (layers/ahead.h); or -1 */
    struct decompress decompress; /* of the first descriptor, where the kind reads an archive */
};

/* Serves one job on `sock`; `storage` is a descriptor of the storage directory. The exit status. */
int keeper_run(int sock, int storage);

/* For jobs. How far it is, now and then; does not return if whoever asked is gone. */
void keeper_progress(struct keeper *k, uint64_t bytes, uint64_t entries);
void keeper_wanted(struct keeper *k); /* the same, at once and without a word */
void keeper_line(struct keeper *k, const char *text);
void keeper_taken(struct keeper *k);

/* At the top of what a sandbox writes, what the runtime makes anew for every one: ended by NULL. */
extern const char *const keeper_unwanted[];

/* The jobs, a file each. */
typedef int keeper_job_fn(struct keeper *k, struct err *e);
keeper_job_fn keeper_list, keeper_sweep, keeper_remove, keeper_unpack, keeper_measure,
    keeper_capture, keeper_diff, keeper_compare, keeper_flatten, keeper_take, keeper_clear,
    keeper_export, keeper_manifest, keeper_import, keeper_sift;
keeper_job_fn keeper_unpack_prepare, keeper_archive_prepare; /* before it is confined */
keeper_job_fn keeper_capture_prepare;                        /* before it says that it can begin */

#endif
