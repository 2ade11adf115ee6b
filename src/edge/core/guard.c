/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/guard.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "edge/core/internal.h"
#include "edge/core/replay.h"
#include "control/egress/policy_text.h"
#include "control/egress/reach.h"
#include "trust/peers.h"

#define SANDBOX_ARG "sandbox_id"
#define PATH_ARG    "path"
#define KEY_FIELD   "Idempotency-Key"
#define NO_SESSION  "Sandboxer-Peer: there is no such session"

struct guard {
    struct call *call;
    struct peer *peer; /* referenced */
    bool is_session;   /* named by Sandboxer-Peer */
    bool passed;       /* the verdict was allow */
    bool granted;      /* by a master's grant */
    struct trust_op op;
    struct trust_capabilities sandbox, declares;
    bool has_declared;
    guard_fn *go;
    struct create_plan *plan;     /* released with the guard; NULL: none */
    struct policy_text **network; /* the same for a policy that was not set */
    struct json *members;         /* with room for all arguments */
    struct json args;             /* those collected so far */
    size_t n_query;               /* index of the first query argument */
};

static void begin_guard(struct call *c, struct peer *p, bool is_session)
{
    c->guard = new0(sizeof *c->guard);
    *c->guard = (struct guard){ .call = c, .peer = peer_ref(p), .is_session = is_session };
    peer_attach(p);
    c->caller.gated = true;
    caller_narrow(&c->caller, p, &c->own);
}

/* A session belongs to the token or user that registered it. */
static bool is_session_of(const struct caller *who, const struct peer *p)
{
    return !p->is_token && strcmp(p->record.owner, who->owner) == 0 &&
           (!who->by_token || strcmp(p->record.actor.id, who->actor.id) == 0);
}

bool guard_identify(struct call *c)
{
    struct str token = call_header(c, "Sandboxer-Peer");
    struct peer *p;

    if (token.p) {
        p = peers_by_token(c->api->trust, token);
        if (!p || !is_session_of(&c->caller, p)) {
            call_record_refusal(c, "auth.refused", NO_SESSION);
            return call_refuse(c, NO_SESSION);
        }
        begin_guard(c, p, true);
        return true;
    }
    if (!c->caller.by_token || c->caller.admin || !c->caller.actor.id[0])
        return true;
    p = peers_of_token(c->api->trust, str_from(c->caller.actor.id));
    if (!p) /* it ended just now */
        return call_refuse(c, "the token is unknown, expired or revoked");
    begin_guard(c, p, false);
    return true;
}

void caller_label(struct caller *who, const char *key, const char *value, struct arena *a)
{
    struct json_pair *all = arena_array(a, who->labels.n + 1, sizeof *all);

    if (!all)
        abort(); /* labels are limited in number and length */
    for (size_t i = 0; i < who->labels.n; i++)
        all[i] = who->labels.p[i];
    all[who->labels.n] =
        (struct json_pair){ arena_dup(a, str_from(key)), arena_dup(a, str_from(value)) };
    if (!all[who->labels.n].key || !all[who->labels.n].value)
        abort();
    who->labels = (struct json_map){ all, who->labels.n + 1 };
}

void caller_narrow(struct caller *who, const struct peer *p, struct arena *a)
{
    struct caller peer;

    if (p->is_token)
        return; /* the token is the caller itself */
    peer_caller(p, &peer);
    who->verbs &= peer.verbs;
    who->peer = true;
    who->admin = who->host_paths = false;
    memcpy(who->also, peer.also, sizeof who->also);
    for (size_t i = 0; i < peer.labels.n; i++)
        caller_label(who, peer.labels.p[i].key, peer.labels.p[i].value, a);
}

enum role guard_role(const struct call *c)
{
    enum role most = (enum role)c->api->config->trust.role;

    return c->caller.by_token || c->caller.role < most ? c->caller.role : most;
}

struct peer *guard_peer(const struct call *c)
{
    return c->guard ? c->guard->peer : NULL;
}

struct peer *guard_session(const struct call *c)
{
    return c->guard && c->guard->is_session ? c->guard->peer : NULL;
}

void guard_done(struct call *c)
{
    if (!c->guard)
        return;
    peer_detach(c->guard->peer);
    peer_unref(c->guard->peer);
    if (c->guard->plan)
        create_plan_done(c->guard->plan);
    if (c->guard->network)
        policy_text_unref(*c->guard->network);
    free(take_ptr(c->guard));
}

bool guard_starts_programs(const struct call *c)
{
    return guard_row_starts_programs(c->guard_row);
}

static struct json text_member(const char *key, struct str value)
{
    return (struct json){ .type = JSON_STR, .key = str_from(key), .s = value };
}

/* Adds an argument. False: the name is a duplicate and the call is answered; policy and handler
 * must see the same value. */
static bool add_arg(struct guard *g, struct json v)
{
    if (!json_get(&g->args, v.key)) {
        g->members[g->args.list.n++] = v;
        return true;
    }
    return call_fail_with(g->call, 400, "invalid", "%.40s: given more than once",
                          v.key.n ? v.key.p : "");
}

/* A repeated parameter becomes a list, each item of which must be allowed. */
static bool add_query_arg(struct guard *g, struct str name, struct str value)
{
    struct json v = { .type = JSON_STR, .key = name, .s = value }, *all;

    for (size_t i = 0; i < g->args.list.n; i++) {
        struct json *old = &g->members[i];
        size_t n = old->type == JSON_ARRAY ? old->list.n : 1;

        if (!str_eq(old->key, name))
            continue;
        if (i < g->n_query || str_eq(name, STR(SANDBOX_ARG)))
            return add_arg(g, v); /* reports the duplicate */
        all = arena_array(&g->call->arena, n + 1, sizeof *all);
        if (!all)
            return false;
        memcpy(all, old->type == JSON_ARRAY ? old->list.p : old, n * sizeof *all);
        all[n] = v;
        *old = (struct json){ .type = JSON_ARRAY, .key = name, .list = { all, n + 1 } };
        return true;
    }
    return add_arg(g, v);
}

/* Adds the query parameters. False: the call is answered. */
static bool add_query_args(struct guard *g)
{
    struct call *c = g->call;
    struct str rest = c->query, name, value;
    struct url_pair p;
    struct err e;

    g->n_query = g->args.list.n;
    while (url_next(&rest, &p)) {
        if (url_decode(p.name, true, &c->arena, &name, &e) < 0 ||
            url_decode(p.value, true, &c->arena, &value, &e) < 0) {
            call_fail(c, &e);
            return false;
        }
        if (!add_query_arg(g, name, value))
            return false;
    }
    return true;
}

bool guard_adds(const struct route *r, struct str name)
{
    return str_eq(name, STR(SANDBOX_ARG)) || route_takes(r, name);
}

/* Fields that the handler does not know are refused, so that a master never sees them. */
static bool is_route_field(const struct route *r, struct str name)
{
    for (size_t i = 0; r->fields && i < *r->field_count; i++)
        if (str_eq(name, str_from(r->fields[i].name)))
            return true;
    return !r->fields;
}

static bool fail_unknown_field(struct call *c, struct str name)
{
    /* without a client it is answered already */
    return call_fail_with(c, 400, "invalid", "%.40s: there is no such field", name.n ? name.p : "");
}

/* Adds all strings of the arguments that the row names as the single argument `path`. */
static bool add_path_args(struct guard *g)
{
    struct str rest = str_from(g->call->guard_row->paths), name;
    struct json *all;
    size_t n = 0, room = 1;

    for (size_t i = 0; i < g->args.list.n; i++)
        room += g->members[i].type == JSON_ARRAY ? g->members[i].list.n : 1;
    all = arena_array(&g->call->arena, room, sizeof *all);
    if (!all)
        return false;
    while (rest.n) {
        const struct json *v;

        rest = str_cut(rest, ' ', &name);
        v = json_get(&g->args, name);
        if (v && v->type == JSON_ARRAY)
            for (const struct json *m = json_first(v); m != json_end(v); m++) {
                if (m->type == JSON_STR) /* the handler refuses other types */
                    all[n++] = *m;
            }
        else if (v && v->type == JSON_STR)
            all[n++] = *v;
    }
    return add_arg(g,
                   (struct json){ .type = JSON_ARRAY, .key = STR(PATH_ARG), .list = { all, n } });
}

/* Collects the arguments as the tool would get them: from path, query and body. False: the call is
 * answered. */
static bool collect_args(struct guard *g)
{
    struct call *c = g->call;
    /* a dialect may have its own encoding of the body */
    const struct json *v = c->json || !c->dialect->arguments ? c->json : c->dialect->arguments(c);
    size_t body = v && v->type == JSON_OBJECT ? v->list.n : 0, room = body + 5;
    const char *id = call_sandbox_id(c);
    struct str query = c->query;
    struct json content[2];
    struct url_pair p;

    while (url_next(&query, &p))
        room++;
    g->members = arena_array(&c->arena, room, sizeof *g->members);
    if (!g->members)
        return call_fail_with(c, 413, "too_big",
                              "the %zu members of the request need more memory than the allowed "
                              "%zu bytes; send fewer members",
                              body, c->arena.max);
    g->args = (struct json){ .type = JSON_OBJECT, .list = { g->members, 0 } };
    if (id && !add_arg(g, text_member(SANDBOX_ARG, str_from(id))))
        return false;
    if (c->guard_row->flags & GUARD_OPAQUE)
        return true;
    if (!add_query_args(g))
        return false;
    for (size_t i = 0; i < body; i++)
        if (!is_route_field(c->route, v->list.p[i].key) || !add_arg(g, v->list.p[i]))
            return fail_unknown_field(c, v->list.p[i].key);
    /* a text body is an argument, so that a master can review it */
    if ((c->route->flags & ROUTE_TEXT) && c->dialect->native && c->body.n &&
        !add_arg(g, text_member(GUARD_TEXT, c->body)))
        return false;
    if (c->guard_row->paths && !add_path_args(g))
        return false;
    return !c->body_taken || !replay_hold_body(c, content) ||
           (add_arg(g, content[0]) && add_arg(g, content[1]));
}

/* The path with the sandbox's id in the place of its name: when a master approves the call, another
 * sandbox may have the name. */
static void add_replay_path(struct buf *text, const struct call *c)
{
    struct str path = http_request(c->x)->path;
    const char *variable = strchr(c->route->path, '{');
    size_t slashes = 0, at = 0, end;

    if (!c->sandbox || !(c->route->flags & ROUTE_SANDBOX) || !variable) {
        buf_add(text, path);
        return;
    }
    for (const char *p = c->route->path; p < variable; p++)
        slashes += *p == '/';
    while (slashes && at < path.n)
        slashes -= path.p[at++] == '/';
    for (end = at; end < path.n && !strchr("/?", path.p[end]); end++)
        ;
    buf_add(text, (struct str){ path.p, at });
    buf_add(text, str_from(sandbox_view(c->sandbox).record->id));
    buf_add(text, (struct str){ path.p + end, path.n - end });
}

/* The request line for a replay, with the Idempotency-Key header. */
static struct str format_request_line(struct call *c)
{
    const struct h1_request *q = http_request(c->x);
    AUTO(buf_done) struct buf text = BUF_INIT(APPROVAL_REQUEST_MAX + 64);
    struct str key = call_header(c, KEY_FIELD);
    const char *line;

    buf_add(&text, q->method == H1_HEAD ? STR("GET") : q->method_text);
    buf_add_c(&text, ' ');
    add_replay_path(&text, c);
    if (key.p)
        buf_addf(&text, "\n" KEY_FIELD ": " STR_FMT, STR_ARG(key));
    line = arena_dup(&c->arena, buf_str(&text));
    return line ? (struct str){ line, text.n } : STR("");
}

/* Answers with the verdict as a problem, in the dialect of the interface. */
static void answer_verdict(struct call *c, const struct verdict *v)
{
    struct buf text AUTO(buf_done) = BUF_INIT(16 << 10);
    int status = v->kind == VERDICT_RATE_LIMIT ? 429 : 403;
    const char *code = status == 429 ? "quota" : "denied";
    struct json_writer w;
    struct err e;

    if (!c->x)
        return;
    memcpy(c->audit, v->audit_id, sizeof c->audit);
    if (v->request_id[0]) /* the reason comes last: it may be cut */
        (void)err_set(&e, ERR_DENIED, "held until 'sandboxer approvals approve %s': %s",
                      v->request_id, v->reason);
    else
        (void)err_set(&e, ERR_DENIED, "%s", v->reason);
    if (c->dialect->fail) {
        c->dialect->fail(c, &e, status, code);
        return;
    }
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    problem_write_members(
        &w, &(struct call_problem){
                .err = &e, .status = status, .code = code, .audit_id = v->audit_id, .verdict = v });
    json_end_object(&w);
    (void)json_writer_finish(&w, NULL); /* fits: it is short */
    call_answer_bytes(c, status, "application/problem+json", buf_str(&text));
}

static void on_guard_verdict(struct trust_op *op, int r, const struct err *e)
{
    struct guard *g = container_of(op, struct guard, op);
    struct call *c = g->call;

    if (!c->x) {
        /* the client disconnected */
    } else if (r < 0) {
        call_fail(c, e);
    } else if (op->verdict.kind != VERDICT_ALLOW) {
        answer_verdict(c, &op->verdict);
    } else {
        g->passed = true;
        g->granted = op->verdict.granted;
        c->caller.network_asked = g->has_declared && g->declares.network;
        memcpy(c->passed, op->verdict.audit_id, sizeof c->passed);
        if (c->passed[0])
            http_also(c->x, (struct h1_field){ STR(CALL_AUDIT), str_from(c->passed) });
        g->go(c);
    }
    call_unref(c);
}

/* The number of sandboxes that a copy creates. */
static unsigned count_copies(const struct call *c)
{
    const struct json *n =
        c->json && c->json->type == JSON_OBJECT ? json_get(c->json, STR("count")) : NULL;

    return n && n->type == JSON_INT && n->i > 1 && n->i < 1000 ? (unsigned)n->i : 1;
}

/* Why the call cannot be held for a master; NULL: it can. */
static const char *why_not_held(const struct call *c)
{
    if (c->guard_row->flags & GUARD_NOW)
        return "it must be answered at once; have the sandbox's network approved when it "
               "is created, or use a token with an approved network (token create --allow-network)";
    if ((c->route->flags & ROUTE_STREAM) && !c->body_taken)
        return "its body is too long for a master to review; ask for a grant, or write less than "
               "512 KiB";
    return NULL;
}

static bool fill_trust_question(struct guard *g)
{
    struct call *c = g->call;

    if (!collect_args(g))
        return false;
    if (c->sandbox)
        trust_capabilities_of(c->sandbox, trust_checks_filesystem(c->api->trust), &g->sandbox);
    if ((c->guard_row->flags & GUARD_COPY) && c->sandbox) {
        g->declares = g->sandbox; /* the copy needs its own approval */
        g->has_declared = true;
    }
    g->op.ask = (struct trust_question){
        .tool = str_from(c->guard_row->tool),
        .args = &g->args,
        .sandbox = c->sandbox ? &g->sandbox : NULL,
        .declares = g->has_declared ? &g->declares : NULL,
        .peer = g->peer,
        .role = guard_role(c),
        .makes = (c->guard_row->flags & GUARD_COPY) ? count_copies(c) : 1,
        .request = format_request_line(c),
        .not_held = why_not_held(c),
    };
    g->op.done = on_guard_verdict;
    return true;
}

static void send_trust_question(struct guard *g)
{
    call_ref(g->call);
    trust_request(g->call->api->trust, &g->op);
}

static void on_guard_body(struct http_exchange *x, struct str body)
{
    struct call *c = http_state(x);

    c->body = body;
    c->body_taken = true;
    if (fill_trust_question(c->guard))
        send_trust_question(c->guard);
}

/* Whether the body is small enough to be collected for a review by a master. */
static bool may_collect_body(const struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    return (c->route->flags & ROUTE_STREAM) && !c->body_taken &&
           (h->framing == H1_EMPTY || (h->framing == H1_LENGTH && h->length <= REPLAY_BODY_MAX));
}

static void request_verdict(struct call *c)
{
    struct guard *g = c->guard;

    if (!fill_trust_question(g))
        return;
    if (may_collect_body(c) && !(c->guard_row->flags & GUARD_NOW) &&
        trust_would_hold(c->api->trust, &g->op.ask))
        http_collect(c->x, REPLAY_BODY_MAX, on_guard_body);
    else
        send_trust_question(g);
}

void guard_serve(struct call *c)
{
    const struct guard_row *row = c->guard_row;
    struct guard *g = c->guard;

    if (!row) { /* prevented by a test */
        call_fail_with(c, 403, "denied", "the tool policy has no row for this route");
        return;
    }
    if (g && g->is_session && !row->tool && !(row->flags & GUARD_SESSION)) {
        call_fail_with(c, 403, "denied", "this endpoint is not available to peer sessions");
        return;
    }
    if (g)
        g->go = c->route->handle;
    /* Recreating a destroyed sandbox is a create: its handler requests the verdict. */
    if (!g || !row->tool || (row->flags & GUARD_LATER) ||
        ((row->flags & GUARD_COPY) && !c->sandbox))
        c->route->handle(c);
    else
        request_verdict(c);
}

bool guard_may_exec(const struct call *c, const struct sandbox *s)
{
    struct json id = text_member(SANDBOX_ARG, str_from(sandbox_view(s).record->id));
    const struct json args = { .type = JSON_OBJECT, .list = { &id, 1 } };
    struct trust_capabilities inside;
    const struct trust_question q = { .tool = STR("sandbox_exec"),
                                      .args = &args,
                                      .sandbox = &inside,
                                      .peer = guard_peer(c),
                                      .role = guard_role(c) };

    if (!caller_may(&c->caller, VERB_EXEC))
        return false;
    if (!c->guard)
        return true;
    trust_capabilities_of(s, trust_checks_filesystem(c->api->trust), &inside);
    return trust_would_allow(c->api->trust, &q);
}

void guard_write_env(struct json_writer *w, const struct json_map *env, bool may_exec)
{
    json_begin_object(w);
    for (size_t i = 0; i < env->n; i++)
        json_field_text(w, env->p[i].key, may_exec ? env->p[i].value : "");
    json_end_object(w);
}

/* --- handlers that request verdicts --- */

void guard_request(struct call *c, const struct trust_capabilities *declares, guard_fn *go)
{
    struct guard *g = c->guard;

    if (!g || g->passed) {
        go(c);
        return;
    }
    if (declares)
        g->declares = *declares;
    g->has_declared = declares;
    g->go = go;
    request_verdict(c);
}

/* The peer for which a master approved this call, or granted such calls in advance; NULL: none. */
static const char *find_approver_peer(const struct call *c)
{
    if (c->approved)
        return c->approved_for;
    return c->guard && c->guard->granted ? c->guard->peer->record.id : NULL;
}

struct guarded_create {
    struct create_op *op;
    struct create_plan plan;
    guard_fn *go;
};

static void on_create_allowed(struct call *c)
{
    struct guarded_create *x = c->guarded;

    x->op->approved_for = find_approver_peer(c);
    x->go(c);
}

void guard_request_create(struct call *c, struct create_op *op, guard_fn *go)
{
    struct guarded_create *x = call_alloc(c, 1, sizeof *x);
    struct trust_capabilities declares;
    struct err e;

    *x = (struct guarded_create){ .op = op, .go = go };
    c->guarded = x;
    if (!c->guard || c->guard->passed) {
        on_create_allowed(c);
        return;
    }
    if (control_plan(c->api->control, op, &x->plan, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    trust_capabilities_planned(&x->plan, &declares);
    c->guard->plan = &x->plan;
    guard_request(c, &declares, on_create_allowed);
}

struct guarded_network {
    struct policy_text *policy;
    egress_set_fn *done;
};

static void on_network_allowed(struct call *c)
{
    struct guarded_network *x = c->guarded;

    sandbox_set_policy(c->sandbox, &c->caller.actor, x->policy, find_approver_peer(c), x->done,
                       call_ref(c));
    policy_text_unref(take_ptr(x->policy));
}

void guard_set_network(struct call *c, struct policy_text *t, egress_set_fn *done)
{
    struct guarded_network *x = call_alloc(c, 1, sizeof *x);
    struct trust_capabilities declares = { .network = policy_lets_out(t), .policy = t };

    *x = (struct guarded_network){ t, done };
    c->guarded = x;
    if (c->guard)
        c->guard->network = &x->policy;
    guard_request(c, &declares, on_network_allowed);
}
