/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/sandbox_detail.h"

#include <stdlib.h>
#include <string.h>

#include "lib/json/reader.h"

enum { SANDBOX_DETAIL_MAX = 64 << 10 };

#define AT(member) JSON_AT(struct sandbox_detail, member)
#define PART(has, table)                                                                           \
    .offset = 0, .size = sizeof(struct sandbox_detail),                                            \
    .seen = offsetof(struct sandbox_detail, has), JSON_FIELDS(table)

static const struct json_field actual_fields[] = {
    { "wall_ns", JSON_KIND_INT, AT(actuals.wall_ns) },
    { "cpu_ns", JSON_KIND_INT, AT(actuals.cpu_ns) },
    { "peak_bytes", JSON_KIND_INT, AT(actuals.peak_bytes) },
    { "oom_kills", JSON_KIND_UINT, AT(actuals.oom_kills) },
};

static const struct json_field egress_fields[] = {
    { "generation", JSON_KIND_UINT, AT(egress.generation) },
    { "endpoints", JSON_KIND_UINT, AT(egress.endpoints) },
    { "allowed", JSON_KIND_UINT, AT(egress.allowed) },
    { "denied", JSON_KIND_UINT, AT(egress.denied) },
    { "bytes_out", JSON_KIND_UINT, AT(egress.bytes_out) },
    { "bytes_in", JSON_KIND_UINT, AT(egress.bytes_in) },
};

static const struct json_field paused_fields[] = {
    { "layer", JSON_KIND_STR, AT(paused.layer) },
    { "kept", JSON_KIND_BOOL, AT(paused.kept) },
    { "bytes", JSON_KIND_INT, AT(paused.bytes) },
    { "entries", JSON_KIND_INT, AT(paused.entries) },
    { "left_ns", JSON_KIND_INT, AT(paused.left_ns) },
    { "until_ns", JSON_KIND_INT, AT(paused.until_ns) },
    { "stopped", JSON_KIND_BOOL, AT(paused.stopped) },
    { "in_memory", JSON_KIND_BOOL, AT(paused.in_memory) },
};

static const struct json_field rest_fields[] = {
    { "stops", JSON_KIND_BOOL, AT(rest.stops) },
    { "keep_ns", JSON_KIND_INT, AT(rest.keep_ns) },
};

static const struct json_field image_fields[] = {
    { "ref", JSON_KIND_STR, AT(base.ref) },
    { "digest", JSON_KIND_STR, AT(base.digest) },
    { "config", JSON_KIND_ANY, AT(base.config) },
};

static const struct json_field oom_fields[] = {
    { "kills", JSON_KIND_UINT, AT(oom.kills) },
    { "counted", JSON_KIND_UINT, AT(oom.counted) },
    { "last_ns", JSON_KIND_INT, AT(oom.last_ns) },
};

static const struct json_field unsynced_fields[] = {
    { "why", JSON_KIND_STR, AT(unsynced.why) },
    { "reason", JSON_KIND_STR, AT(unsynced.reason) },
    { "error", JSON_KIND_STR, AT(unsynced.error) },
};

static const struct json_field kept_fields[] = {
    { "snapshot", JSON_KIND_STR, AT(kept.snapshot) },
    { "why", JSON_KIND_STR, AT(kept.why) },
    { "until_ns", JSON_KIND_INT, AT(kept.until_ns) },
};

static const struct json_field checkpoint_fields[] = {
    { "at", JSON_KIND_INT, AT(checkpoint.at) },
    { "last", JSON_KIND_INT, AT(checkpoint.last) },
    { "undos", JSON_KIND_INT, AT(checkpoint.undos) },
};

const struct json_field sandbox_detail_fields[] = {
    { "handle", JSON_KIND_STR, AT(handle) },
    { "unenforced", JSON_KIND_UINT, AT(unenforced) },
    { "telemetry", JSON_KIND_ANY, AT(telemetry) },
    { "mirror", JSON_KIND_STR, AT(mirror) },
    { "recreated_from", JSON_KIND_STR, AT(recreated_from) },
    { "base", JSON_KIND_STRS, AT(base.layers) },
    { "image", JSON_KIND_OBJECT, PART(has_image, image_fields) },
    { "sync", JSON_KIND_UINT, AT(sync) },
    { "one_shot", JSON_KIND_BOOL, AT(one_shot) },
    { "layers", JSON_KIND_STRS, AT(layers) },
    { "snapshot", JSON_KIND_STR, AT(snapshot) },
    { "paused", JSON_KIND_OBJECT, PART(has_paused, paused_fields) },
    { "rest", JSON_KIND_OBJECT, PART(has_rest, rest_fields) },
    { "egress", JSON_KIND_OBJECT, PART(has_egress, egress_fields) },
    { "actuals", JSON_KIND_OBJECT, PART(has_actuals, actual_fields) },
    { "oom", JSON_KIND_OBJECT, PART(has_oom, oom_fields) },
    { "unsynced", JSON_KIND_OBJECT, PART(has_unsynced, unsynced_fields) },
    { "kept", JSON_KIND_OBJECT, PART(has_kept, kept_fields) },
    { "checkpoint", JSON_KIND_OBJECT, PART(has_checkpoint, checkpoint_fields) },
};
const size_t sandbox_detail_field_count = COUNT_OF(sandbox_detail_fields);

int sandbox_detail_read(struct str detail, struct sandbox_detail *ret, struct arena *a,
                        struct err *e)
{
    const struct json_limits limits = { .bytes = SANDBOX_DETAIL_MAX, .depth = 16 };
    struct sandbox_detail f = { 0 };
    const struct json *v;
    int r = detail.n ? json_read(detail, limits, a, &v, e) : 0;

    if (r >= 0 && detail.n)
        r = json_bind(v, sandbox_detail_fields, sandbox_detail_field_count, &f, a, e);
    f.telemetry = NULL;
    if (r >= 0)
        *ret = f;
    return r < 0 ? r : 0;
}

struct str sandbox_detail_write(const struct sandbox_detail *f)
{
    struct buf text AUTO(buf_done) = BUF_INIT(SANDBOX_DETAIL_MAX);
    struct json_writer w;
    char *p;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_unbind(f, sandbox_detail_fields, sandbox_detail_field_count, &w);
    if (json_writer_finish(&w, NULL) < 0)
        return (struct str){ NULL, 0 };
    p = strndup(text.p, text.n);
    if (!p)
        abort();
    return (struct str){ p, text.n };
}
