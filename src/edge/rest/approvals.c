/* /v1/approvals: calls of tools that wait for a master. */
#include <stdio.h>
#include <stdlib.h>

#include "api/guard.h"
#include "api/inside.h"
#include "api/listing.h"
#include "api/mcp.h"
#include "api/route.h"
#include "base/clock.h"
#include "control/tokens.h"
#include "model/owner.h"
#include "trust/approvals.h"
#include "trust/peers.h"

#define NO_MASTER "Sandboxer-Master is no token of a master"

enum { LIST_DEFAULT = 100, LIST_MOST = 1000, WAIT_MOST_S = 60, ANSWER_BYTES = 64 << 20 };

static bool is_master(const struct caller *who)
{
    return who->role == ROLE_MASTER && who->trusted;
}

/* The owners whose calls the store is asked for; empty: all of them. */
static struct str scope(const struct call *c)
{
    return is_master(&c->caller) || c->caller.admin ? STR("") : str_from(c->caller.owner);
}

/* A master sees the calls of every owner, within the labels of the master's own token. A client
 * that calls tools sees the calls that it asked for itself. */
static bool is_for(const struct call *c, const struct approval_record *r)
{
    const struct peer *p = guard_session(c);

    if (p)
        return strcmp(p->record.id, r->peer) == 0;
    return is_master(&c->caller) ? caller_labels_fit(&c->caller, &r->labels)
                                 : caller_sees(&c->caller, r->owner, &r->labels);
}

/* --- list --- */

static void write_list(struct json_writer *w, const void *what)
{
    const struct listing *l = what;

    json_begin_object(w);
    json_key(w, STR("approvals"));
    json_begin_array(w);
    for (size_t i = 0; i < l->query.n; i++) {
        const struct approval_record *r = &l->query.approvals[i];

        if (is_for(l->call, r))
            approval_write(w, r, false);
    }
    json_end_array(w);
    json_end_object(w);
}

static void list(struct call *c)
{
    struct store_query q = { .kind = STORE_APPROVALS_WAITING };
    uint64_t limit = LIST_DEFAULT;
    bool all = false;

    if (call_query_number(c, "limit", LIST_MOST, &limit) < 0 || call_query_bool(c, "all", &all) < 0)
        return;
    if (all)
        q = (struct store_query){ .kind = STORE_APPROVALS, .limit = (int)limit, .owner = scope(c) };
    call_list(c, &q, ANSWER_BYTES, write_list);
}

/* --- one of them, and waiting for it --- */

struct approval_show {
    struct call *call;
    struct store_query query;
    struct approval_waiter waiter;
    struct loop_timer timer;
    char id[ID_MAX];
    bool waits;
};

static void show_stop(struct approval_show *s)
{
    approval_waiter_stop(&s->waiter);
    loop_timer_stop(&s->timer);
}

static void show_end(struct call *c)
{
    struct approval_show *s = c->state;

    show_stop(s);
    arena_done(&s->query.arena);
    free(s);
}

static void write_one(struct json_writer *w, const void *what)
{
    approval_write(w, what, true);
}

/* Who is trusted less than the token hears no more than it could have asked for. */
static bool may_hear(const struct caller *who, const struct approval_record *r)
{
    struct mcp_verdict v;

    return who->trusted || mcp_token_allows(who, r->tool, &v);
}

static void found(struct store_query *q, int r, const struct err *e)
{
    struct approval_show *s = container_of(q, struct approval_show, query);

    if (r < 0)
        call_fail(s->call, e);
    else if (q->n == 0 || !is_for(s->call, &q->approvals[0]))
        call_fail_with(s->call, 404, "not_found", "there is no such call");
    else if (!may_hear(&s->call->caller, &q->approvals[0]))
        call_fail_with(s->call, 403, "denied", "this call was asked for with more trust");
    else
        call_answer(s->call, 200, write_one, &q->approvals[0]);
    call_unref(s->call);
}

/* Takes over the reference of whoever waited. */
static void look(struct approval_show *s)
{
    struct err e;

    show_stop(s);
    s->query = (struct store_query){ .kind = STORE_APPROVAL,
                                     .text = str_from(s->id),
                                     .owner = scope(s->call) };
    arena_init(&s->query.arena, ANSWER_BYTES);
    if (store_ask(control_store(s->call->api->control), &s->query, found, &e) >= 0)
        return;
    call_fail(s->call, &e);
    call_unref(s->call);
}

static void on_time(struct loop_timer *t)
{
    look(container_of(t, struct approval_show, timer));
}

static void changed(struct approval_waiter *w, const struct approval_record *r)
{
    struct approval_show *s = container_of(w, struct approval_show, waiter);

    if (!approval_is_open(r->state))
        look(s);
}

static void gone(struct call *c)
{
    struct approval_show *s = c->state;

    if (!s->waits || !link_joined(&s->waiter.link_))
        return;
    show_stop(s);
    call_unref(c);
}

static bool is_visible(struct call *c, const struct approval_record *r)
{
    return r && is_for(c, r);
}

static void show(struct call *c)
{
    struct approval_show *s;
    uint64_t wait = 0;

    if (call_query_number(c, "wait", WAIT_MOST_S, &wait) < 0)
        return;
    if (!id_valid("req_", c->params[0])) {
        call_fail_with(c, 404, "not_found", "there is no such call");
        return;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->call = c;
    str_copy(c->params[0], s->id, sizeof s->id);
    c->state = s;
    c->on_end = show_end;
    c->on_gone = gone;
    call_ref(c);
    if (!wait || !is_visible(c, approvals_find(c->api->trust, c->params[0]))) {
        look(s);
        return;
    }
    s->waits = true;
    memcpy(s->waiter.id, s->id, sizeof s->id);
    s->waiter.changed = changed;
    approvals_wait(c->api->trust, &s->waiter);
    (void)loop_timer_start(c->loop, &s->timer, clock_mono() + (int64_t)wait * NS_PER_S, on_time,
                           NULL);
}

/* --- deciding --- */

struct decision_request {
    const char *reason;
    int64_t grant_ns;
    uint64_t uses;
    bool self;
};

static const struct json_field approve_fields[] = {
    { "reason", JSON_KIND_STR, JSON_AT(struct decision_request, reason),
      .max = RECORD_REASON_MAX - 1, .doc = "For the record." },
    { "grant", JSON_KIND_DURATION, JSON_AT(struct decision_request, grant_ns), .min = NS_PER_S,
      .max = INT64_C(86400000000000),
      .doc = "For so long, more calls of the tool on the sandbox pass." },
    { "uses", JSON_KIND_UINT, JSON_AT(struct decision_request, uses), .max = 100000,
      .doc = "How many of them; without it, any number." },
    { "self", JSON_KIND_BOOL, JSON_AT(struct decision_request, self),
      .doc = "A user on a terminal decides on their own request, where the configuration lets "
             "them (trust.self_approval)." },
};
static const size_t approve_field_count = COUNT_OF(approve_fields);

static const struct json_field reject_fields[] = {
    { "reason", JSON_KIND_STR, JSON_AT(struct decision_request, reason), .min = 1,
      .max = RECORD_REASON_MAX - 1, .required = true, .doc = "Why; its caller is told." },
};
static const size_t reject_field_count = COUNT_OF(reject_fields);

struct decision_call {
    struct call *call;
    struct approval_op op;
};

static void decision_end(struct call *c)
{
    free(c->state);
}

static void write_decided(struct json_writer *w, const void *what)
{
    const struct approval_op *op = what;

    json_begin_object(w);
    json_key(w, STR("request_id"));
    json_put_str(w, str_from(op->id));
    json_end_object(w);
}

static void decided(struct approval_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct decision_call, op)->call;

    memcpy(c->audit, op->audit_id, sizeof c->audit);
    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, write_decided, op);
    call_unref(c);
}

/* Who decides: the caller, or the master whose token it shows beside. *ret_labels are those that a
 * call must have to be theirs. False: it is answered. */
static bool read_master(struct call *c, struct trust_master *m, struct caller *ret_labels)
{
    struct str shown = call_header(c, "Sandboxer-Master");
    const struct token_record *t = shown.p ? tokens_find(c->api->tokens, shown) : NULL;

    m->actor = c->caller.actor;
    snprintf(m->owner, sizeof m->owner, "%s", c->caller.owner);
    m->role = c->caller.trusted ? c->caller.role : ROLE_APPRENTICE;
    m->by_token = c->caller.by_token;
    m->admin = c->caller.admin;
    m->self = false;
    ret_labels->labels = c->caller.labels;
    if (!shown.p)
        return true;
    if (!t || t->gateway) {
        call_put_on_record(c, "auth.refused", NO_MASTER);
        call_fail_with(c, 401, "unauthenticated", NO_MASTER);
        return false;
    }
    m->actor.kind = t->actor;
    snprintf(m->actor.id, sizeof m->actor.id, "%s", t->id);
    snprintf(m->owner, sizeof m->owner, "%s", t->owner);
    m->role = t->role;
    m->by_token = true;
    m->admin =
        (t->verbs & VERB_BIT(VERB_ADMIN)) != 0 && owner_is_administrator(t->owner, c->api->owner);
    ret_labels->labels = t->labels; /* good for the loop's turn */
    return true;
}

static void decide(struct call *c, bool approve)
{
    struct decision_request q = { 0 };
    struct decision_call *d;
    struct caller labels = { .owner = "" };
    const struct approval_record *held;
    struct trust_master m;
    struct err e;

    if (json_bind(c->json, approve ? approve_fields : reject_fields,
                  approve ? approve_field_count : reject_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (q.uses && !q.grant_ns) {
        call_fail_with(c, 400, "invalid",
                       "uses: counts the calls of a grant: say with 'grant' how long it lasts");
        return;
    }
    if (!read_master(c, &m, &labels))
        return;
    m.self = q.self && http_peer(c->x)->is_unix && c->caller.trusted && !m.by_token;
    held = approvals_find(c->api->trust, c->params[0]);
    if (!id_valid("req_", c->params[0]) || (held && !caller_labels_fit(&labels, &held->labels)) ||
        (m.role != ROLE_MASTER && !is_visible(c, held))) {
        call_fail_with(c, 404, "not_found", "there is no such call that waits");
        return;
    }
    d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->call = c;
    d->op = (struct approval_op){ .master = m,
                                  .reason = q.reason,
                                  .grant_ns = q.grant_ns,
                                  .grant_uses = (uint32_t)q.uses,
                                  .done = decided };
    str_copy(c->params[0], d->op.id, sizeof d->op.id);
    c->state = d;
    c->on_end = decision_end;
    call_ref(c);
    (approve ? approvals_approve : approvals_reject)(c->api->trust, &d->op);
}

static void approve_call(struct call *c)
{
    decide(c, true);
}

static void reject_call(struct call *c)
{
    decide(c, false);
}

const struct route routes_approvals[] = {
    { H1_GET, VERB_READ, "/v1/approvals", 0, list, "List calls that wait for a master",
      .answer = "ApprovalList", .query = "all limit" },
    { H1_GET, VERB_READ, "/v1/approvals/{id}", ROUTE_LONG, show,
      "Show one, with its arguments and its result", .answer = "Approval", .query = "wait" },
    { H1_POST, VERB_READ, "/v1/approvals/{id}/approve", ROUTE_JSON, approve_call,
      "Let one run, once", approve_fields, &approve_field_count, .answer = "Decided" },
    { H1_POST, VERB_READ, "/v1/approvals/{id}/reject", ROUTE_JSON, reject_call, "Refuse one",
      reject_fields, &reject_field_count, .answer = "Decided" },
    { .path = NULL },
};
