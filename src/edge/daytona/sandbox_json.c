/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "edge/daytona/internal.h"
#include "edge/core/egress_settings.h"
#include "edge/core/template.h"
#include "edge/core/guard.h"
#include "edge/core/operation.h"
#include "base/clock.h"

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

/* Writes the size by the sandbox's profile; zeros if the profile no longer exists. */
static void write_sandbox_size(struct json_writer *w, const struct call *c,
                               const struct sandbox_record *r)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    char name[RECORD_NAME_MAX + 24];

    snprintf(name, sizeof name, "%s@%lld", r->profile, (long long)r->profile_version);
    (void)catalog_find(control_catalog(c->api->control), str_from(name), &p, NULL);
    json_field_double(w, "cpu", p ? profile_cpu_milli(p) / 1000.0 : 0);
    json_field_int(w, "gpu", 0);
    json_field_double(w, "memory", p ? p->resources.memory_mb / 1024.0 : 0);
    json_field_double(w, "disk", p ? p->resources.disk_mb / 1024.0 : 0);
}

static int64_t whole_minutes(int64_t ns)
{
    return ns / (MINUTE_NS_SHARE * NS_PER_S);
}

/* autoStopInterval 0: never. autoDeleteInterval -1: never; 0: destroyed instead of stopped. */
static void write_rest_intervals(struct json_writer *w, const struct sandbox *s)
{
    struct sandbox_rest rest = sandbox_rest(s);

    json_field_int(w, "autoStopInterval", whole_minutes(rest.idle_ns));
    json_field_int(w, "autoPauseInterval", 0);
    json_field_int(w, "autoArchiveInterval", 0);
    json_field_int(w, "autoDeleteInterval",
                   rest.idle_ns && !rest.stops ? 0
                   : rest.keep_ns              ? whole_minutes(rest.keep_ns)
                                               : -1);
}

bool daytona_toolbox_url(const struct call *c, char ret[static DAYTONA_URL])
{
    char base[128];

    if (!daytona_base_url(c, base, sizeof base))
        return false;
    snprintf(ret, DAYTONA_URL, "%s" DAYTONA_TOOLBOX, base);
    return true;
}

void daytona_write_sandbox(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct daytona_shown *s = what;
    const struct sandbox_record *r = s->record;
    const struct create_request q = template_original_request(r, &a);
    char url[DAYTONA_URL];

    json_begin_object(w);
    json_field_text(w, "id", r->id);
    json_field_text(w, "organizationId", r->owner);
    json_field_text(w, "name", daytona_sandbox_name(r));
    json_field_text(w, "snapshot", template_source_name(s->call->api, r, &q));
    json_field_text(w, "user", DAYTONA_USER);
    json_field_text(w, "target", "local");
    json_field_text(w, "sandboxClass", "container");
    json_field_text(w, "state", daytona_state(r, s->sandbox));
    if (r->state == SANDBOX_FAILED)
        json_field_text(w, "errorReason", r->reason);
    json_field_bool(w, "recoverable", false);
    json_field_bool(w, "public", false);
    json_field_bool(w, "networkBlockAll", s->sandbox && !egress_settings_open(s->sandbox));
    json_key(w, STR("env"));
    guard_write_env(w, &q.env, s->sandbox && q.env.n && guard_may_exec(s->call, s->sandbox));
    json_key(w, STR("labels"));
    daytona_labels_write(w, &r->labels);
    write_sandbox_size(w, s->call, r);
    if (s->sandbox)
        write_rest_intervals(w, s->sandbox);
    time_write(w, "createdAt", r->created_ns);
    time_write(w, "updatedAt", r->updated_ns);
    time_write(w, "autoDestroyAt", s->expires_ns);
    if (daytona_toolbox_url(s->call, url))
        json_field_text(w, "toolboxProxyUrl", url);
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
