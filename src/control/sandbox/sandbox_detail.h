/* What is known of a sandbox beside its row's columns: the record's `detail`, one JSON object. */
#ifndef CONTROL_FACTS_H
#define CONTROL_FACTS_H

#include "control/base.h"
#include "json/bind.h"

struct facts {
    const char *handle;           /* the extension's name for it */
    uint32_t unenforced;          /* limits that do not hold; enum ext_limit */
    uint32_t sync;                /* not used any more; older records have it */
    const struct json *telemetry; /* of the host, when it was made */
    const char *mirror;           /* host directory that the workspace is a copy of */
    const char *recreated_from;
    struct base base; /* the image below its layers */
    struct {
        uint64_t generation; /* of the policy; 0: it has no network */
        uint32_t endpoints;
        uint64_t allowed, denied, bytes_out, bytes_in; /* as of when the record was written */
    } egress;
    struct json_strs layers; /* that it was built on, uppermost first */
    const char *snapshot;    /* that these are of; NULL: none, or of a fork */
    struct {
        const char *layer; /* what it had written when it was paused */
        bool kept;         /* … which is still where it writes, and to be taken from there */
        int64_t bytes, entries;
        int64_t left_ns;  /* of its time, which stands still */
        int64_t until_ns; /* wall clock: it is not kept for ever */
        bool stopped;     /* its processes were ended: it is built again when it goes on */
    } paused;
    struct {
        bool stops;      /* it is stopped, and not destroyed, when nobody uses it */
        int64_t keep_ns; /* how long it is kept when it is stopped; 0: as long as any */
    } rest;
    struct {
        int64_t wall_ns, cpu_ns, peak_bytes;
        uint32_t oom_kills;
    } actuals;
    struct {
        uint32_t kills;   /* of its processes, for want of memory, in all of its boxes … */
        uint32_t counted; /* … and in the one that it has */
        int64_t last_ns;  /* wall clock: when the last one became known */
    } oom;
    struct {
        const char *why;    /* what was not brought back */
        const char *reason; /* of the destroy that it was paused for */
        const char *error;  /* why it cannot be stored; NULL: it was not tried yet */
    } unsynced;
    struct {
        const char *snapshot, *why; /* what was not brought back when it was destroyed */
        int64_t until_ns;           /* wall clock: the snapshot is not kept for ever */
    } kept;
    bool one_shot; /* for one program; without it there is no use for it */
    /* Which of the above there are; has_paused: it is. */
    bool has_image, has_egress, has_paused, has_rest, has_actuals, has_oom, has_unsynced, has_kept;
};

extern const struct json_field facts_fields[];
extern const size_t facts_field_count;

int facts_read(struct str detail, struct facts *ret, struct arena *a, struct err *e);
/* The text is the caller's to free; p == NULL if it would be too long. */
struct str facts_write(const struct facts *f);

#endif
