/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sandboxes as JSON. */
#include "edge/core/internal.h"

#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/egress.h"
#include "edge/core/stats.h"
#include "base/clock.h"
#include "control/sandbox/sandbox_detail.h"
#include "control/sandbox/spec.h"
#include "lib/json/reader.h"
#include "base/rfc3339.h"

void time_write(struct json_writer *w, const char *key, int64_t wall_ns)
{
    char text[TIME_TEXT];

    if (!wall_ns)
        return;
    time_text(wall_ns, text);
    json_field_text(w, key, text);
}

/* A sandbox with the parsed parts of its record. */
struct sandbox_answer {
    const struct json *request; /* NULL: unreadable */
    struct sandbox_json shown;
    const struct sync_answer *synced;
    const char *step;
    struct sandbox_detail detail;
    double wall_s, cpu_s;
    bool has_egress;
    struct egress_answer egress;
};

/* Writes a member of the create request, unchanged. */
static void write_request_member(struct json_writer *w, const char *name, const void *answer)
{
    const struct json *request = ((const struct sandbox_answer *)answer)->request;
    const struct json *v = request ? json_get(request, str_from(name)) : NULL;

    if (v)
        json_field_tree(w, name, v);
}

static void write_workspace(struct json_writer *w, const char *name, const void *answer)
{
    const struct json *request = ((const struct sandbox_answer *)answer)->request;
    const struct json *workspace = request ? json_get(request, STR("workspace")) : NULL;

    if (!request)
        return;
    json_field_begin_object(w, name);
    for (const struct json *m = workspace ? json_first(workspace) : NULL;
         workspace && m != json_end(workspace); m++) {
        json_key(w, m->key);
        json_put_tree(w, m);
    }
    json_field_text(w, "path", WORKSPACE_PATH);
    json_end_object(w);
}

static void write_limit_notes(struct json_writer *w, const char *name, const void *answer)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } notes[] = {
        { BACKEND_LIMIT_MEMORY, "memory limit not enforced here" },
        { BACKEND_LIMIT_PIDS, "pids limit not enforced here" },
        { BACKEND_LIMIT_CPU, "cpu limit not enforced here" },
        { BACKEND_LIMIT_DISK, "disk limit not enforced here" },
    };
    uint32_t unenforced = ((const struct sandbox_answer *)answer)->detail.unenforced;

    if (!unenforced)
        return;
    json_field_begin_array(w, name);
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        if (unenforced & notes[i].bit)
            json_put_str(w, str_from(notes[i].text));
    json_end_array(w);
}

static void write_reachability(struct json_writer *w, const char *name, const void *answer)
{
    const struct sandbox_answer *a = answer;
    char url[96];

    snprintf(url, sizeof url, "/v1/sandboxes/%s", a->shown.record->id);
    json_field_begin_object(w, name);
    json_field_text(w, "kind", "api");
    json_field_text(w, "url", url);
    json_end_object(w);
}

static void write_events_url(struct json_writer *w, const char *name, const void *answer)
{
    const struct sandbox_answer *a = answer;
    char url[96];

    snprintf(url, sizeof url, "/v1/sandboxes/%s/events", a->shown.record->id);
    json_field_text(w, name, url);
}

static void write_currency(struct json_writer *w, const char *name, const void *quote)
{
    json_field_cstr(w, name, "micro-credits");
}

static const struct json_field quote_fields[] = {
    { "currency", JSON_KIND_TEXT, .required = true, .write = write_currency },
    { "per_hour", JSON_KIND_INT, JSON_AT(struct backend_quote, per_hour), .required = true },
    { "per_create", JSON_KIND_INT, JSON_AT(struct backend_quote, per_create) },
    { "total", JSON_KIND_INT, JSON_AT(struct backend_quote, total) },
};
const struct json_shape quote_answer = { "Quote", JSON_FIELDS(quote_fields) };

#define AT(member)     JSON_AT(struct sandbox_answer, member)
#define HAS(member)    .seen = offsetof(struct sandbox_answer, member)
#define VIA(pointer)   .via = offsetof(struct sandbox_answer, pointer)
#define RECORD(member) VIA(shown.record), JSON_AT(struct sandbox_record, member)

static const struct json_field actuals_fields[] = {
    { "wall_seconds", JSON_KIND_DOUBLE, AT(wall_s) },
    { "cpu_seconds", JSON_KIND_DOUBLE, AT(cpu_s) },
    { "peak_bytes", JSON_KIND_INT, AT(detail.actuals.peak_bytes) },
    { "oom_kills", JSON_KIND_UINT, AT(detail.actuals.oom_kills) },
};
static const struct json_shape actuals_answer = { "Actuals", JSON_FIELDS(actuals_fields) };

static const struct json_field kept_fields[] = {
    { "snapshot_id", JSON_KIND_TEXT, AT(detail.kept.snapshot), .required = true },
    { "reason", JSON_KIND_TEXT, AT(detail.kept.why), .required = true },
    { "expires_at", JSON_KIND_TIME, AT(detail.kept.until_ns) },
};
static const struct json_shape kept_answer = { "Kept", JSON_FIELDS(kept_fields) };

/* Of a sandbox that is kept because its changes could be neither synced back nor stored. */
static const struct json_field unsynced_fields[] = {
    { "reason", JSON_KIND_TEXT, AT(detail.unsynced.why), .required = true },
    { "error", JSON_KIND_TEXT, AT(detail.unsynced.error) },
};
static const struct json_shape unsynced_answer = { "Unsynced", JSON_FIELDS(unsynced_fields) };

static const struct json_shape mount_answer = { "Mount", JSON_FIELDS(mount_request_fields) };

static const struct json_field sandbox_fields[] = {
    { "sandbox_id", JSON_KIND_CHARS, RECORD(id), .required = true },
    { "name", JSON_KIND_CHARS, RECORD(name), .optional = true },
    { "state", JSON_KIND_ENUM, RECORD(state), .required = true, .names = sandbox_state_names },
    { "profile", JSON_KIND_CHARS, RECORD(profile), .required = true },
    { "profile_version", JSON_KIND_INT, RECORD(profile_version) },
    { "extension", JSON_KIND_CHARS, RECORD(extension) },
    { "host", JSON_KIND_CHARS, RECORD(host) },
    { "owner", JSON_KIND_CHARS, RECORD(owner), .required = true },
    { "labels", JSON_KIND_MAP, RECORD(labels), .required = true },
    { "scope", JSON_KIND_TEXT, .write = write_request_member },
    { "inputs", JSON_KIND_MAP, .write = write_request_member },
    { "consumer", JSON_KIND_OBJECT, .write = write_request_member },
    { "capabilities", JSON_KIND_OBJECT, .write = write_request_member },
    { "resources", JSON_KIND_OBJECT, .write = write_request_member },
    { "user", JSON_KIND_TEXT, .write = write_request_member },
    { "workdir", JSON_KIND_TEXT, .write = write_request_member },
    { "caps", JSON_KIND_TEXTS, .write = write_request_member },
    { "hostname", JSON_KIND_TEXT, .write = write_request_member },
    { "mounts", JSON_KIND_OBJECTS, .schema = "Mount", JSON_FIELDS(mount_request_fields),
      .write = write_request_member },
    { "setup_metadata", JSON_KIND_OBJECT, .write = write_request_member },
    { "workspace", JSON_KIND_OBJECT, .write = write_workspace },
    { "created_at", JSON_KIND_TIME, RECORD(created_ns), .required = true },
    { "updated_at", JSON_KIND_TIME, RECORD(updated_ns) },
    { "ready_at", JSON_KIND_TIME, RECORD(ready_ns) },
    { "expires_at", JSON_KIND_TIME, AT(shown.expires_ns) },
    { "ttl_expires_at", JSON_KIND_TIME, AT(shown.deadline_ns) },
    { "finished_at", JSON_KIND_TIME, RECORD(finished_ns) },
    { "ttl", JSON_KIND_SECONDS, RECORD(ttl_ns) },
    { "ttl_max", JSON_KIND_SECONDS, RECORD(ttl_max_ns) },
    { "idle_reap", JSON_KIND_SECONDS, RECORD(idle_ns) },
    { "reachability", JSON_KIND_OBJECT, .write = write_reachability },
    { "events_url", JSON_KIND_TEXT, .write = write_events_url },
    { "quote", JSON_KIND_OBJECT, VIA(shown.quote), .schema = "Quote", JSON_FIELDS(quote_fields) },
    { "notes", JSON_KIND_TEXTS, .write = write_limit_notes },
    { "recreated_from", JSON_KIND_TEXT, AT(detail.recreated_from) },
    { "snapshot_id", JSON_KIND_TEXT, AT(detail.snapshot) },
    { "image", JSON_KIND_TEXT, AT(detail.base.ref) },
    { "oom_kills", JSON_KIND_UINT, AT(detail.oom.kills), HAS(detail.has_oom) },
    { "last_oom_at", JSON_KIND_TIME, AT(detail.oom.last_ns), HAS(detail.has_oom) },
    { "kept", JSON_KIND_OBJECT, HAS(detail.has_kept), .schema = "Kept", JSON_FIELDS(kept_fields) },
    { "actuals", JSON_KIND_OBJECT, HAS(detail.has_actuals), .schema = "Actuals",
      JSON_FIELDS(actuals_fields) },
    { "unsynced", JSON_KIND_OBJECT, HAS(detail.has_unsynced), .schema = "Unsynced",
      JSON_FIELDS(unsynced_fields) },
    { "limits", JSON_KIND_OBJECT, VIA(shown.limits), .schema = "Limits",
      JSON_FIELDS(limits_fields) },
    { "usage", JSON_KIND_OBJECT, VIA(shown.usage), .schema = "Usage", JSON_FIELDS(usage_fields) },
    { "egress", JSON_KIND_OBJECT, AT(egress), HAS(has_egress), .schema = "Egress",
      JSON_FIELDS(egress_answer_fields) },
    { "synced", JSON_KIND_OBJECT, VIA(synced), .schema = "Synced", .fields = sync_answer_fields,
      .field_count = SYNCED_FIELDS },
    { "reason", JSON_KIND_CHARS, RECORD(reason) },
    { "step", JSON_KIND_TEXT, AT(step), .optional = true },
};
static const struct json_shape sandbox_answer = { "Sandbox", JSON_FIELDS(sandbox_fields) };

const struct json_shape *const answers_sandbox[] = {
    &sandbox_answer, &kept_answer, &unsynced_answer, &mount_answer, &actuals_answer,
    &quote_answer,   NULL,
};

static void fill_detail(struct sandbox_answer *a, struct arena *arena)
{
    const struct sandbox_detail *d = &a->detail;

    if (sandbox_detail_read(a->shown.record->detail, &a->detail, arena, NULL) < 0)
        return;
    if (a->shown.record->state == SANDBOX_DESTROYED)
        a->detail.has_unsynced = false;
    a->wall_s = (double)a->detail.actuals.wall_ns / (double)NS_PER_S;
    a->cpu_s = (double)a->detail.actuals.cpu_ns / (double)NS_PER_S;
    a->egress.has_counters = a->has_egress = a->shown.egress || d->has_egress;
    /* without current counters, the last recorded ones are shown */
    a->egress.counters = a->shown.egress
                             ? *a->shown.egress
                             : (struct sandbox_egress){ .generation = d->egress.generation,
                                                        .endpoints = d->egress.endpoints,
                                                        .allowed = d->egress.allowed,
                                                        .denied = d->egress.denied,
                                                        .bytes_out = d->egress.bytes_out,
                                                        .bytes_in = d->egress.bytes_in };
}

void sandbox_write(struct json_writer *w, const void *what)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    AUTO(arena_done) struct arena arena = ARENA_INIT(1 << 20);
    const struct sandbox_json *s = what;
    const struct sandbox_record *r = s->record;
    const struct sync_answer synced = { .op = s->brought };
    struct sandbox_answer a = { .shown = *s,
                                .synced = s->brought ? &synced : NULL,
                                .step = r->step[0] ? r->step : s->step };

    (void)json_read(r->request, limits, &arena, &a.request, NULL);
    fill_detail(&a, &arena);
    json_put_shape(w, &sandbox_answer, &a);
}
