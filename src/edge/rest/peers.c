/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/peers: sessions of clients that call tools. */

#include "edge/core/answers.h"
#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"
#include "base/clock.h"
#include "base/own.h"
#include "trust/peers.h"

struct peer_answer {
    enum { PEER_ALIVE, PEER_LEFT, PEER_ENDING } state;
    const struct peer_record *record;
    int64_t sandboxes, made, minutes;
    const char *token; /* only in the answer to its registration */
};

static const char *const peer_states[] = { "alive", "left", "ending", NULL };

#define AT(member) JSON_AT(struct peer_answer, member)
#define RECORD(member)                                                                             \
    .via = offsetof(struct peer_answer, record), JSON_AT(struct peer_record, member)

static const struct json_field peer_answer_fields[] = {
    { "id", JSON_KIND_CHARS, RECORD(id), .required = true },
    { "owner", JSON_KIND_CHARS, RECORD(owner), .required = true },
    { "role", JSON_KIND_ENUM, RECORD(role), .required = true, .names = role_names },
    { "client", JSON_KIND_CHARS, RECORD(client) },
    { "state", JSON_KIND_ENUM, AT(state), .required = true, .names = peer_states },
    { "created_at", JSON_KIND_TIME, RECORD(created_ns), .required = true },
    { "seen_at", JSON_KIND_TIME, RECORD(seen_ns) },
    { "sandboxes", JSON_KIND_INT, AT(sandboxes), .required = true },
    { "made_last_hour", JSON_KIND_INT, AT(made), .required = true },
    { "minutes_last_day", JSON_KIND_INT, AT(minutes), .required = true },
    { "token", JSON_KIND_TEXT, AT(token), .required = true },
};
static const struct json_shape new_peer_answer = { "NewPeer", JSON_FIELDS(peer_answer_fields) };
static const struct json_shape peer_answer = { "Peer", peer_answer_fields,
                                               COUNT_OF(peer_answer_fields) - 1 };

static struct peer_answer answer_of_peer(struct peer *p, const char *token)
{
    const struct trust_usage u = peer_usage(p, clock_wall());

    return (struct peer_answer){ .state = p->record.ended_ns ? PEER_ENDING
                                          : p->left          ? PEER_LEFT
                                                             : PEER_ALIVE,
                                 .record = &p->record,
                                 .sandboxes = peer_alive(p),
                                 .made = u.made,
                                 .minutes = u.lived_ns / (60 * NS_PER_S),
                                 .token = token };
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
    struct peer_answer a;

    if (!is_visible_peer(l->call, p))
        return;
    a = answer_of_peer(p, NULL);
    json_put_shape(l->w, &peer_answer, &a);
}

static void write_peers(struct json_writer *w, const void *call)
{
    const struct call *c = call;
    struct peer_list l = { c, w };

    peers_each(c->api->trust, on_listed_peer, &l);
}

static const struct json_shape peer_list = { "PeerList", JSON_LIST("peers", "Peer", write_peers) };

/* --- register --- */

static const struct json_field peer_fields[] = {
    { "client", JSON_KIND_STR, .size = sizeof(const char *), .max = RECORD_TOOL_MAX - 1,
      .doc = "Name of the client." },
};

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

static void on_peer_call_registered(struct peer_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct peer_call, op)->call;
    struct peer_answer a;

    if (r < 0) {
        call_fail(c, e);
    } else {
        a = answer_of_peer(op->peer, op->token);
        call_answer_as(c, 201, &new_peer_answer, &a);
    }
    call_unref(c);
}

static void rest_register_peer(struct call *c)
{
    const char *client = NULL;
    struct peer_call *p;

    if (!call_read(c, &client))
        return;
    p = call_state(c, sizeof *p, release_peer_call);
    p->call = call_ref(c);
    p->op = (struct peer_op){
        .caller = &c->caller,
        .uid = http_peer(c->x)->is_unix ? (int64_t)http_peer(c->x)->cred.uid : -1,
        .role = guard_role(c),
        .client = client,
        .done = on_peer_call_registered,
    };
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
    call_fail_missing(c, "peer", c->params[0]);
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
    { H1_GET, VERB_READ, "/v1/peers", 0, call_answer_route,
      "List sessions of clients that call tools", .answer = "PeerList", .with = &peer_list },
    { H1_POST, VERB_CREATE, "/v1/peers", ROUTE_JSON, rest_register_peer, "Begin a session",
      ROUTE_FIELDS(peer_fields), .answer = "NewPeer", .status = 201 },
    { H1_POST, VERB_READ, "/v1/peers/{id}/heartbeat", 0, rest_record_heartbeat, "Send a heartbeat",
      .status = 204 },
    { H1_DELETE, VERB_DESTROY, "/v1/peers/{id}", 0, rest_end_peer_session,
      "End a session and its sandboxes", .status = 204 },
    { .path = NULL },
};

const struct json_shape *const answers_peers[] = { &peer_answer, &peer_list, &new_peer_answer,
                                                   NULL };
