/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the outcome of held calls to the client that made them.
 *
 * A session is notified at the end of a call. A client without a session, or one that was
 * disconnected, repeats the call with the id of the held call in _meta and may wait for the result;
 * or it reads approval://ID. */
#include <stdio.h>
#include <stdlib.h>

#include "edge/tools/approved_calls.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/json/reader.h"

enum { ANSWER_BYTES = 8 << 20, DETAIL_BYTES = 64 << 10, DEPTH = 64, WAIT_MOST_S = 60 };

/* A query for a held call, on behalf of a request. */
struct held_outcome {
    struct store_query query;
    struct mcp_request *request; /* referenced while a query or wait is under way */
    struct approval_waiter waiter;
    struct loop_timer timer;
    struct str uri; /* p == NULL: a tool call */
    char id[ID_MAX];
    bool waits;
};

static void stop_outcome_wait(struct held_outcome *o)
{
    o->waits = false;
    approval_waiter_stop(&o->waiter);
    loop_timer_stop(&o->timer);
}

static void cancel_outcome(struct mcp_request *r)
{
    struct held_outcome *o = r->state;

    if (!o->waits)
        return; /* the store's answer is ignored */
    stop_outcome_wait(o);
    mcp_request_unref(r);
}

static struct held_outcome *new_outcome(struct mcp_request *r, struct str id)
{
    struct held_outcome *o = mcp_state(r, sizeof *o, mcp_query_done);

    o->request = mcp_request_ref(r);
    str_copy(id, o->id, sizeof o->id);
    r->on_cancel = cancel_outcome;
    return o;
}

/* --- answers --- */

static void write_tree(struct json_writer *w, const void *what)
{
    json_put_tree(w, what);
}

static void answer_held_result(struct mcp_request *q, const struct approval_record *r)
{
    const struct json_limits limits = { .bytes = APPROVAL_RESULT_MAX, .depth = DEPTH };
    const struct json *v;

    if (json_read(r->result, limits, &q->arena, &v, NULL) < 0 || v->type != JSON_OBJECT)
        mcp_tool_fail(q, "The call ran, but its result cannot be read.");
    else if (r->failed)
        mcp_tool_fail(q, "%.900s", mcp_text(v, "error").p ? mcp_text(v, "error").p : "It failed.");
    else
        mcp_tool_reply(q, write_tree, v);
}

static void answer_held_state(struct mcp_request *q, const struct approval_record *r)
{
    struct mcp_verdict v = { .kind = MCP_DENY };

    if (approval_is_open(r->state)) {
        v.kind = MCP_REQUIRE_APPROVAL;
        snprintf(v.reason, sizeof v.reason,
                 "the call is %s. Repeat the request later with _meta \"%s\"",
                 approval_state_names[r->state], MCP_REQUEST_ID);
    } else {
        snprintf(v.reason, sizeof v.reason,
                 "the call is %s: %.200s. Call the tool again if it is still needed",
                 approval_state_names[r->state], r->reason);
    }
    memcpy(v.request_id, r->id, sizeof v.request_id);
    mcp_deny(q, r->tool, &v);
}

static void write_approval_record(struct json_writer *w, const void *what)
{
    approval_write(w, what, true);
}

static void answer_outcome_record(struct held_outcome *o, const struct approval_record *r)
{
    struct mcp_request *q = o->request;

    if (o->uri.p)
        mcp_read_json(q, o->uri, write_approval_record, r);
    else if (strcmp(r->tool, q->tool->name) != 0)
        mcp_fail(q, RPC_INVALID_PARAMS, "_meta: %s is a call of %s", o->id, r->tool);
    else if (r->state == APPROVAL_DONE)
        answer_held_result(q, r);
    else
        answer_held_state(q, r);
}

/* --- queries and waits --- */

static bool is_own_approval(const struct mcp_session *s, const struct approval_record *r)
{
    const struct mcp_client *m = s->user;

    return r && strcmp(r->peer, m->peer->record.id) == 0;
}

static void on_held_call_found(struct store_query *q, int r, const struct err *e)
{
    struct held_outcome *o = container_of(q, struct held_outcome, query);
    struct mcp_request *request = o->request;
    bool own = r >= 0 && is_own_approval(request->session, q->n ? &q->approvals[0] : NULL);

    if (mcp_is_finished(request))
        ;
    else if (r < 0)
        mcp_fail(request, RPC_INTERNAL, "%s", e->msg);
    else if (!own && o->uri.p)
        mcp_fail_no_resource(request, o->uri);
    else if (!own)
        mcp_fail(request, RPC_INVALID_PARAMS, "_meta: there is no held call %s of this client",
                 o->id);
    else if (mcp_may_call(request, q->approvals[0].tool)) /* requires the right to call the tool */
        answer_outcome_record(o, &q->approvals[0]);
    mcp_request_unref(request);
}

static void query_held_call(struct held_outcome *o)
{
    const struct mcp_client *m = mcp_client_of(o->request);
    struct err e;

    stop_outcome_wait(o);
    o->query = (struct store_query){ .kind = STORE_APPROVAL,
                                     .text = str_from(o->id),
                                     .owner = str_from(m->caller.owner) };
    arena_init(&o->query.arena, ANSWER_BYTES);
    if (store_ask(control_store(m->control), &o->query, on_held_call_found, &e) >= 0)
        return;
    mcp_fail(o->request, RPC_INTERNAL, "%s", e.msg);
    mcp_request_unref(o->request);
}

static void on_outcome_wait_over(struct loop_timer *t)
{
    query_held_call(container_of(t, struct held_outcome, timer));
}

static void on_held_call_changed(struct approval_waiter *w, const struct approval_record *r)
{
    if (!approval_is_open(r->state))
        query_held_call(container_of(w, struct held_outcome, waiter));
}

static void wait_for_outcome(struct held_outcome *o, int64_t seconds)
{
    const struct mcp_client *m = mcp_client_of(o->request);

    o->waits = true;
    memcpy(o->waiter.id, o->id, sizeof o->waiter.id);
    o->waiter.changed = on_held_call_changed;
    approvals_wait(m->api->trust, &o->waiter);
    loop_timer_start(o->request->session->loop, &o->timer, clock_mono() + seconds * NS_PER_S,
                     on_outcome_wait_over, NULL);
}

bool mcp_approval_asked(struct mcp_request *r)
{
    const struct json *id = r->meta ? json_get(r->meta, STR(MCP_REQUEST_ID)) : NULL;
    const struct json *seconds = r->meta ? json_get(r->meta, STR(MCP_WAIT_S)) : NULL;
    int64_t n = seconds && seconds->type == JSON_INT ? seconds->i : 0;
    struct held_outcome *o;

    if (!id)
        return false;
    if (id->type != JSON_STR || !id_valid("req_", id->s) || n < 0 || n > WAIT_MOST_S) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "_meta: " MCP_REQUEST_ID " is an id of a held call, " MCP_WAIT_S " at most %d",
                 WAIT_MOST_S);
        return true;
    }
    o = new_outcome(r, id->s);
    if (n && is_own_approval(r->session, approvals_find(mcp_client_of(r)->api->trust, id->s)))
        wait_for_outcome(o, n);
    else
        query_held_call(o);
    return true;
}

/* --- as a resource --- */

bool mcp_approval_watchable(struct mcp_session *s, struct str id)
{
    return is_own_approval(s, approvals_find(((struct mcp_client *)s->user)->api->trust, id));
}

void mcp_approval_read(struct mcp_request *r, struct str uri, struct str id)
{
    struct held_outcome *o;

    if (!id_valid("req_", id)) {
        mcp_fail_no_resource(r, uri);
        return;
    }
    o = new_outcome(r, id);
    o->uri = uri;
    query_held_call(o);
}

/* --- notifications to sessions --- */

struct session_note {
    struct mcp_session *session; /* referenced */
    struct store_query query;
    char id[ID_MAX];
};

static void on_note_record_found(struct store_query *q, int r, const struct err *e)
{
    struct session_note *n = container_of(q, struct session_note, query);

    /* clients can still query the outcome */
    if (r >= 0 && q->n && !n->session->ended)
        mcp_session_log(n->session, MCP_NOTICE, "sandboxer.approvals", write_approval_record,
                        &q->approvals[0]);
    arena_done(&q->arena);
    mcp_session_unref(n->session);
    free(n);
}

static void notify_session(struct mcp_session *s, struct str id)
{
    const struct mcp_client *m = s->user;
    struct session_note *n = new0(sizeof *n);

    n->session = mcp_session_ref(s);
    str_copy(id, n->id, sizeof n->id);
    n->query = (struct store_query){ .kind = STORE_APPROVAL, .text = str_from(n->id) };
    arena_init(&n->query.arena, ANSWER_BYTES);
    if (store_ask(control_store(m->control), &n->query, on_note_record_found, NULL) < 0)
        on_note_record_found(&n->query, -(int)ERR_BUSY, NULL);
}

static bool is_final_approval_event(const char *type)
{
    static const char *const ends[] = { "done", "rejected", "expired", "invalid", "interrupted" };

    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (strcmp(type + strlen("approval."), ends[i]) == 0)
            return true;
    return false;
}

static bool is_of_peer(const struct mcp_session *s, struct str peer)
{
    const struct mcp_client *m = s->user;

    return !s->approved && !s->stateless && m->peer && str_eq(str_from(m->peer->record.id), peer);
}

void mcp_approval_event(struct api *a, const struct event_record *v)
{
    const struct json_limits limits = { .bytes = DETAIL_BYTES, .depth = DEPTH };
    AUTO(arena_done) struct arena room = ARENA_INIT((size_t)16 * DETAIL_BYTES);
    const struct json *d;
    struct str request;
    char uri[32 + ID_MAX];

    if (!str_starts(str_from(v->type), STR("approval.")) ||
        json_read(v->detail, limits, &room, &d, NULL) < 0 || d->type != JSON_OBJECT)
        return;
    request = mcp_text(d, "request");
    snprintf(uri, sizeof uri, "approval://" STR_FMT, STR_ARG(request));
    mcp_resource_changed(&a->mcp, str_from(uri));
    LIST_EACH (struct mcp_session, s, &a->mcp.sessions, link) {
        if (is_final_approval_event(v->type) && is_of_peer(s, mcp_text(d, "peer")))
            notify_session(s, request);
    }
}
