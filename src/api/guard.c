#include "api/guard.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/inside.h"
#include "api/replay.h"
#include "api/route.h"
#include "trust/peers.h"

#define SANDBOX_ARG "sandbox_id"
#define KEY_FIELD   "Idempotency-Key"
#define NO_SESSION  "Sandboxer-Peer: there is no such session"

/* What a request is to the policy. What is not here is not for peers. */
static const struct {
    enum h1_method method;
    const char *path, *tool; /* NULL: needs no asking */
} tools[] = {
    { H1_GET, "/v1/sandboxes", "sandbox_list" },
    { H1_GET, "/v1/sandboxes/{id}", "sandbox_list" },
    { H1_POST, "/v1/sandboxes", "sandbox_create" },
    { H1_DELETE, "/v1/sandboxes/{id}", "sandbox_destroy" },
    { H1_POST, "/v1/sandboxes/{id}/processes", "sandbox_exec" },
    { H1_GET, "/v1/sandboxes/{id}/processes", "sandbox_list" },
    { H1_GET, "/v1/sandboxes/{id}/files", "sandbox_read" },
    { H1_PUT, "/v1/sandboxes/{id}/files", "sandbox_write" },
    { H1_GET, "/v1/approvals/{id}", NULL },
    { H1_GET, "/v1/trust", NULL },
};

struct guard {
    struct call *call;
    struct peer *peer; /* referenced */
    struct trust_op op;
    struct trust_capabilities sandbox;
    struct json *members; /* with room for all … */
    struct json args;     /* … that are there so far */
};

bool guard_identify(struct call *c)
{
    struct str token = call_header(c, "Sandboxer-Peer");
    struct peer *p;
    struct guard *g;

    if (!token.p)
        return true;
    p = peers_by_token(c->api->trust, token);
    if (!p || strcmp(p->record.owner, c->caller.owner) != 0) {
        call_put_on_record(c, "auth.refused", NO_SESSION);
        call_fail_with(c, 401, "unauthenticated", NO_SESSION);
        return false;
    }
    g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->call = c;
    g->peer = peer_ref(p);
    peer_attach(p);
    c->guard = g;
    caller_narrow(&c->caller, p, &c->own);
    return true;
}

void caller_label(struct caller *who, const char *key, const char *value, struct arena *a)
{
    struct json_pair *all = arena_array(a, who->labels.n + 1, sizeof *all);

    if (!all)
        abort(); /* labels are few and short */
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

    peer_caller(p, &peer);
    who->verbs &= peer.verbs;
    who->peer = true;
    who->admin = who->host_paths = false;
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

void guard_done(struct call *c)
{
    if (!c->guard)
        return;
    peer_detach(c->guard->peer);
    peer_unref(c->guard->peer);
    free(take_ptr(c->guard));
}

/* False: not for peers. */
static bool find_tool(const struct route *r, const char **ret)
{
    for (size_t i = 0; i < COUNT_OF(tools); i++)
        if (tools[i].method == r->method && strcmp(tools[i].path, r->path) == 0) {
            *ret = tools[i].tool;
            return true;
        }
    return false;
}

static struct json text_member(const char *key, struct str value)
{
    return (struct json){ .type = JSON_STR, .key = str_from(key), .s = value };
}

/* False: it is answered: one name says one thing, to the policy and to the handler. */
static bool add_arg(struct guard *g, struct json v)
{
    char text[96];

    if (!json_get(&g->args, v.key)) {
        g->members[g->args.list.n++] = v;
        return true;
    }
    snprintf(text, sizeof text, "%.40s: is given twice", v.key.n ? v.key.p : "");
    call_fail_with(g->call, 400, "invalid", text);
    return false;
}

/* False: a parameter is not what one can be. */
static bool add_query(struct guard *g)
{
    struct call *c = g->call;
    struct str rest = c->query, name, value;
    struct url_pair p;
    struct err e;

    while (url_next(&rest, &p)) {
        if (url_decode(p.name, true, &c->arena, &name, &e) < 0 ||
            url_decode(p.value, true, &c->arena, &value, &e) < 0) {
            call_fail(c, &e);
            return false;
        }
        if (!add_arg(g, (struct json){ .type = JSON_STR, .key = name, .s = value }))
            return false;
    }
    return true;
}

bool guard_adds(const struct route *r, struct str name)
{
    return str_eq(name, STR(SANDBOX_ARG)) || route_takes(r, name);
}

/* What no handler would take is not shown to a master either. */
static bool is_field(const struct route *r, struct str name)
{
    for (size_t i = 0; r->fields && i < *r->field_count; i++)
        if (str_eq(name, str_from(r->fields[i].name)))
            return true;
    return !r->fields;
}

static bool fail_member(struct call *c, struct str name)
{
    char text[96];

    if (c->x) { /* or it is answered already */
        snprintf(text, sizeof text, "%.40s: there is no such field", name.n ? name.p : "");
        call_fail_with(c, 400, "invalid", text);
    }
    return false;
}

static size_t count_pairs(struct str query)
{
    struct url_pair p;
    size_t n = 0;

    while (url_next(&query, &p))
        n++;
    return n;
}

/* The arguments, as the tool of that name would have them: what the path and the query say, and the
 * body's. False: it is answered. */
static bool make_args(struct guard *g)
{
    struct call *c = g->call;
    size_t body = c->json && c->json->type == JSON_OBJECT ? c->json->list.n : 0;
    struct json content[2];

    g->members = arena_array(&c->arena, body + count_pairs(c->query) + 3, sizeof *g->members);
    if (!g->members) {
        call_fail_with(c, 413, "too_big", "the request has too many members");
        return false;
    }
    g->args = (struct json){ .type = JSON_OBJECT, .list = { g->members, 0 } };
    if (c->sandbox &&
        !add_arg(g, text_member(SANDBOX_ARG, str_from(sandbox_view(c->sandbox).record->id))))
        return false;
    if (!add_query(g))
        return false;
    for (size_t i = 0; i < body; i++)
        if (!is_field(c->route, c->json->list.p[i].key) || !add_arg(g, c->json->list.p[i]))
            return fail_member(c, c->json->list.p[i].key);
    return !c->body_taken || !replay_hold_body(c, content) ||
           (add_arg(g, content[0]) && add_arg(g, content[1]));
}

/* The request's line, for when it is made again, and the one field that says more of what it asks.
 */
static struct str request_of(struct call *c)
{
    const struct h1_request *q = http_request(c->x);
    AUTO(buf_done) struct buf text = BUF_INIT(APPROVAL_REQUEST_MAX + 64);
    struct str key = call_header(c, KEY_FIELD);
    const char *line;

    if (q->method == H1_HEAD)
        buf_add(&text, STR("GET"));
    else
        buf_add(&text, q->method_text);
    buf_add_c(&text, ' ');
    buf_add(&text, q->path);
    if (key.p)
        buf_addf(&text, "\n" KEY_FIELD ": " STR_FMT, STR_ARG(key));
    line = arena_dup(&c->arena, buf_str(&text));
    return line ? (struct str){ line, text.n } : STR("");
}

static void put(struct json_writer *w, const char *key, const char *value)
{
    if (!value[0])
        return;
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

/* A problem that says which verdict it is. */
static void refuse(struct call *c, const struct verdict *v)
{
    struct buf text AUTO(buf_done) = BUF_INIT(16 << 10);
    int status = v->kind == VERDICT_RATE_LIMIT ? 429 : 403;
    struct json_writer w;
    struct err e;

    if (!c->x)
        return;
    memcpy(c->audit, v->audit_id, sizeof c->audit);
    (void)err_set(&e, ERR_DENIED, "%s", v->reason);
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    problem_fields(&w, &e, status, status == 429 ? "quota" : "denied", NULL, NULL);
    put(&w, "kind", verdict_kind_names[v->kind]);
    put(&w, "rule", v->rule);
    put(&w, "request_id", v->request_id);
    put(&w, "audit_id", v->audit_id);
    json_key(&w, STR("rpc_code"));
    json_put_int(&w, verdict_code(v->kind));
    json_end_object(&w);
    (void)json_writer_finish(&w, NULL); /* it is short */
    call_answer_bytes(c, status, "application/problem+json", buf_str(&text));
}

static void serve(struct call *c, const struct verdict *v)
{
    memcpy(c->passed, v->audit_id, sizeof c->passed);
    if (c->passed[0])
        http_also(c->x, (struct h1_field){ STR(CALL_AUDIT), str_from(c->passed) });
    c->route->handle(c);
}

static void judged(struct trust_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct guard, op)->call;

    if (!c->x)
        ; /* nobody is there to be answered */
    else if (r < 0)
        call_fail(c, e);
    else if (op->verdict.kind == VERDICT_ALLOW)
        serve(c, &op->verdict);
    else
        refuse(c, &op->verdict);
    call_unref(c);
}

static void ask(struct call *c, const char *tool)
{
    struct guard *g = c->guard;

    if (!make_args(g))
        return;
    if (c->sandbox)
        trust_capabilities_of(c->sandbox, &g->sandbox);
    g->op.ask = (struct trust_question){ .tool = str_from(tool),
                                         .args = &g->args,
                                         .sandbox = c->sandbox ? &g->sandbox : NULL,
                                         .peer = g->peer,
                                         .role = guard_role(c),
                                         .request = request_of(c) };
    if ((c->route->flags & ROUTE_STREAM) && !c->body_taken)
        g->op.ask.not_held = "what it would write is too long to be shown to one; ask for a grant, "
                             "or write less than 512 KiB";
    g->op.done = judged;
    call_ref(c);
    trust_ask(c->api->trust, &g->op);
}

static void body_came(struct http_exchange *x, struct str body)
{
    struct call *c = http_state(x);
    const char *tool = NULL;

    c->body = body;
    c->body_taken = true;
    if (find_tool(c->route, &tool))
        ask(c, tool);
}

/* A body that a master could be shown is read first. */
static bool could_hold(const struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    return (c->route->flags & ROUTE_STREAM) &&
           (h->framing == H1_EMPTY || (h->framing == H1_LENGTH && h->length <= REPLAY_BODY_MAX));
}

void guard_serve(struct call *c)
{
    const char *tool = NULL;

    if (c->guard && !find_tool(c->route, &tool))
        call_fail_with(c, 403, "denied", "this is not for sessions of clients that call tools");
    else if (!tool)
        c->route->handle(c);
    else if (could_hold(c))
        http_collect(c->x, REPLAY_BODY_MAX, body_came);
    else
        ask(c, tool);
}
