/* What became of a call that was held: for the client that asked.
 *
 * A session is told when it is over. Whoever has none, or was away, calls the tool again with the
 * id of the held call in _meta, and may wait a while; or reads approval://ID. */
#include <stdio.h>
#include <stdlib.h>

#include "api/mcp_approved.h"
#include "base/clock.h"
#include "json/reader.h"

enum { ANSWER_BYTES = 8 << 20, DETAIL_BYTES = 64 << 10, DEPTH = 64, WAIT_MOST_S = 60 };

/* A look at a held call for a request. */
struct outcome {
    struct mcp_request *request; /* referenced while a look or a wait is under way */
    struct store_query query;
    struct approval_waiter waiter;
    struct loop_timer timer;
    struct str uri; /* p == NULL: it is a call of a tool */
    char id[ID_MAX];
    bool waits;
};

static void look(struct outcome *o);

static void outcome_end(struct mcp_request *r)
{
    struct outcome *o = r->state;

    arena_done(&o->query.arena);
    free(o);
}

static void stop_waiting(struct outcome *o)
{
    o->waits = false;
    approval_waiter_stop(&o->waiter);
    loop_timer_stop(&o->timer);
}

static void cancel(struct mcp_request *r)
{
    struct outcome *o = r->state;

    if (!o->waits)
        return; /* the store answers, and finds nobody */
    stop_waiting(o);
    mcp_request_unref(r);
}

static struct outcome *outcome_new(struct mcp_request *r, struct str id)
{
    struct outcome *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    o->request = mcp_request_ref(r);
    str_copy(id, o->id, sizeof o->id);
    r->state = o;
    r->on_cancel = cancel;
    r->on_end = outcome_end;
    return o;
}

/* --- telling it --- */

static void write_tree(struct json_writer *w, const void *what)
{
    json_put_tree(w, what);
}

static void tell_result(struct mcp_request *q, const struct approval_record *r)
{
    const struct json_limits limits = { .bytes = APPROVAL_RESULT_MAX, .depth = DEPTH };
    const struct json *v, *why;

    if (json_read(r->result, limits, &q->arena, &v, NULL) < 0 || v->type != JSON_OBJECT) {
        mcp_tool_fail(q, "It ran, and its result cannot be read.");
        return;
    }
    why = json_get(v, STR("error"));
    if (r->failed)
        mcp_tool_fail(q, "%.900s", why && why->type == JSON_STR ? why->s.p : "It failed.");
    else
        mcp_tool_reply(q, write_tree, v);
}

static void tell_state(struct mcp_request *q, const struct approval_record *r)
{
    struct mcp_verdict v = { .kind = MCP_DENY };

    if (approval_is_open(r->state)) {
        v.kind = MCP_REQUIRE_APPROVAL;
        snprintf(v.reason, sizeof v.reason, "it is %s. Ask again later, with _meta \"%s\"",
                 approval_state_names[r->state], MCP_REQUEST_ID);
    } else {
        snprintf(v.reason, sizeof v.reason, "it is %s: %.200s. Call the tool anew if it is needed",
                 approval_state_names[r->state], r->reason);
    }
    memcpy(v.request_id, r->id, sizeof v.request_id);
    mcp_deny(q, r->tool, &v);
}

static void write_record(struct json_writer *w, const void *what)
{
    approval_write(w, what, true);
}

static void tell_record(struct outcome *o, const struct approval_record *r)
{
    AUTO(buf_done) struct buf text = BUF_INIT(ANSWER_BYTES);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    write_record(&w, r);
    json_writer_finish(&w, NULL);
    mcp_read_text(o->request, o->uri, "application/json", buf_str(&text));
}

static void tell(struct outcome *o, const struct approval_record *r)
{
    struct mcp_request *q = o->request;

    if (o->uri.p)
        tell_record(o, r);
    else if (strcmp(r->tool, q->tool->name) != 0)
        mcp_fail(q, RPC_INVALID_PARAMS, "_meta: %s is a call of %s", o->id, r->tool);
    else if (r->state == APPROVAL_DONE)
        tell_result(q, r);
    else
        tell_state(q, r);
}

static void tell_none(struct outcome *o)
{
    if (o->uri.p)
        mcp_fail_uri(o->request, o->uri, "there is no such resource");
    else
        mcp_fail(o->request, RPC_INVALID_PARAMS, "_meta: there is no call %s of yours", o->id);
}

/* --- looking, and waiting --- */

static void found(struct store_query *q, int r, const struct err *e)
{
    struct outcome *o = container_of(q, struct outcome, query);
    struct mcp_request *request = o->request;

    if (mcp_over(request))
        ;
    else if (r < 0)
        mcp_fail(request, RPC_INTERNAL, "%s", e->msg);
    else if (q->n == 0 ||
             strcmp(q->approvals[0].peer, mcp_client_of(request)->peer->record.id) != 0)
        tell_none(o);
    else if (mcp_may_call(request, q->approvals[0].tool)) /* who may not call it hears nothing */
        tell(o, &q->approvals[0]);
    mcp_request_unref(request);
}

static void look(struct outcome *o)
{
    const struct mcp_client *m = mcp_client_of(o->request);
    struct err e;

    stop_waiting(o);
    o->query = (struct store_query){ .kind = STORE_APPROVAL,
                                     .text = str_from(o->id),
                                     .owner = str_from(m->caller.owner) };
    arena_init(&o->query.arena, ANSWER_BYTES);
    if (store_ask(control_store(m->control), &o->query, found, &e) >= 0)
        return;
    mcp_fail(o->request, RPC_INTERNAL, "%s", e.msg);
    mcp_request_unref(o->request);
}

static void on_time(struct loop_timer *t)
{
    look(container_of(t, struct outcome, timer));
}

static void changed(struct approval_waiter *w, const struct approval_record *r)
{
    if (!approval_is_open(r->state))
        look(container_of(w, struct outcome, waiter));
}

static void wait(struct outcome *o, int64_t seconds)
{
    const struct mcp_client *m = mcp_client_of(o->request);

    o->waits = true;
    memcpy(o->waiter.id, o->id, sizeof o->waiter.id);
    o->waiter.changed = changed;
    approvals_wait(m->api->trust, &o->waiter);
    loop_timer_start(o->request->session->loop, &o->timer, clock_mono() + seconds * NS_PER_S,
                     on_time, NULL);
}

static bool is_mine(struct mcp_session *s, const struct approval_record *r)
{
    const struct mcp_client *m = s->user;

    return r && strcmp(r->peer, m->peer->record.id) == 0;
}

bool mcp_approval_asked(struct mcp_request *r)
{
    const struct json *id = r->meta ? json_get(r->meta, STR(MCP_REQUEST_ID)) : NULL;
    const struct json *seconds = r->meta ? json_get(r->meta, STR(MCP_WAIT_S)) : NULL;
    int64_t n = seconds && seconds->type == JSON_INT ? seconds->i : 0;
    struct outcome *o;

    if (!id)
        return false;
    if (id->type != JSON_STR || !id_valid("req_", id->s) || n < 0 || n > WAIT_MOST_S) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "_meta: " MCP_REQUEST_ID " is an id of a held call, " MCP_WAIT_S " at most %d",
                 WAIT_MOST_S);
        return true;
    }
    o = outcome_new(r, id->s);
    if (n && is_mine(r->session, approvals_find(mcp_client_of(r)->api->trust, id->s)))
        wait(o, n);
    else
        look(o);
    return true;
}

/* --- as a resource --- */

bool mcp_approval_watchable(struct mcp_session *s, struct str id)
{
    const struct mcp_client *m = s->user;

    return is_mine(s, approvals_find(m->api->trust, id));
}

void mcp_approval_read(struct mcp_request *r, struct str uri, struct str id)
{
    struct outcome *o;

    if (!id_valid("req_", id)) {
        mcp_fail_uri(r, uri, "there is no such resource");
        return;
    }
    o = outcome_new(r, id);
    o->uri = uri;
    look(o);
}

/* --- to sessions --- */

struct note {
    struct mcp_session *session; /* referenced */
    struct store_query query;
    char id[ID_MAX];
};

static void noted(struct store_query *q, int r, const struct err *e)
{
    struct note *n = container_of(q, struct note, query);

    (void)e; /* whoever asks again is told */
    if (r >= 0 && q->n && !n->session->ended)
        mcp_session_log(n->session, MCP_NOTICE, "sandboxer.approvals", write_record,
                        &q->approvals[0]);
    arena_done(&q->arena);
    mcp_session_unref(n->session);
    free(n);
}

static void tell_session(struct mcp_session *s, struct str id)
{
    const struct mcp_client *m = s->user;
    struct note *n = calloc(1, sizeof *n);

    if (!n)
        abort();
    n->session = mcp_session_ref(s);
    str_copy(id, n->id, sizeof n->id);
    n->query = (struct store_query){ .kind = STORE_APPROVAL, .text = str_from(n->id) };
    arena_init(&n->query.arena, ANSWER_BYTES);
    if (store_ask(control_store(m->control), &n->query, noted, NULL) < 0)
        noted(&n->query, -(int)ERR_BUSY, NULL);
}

static bool is_over(const char *type)
{
    static const char *const ends[] = { "done", "rejected", "expired", "invalid", "interrupted" };

    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (strcmp(type + strlen("approval."), ends[i]) == 0)
            return true;
    return false;
}

static struct str member(const struct json *v, const char *name)
{
    const struct json *m = json_get(v, str_from(name));

    return m && m->type == JSON_STR ? m->s : STR("");
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
    char uri[32 + ID_MAX];

    if (!str_starts(str_from(v->type), STR("approval.")) ||
        json_read(v->detail, limits, &room, &d, NULL) < 0 || d->type != JSON_OBJECT)
        return;
    snprintf(uri, sizeof uri, "approval://%.*s", (int)member(d, "request").n,
             member(d, "request").p);
    mcp_resource_changed(&a->mcp, str_from(uri));
    for (struct link *l = list_first(&a->mcp.sessions); is_over(v->type) && l;
         l = list_after(&a->mcp.sessions, l)) {
        struct mcp_session *s = container_of(l, struct mcp_session, link);

        if (is_of_peer(s, member(d, "peer")))
            tell_session(s, member(d, "request"));
    }
}
