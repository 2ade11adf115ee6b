#include "api/e2b/shown.h"

#include <stdio.h>

#include "api/e2b/inside.h"
#include "api/e2b/metadata.h"
#include "api/e2b/network.h"
#include "api/e2b/template.h"
#include "api/e2b/write.h"
#include "json/reader.h"

struct create_request e2b_asked_for(const struct sandbox_record *r, struct arena *a)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    struct create_request q = { 0 };
    const struct json *v;

    if (json_read(r->request, limits, a, &v, NULL) >= 0)
        (void)create_request_read(v, &q, a, NULL);
    return q;
}

static void put_who(struct json_writer *w, const struct e2b_shown *s,
                    const struct create_request *q)
{
    const struct sandbox_record *r = s->record;
    const char *alias, *template = e2b_template_id(s->call->api, r, q, &alias);

    put(w, "templateID", template);
    put(w, "alias", alias);
    put(w, "sandboxID", r->id);
    put(w, "clientID", "sandboxer");
    put(w, "envdVersion", E2B_ENVD_VERSION);
}

/* Only to who could do by other ways what it is good for. */
static void put_token(struct json_writer *w, const struct call *c, const char *id)
{
    char token[E2B_HELD_TEXT];

    if (!e2b_may_enter(c))
        return;
    e2b_token(c, id, token);
    put(w, "envdAccessToken", token);
}

static void put_traffic_token(struct json_writer *w, const struct call *c, const char *id)
{
    char token[E2B_HELD_TEXT];

    if (!e2b_may_enter(c))
        return;
    e2b_traffic_token(c, id, token);
    put(w, "trafficAccessToken", token);
}

/* Of sandboxes, for clients that found us by it; others go on with what they were told. */
static void put_domain(struct json_writer *w, const struct call *c)
{
    struct str domain = domain_of_client(c);

    json_key(w, STR("domain"));
    if (domain.n)
        json_put_lossy(w, domain);
    else
        json_put_null(w);
}

void e2b_write_made(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct e2b_shown *s = what;
    const struct create_request q = e2b_asked_for(s->record, &a);

    json_begin_object(w);
    put_who(w, s, &q);
    put_token(w, s->call, s->record->id);
    put_traffic_token(w, s->call, s->record->id);
    put_domain(w, s->call);
    json_end_object(w);
}

struct e2b_size e2b_size(const struct call *c, const struct sandbox_record *r)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct e2b_size size = { .processors = 1 };
    char name[RECORD_NAME_MAX + 24];

    snprintf(name, sizeof name, "%s@%lld", r->profile, (long long)r->profile_version);
    if (catalog_find(control_catalog(c->api->control), str_from(name), &p, NULL) >= 0)
        size = e2b_profile_size(p);
    return size;
}

void e2b_put_size(struct json_writer *w, const struct e2b_size *s)
{
    put_number(w, "cpuCount", s->processors);
    put_number(w, "memoryMB", s->memory_mb);
    put_number(w, "diskSizeMB", s->disk_mb);
}

struct e2b_size e2b_profile_size(const struct profile *p)
{
    uint32_t milli = profile_cpu_milli(p);

    return (struct e2b_size){ .processors = milli > 1000 ? milli / 1000 : 1,
                              .memory_mb = p->resources.memory_mb,
                              .disk_mb = p->resources.disk_mb };
}

/* The members, without the braces. */
static void put_listed(struct json_writer *w, const struct e2b_shown *s,
                       const struct create_request *q)
{
    const struct sandbox_record *r = s->record;
    const struct e2b_size size = e2b_size(s->call, r);

    put_who(w, s, q);
    time_write(w, "startedAt", r->created_ns);
    time_write(w, "endAt", s->expires_ns ? s->expires_ns : r->created_ns + r->ttl_ns);
    e2b_put_size(w, &size);
    put(w, "state", r->state == SANDBOX_PAUSED ? "paused" : "running");
    json_key(w, STR("metadata"));
    metadata_write(w, &r->labels);
}

void e2b_write_listed(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct e2b_shown *s = what;
    const struct create_request q = e2b_asked_for(s->record, &a);

    json_begin_object(w);
    put_listed(w, s, &q);
    json_end_object(w);
}

void e2b_write_info(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct e2b_shown *s = what;
    const struct create_request q = e2b_asked_for(s->record, &a);

    json_begin_object(w);
    put_listed(w, s, &q);
    put_domain(w, s->call);
    put_token(w, s->call, s->record->id);
    e2b_network_write(w, s->call->sandbox);
    json_key(w, STR("lifecycle"));
    json_begin_object(w);
    put(w, "onTimeout", q.on_timeout == ASK_END_PAUSE ? "pause" : "kill");
    put_flag(w, "autoResume", false);
    json_end_object(w);
    json_end_object(w);
}

struct e2b_shown e2b_show(const struct call *c)
{
    struct sandbox_view v = sandbox_view(c->sandbox);

    return (struct e2b_shown){ .call = c, .record = v.record, .expires_ns = v.deadline_ns };
}

static bool is_one_of(struct call *c, bool paused_too)
{
    enum sandbox_state s = sandbox_state(c->sandbox);
    char text[ID_MAX + 32];

    if (sandbox_state_usable(s) || (paused_too && s == SANDBOX_PAUSED))
        return true;
    snprintf(text, sizeof text, "sandbox %s is %s", sandbox_view(c->sandbox).record->id,
             sandbox_state_names[s]);
    call_fail_with(c, 404, "not_found", text);
    return false;
}

bool e2b_is_there(struct call *c)
{
    return is_one_of(c, true);
}

bool e2b_is_running(struct call *c)
{
    return is_one_of(c, false);
}
