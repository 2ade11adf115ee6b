/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/peers: sessions of clients that call tools. */
#include <stdio.h>

#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"
#include "base/clock.h"
#include "base/own.h"
#include "trust/peers.h"

/* Writes the members of a peer object. */
static void write_peer_members(struct json_writer *w, struct peer *p)
{
    const struct peer_record *r = &p->record;
    struct trust_usage u = peer_usage(p, clock_wall());

    json_field_text(w, "id", r->id);
    json_field_text(w, "owner", r->owner);
    json_field_text(w, "role", role_names[r->role]);
    json_field_text(w, "client", r->client);
    json_field_text(w, "state", r->ended_ns ? "ending" : p->left ? "left" : "alive");
    time_write(w, "created_at", r->created_ns);
    time_write(w, "seen_at", r->seen_ns);
    json_field_int(w, "sandboxes", peer_alive(p));
    json_field_int(w, "made_last_hour", u.made);
    json_field_int(w, "minutes_last_day", u.lived_ns / (60 * NS_PER_S));
}

static bool is_visible_peer(const struct call *c, const struct peer *p)
{
    return caller_sees(&c->caller, p->record.owner, &p->record.labels);
}

/* --- list --- */

struct peer_list {
    const struct call *call;
    struct json_writer *w;
};

static void on_listed_peer(void *user, struct peer *p)
{
    const struct peer_list *l = user;

    if (!is_visible_peer(l->call, p))
        return;
    json_begin_object(l->w);
    write_peer_members(l->w, p);
    json_end_object(l->w);
}

static void write_peer_list(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    struct peer_list l = { c, w };

    json_begin_object(w);
    json_field_begin_array(w, "peers");
    peers_each(c->api->trust, on_listed_peer, &l);
    json_end_array(w);
    json_end_object(w);
}

static void rest_list_peers(struct call *c)
{
    call_answer(c, 200, write_peer_list, c);
}

/* --- register --- */

struct peer_request {
    const char *client;
};

static const struct json_field peer_fields[] = {
    { "client", JSON_KIND_STR, JSON_AT(struct peer_request, client), .max = RECORD_TOOL_MAX - 1,
      .doc = "Name of the client." },
};
static const size_t peer_field_count = COUNT_OF(peer_fields);

struct peer_call {
    struct call *call;
    struct peer_op op;
};

static void release_peer_call(void *state)
{
    struct peer_call *p = state;

    peer_unref(p->op.peer);
    explicit_bzero(p->op.token, sizeof p->op.token);
}

static void write_registered_peer(struct json_writer *w, const void *what)
{
    const struct peer_op *op = what;

    json_begin_object(w);
    write_peer_members(w, op->peer);
    json_field_text(w, "token", op->token);
    json_end_object(w);
}

static void on_peer_call_registered(struct peer_op *op, int r, const struct err *e)
{
    call_settle_with(container_of(op, struct peer_call, op)->call, r, e, 201, write_registered_peer,
                     op);
}

static void rest_register_peer(struct call *c)
{
    struct peer_request q = { 0 };
    struct peer_call *p;
    struct err e;

    if (json_bind(c->json, peer_fields, peer_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    p = call_state(c, sizeof *p, release_peer_call);
    p->call = c;
    p->op = (struct peer_op){
        .caller = &c->caller,
        .uid = http_peer(c->x)->is_unix ? (int64_t)http_peer(c->x)->cred.uid : -1,
        .role = guard_role(c),
        .client = q.client,
        .done = on_peer_call_registered,
    };
    call_ref(c);
    peers_register(c->api->trust, &p->op);
}

/* --- one peer --- */

/* The session that the path names; NULL: the call is answered. The implicit peer of a token is no
 * session: it has no heartbeat and ends with its token. */
static struct peer *find_peer_of_call(struct call *c)
{
    struct peer *p = peers_by_id(c->api->trust, c->params[0]);

    if (p && !p->is_token && is_visible_peer(c, p))
        return p;
    call_fail_with(c, 404, "not_found", "there is no such peer");
    return NULL;
}

static void rest_record_heartbeat(struct call *c)
{
    struct peer *p = find_peer_of_call(c);

    if (!p)
        return;
    peer_seen(p);
    call_answer_empty(c);
}

static void rest_end_peer_session(struct call *c)
{
    struct peer *p = find_peer_of_call(c);

    if (p)
        peer_end(p, &c->caller.actor, "it was ended", call_settle, call_ref(c));
}

const struct route routes_peers[] = {
    { H1_GET, VERB_READ, "/v1/peers", 0, rest_list_peers,
      "List sessions of clients that call tools", .answer = "PeerList" },
    { H1_POST, VERB_CREATE, "/v1/peers", ROUTE_JSON, rest_register_peer, "Begin a session",
      peer_fields, &peer_field_count, .answer = "NewPeer", .status = 201 },
    { H1_POST, VERB_READ, "/v1/peers/{id}/heartbeat", 0, rest_record_heartbeat, "Send a heartbeat",
      .status = 204 },
    { H1_DELETE, VERB_DESTROY, "/v1/peers/{id}", 0, rest_end_peer_session,
      "End a session and its sandboxes", .status = 204 },
    { .path = NULL },
};
