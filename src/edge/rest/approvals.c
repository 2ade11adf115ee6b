/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/approvals: tool calls that wait for a master. */
#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/guard.h"
#include "edge/core/operation.h"
#include "edge/core/internal.h"
#include "edge/tools/tools.h"
#include "edge/rest/approval_stream.h"
#include "edge/rest/routes.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/owner/tokens.h"
#include "domain/model/owner.h"
#include "lib/proc/nested.h"
#include "trust/approvals.h"
#include "trust/peers.h"

#define NO_MASTER "Sandboxer-Master: not a token that may decide calls"

enum { LIST_DEFAULT = 100, LIST_MOST = 1000, WAIT_MOST_S = 60, ANSWER_BYTES = 64 << 20 };

static bool is_trusted_master(const struct caller *who)
{
    return who->role == ROLE_MASTER && who->trusted;
}

/* The owner whose calls the store query returns; empty: all owners. */
static struct str owner_scope(const struct call *c)
{
    return is_trusted_master(&c->caller) || c->caller.admin ? STR("") : str_from(c->caller.owner);
}

/* Whether there is a call that the caller may see. A master sees the calls of every owner, within the labels of
 * the master's own token; a session sees the calls that it requested itself. */
static bool may_see_approval(const struct call *c, const struct approval_record *r)
{
    const struct peer *p = guard_session(c);

    if (!r)
        return false;
    if (p)
        return strcmp(p->record.id, r->peer) == 0;
    return is_trusted_master(&c->caller) ? caller_labels_fit(&c->caller, &r->labels)
                                         : caller_sees(&c->caller, r->owner, &r->labels);
}

/* --- list --- */

static void write_approvals(struct json_writer *w, const void *listing)
{
    const struct store_listing *l = listing;

    for (size_t i = 0; i < l->query.n; i++)
        if (may_see_approval(l->call, &l->query.approvals[i]))
            approval_write(w, &l->query.approvals[i], false);
}

static const struct json_shape approval_list = { "ApprovalList", JSON_LIST("approvals", "Approval",
                                                                           write_approvals) };

static void rest_list_approvals(struct call *c)
{
    struct store_query q = { .kind = STORE_APPROVALS_WAITING };
    uint64_t limit = LIST_DEFAULT;
    bool all = false;

    if (call_accepts(c, "text/event-stream")) {
        approval_stream_begin(c, may_see_approval);
        return;
    }
    if (call_query_number(c, "limit", LIST_MOST, &limit) < 0 || call_query_bool(c, "all", &all) < 0)
        return;
    if (all)
        q = (struct store_query){ .kind = STORE_APPROVALS,
                                  .limit = (int)limit,
                                  .owner = owner_scope(c) };
    call_list(c, &q, ANSWER_BYTES, &approval_list);
}

/* --- show one, and wait for its decision --- */

struct approval_show {
    struct call *call;
    struct store_query query;
    struct approval_waiter waiter;
    struct loop_timer timer;
    char id[ID_MAX];
    bool waits;
};

static void stop_approval_wait(void *state)
{
    struct approval_show *s = state;

    approval_waiter_stop(&s->waiter);
    loop_timer_stop(&s->timer);
}

static void write_approval(struct json_writer *w, const void *what)
{
    approval_write(w, what, true);
}

static void on_approval_found(struct store_query *q, int r, const struct err *e)
{
    struct approval_show *s = container_of(q, struct approval_show, query);
    const struct caller *who = &s->call->caller;
    struct mcp_verdict v;

    if (r < 0)
        call_fail(s->call, e);
    else if (q->n == 0 || !may_see_approval(s->call, &q->approvals[0]))
        call_fail_missing(s->call, "held call", s->call->params[0]);
    /* A caller whose trust was lowered sees only results of tools that it could call itself. */
    else if (!who->trusted && !mcp_token_allows(who, q->approvals[0].tool, &v))
        call_fail_with(s->call, 403, "denied",
                       "this call was requested with more trust than this caller has");
    else
        call_answer(s->call, 200, write_approval, &q->approvals[0]);
    call_unref(s->call);
}

/* Queries the store; takes over the caller's reference to the call. */
static void query_stored_approval(struct approval_show *s)
{
    struct err e;

    stop_approval_wait(s);
    s->query = (struct store_query){ .kind = STORE_APPROVAL,
                                     .text = str_from(s->id),
                                     .owner = owner_scope(s->call) };
    call_own_arena(s->call, &s->query.arena, ANSWER_BYTES);
    if (store_ask(control_store(s->call->api->control), &s->query, on_approval_found, &e) >= 0)
        return;
    call_fail(s->call, &e);
    call_unref(s->call);
}

static void on_approval_wait_timeout(struct loop_timer *t)
{
    query_stored_approval(container_of(t, struct approval_show, timer));
}

static void on_approval_changed(struct approval_waiter *w, const struct approval_record *r)
{
    struct approval_show *s = container_of(w, struct approval_show, waiter);

    if (!approval_is_open(r->state))
        query_stored_approval(s);
}

static void on_approval_client_gone(struct call *c)
{
    struct approval_show *s = c->state;

    if (!s->waits || !link_joined(&s->waiter.link_))
        return;
    stop_approval_wait(s);
    call_unref(c);
}

static void rest_show_approval(struct call *c)
{
    struct approval_show *s;
    uint64_t wait = 0;

    if (call_query_number(c, "wait", WAIT_MOST_S, &wait) < 0)
        return;
    if (!id_valid("req_", c->params[0])) {
        call_fail_missing(c, "held call", c->params[0]);
        return;
    }
    s = call_state(c, sizeof *s, stop_approval_wait);
    s->call = call_ref(c);
    str_copy(c->params[0], s->id, sizeof s->id);
    c->on_gone = on_approval_client_gone;
    if (!wait || !may_see_approval(c, approvals_find(c->api->trust, c->params[0]))) {
        query_stored_approval(s);
        return;
    }
    s->waits = true;
    memcpy(s->waiter.id, s->id, sizeof s->id);
    s->waiter.changed = on_approval_changed;
    approvals_wait(c->api->trust, &s->waiter);
    (void)loop_timer_start(c->loop, &s->timer, clock_mono() + (int64_t)wait * NS_PER_S,
                           on_approval_wait_timeout, NULL);
}

/* --- decide --- */

struct decision_request {
    const char *reason;
    int64_t grant_ns;
    uint64_t uses;
    bool self;
};

#define SELF_FIELD                                                                                 \
    {                                                                                              \
        "self", JSON_KIND_BOOL, JSON_AT(struct decision_request, self),                            \
            .doc = "A person was asked on a terminal, and may decide their own request if "        \
                   "trust.self_approval is on."                                                    \
    }
static const struct json_field approve_fields[] = {
    { "reason", JSON_KIND_STR, JSON_AT(struct decision_request, reason),
      .max = RECORD_REASON_MAX - 1, .doc = "Reason, for the audit record." },
    { "grant", JSON_KIND_DURATION, JSON_AT(struct decision_request, grant_ns), .min = NS_PER_S,
      .max = INT64_C(86400000000000),
      .doc = "Also allow further calls of the tool on the sandbox for this long." },
    { "uses", JSON_KIND_UINT, JSON_AT(struct decision_request, uses), .max = 100000,
      .doc = "Maximum number of such calls; without it, unlimited." },
    SELF_FIELD,
};

static const struct json_field reject_fields[] = {
    { "reason", JSON_KIND_STR, JSON_AT(struct decision_request, reason), .min = 1,
      .max = RECORD_REASON_MAX - 1, .required = true,
      .doc = "The reason, shown to the requester." },
    SELF_FIELD,
};

struct decision_call {
    struct call *call;
    struct approval_op op;
};

static const struct json_field decided_fields[] = {
    { "request_id", JSON_KIND_CHARS, JSON_AT(struct approval_op, id), .required = true },
};
static const struct json_shape decided_answer = { "Decided", JSON_FIELDS(decided_fields) };

static void on_approval_decided(struct approval_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct decision_call, op)->call;

    memcpy(c->audit, op->audit_id, sizeof c->audit);
    call_settle_as(c, r, e, 200, &decided_answer, op);
}

/* Determines the deciding master: the caller, or the holder of the token in Sandboxer-Master.
 * *ret_labels has the labels that a call must have to be visible to that master. False: the call is
 * answered. */
static bool read_deciding_master(struct call *c, struct trust_master *m, struct caller *ret_labels)
{
    struct str shown = call_header(c, "Sandboxer-Master");
    const struct token_record *t = shown.p ? tokens_find(c->api->tokens, shown) : NULL;

    *m = (struct trust_master){ .actor = c->caller.actor,
                                .role = c->caller.trusted ? c->caller.role : ROLE_APPRENTICE,
                                .by_token = c->caller.by_token,
                                .admin = c->caller.admin };
    snprintf(m->owner, sizeof m->owner, "%s", c->caller.owner);
    ret_labels->labels = c->caller.labels;
    if (!shown.p)
        return true;
    if (!t || t->gateway) {
        call_record_refusal(c, "auth.refused", NO_MASTER);
        return call_refuse(c, NO_MASTER);
    }
    m->actor.kind = t->actor;
    snprintf(m->actor.id, sizeof m->actor.id, "%s", t->id);
    snprintf(m->owner, sizeof m->owner, "%s", t->owner);
    m->role = t->role;
    m->by_token = true;
    m->admin =
        (t->verbs & VERB_BIT(VERB_ADMIN)) != 0 && owner_is_administrator(t->owner, c->api->owner);
    ret_labels->labels = t->labels; /* valid for this turn of the loop */
    return true;
}

/* Why this connection cannot be that of the daemon's own user on a terminal; NULL: it may be. The
 * terminal itself cannot be checked from here: this keeps mistakes apart, not hostile programs of
 * the same user. */
static const char *why_not_self(struct call *c)
{
    const struct http_peer *p = http_peer(c->x);

    if (!p->is_unix || c->caller.by_token || call_header(c, "Authorization").p)
        return "trust.self_approval is for the unix socket, without a token";
    if (p->cred.uid != c->api->owner)
        return "trust.self_approval is for the user who runs the daemon alone";
    if (!c->caller.trusted || guard_session(c))
        return "trust.self_approval is for a person, not for a session or behind X-Trust-Level";
    if (!p->cred.pid || nested_check_peer(http_connection_fd(c->x), p->cred.pid, NULL) != 0)
        return "trust.self_approval is not for programs in a sandbox or container (or this one has "
               "ended, or /proc hides its pid namespace)";
    return NULL;
}

static void rest_decide_call(struct call *c)
{
    bool approve = c->route->fields == approve_fields;
    struct decision_request q = { 0 };
    struct decision_call *d;
    struct caller labels = { .owner = "" };
    const struct approval_record *held;
    struct trust_master m;

    if (!call_read(c, &q))
        return;
    if (q.uses && !q.grant_ns) {
        call_fail_with(c, 400, "invalid",
                       "uses: needs 'grant', which sets how long the grant lasts");
        return;
    }
    if (!read_deciding_master(c, &m, &labels))
        return;
    m.self = q.self;
    m.not_self = why_not_self(c);
    held = approvals_find(c->api->trust, c->params[0]);
    if (!id_valid("req_", c->params[0]) || (held && !caller_labels_fit(&labels, &held->labels)) ||
        (m.role != ROLE_MASTER && !may_see_approval(c, held))) {
        call_fail_missing(c, "waiting call", c->params[0]);
        return;
    }
    d = call_state(c, sizeof *d, NULL);
    d->call = call_ref(c);
    d->op = (struct approval_op){ .master = m,
                                  .reason = q.reason,
                                  .grant_ns = q.grant_ns,
                                  .grant_uses = (uint32_t)q.uses,
                                  .done = on_approval_decided };
    str_copy(c->params[0], d->op.id, sizeof d->op.id);
    (approve ? approvals_approve : approvals_reject)(c->api->trust, &d->op);
}

const struct route routes_approvals[] = {
    { H1_GET, VERB_READ, "/v1/approvals", ROUTE_LONG, rest_list_approvals,
      "List calls that wait for a master, or stream their changes", .answer = "ApprovalList",
      .query = "all limit" },
    { H1_GET, VERB_READ, "/v1/approvals/{id}", ROUTE_LONG, rest_show_approval,
      "Show a call with its arguments and result", .answer = "Approval", .query = "wait" },
    { H1_POST, VERB_READ, "/v1/approvals/{id}/approve", ROUTE_JSON, rest_decide_call,
      "Approve a call: it runs once", ROUTE_FIELDS(approve_fields), .answer = "Decided" },
    { H1_POST, VERB_READ, "/v1/approvals/{id}/reject", ROUTE_JSON, rest_decide_call,
      "Reject a call", ROUTE_FIELDS(reject_fields), .answer = "Decided" },
    { .path = NULL },
};

const struct json_shape *const answers_approvals[] = { &approval_answer, &approval_list,
                                                       &decided_answer, NULL };
