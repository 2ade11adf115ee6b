/* SPDX-License-Identifier: Apache-2.0 */
/* tools/list and tools/call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "edge/mcp/internal.h"

enum { PAGE = 100 };
#define TASK_AFTER (2 * NS_PER_S) /* a call that lasts longer becomes a task */

/* --- pages --- */

int64_t mcp_cursor(struct mcp_request *r)
{
    const struct json *cursor = mcp_param(r, "cursor");
    int64_t at = 0;

    if (!cursor)
        return 0;
    if (cursor->type != JSON_STR || !str_to_i64(cursor->s, &at) || at <= 0) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "cursor: not a cursor of this server; leave it out to start over");
        return -1;
    }
    return at;
}

void mcp_next_cursor(struct json_writer *w, int64_t at)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)at);
    mcp_write_str(w, "nextCursor", text);
}

/* --- the list --- */

static void write_tool_hints(struct json_writer *w, const struct mcp_tool *t)
{
    if (t->hints & MCP_NO_HINTS)
        return;
    json_field_begin_object(w, "annotations");
    mcp_write_str(w, "title", t->title);
    json_field_bool(w, "readOnlyHint", t->hints & MCP_READ_ONLY);
    json_field_bool(w, "destructiveHint", t->hints & MCP_DESTRUCTIVE);
    json_field_bool(w, "idempotentHint", t->hints & MCP_IDEMPOTENT);
    json_field_bool(w, "openWorldHint", t->hints & MCP_OPEN_WORLD);
    json_end_object(w);
}

/* The argument with a preset is not required. */
static void write_preset_schema(struct json_writer *w, struct mcp_request *r,
                                const struct mcp_tool *t)
{
    const struct mcp_offer *o = r->session->offer;
    struct json_field *fields = arena_array(&r->arena, t->field_count, sizeof *fields);

    if (!fields)
        abort(); /* tables are short */
    for (size_t i = 0; i < t->field_count; i++) {
        fields[i] = t->fields[i];
        if (strcmp(fields[i].name, o->preset) != 0)
            continue;
        fields[i].required = false;
        fields[i].doc = o->preset_doc;
    }
    json_schema(fields, t->field_count, JSON_SCHEMA_PLAIN, w);
}

static void write_tool(struct json_writer *w, struct mcp_request *r, const struct mcp_tool *t)
{
    json_begin_object(w);
    mcp_write_str(w, "name", t->name);
    mcp_write_str(w, "title", t->title);
    mcp_write_str(w, "description", t->description);
    json_key(w, STR("inputSchema"));
    if (t->schema)
        t->schema(w);
    else if (r->session->offer->preset && !(t->hints & MCP_NO_PRESET))
        write_preset_schema(w, r, t);
    else
        json_schema(t->fields, t->field_count, JSON_SCHEMA_PLAIN, w);
    if (t->result) {
        json_key(w, STR("outputSchema"));
        json_schema(t->result->fields, t->result->field_count, JSON_SCHEMA_PLAIN, w);
    }
    write_tool_hints(w, t);
    json_end_object(w);
}

void mcp_tools_list(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    int64_t at = mcp_cursor(r);
    struct json_writer *w;
    size_t i;

    if (at < 0)
        return;
    w = mcp_result_for(r, MCP_MS_STATIC);
    json_field_begin_array(w, "tools");
    for (i = (size_t)at; i < o->n_tools && i < (size_t)at + PAGE; i++)
        write_tool(w, r, &o->tools[i]);
    json_end_array(w);
    if (i < o->n_tools)
        mcp_next_cursor(w, (int64_t)i);
    mcp_reply(r);
}

/* --- a call --- */

void mcp_write_verdict(struct json_writer *w, const struct mcp_verdict *v)
{
    mcp_write_str(w, "kind",
                  v->kind == MCP_RATE_LIMIT         ? "rate_limit"
                  : v->kind == MCP_REQUIRE_APPROVAL ? "require_approval"
                                                    : "deny");
    json_field_optional(w, "request_id", v->request_id);
    json_field_optional(w, "audit_id", v->audit_id);
}

static void write_verdict_object(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    mcp_write_verdict(w, what);
    json_end_object(w);
}

static const struct mcp_tool *tool_find(const struct mcp_offer *o, struct str name)
{
    for (size_t i = 0; i < o->n_tools; i++)
        if (str_eq(name, str_from(o->tools[i].name)))
            return &o->tools[i];
    return NULL;
}

void mcp_run_handler(struct mcp_request *r)
{
    if (r->tool)
        r->tool->call(r, r->arguments);
    else
        r->method->handle(r);
}

static void on_call_takes_long(struct loop_timer *t)
{
    mcp_task_begin(container_of(t, struct mcp_request, long_after));
}

static void begin_call(struct mcp_request *r)
{
    if ((r->tool->hints & MCP_MUST_BE_TASK) && !mcp_task_begin(r))
        mcp_fail(
            r, RPC_INTERNAL,
            "the tool must run as a task, and the limit of tasks is reached: wait for some to end");
    else if ((r->tool->hints & MCP_MAY_BE_TASK) && (r->can & MCP_CAN_TASKS))
        loop_timer_start(r->session->loop, &r->long_after, clock_mono() + TASK_AFTER,
                         on_call_takes_long, NULL);
    if (!mcp_is_finished(r))
        r->tool->call(r, r->arguments);
}

void mcp_refuse(struct mcp_request *r, const struct mcp_verdict *v)
{
    if (mcp_wish_refuse(r, v))
        return;
    r->judged |= v->audit_id[0] != 0;
    mcp_fail_with(r, v->kind, v->reason, write_verdict_object, v);
}

void mcp_decided(struct mcp_request *r, const struct mcp_verdict *v)
{
    if (mcp_is_finished(r))
        return;
    mcp_request_ref(r);
    r->on_cancel = NULL;
    if (v->kind == MCP_ALLOW) {
        begin_call(r);
        if (!mcp_is_finished(r))
            mcp_inputs_request(r);
    } else {
        mcp_refuse(r, v);
    }
    mcp_request_unref(r);
}

void mcp_tools_call(struct mcp_request *r)
{
    static const struct json none = { .type = JSON_OBJECT };
    struct str name = mcp_param_str(r, "name");
    const struct json *arguments = mcp_param(r, "arguments");

    r->tool = tool_find(r->session->offer, name);
    r->arguments = arguments ? arguments : &none;
    if (!r->tool)
        mcp_fail(r, RPC_INVALID_PARAMS, "there is no tool '%.64s'; tools/list names them",
                 name.p ? name.p : "");
    else if (r->arguments->type != JSON_OBJECT)
        mcp_fail(r, RPC_INVALID_PARAMS, "arguments: must be an object");
    else if ((r->tool->hints & MCP_MUST_BE_TASK) && !(r->can & MCP_CAN_TASKS))
        mcp_task_missing(r, "this tool requires the tasks capability");
    else if (mcp_inputs_read(r) < 0)
        return;
    else if (r->session->offer->authorize && !r->session->approved)
        r->session->offer->authorize(r);
    else
        begin_call(r);
}
