/* How things look to a client. */
#include "api/inside.h"

#include <stdio.h>

#include "api/egress.h"
#include "base/clock.h"
#include "control/facts.h"
#include "control/spec.h"
#include "json/reader.h"
#include "model/time.h"

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_number(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, str_from(key));
    json_put_int(w, value);
}

void time_write(struct json_writer *w, const char *key, int64_t wall_ns)
{
    char text[TIME_TEXT];

    if (!wall_ns)
        return;
    time_text(wall_ns, text);
    put(w, key, text);
}

static void put_labels(struct json_writer *w, const struct json_map *labels)
{
    json_key(w, STR("labels"));
    json_begin_object(w);
    for (size_t i = 0; i < labels->n; i++)
        put(w, labels->p[i].key, labels->p[i].value);
    json_end_object(w);
}

/* Members of the request that are shown as they are. */
static void put_request(struct json_writer *w, const struct json *request)
{
    static const char *const shown[] = { "scope", "inputs", "consumer", "capabilities",
                                         "setup_metadata" };
    const struct json *v, *workspace = json_get(request, STR("workspace"));

    for (size_t i = 0; i < COUNT_OF(shown); i++)
        if ((v = json_get(request, str_from(shown[i])))) {
            json_key(w, str_from(shown[i]));
            json_put_tree(w, v);
        }
    json_key(w, STR("workspace"));
    json_begin_object(w);
    for (const struct json *m = workspace ? json_first(workspace) : NULL;
         workspace && m != json_end(workspace); m++) {
        json_key(w, m->key);
        json_put_tree(w, m);
    }
    put(w, "path", WORKSPACE_PATH);
    json_end_object(w);
}

static void put_notes(struct json_writer *w, uint32_t unenforced)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } notes[] = {
        { EXT_LIMIT_MEMORY, "memory limit not enforced here" },
        { EXT_LIMIT_PIDS, "pids limit not enforced here" },
        { EXT_LIMIT_CPU, "cpu limit not enforced here" },
        { EXT_LIMIT_DISK, "disk limit not enforced here" },
    };

    if (!unenforced)
        return;
    json_key(w, STR("notes"));
    json_begin_array(w);
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        if (unenforced & notes[i].bit)
            json_put_str(w, str_from(notes[i].text));
    json_end_array(w);
}

static void put_facts(struct json_writer *w, const struct facts *f, bool machine)
{
    put_notes(w, f->unenforced);
    if (f->recreated_from)
        put(w, "recreated_from", f->recreated_from);
    if (f->snapshot)
        put(w, "snapshot_id", f->snapshot);
    if (f->base.ref)
        put(w, "image", f->base.ref);
    if (f->telemetry && machine) {
        json_key(w, STR("telemetry"));
        json_put_tree(w, f->telemetry);
    }
    if (f->has_oom) {
        put_number(w, "oom_kills", f->oom.kills);
        time_write(w, "last_oom_at", f->oom.last_ns);
    }
    if (f->has_kept) {
        json_key(w, STR("kept"));
        json_begin_object(w);
        put(w, "snapshot_id", f->kept.snapshot);
        put(w, "reason", f->kept.why);
        time_write(w, "expires_at", f->kept.until_ns);
        json_end_object(w);
    }
    if (!f->has_actuals)
        return;
    json_key(w, STR("actuals"));
    json_begin_object(w);
    json_key(w, STR("wall_seconds"));
    json_put_double(w, (double)f->actuals.wall_ns / (double)NS_PER_S);
    json_key(w, STR("cpu_seconds"));
    json_put_double(w, (double)f->actuals.cpu_ns / (double)NS_PER_S);
    put_number(w, "peak_bytes", f->actuals.peak_bytes);
    put_number(w, "oom_kills", f->actuals.oom_kills);
    json_end_object(w);
}

/* Of one that was not destroyed because its changes can be neither brought back nor stored. */
static void put_unsynced(struct json_writer *w, const struct sandbox_record *r,
                         const struct facts *f)
{
    if (!f->has_unsynced || r->state == SANDBOX_DESTROYED)
        return;
    json_key(w, STR("unsynced"));
    json_begin_object(w);
    put(w, "reason", f->unsynced.why);
    if (f->unsynced.error)
        put(w, "error", f->unsynced.error);
    json_end_object(w);
}

/* One that is not alive, or that nobody looked at, is as it was recorded last. */
static void put_egress(struct json_writer *w, const struct sandbox_egress *now,
                       const struct facts *f)
{
    const struct sandbox_egress recorded = { .generation = f->egress.generation,
                                             .endpoints = f->egress.endpoints,
                                             .allowed = f->egress.allowed,
                                             .denied = f->egress.denied,
                                             .bytes_out = f->egress.bytes_out,
                                             .bytes_in = f->egress.bytes_in };

    if (!now && !f->has_egress)
        return;
    json_key(w, STR("egress"));
    json_begin_object(w);
    egress_write(w, now ? now : &recorded);
    json_end_object(w);
}

static void put_links(struct json_writer *w, const char *id)
{
    char url[96];

    snprintf(url, sizeof url, "/v1/sandboxes/%s", id);
    json_key(w, STR("reachability"));
    json_begin_object(w);
    put(w, "kind", "api");
    put(w, "url", url);
    json_end_object(w);
    snprintf(url, sizeof url, "/v1/sandboxes/%s/events", id);
    put(w, "events_url", url);
}

void quote_write(struct json_writer *w, const struct ext_quote *q)
{
    json_begin_object(w);
    put(w, "currency", "micro-credits");
    put_number(w, "per_hour", q->per_hour);
    put_number(w, "per_create", q->per_create);
    put_number(w, "total", q->total);
    json_end_object(w);
}

static void put_times(struct json_writer *w, const struct sandbox_shown *s)
{
    const struct sandbox_record *r = s->record;

    time_write(w, "created_at", r->created_ns);
    time_write(w, "updated_at", r->updated_ns);
    time_write(w, "ready_at", r->ready_ns);
    time_write(w, "expires_at", s->expires_ns);
    time_write(w, "ttl_expires_at", s->deadline_ns);
    time_write(w, "finished_at", r->finished_ns);
    put_number(w, "ttl", r->ttl_ns / NS_PER_S);
    put_number(w, "ttl_max", r->ttl_max_ns / NS_PER_S);
    put_number(w, "idle_reap", r->idle_ns / NS_PER_S);
}

void sandbox_write(struct json_writer *w, const void *what)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct sandbox_shown *s = what;
    const struct sandbox_record *r = s->record;
    const struct json *request;
    struct facts facts;

    json_begin_object(w);
    put(w, "sandbox_id", r->id);
    put(w, "state", sandbox_state_names[r->state]);
    put(w, "profile", r->profile);
    put_number(w, "profile_version", r->profile_version);
    put(w, "extension", r->extension);
    put(w, "host", r->host);
    put(w, "owner", r->owner);
    put_labels(w, &r->labels);
    if (json_read(r->request, limits, &a, &request, NULL) >= 0)
        put_request(w, request);
    put_times(w, s);
    put_links(w, r->id);
    if (s->quote) {
        json_key(w, STR("quote"));
        quote_write(w, s->quote);
    }
    if (facts_read(r->detail, &facts, &a, NULL) >= 0) {
        put_facts(w, &facts, s->machine);
        put_unsynced(w, r, &facts);
        put_egress(w, s->egress, &facts);
    }
    if (s->brought) {
        json_key(w, STR("synced"));
        json_begin_object(w);
        sync_put_outcome(w, s->brought);
        json_end_object(w);
    }
    put(w, "reason", r->reason);
    if (r->step[0] || (s->step && s->step[0]))
        put(w, "step", r->step[0] ? r->step : s->step);
    json_end_object(w);
}
