/* SPDX-License-Identifier: Apache-2.0 */
/* The record's `detail`, one JSON object: everything about a sandbox that has no column of its
 * own. */
#ifndef CONTROL_SANDBOX_SANDBOX_DETAIL_H
#define CONTROL_SANDBOX_SANDBOX_DETAIL_H

#include "control/image/base_image.h"
#include "lib/json/bind.h"

struct sandbox_detail {
    const char *handle;           /* the backend's name for it */
    uint32_t unenforced;          /* limits that do not hold; enum backend_limit */
    uint32_t sync;                /* unused; kept for records of earlier versions */
    const struct json *telemetry; /* likewise; a read leaves it out */
    const char *mirror;           /* host directory that the workspace is a copy of */
    const char *recreated_from;
    struct base_image base; /* the image below its layers */
    struct {
        uint64_t generation; /* of the policy; 0: it has no network */
        uint32_t endpoints;
        uint64_t allowed, denied, bytes_out, bytes_in; /* as of when the record was written */
    } egress;
    struct json_strs layers; /* that it was built on, uppermost first */
    const char *snapshot;    /* that these are of; NULL: none, or of a fork */
    struct {
        const char *layer; /* the layer with the files that it had written when it was paused */
        bool kept; /* the files are still in its writable directory, to be taken from there */
        int64_t bytes, entries;
        int64_t left_ns;  /* remaining lifetime: paused time does not count */
        int64_t until_ns; /* wall clock: end of retention */
        bool stopped;     /* its processes were ended: a resume rebuilds it */
        bool in_memory;   /* its files were not stored: `layer` is "", and they end with its box */
    } paused;
    struct {
        bool stops;      /* it is stopped, not destroyed, when idle */
        int64_t keep_ns; /* retention of the stopped sandbox; 0: the maximum */
    } rest;
    struct {
        int64_t wall_ns, cpu_ns, peak_bytes;
        uint32_t oom_kills;
    } actuals;
    struct {
        uint32_t kills;   /* of its processes, by the OOM killer, in all of its boxes … */
        uint32_t counted; /* … and in the one that it has */
        int64_t last_ns;  /* wall clock: when the last one became known */
    } oom;
    struct {
        const char *why;    /* the changes that were not brought back */
        const char *reason; /* of the destroy that it was paused for */
        const char *error;  /* why it cannot be stored; NULL: it was not tried yet */
    } unsynced;
    struct {
        const char *snapshot, *why; /* the changes that were not brought back by its destroy */
        int64_t until_ns;           /* wall clock: when the snapshot expires */
    } kept;
    struct {
        int64_t at;    /* the one that it had the files of last; 0: none */
        int64_t last;  /* the highest number that was ever given */
        int64_t undos; /* how often its files went back to one */
    } checkpoint;
    bool one_shot; /* exists for one program only */
    /* Which of the above are set; has_paused: the sandbox is paused. */
    bool has_image, has_egress, has_paused, has_rest, has_actuals, has_oom, has_unsynced, has_kept;
    bool has_checkpoint;
};

extern const struct json_field sandbox_detail_fields[];
extern const size_t sandbox_detail_field_count;

int sandbox_detail_read(struct str detail, struct sandbox_detail *ret, struct arena *a,
                        struct err *e);
/* The text is the caller's to free; p == NULL if it would be too long. */
struct str sandbox_detail_write(const struct sandbox_detail *f);

#endif
