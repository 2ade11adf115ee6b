/* SPDX-License-Identifier: Apache-2.0 */
/* The table of methods, and the methods of the session itself. */
#include "base/own.h"
#include "edge/mcp/internal.h"

/* --- reading --- */

const struct json *mcp_object(const struct json *v, const char *name)
{
    const struct json *m = v ? json_get(v, str_from(name)) : NULL;

    return m && m->type == JSON_OBJECT ? m : NULL;
}

struct str mcp_text(const struct json *v, const char *name)
{
    const struct json *m = v ? json_get(v, str_from(name)) : NULL;

    return m && m->type == JSON_STR ? m->s : (struct str){ NULL, 0 };
}

const struct json *mcp_param(const struct mcp_request *r, const char *name)
{
    return r->m->params ? json_get(r->m->params, str_from(name)) : NULL;
}

struct str mcp_param_str(const struct mcp_request *r, const char *name)
{
    return mcp_text(r->m->params, name);
}

unsigned mcp_read_can(const struct json *capabilities)
{
    const struct json *extensions = mcp_object(capabilities, "extensions");

    return (mcp_object(capabilities, "sampling") ? MCP_CAN_SAMPLE : 0u) |
           (mcp_object(capabilities, "elicitation") ? MCP_CAN_ELICIT : 0u) |
           (mcp_object(capabilities, "roots") ? MCP_CAN_ROOTS : 0u) |
           (mcp_object(extensions, MCP_TASKS) ? MCP_CAN_TASKS : 0u);
}

static bool find_level(struct str name, enum mcp_level *ret)
{
    for (unsigned i = 0; i < MCP_SILENT; i++)
        if (str_eq(name, str_from(mcp_level_names[i]))) {
            *ret = (enum mcp_level)i;
            return true;
        }
    return false;
}

/* --- writing --- */

void mcp_write_str(struct json_writer *w, const char *key, const char *value)
{
    if (value)
        json_field_text(w, key, value);
}

static void write_capability(struct json_writer *w, const char *group, const char *flag, bool on)
{
    json_field_begin_object(w, group);
    if (on)
        json_field_bool(w, flag, true);
    json_end_object(w);
}

void mcp_write_server(struct json_writer *w, const struct mcp_offer *o)
{
    json_begin_object(w);
    mcp_write_str(w, "name", o->name);
    mcp_write_str(w, "title", o->title);
    mcp_write_str(w, "version", o->version);
    json_end_object(w);
}

void mcp_write_extensions(struct json_writer *w)
{
    json_field_begin_object(w, "extensions");
    write_capability(w, MCP_TASKS, "", false);
    json_end_object(w);
}

void mcp_write_capabilities(struct json_writer *w, const struct mcp_offer *o, enum mcp_version v)
{
    json_begin_object(w);
    write_capability(w, "tools", "listChanged", o->lists_change);
    write_capability(w, "prompts", "listChanged", o->lists_change);
    write_capability(w, "resources", "subscribe", o->watch);
    if (v >= MCP_2025_03_26)
        write_capability(w, "completions", "", false);
    write_capability(w, "logging", "", false);
    if (mcp_is_new(v))
        mcp_write_extensions(w);
    json_end_object(w);
}

static void write_supported(struct json_writer *w, const char *key)
{
    json_field_begin_array(w, key);
    for (enum mcp_version v = MCP_VERSION_COUNT_ - 1; v > MCP_NONE; v--)
        json_put_str(w, str_from(mcp_version_names[v]));
    json_end_array(w);
}

static void write_versions(struct json_writer *w, const void *requested)
{
    json_begin_object(w);
    write_supported(w, "supported");
    json_field_str(w, "requested", *(const struct str *)requested);
    json_end_object(w);
}

/* --- the stateless revision: every request describes its client --- */

int mcp_read_meta(struct mcp_request *r)
{
    struct str version = mcp_meta_version(r->m), level;
    const struct json *can = mcp_object(r->meta, MCP_META "clientCapabilities");

    if (!version.p)
        return 0;
    if (mcp_is_new(mcp_version_of(version)) || !mcp_version_of(version))
        r->version = MCP_2026_07_28;
    if (!mcp_version_of(version)) {
        mcp_fail_with(r, MCP_BAD_VERSION, "this protocol version is not supported", write_versions,
                      &version);
        return -1;
    }
    if (!mcp_is_new(r->version))
        return 0;
    if (!can) {
        mcp_fail(r, RPC_INVALID_PARAMS, "_meta: must have " MCP_META "clientCapabilities");
        return -1;
    }
    r->can = mcp_read_can(can);
    r->level = MCP_SILENT;
    level = mcp_text(r->meta, MCP_META "logLevel");
    if (level.p && !find_level(level, &r->level)) {
        mcp_fail(r, RPC_INVALID_PARAMS, "_meta: " MCP_META "logLevel: there is no level '%.32s'",
                 level.p);
        return -1;
    }
    return 0;
}

static void handle_discover(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    struct json_writer *w = mcp_result_for(r, MCP_MS_STATIC);

    write_supported(w, "supportedVersions");
    json_key(w, STR("capabilities"));
    mcp_write_capabilities(w, o, MCP_2026_07_28);
    mcp_write_str(w, "instructions", o->instructions);
    json_field_begin_object(w, "_meta");
    json_key(w, STR(MCP_META "serverInfo"));
    mcp_write_server(w, o);
    json_end_object(w);
    mcp_reply(r);
}

/* --- the revisions with sessions --- */

static void handle_initialize(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    struct mcp_session *s = r->session;
    struct str version = mcp_param_str(r, "protocolVersion");
    enum mcp_version v = mcp_version_of(version);
    struct json_writer *w;

    if (!version.p || !mcp_object(r->m->params, "capabilities") ||
        !mcp_object(r->m->params, "clientInfo")) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "initialize needs protocolVersion, capabilities and clientInfo");
        return;
    }
    if (s->version) {
        mcp_fail(r, RPC_INVALID_REQUEST, "this session is already initialized");
        return;
    }
    s->version = r->version = v && v <= MCP_LAST_OLD ? v : MCP_LAST_OLD;
    s->can = mcp_read_can(mcp_object(r->m->params, "capabilities"));
    s->level = MCP_INFO;
    w = mcp_result(r);
    mcp_write_str(w, "protocolVersion", mcp_version_names[s->version]);
    json_key(w, STR("capabilities"));
    mcp_write_capabilities(w, o, s->version);
    json_key(w, STR("serverInfo"));
    mcp_write_server(w, o);
    mcp_write_str(w, "instructions", o->instructions);
    mcp_reply(r);
}

static void handle_ping(struct mcp_request *r)
{
    mcp_result(r);
    mcp_reply(r);
}

static void handle_set_level(struct mcp_request *r)
{
    if (!find_level(mcp_param_str(r, "level"), &r->session->level)) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "level: must be debug, info, notice, warning, error, critical, "
                 "alert or emergency");
        return;
    }
    handle_ping(r);
}

static const struct mcp_method methods[] = {
    { "initialize", handle_initialize, MCP_OLD, MCP_EARLY | MCP_KNOWN },
    { "ping", handle_ping, MCP_OLD, MCP_EARLY },
    { "logging/setLevel", handle_set_level, MCP_OLD, 0 },
    { "server/discover", handle_discover, MCP_NEW, 0 },
    { "tools/list", mcp_tools_list, MCP_BOTH, 0 },
    { "tools/call", mcp_tools_call, MCP_BOTH, MCP_KNOWN },
    { "resources/list", mcp_resources_list, MCP_BOTH, MCP_KNOWN },
    { "resources/read", mcp_resources_read, MCP_BOTH, MCP_KNOWN },
    { "resources/templates/list", mcp_resources_templates, MCP_BOTH, 0 },
    { "resources/subscribe", mcp_resources_subscribe, MCP_OLD, MCP_KNOWN },
    { "resources/unsubscribe", mcp_resources_unsubscribe, MCP_OLD, MCP_KNOWN },
    { "prompts/list", mcp_prompts_list, MCP_BOTH, 0 },
    { "prompts/get", mcp_prompts_get, MCP_BOTH, 0 },
    { "completion/complete", mcp_complete, MCP_BOTH, MCP_KNOWN },
    { "subscriptions/listen", mcp_listen, MCP_NEW, MCP_KNOWN },
    { "tasks/get", mcp_task_get, MCP_NEW, MCP_KNOWN },
    { "tasks/update", mcp_task_update, MCP_NEW, MCP_KNOWN },
    { "tasks/cancel", mcp_task_cancel, MCP_NEW, MCP_KNOWN },
};

const struct mcp_method *mcp_method_find(struct str name, enum mcp_version v)
{
    unsigned era = mcp_is_new(v) ? MCP_NEW : MCP_OLD;

    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if ((methods[i].eras & era) && str_eq(name, str_from(methods[i].name)))
            return &methods[i];
    return NULL;
}

/* --- notifications --- */

/* Ignores all notifications except cancellations. */
void mcp_notified(struct mcp_session *s, const struct rpc_message *m)
{
    const struct json *id = m->params ? json_get(m->params, STR("requestId")) : NULL;

    if (!id || !str_eq(m->method, STR("notifications/cancelled")))
        return;
    LIST_EACH (struct mcp_request, r, &s->requests, in_session) {
        if (!rpc_same_id(r->m->id, id))
            continue;
        if (!str_eq(r->m->method, STR("initialize"))) /* cannot be cancelled */
            mcp_request_cancel(r);
        return;
    }
}
