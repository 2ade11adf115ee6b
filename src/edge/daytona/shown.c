#include <stdio.h>

#include "api/daytona/inside.h"
#include "api/e2b/network.h"
#include "api/e2b/template.h"
#include "api/guard.h"
#include "api/operation.h"
#include "base/clock.h"
#include "json/reader.h"

enum { MINUTE_NS_SHARE = 60 };

const char *daytona_state(const struct sandbox_record *r, const struct sandbox *s)
{
    switch (r->state) {
    case SANDBOX_REQUESTED:
    case SANDBOX_PROVISIONING:
        return "creating";
    case SANDBOX_READY:
    case SANDBOX_ACTIVE:
        return "started";
    case SANDBOX_PAUSED:
        return s && !sandbox_stopped(s) ? "paused" : "stopped";
    case SANDBOX_FAILED:
        return "error";
    case SANDBOX_EXPIRED:
    case SANDBOX_DESTROYING:
        return "destroying";
    default:
        return "destroyed";
    }
}

/* What it was asked for by; nothing, if that cannot be read any more. */
static struct create_request asked_for(const struct sandbox_record *r, struct arena *a)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    struct create_request q = { 0 };
    const struct json *v;

    if (json_read(r->request, limits, a, &v, NULL) >= 0)
        (void)create_request_read(v, &q, a, NULL);
    return q;
}

static void put_gib(struct json_writer *w, const char *key, uint32_t mib)
{
    json_key(w, str_from(key));
    json_put_double(w, mib / 1024.0);
}

/* What its profile says; that may have gone since. */
static void put_size(struct json_writer *w, const struct call *c, const struct sandbox_record *r)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    char name[RECORD_NAME_MAX + 24];

    snprintf(name, sizeof name, "%s@%lld", r->profile, (long long)r->profile_version);
    (void)catalog_find(control_catalog(c->api->control), str_from(name), &p, NULL);
    json_key(w, STR("cpu"));
    json_put_double(w, p ? profile_cpu_milli(p) / 1000.0 : 0);
    put_number(w, "gpu", 0);
    put_gib(w, "memory", p ? p->resources.memory_mb : 0);
    put_gib(w, "disk", p ? p->resources.disk_mb : 0);
}

static int64_t minutes(int64_t ns)
{
    return ns / (MINUTE_NS_SHARE * NS_PER_S);
}

/* 0 minutes of idleness: never; -1 of being stopped: as long as may be, 0: it goes with it. */
static void put_rest(struct json_writer *w, const struct sandbox *s)
{
    struct sandbox_rest rest = sandbox_rest(s);

    put_number(w, "autoStopInterval", minutes(rest.idle_ns));
    put_number(w, "autoPauseInterval", 0);
    put_number(w, "autoArchiveInterval", 0);
    put_number(w, "autoDeleteInterval",
               rest.idle_ns && !rest.stops ? 0
               : rest.keep_ns              ? minutes(rest.keep_ns)
                                           : -1);
}

static void put_env(struct json_writer *w, const struct daytona_shown *s,
                    const struct json_map *env)
{
    json_key(w, STR("env"));
    guard_write_env(w, env, s->sandbox && env->n && guard_may_exec(s->call, s->sandbox));
}

static void put_times(struct json_writer *w, const struct daytona_shown *s)
{
    time_write(w, "createdAt", s->record->created_ns);
    time_write(w, "updatedAt", s->record->updated_ns);
    time_write(w, "autoDestroyAt", s->expires_ns);
}

static void put_toolbox(struct json_writer *w, const struct call *c)
{
    char base[128], url[160];

    if (!daytona_base(c, base, sizeof base))
        return;
    snprintf(url, sizeof url, "%s" DAYTONA_TOOLBOX, base);
    put(w, "toolboxProxyUrl", url);
}

void daytona_write_sandbox(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct daytona_shown *s = what;
    const struct sandbox_record *r = s->record;
    const struct create_request q = asked_for(r, &a);

    json_begin_object(w);
    put(w, "id", r->id);
    put(w, "organizationId", r->owner);
    put(w, "name", daytona_name(r));
    put(w, "snapshot", e2b_template_name(s->call->api, r, &q));
    put(w, "user", DAYTONA_USER);
    put(w, "target", "local");
    put(w, "sandboxClass", "container");
    put(w, "state", daytona_state(r, s->sandbox));
    if (r->state == SANDBOX_FAILED)
        put(w, "errorReason", r->reason);
    put_flag(w, "recoverable", false);
    put_flag(w, "public", false);
    put_flag(w, "networkBlockAll", s->sandbox && !e2b_network_open(s->sandbox));
    put_env(w, s, &q.env);
    json_key(w, STR("labels"));
    daytona_labels_write(w, &r->labels);
    put_size(w, s->call, r);
    if (s->sandbox)
        put_rest(w, s->sandbox);
    put_times(w, s);
    put_toolbox(w, s->call);
    json_end_object(w);
}

void daytona_answer_sandbox(struct call *c)
{
    struct sandbox_view v = sandbox_view(c->sandbox);
    const struct daytona_shown s = {
        .call = c, .record = v.record, .sandbox = c->sandbox, .expires_ns = v.deadline_ns
    };

    if (c->x)
        call_answer(c, 200, daytona_write_sandbox, &s);
}

void daytona_settle_sandbox(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = call_of_op(op);

    if (r < 0)
        call_fail(c, e);
    else
        daytona_answer_sandbox(c);
    call_unref(c);
}
