/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "edge/e2b/internal.h"
#include "edge/core/metadata.h"
#include "edge/core/template.h"

static void write_e2b_identity(struct json_writer *w, const struct e2b_shown *s,
                               const struct create_request *q)
{
    const struct sandbox_record *r = s->record;
    const char *alias, *template = template_find_id(s->call->api, r, q, &alias);
    char id[ID_MAX];

    json_field_text(w, "templateID", template);
    json_field_text(w, "alias", alias);
    id_show_plain(r->id, id);
    json_field_text(w, "sandboxID", id);
    json_field_text(w, "clientID", "sandboxer");
    json_field_text(w, "envdVersion", E2B_ENVD_VERSION);
}

/* Writes the tokens only for callers that have the rights which they grant. */
static void write_access_tokens(struct json_writer *w, const struct call *c, const char *id,
                                bool traffic)
{
    char token[SANDBOX_TOKEN_TEXT];

    if (!e2b_may_enter(c))
        return;
    sandbox_token_make(c->api, id, c->caller.actor.id, token);
    json_field_text(w, "envdAccessToken", token);
    if (!traffic)
        return;
    sandbox_traffic_token(c, id, token);
    json_field_text(w, "trafficAccessToken", token);
}

/* Writes the domain of sandboxes for clients that connected through it; null makes the others keep
 * their address. */
static void write_e2b_domain(struct json_writer *w, const struct call *c)
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
    const struct create_request q = template_original_request(s->record, &a);

    json_begin_object(w);
    write_e2b_identity(w, s, &q);
    write_access_tokens(w, s->call, s->record->id, true);
    write_e2b_domain(w, s->call);
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

void e2b_write_size(struct json_writer *w, const struct e2b_size *s)
{
    json_field_int(w, "cpuCount", s->processors);
    json_field_int(w, "memoryMB", s->memory_mb);
    json_field_int(w, "diskSizeMB", s->disk_mb);
}

struct e2b_size e2b_profile_size(const struct profile *p)
{
    uint32_t milli = profile_cpu_milli(p);

    return (struct e2b_size){ .processors = milli > 1000 ? milli / 1000 : 1,
                              .memory_mb = p->resources.memory_mb,
                              .disk_mb = p->resources.disk_mb };
}

/* Writes the members of a list row without the braces. */
static void write_listed_members(struct json_writer *w, const struct e2b_shown *s,
                                 const struct create_request *q)
{
    const struct sandbox_record *r = s->record;
    const struct e2b_size size = e2b_size(s->call, r);

    write_e2b_identity(w, s, q);
    time_write(w, "startedAt", r->created_ns);
    time_write(w, "endAt", s->expires_ns ? s->expires_ns : r->created_ns + r->ttl_ns);
    e2b_write_size(w, &size);
    json_field_text(w, "state", r->state == SANDBOX_PAUSED ? "paused" : "running");
    json_key(w, STR("metadata"));
    metadata_write(w, &r->labels);
}

void e2b_write_listed(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct e2b_shown *s = what;
    const struct create_request q = template_original_request(s->record, &a);

    json_begin_object(w);
    write_listed_members(w, s, &q);
    json_end_object(w);
}

void e2b_write_info(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct e2b_shown *s = what;
    const struct create_request q = template_original_request(s->record, &a);

    json_begin_object(w);
    write_listed_members(w, s, &q);
    write_e2b_domain(w, s->call);
    write_access_tokens(w, s->call, s->record->id, false);
    e2b_network_write(w, s->call->sandbox);
    json_field_begin_object(w, "lifecycle");
    json_field_text(w, "onTimeout", q.on_timeout == ASK_END_PAUSE ? "pause" : "kill");
    json_field_bool(w, "autoResume", false);
    json_end_object(w);
    json_end_object(w);
}

struct e2b_shown e2b_show(const struct call *c)
{
    struct sandbox_view v = sandbox_view(c->sandbox);

    return (struct e2b_shown){ .call = c, .record = v.record, .expires_ns = v.deadline_ns };
}

static bool is_e2b_visible(struct call *c, bool paused_too)
{
    enum sandbox_state s = sandbox_state(c->sandbox);
    char id[ID_MAX];

    if (sandbox_state_usable(s) || (paused_too && s == SANDBOX_PAUSED))
        return true;
    id_show_plain(sandbox_view(c->sandbox).record->id, id);
    return call_fail_with(c, 404, "not_found", "sandbox %s is %s", id, sandbox_state_names[s]);
}

bool e2b_is_there(struct call *c)
{
    return is_e2b_visible(c, true);
}

bool e2b_is_running(struct call *c)
{
    return is_e2b_visible(c, false);
}
