/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of a sandbox (sandbox://ID/…) and of held calls (approval://ID).
 *
 *     sandbox://ID              its record
 *     sandbox://ID/files/PATH   a file; PATH is percent-encoded
 *     sandbox://ID/events       its events
 *     sandbox://ID/logs         output of its background processes, not of tools
 *     sandbox://ID/policy       its egress policy */
#include <stdio.h>

#include "edge/tools/approved_calls.h"
#include "edge/tools/watch.h"
#include "edge/tools/workspace.h"
#include "lib/http/url.h"
#include "domain/model/event.h"

enum { EVENTS_MAX = 200, EVENTS_BYTES_MAX = 16 << 20 };

#define LOGS_HOLD                                                                                  \
    "The output of background processes. The output of sandbox_exec and sandbox_install is only "  \
    "in their answers."

const struct mcp_template mcp_templates[MCP_TEMPLATE_COUNT] = {
    { "sandbox://{id}", "sandbox", "Sandbox", "The sandbox's record.", "application/json" },
    { "sandbox://{id}/files{+path}", "file", "File", "A file inside the sandbox.", NULL },
    { "sandbox://{id}/events", "events", "Events", "The events of the sandbox.",
      "application/json" },
    { "sandbox://{id}/logs", "logs", "Logs", LOGS_HOLD, "text/plain" },
    { "sandbox://{id}/policy", "policy", "Egress policy", "The egress policy of the sandbox.",
      "application/json" },
    { "approval://{request_id}", "approval", "Held call",
      "A call that requires a master's approval, and its result.", "application/json" },
};

/* Splits a sandbox URI; false if it is not one. */
static bool split_sandbox_uri(struct str uri, struct str *id, struct str *rest)
{
    struct str path;

    if (!str_starts(uri, STR("sandbox://")))
        return false;
    uri = (struct str){ uri.p + 10, uri.n - 10 };
    path = str_cut(uri, '/', id);
    *rest = path.p ? path : STR("");
    return id->n > 0 && id->n < ID_MAX;
}

/* --- the list --- */

enum { PAGE = 50 };

/* The resources of each sandbox besides its record. */
static const struct {
    const char *name, *description, *type;
} of_each[] = {
    { "events", "The events of the sandbox.", "application/json" },
    { "logs", LOGS_HOLD, "text/plain" },
    { "policy", "The egress policy of the sandbox.", "application/json" },
};

static void write_sandbox_resources(struct json_writer *w, const char *id)
{
    char text[sizeof "sandbox:///policy" + ID_MAX];

    snprintf(text, sizeof text, "sandbox://%s", id);
    mcp_page_resource(w, str_from(text), id, "A sandbox's record.", "application/json");
    for (size_t k = 0; k < COUNT_OF(of_each); k++) {
        snprintf(text, sizeof text, "sandbox://%s/%s", id, of_each[k].name);
        mcp_page_resource(w, str_from(text), of_each[k].name, of_each[k].description,
                          of_each[k].type);
    }
}

static void on_resource_page(struct store_query *q, int r, const struct err *e)
{
    struct mcp_request *request = container_of(q, struct mcp_box_query, query)->request;
    size_t n = q->n < PAGE ? q->n : PAGE;
    struct json_writer *w;
    struct sandbox *own;
    char text[SANDBOX_PAGE_CURSOR];

    if (r < 0 || mcp_is_finished(request)) {
        if (r < 0)
            mcp_fail(request, RPC_INTERNAL, "%s", e->msg);
        mcp_request_unref(request);
        return;
    }
    own = q->after.id[0] ? NULL : mcp_workspace_sandbox(mcp_client_of(request));
    w = mcp_result_for(request, 0);
    json_field_begin_array(w, "resources");
    if (own)
        write_sandbox_resources(w, sandbox_view(own).record->id);
    sandbox_unref(own);
    for (size_t i = 0; i < n; i++)
        write_sandbox_resources(w, q->sandboxes[i].id);
    json_end_array(w);
    if (q->n > n) {
        sandbox_page_cursor(&q->sandboxes[n - 1], text);
        json_field_str(w, "nextCursor", str_from(text));
    }
    mcp_reply(request);
    mcp_request_unref(request);
}

static void list_allowed_sandboxes(struct mcp_request *r)
{
    struct mcp_box_query *b = mcp_state(r, sizeof *b, mcp_query_done);
    struct str cursor = mcp_text(r->m->params, "cursor");
    struct err e;

    if (cursor.n && !mcp_box_query_after(b, cursor))
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "cursor: not a cursor of this server; leave it out to start over");
    else if (mcp_box_query_start(b, r, PAGE, on_resource_page, &e) < 0)
        mcp_fail(r, RPC_INTERNAL, "%s", e.msg);
}

/* Lists sandboxes; authorized like sandbox_list. */
void mcp_list_sandboxes(struct mcp_request *r, struct str cursor)
{
    mcp_authorize_as(r, &(struct mcp_equal){ "sandbox_list", .can_wait = !cursor.n,
                                             .go = list_allowed_sandboxes });
}

/* --- reading a resource --- */

static void read_sandbox_record(struct mcp_request *r, struct sandbox *s, struct str uri)
{
    struct sandbox_view v = sandbox_view(s);
    struct sandbox_json shown = {
        .record = v.record, .expires_ns = v.expires_ns, .deadline_ns = v.deadline_ns, .step = v.step
    };
    struct sandbox_egress egress;

    if (sandbox_egress(s, &egress))
        shown.egress = &egress;
    mcp_read_json(r, uri, sandbox_write, &shown);
}

struct event_history {
    struct store_query query;
    struct mcp_request *request;
    struct str uri;
    char id[ID_MAX];
};

static void write_event_history(struct json_writer *w, const void *query)
{
    const struct store_query *q = query;

    json_begin_array(w);
    for (size_t i = 0; i < q->n; i++)
        event_write(w, &q->events[i]);
    json_end_array(w);
}

static void on_history_found(struct store_query *q, int r, const struct err *e)
{
    struct event_history *h = container_of(q, struct event_history, query);

    if (r >= 0)
        mcp_read_json(h->request, h->uri, write_event_history, q);
    else
        mcp_fail(h->request, RPC_INTERNAL, "%s", e->msg);
    mcp_request_unref(h->request);
}

static void read_sandbox_events(struct mcp_request *r, struct sandbox *s, struct str uri)
{
    struct event_history *h = mcp_state(r, sizeof *h, mcp_query_done);
    struct err e;

    h->request = mcp_request_ref(r);
    h->uri = uri;
    snprintf(h->id, sizeof h->id, "%s", sandbox_view(s).record->id);
    h->query = (struct store_query){ .kind = STORE_EVENTS,
                                     .sandbox = str_from(h->id),
                                     .limit = EVENTS_MAX };
    arena_init(&h->query.arena, EVENTS_BYTES_MAX);
    if (store_ask(control_store(mcp_client_of(r)->control), &h->query, on_history_found, &e) < 0) {
        mcp_fail(r, RPC_INTERNAL, "%s", e.msg);
        mcp_request_unref(r);
    }
}

/* Reads the resource, after it was authorized like a call of the equivalent tool. */
static void read_allowed_resource(struct mcp_request *r)
{
    struct str id, rest, uri = mcp_text(r->m->params, "uri");
    struct sandbox *s;

    if (!split_sandbox_uri(uri, &id, &rest) ||
        !control_find_now(mcp_client_of(r)->control, mcp_caller(r->session), id, &s)) {
        mcp_fail_no_resource(r, uri);
        return;
    }
    if (!rest.n)
        read_sandbox_record(r, s, uri);
    else if (str_eq(rest, STR("events")))
        read_sandbox_events(r, s, uri);
    else if (str_eq(rest, STR("logs")))
        mcp_read_logs(r, s, uri);
    else if (str_eq(rest, STR("policy")))
        mcp_read_text(r, uri, "application/json",
                      sandbox_policy(s).n ? sandbox_policy(s) : STR("null"));
    else if (str_starts(rest, STR("files/")))
        mcp_read_file(r, s, json_get(r->arguments, STR("path"))->s.p, uri);
    else
        mcp_fail_no_resource(r, uri);
    sandbox_unref(s);
}

/* The tool call that is equivalent to reading a resource, for the policy. */
struct equal_call {
    const char *tool;
    struct str path; /* of sandbox_read; decoded once, for both the policy and the read */
};

/* Returns false if the path is not properly encoded. */
static bool find_equal_tool(struct str rest, struct arena *a, struct equal_call *ret)
{
    struct err e;

    *ret = (struct equal_call){ .tool = "sandbox_list" };
    if (str_eq(rest, STR("logs")))
        *ret = (struct equal_call){ "sandbox_read", STR("/logs") };
    if (!str_starts(rest, STR("files/")))
        return true;
    ret->tool = "sandbox_read";
    return url_decode((struct str){ rest.p + 5, rest.n - 5 }, false, a, &ret->path, &e) >= 0 &&
           !memchr(ret->path.p, 0, ret->path.n);
}

static const struct json *make_tool_args(struct arena *a, struct str id, struct str path)
{
    struct json *all = arena_array(a, 3, sizeof *all);

    all[0] = (struct json){ .type = JSON_OBJECT, .list = { all + 1, path.n ? 2 : 1 } };
    all[1] = (struct json){ .type = JSON_STR, .key = STR("sandbox_id"), .s = id };
    all[2] = (struct json){ .type = JSON_STR, .key = STR("path"), .s = path };
    return all;
}

void mcp_read_resource(struct mcp_request *r, struct str uri)
{
    struct equal_call call;
    struct str id, rest;

    if (str_starts(uri, STR("approval://"))) {
        mcp_approval_read(r, uri, (struct str){ uri.p + 11, uri.n - 11 });
    } else if (!split_sandbox_uri(uri, &id, &rest)) {
        mcp_fail_no_resource(r, uri);
    } else if (!find_equal_tool(rest, &r->arena, &call)) {
        mcp_fail_uri(r, uri, "the path in the URI is not valid percent-encoded UTF-8");
    } else {
        r->arguments = make_tool_args(&r->arena, id, call.path);
        mcp_authorize_as(r, &(struct mcp_equal){ call.tool, r->arguments,
                                                 .can_wait = str_starts(rest, STR("files/")),
                                                 .go = read_allowed_resource });
    }
}

/* --- watching --- */

/* The sandbox of an authorized watch; NULL after it has answered that it does not exist. */
static struct sandbox *watched_sandbox(struct mcp_request *r)
{
    struct str id = json_get(r->arguments, STR("sandbox_id"))->s;
    struct sandbox *s;

    if (control_find_now(mcp_client_of(r)->control, mcp_caller(r->session), id, &s))
        return s;
    mcp_watched(r, false);
    return NULL;
}

static void watch_part(struct mcp_request *r)
{
    struct sandbox *s = watched_sandbox(r);

    if (!s)
        return;
    sandbox_unref(s);
    mcp_watched(r, true);
}

static void watch_logs(struct mcp_request *r)
{
    struct sandbox *s = watched_sandbox(r);

    if (!s)
        return;
    mcp_watch_logs(r, sandbox_view(s).record->id);
    sandbox_unref(s);
}

static void watch_file(struct mcp_request *r)
{
    const char *path = json_get(r->arguments, STR("path"))->s.p;
    struct sandbox *s = watched_sandbox(r);

    if (!s)
        return;
    if (mcp_path_has_dots(path))
        mcp_watched(r, false);
    else
        mcp_watch_file(r, s, path);
    sandbox_unref(s);
}

/* Parts of a sandbox, and the prefix of the events that change them. The record and the events
 * change with every event; logs also change without one. */
static const struct sandbox_part {
    const char *name, *events;
    void (*watch)(struct mcp_request *r); /* after authorization */
} parts[] = {
    { "", "", watch_part },
    { "events", "", watch_part },
    { "logs", "process", watch_logs },
    { "policy", "egress", watch_part },
};

/* The function that watches a part; NULL if it cannot be watched. */
static void (*find_part_watch(struct str rest))(struct mcp_request *r)
{
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (str_eq(rest, str_from(parts[i].name)))
            return parts[i].watch;
    return str_starts(rest, STR("files/")) ? watch_file : NULL;
}

void mcp_watch_resource(struct mcp_request *r, struct str uri)
{
    struct equal_call call;
    struct str id, rest;

    if (str_starts(uri, STR("approval://"))) {
        mcp_watched(r, mcp_approval_watchable(r->session, (struct str){ uri.p + 11, uri.n - 11 }));
    } else if (!split_sandbox_uri(uri, &id, &rest) || !find_part_watch(rest) ||
               !find_equal_tool(rest, &r->arena, &call)) {
        mcp_watched(r, false);
    } else {
        r->arguments = make_tool_args(&r->arena, id, call.path);
        mcp_authorize_as(
            r, &(struct mcp_equal){ call.tool, r->arguments, .go = find_part_watch(rest) });
    }
}

void mcp_event(struct event_subscriber *sub, const struct event_record *v)
{
    struct api *a = container_of(sub, struct api, mcp_events);
    char uri[64 + ID_MAX];

    mcp_approval_event(a, v);
    for (size_t i = 0; v->sandbox[0] && i < COUNT_OF(parts); i++) {
        const char *name = parts[i].name;

        if (!str_starts(str_from(v->type), str_from(parts[i].events)))
            continue;
        snprintf(uri, sizeof uri, "sandbox://%s%s%s", v->sandbox, name[0] ? "/" : "", name);
        mcp_resource_changed(&a->mcp, str_from(uri));
    }
}
