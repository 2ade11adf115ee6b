/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sandboxes as JSON. */
#include "edge/core/internal.h"

#include <stdio.h>

#include "edge/core/egress.h"
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

static void write_labels(struct json_writer *w, const struct json_map *labels)
{
    json_field_begin_object(w, "labels");
    for (size_t i = 0; i < labels->n; i++)
        json_field_text(w, labels->p[i].key, labels->p[i].value);
    json_end_object(w);
}

/* Members of the create request that are copied unchanged. */
static void write_request_members(struct json_writer *w, const struct json *request)
{
    static const char *const shown[] = { "scope", "inputs", "consumer", "capabilities",
                                         "setup_metadata" };
    const struct json *v, *workspace = json_get(request, STR("workspace"));

    for (size_t i = 0; i < COUNT_OF(shown); i++)
        if ((v = json_get(request, str_from(shown[i]))))
            json_field_tree(w, shown[i], v);
    json_field_begin_object(w, "workspace");
    for (const struct json *m = workspace ? json_first(workspace) : NULL;
         workspace && m != json_end(workspace); m++) {
        json_key(w, m->key);
        json_put_tree(w, m);
    }
    json_field_text(w, "path", WORKSPACE_PATH);
    json_end_object(w);
}

static void write_limit_notes(struct json_writer *w, uint32_t unenforced)
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

    if (!unenforced)
        return;
    json_field_begin_array(w, "notes");
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        if (unenforced & notes[i].bit)
            json_put_str(w, str_from(notes[i].text));
    json_end_array(w);
}

static void write_sandbox_detail(struct json_writer *w, const struct sandbox_detail *f,
                                 bool machine)
{
    write_limit_notes(w, f->unenforced);
    if (f->recreated_from)
        json_field_text(w, "recreated_from", f->recreated_from);
    if (f->snapshot)
        json_field_text(w, "snapshot_id", f->snapshot);
    if (f->base.ref)
        json_field_text(w, "image", f->base.ref);
    if (f->telemetry && machine)
        json_field_tree(w, "telemetry", f->telemetry);
    if (f->has_oom) {
        json_field_int(w, "oom_kills", f->oom.kills);
        time_write(w, "last_oom_at", f->oom.last_ns);
    }
    if (f->has_kept) {
        json_field_begin_object(w, "kept");
        json_field_text(w, "snapshot_id", f->kept.snapshot);
        json_field_text(w, "reason", f->kept.why);
        time_write(w, "expires_at", f->kept.until_ns);
        json_end_object(w);
    }
    if (!f->has_actuals)
        return;
    json_field_begin_object(w, "actuals");
    json_field_double(w, "wall_seconds", (double)f->actuals.wall_ns / (double)NS_PER_S);
    json_field_double(w, "cpu_seconds", (double)f->actuals.cpu_ns / (double)NS_PER_S);
    json_field_int(w, "peak_bytes", f->actuals.peak_bytes);
    json_field_int(w, "oom_kills", f->actuals.oom_kills);
    json_end_object(w);
}

/* For a sandbox that is kept because its changes could be neither synced back nor stored. */
static void write_unsynced(struct json_writer *w, const struct sandbox_record *r,
                           const struct sandbox_detail *f)
{
    if (!f->has_unsynced || r->state == SANDBOX_DESTROYED)
        return;
    json_field_begin_object(w, "unsynced");
    json_field_text(w, "reason", f->unsynced.why);
    if (f->unsynced.error)
        json_field_text(w, "error", f->unsynced.error);
    json_end_object(w);
}

/* Without current counters, the last recorded ones are written. */
static void write_sandbox_egress(struct json_writer *w, const struct sandbox_egress *now,
                                 const struct sandbox_detail *f)
{
    const struct sandbox_egress recorded = { .generation = f->egress.generation,
                                             .endpoints = f->egress.endpoints,
                                             .allowed = f->egress.allowed,
                                             .denied = f->egress.denied,
                                             .bytes_out = f->egress.bytes_out,
                                             .bytes_in = f->egress.bytes_in };

    if (!now && !f->has_egress)
        return;
    json_field_begin_object(w, "egress");
    egress_write(w, now ? now : &recorded);
    json_end_object(w);
}

static void write_links(struct json_writer *w, const char *id)
{
    char url[96];

    snprintf(url, sizeof url, "/v1/sandboxes/%s", id);
    json_field_begin_object(w, "reachability");
    json_field_text(w, "kind", "api");
    json_field_text(w, "url", url);
    json_end_object(w);
    snprintf(url, sizeof url, "/v1/sandboxes/%s/events", id);
    json_field_text(w, "events_url", url);
}

void quote_write(struct json_writer *w, const struct backend_quote *q)
{
    json_begin_object(w);
    json_field_text(w, "currency", "micro-credits");
    json_field_int(w, "per_hour", q->per_hour);
    json_field_int(w, "per_create", q->per_create);
    json_field_int(w, "total", q->total);
    json_end_object(w);
}

static void write_sandbox_times(struct json_writer *w, const struct sandbox_json *s)
{
    const struct sandbox_record *r = s->record;

    time_write(w, "created_at", r->created_ns);
    time_write(w, "updated_at", r->updated_ns);
    time_write(w, "ready_at", r->ready_ns);
    time_write(w, "expires_at", s->expires_ns);
    time_write(w, "ttl_expires_at", s->deadline_ns);
    time_write(w, "finished_at", r->finished_ns);
    json_field_int(w, "ttl", r->ttl_ns / NS_PER_S);
    json_field_int(w, "ttl_max", r->ttl_max_ns / NS_PER_S);
    json_field_int(w, "idle_reap", r->idle_ns / NS_PER_S);
}

void sandbox_write(struct json_writer *w, const void *what)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct sandbox_json *s = what;
    const struct sandbox_record *r = s->record;
    const struct json *request;
    struct sandbox_detail facts;

    json_begin_object(w);
    json_field_text(w, "sandbox_id", r->id);
    json_field_text(w, "state", sandbox_state_names[r->state]);
    json_field_text(w, "profile", r->profile);
    json_field_int(w, "profile_version", r->profile_version);
    json_field_text(w, "extension", r->extension);
    json_field_text(w, "host", r->host);
    json_field_text(w, "owner", r->owner);
    write_labels(w, &r->labels);
    if (json_read(r->request, limits, &a, &request, NULL) >= 0)
        write_request_members(w, request);
    write_sandbox_times(w, s);
    write_links(w, r->id);
    if (s->quote) {
        json_key(w, STR("quote"));
        quote_write(w, s->quote);
    }
    if (sandbox_detail_read(r->detail, &facts, &a, NULL) >= 0) {
        write_sandbox_detail(w, &facts, s->machine);
        write_unsynced(w, r, &facts);
        write_sandbox_egress(w, s->egress, &facts);
    }
    if (s->brought) {
        json_field_begin_object(w, "synced");
        sync_write_outcome(w, s->brought);
        json_end_object(w);
    }
    json_field_text(w, "reason", r->reason);
    if (r->step[0] || (s->step && s->step[0]))
        json_field_text(w, "step", r->step[0] ? r->step : s->step);
    json_end_object(w);
}
