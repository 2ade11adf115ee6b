/* /v1/peers: sessions of clients that call tools. */
#include <stdio.h>
#include <stdlib.h>

#include "api/guard.h"
#include "api/inside.h"
#include "api/operation.h"
#include "api/route.h"
#include "base/clock.h"
#include "trust/peers.h"

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_number(struct json_writer *w, const char *key, int64_t n)
{
    json_key(w, str_from(key));
    json_put_int(w, n);
}

/* The members, without the braces. */
static void put_peer(struct json_writer *w, struct peer *p)
{
    const struct peer_record *r = &p->record;
    struct trust_usage u = peer_usage(p, clock_wall());

    put(w, "id", r->id);
    put(w, "owner", r->owner);
    put(w, "role", role_names[r->role]);
    put(w, "client", r->client);
    put(w, "state", r->ended_ns ? "ending" : p->left ? "left" : "alive");
    time_write(w, "created_at", r->created_ns);
    time_write(w, "seen_at", r->seen_ns);
    put_number(w, "sandboxes", peer_alive(p));
    put_number(w, "made_last_hour", u.made);
    put_number(w, "minutes_last_day", u.lived_ns / (60 * NS_PER_S));
}

static bool is_visible(const struct call *c, const struct peer *p)
{
    return caller_sees(&c->caller, p->record.owner, &p->record.labels);
}

/* --- list --- */

struct peer_list {
    const struct call *call;
    struct json_writer *w;
};

static void put_one(void *user, struct peer *p)
{
    const struct peer_list *l = user;

    if (!is_visible(l->call, p))
        return;
    json_begin_object(l->w);
    put_peer(l->w, p);
    json_end_object(l->w);
}

static void write_list(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    struct peer_list l = { c, w };

    json_begin_object(w);
    json_key(w, STR("peers"));
    json_begin_array(w);
    peers_each(c->api->trust, put_one, &l);
    json_end_array(w);
    json_end_object(w);
}

static void list(struct call *c)
{
    call_answer(c, 200, write_list, c);
}

/* --- register --- */

struct peer_request {
    const char *client;
};

static const struct json_field peer_fields[] = {
    { "client", JSON_KIND_STR, JSON_AT(struct peer_request, client), .max = RECORD_TOOL_MAX - 1,
      .doc = "What the client calls itself." },
};
static const size_t peer_field_count = COUNT_OF(peer_fields);

struct peer_call {
    struct call *call;
    struct peer_op op;
};

static void register_end(struct call *c)
{
    struct peer_call *p = c->state;

    peer_unref(p->op.peer);
    explicit_bzero(p->op.token, sizeof p->op.token);
    free(p);
}

static void write_registered(struct json_writer *w, const void *what)
{
    const struct peer_op *op = what;

    json_begin_object(w);
    put_peer(w, op->peer);
    put(w, "token", op->token);
    json_end_object(w);
}

static void registered(struct peer_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct peer_call, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 201, write_registered, op);
    call_unref(c);
}

static void register_peer(struct call *c)
{
    struct peer_request q = { 0 };
    struct peer_call *p;
    struct err e;

    if (json_bind(c->json, peer_fields, peer_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->call = c;
    p->op = (struct peer_op){
        .caller = &c->caller,
        .uid = http_peer(c->x)->is_unix ? (int64_t)http_peer(c->x)->cred.uid : -1,
        .role = guard_role(c),
        .client = q.client,
        .done = registered,
    };
    c->state = p;
    c->on_end = register_end;
    call_ref(c);
    peers_register(c->api->trust, &p->op);
}

/* --- one of them --- */

/* NULL: it is answered. */
static struct peer *find(struct call *c)
{
    struct peer *p = peers_by_id(c->api->trust, c->params[0]);

    if (p && is_visible(c, p))
        return p;
    call_fail_with(c, 404, "not_found", "there is no such peer");
    return NULL;
}

static void heartbeat(struct call *c)
{
    struct peer *p = find(c);

    if (!p)
        return;
    peer_seen(p);
    call_answer_empty(c);
}

static void end(struct call *c)
{
    struct peer *p = find(c);

    if (p)
        peer_end(p, &c->caller.actor, "it was ended", call_settle, call_ref(c));
}

const struct route routes_peers[] = {
    { H1_GET, VERB_READ, "/v1/peers", 0, list, "List sessions of clients that call tools",
      .answer = "PeerList" },
    { H1_POST, VERB_CREATE, "/v1/peers", ROUTE_JSON, register_peer, "Begin a session", peer_fields,
      &peer_field_count, .answer = "NewPeer", .status = 201 },
    { H1_POST, VERB_READ, "/v1/peers/{id}/heartbeat", 0, heartbeat, "Say that a client is there",
      .status = 204 },
    { H1_DELETE, VERB_DESTROY, "/v1/peers/{id}", 0, end, "End a session and its sandboxes",
      .status = 204 },
    { .path = NULL },
};
