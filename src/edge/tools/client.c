/* SPDX-License-Identifier: Apache-2.0 */
/* The client of a session, which is a peer.
 *
 * The peer is registered at the client's first request, for the caller that the edge authenticated,
 * in the role of its configuration or token. A session's peer ends with the session, unless the
 * client has a secret to reconnect with. The peer of a stateless client is found again by its
 * caller, and ends after a time without requests. */
#include <stdio.h>
#include <stdlib.h>

#include "edge/core/guard.h"
#include "base/own.h"
#include "edge/tools/workspace.h"
#include "control/owner/tokens.h"

enum { CLIENT_MAX = 256 << 10 };

/* --- lifetime --- */

static void detach_client(struct mcp_client *m)
{
    if (m->attached)
        peer_detach(m->peer);
    m->attached = false;
}

void mcp_client_free(void *user)
{
    struct mcp_client *m = user;

    peer_watch_stop(&m->watch);
    mcp_workspace_free(m->workspace);
    detach_client(m);
    peer_unref(m->peer);
    arena_done(&m->arena);
    explicit_bzero(m->secret, sizeof m->secret);
    free(m);
}

/* Copies the caller, because the client outlives its first request. */
struct mcp_client *mcp_client_new(struct api *a, const struct caller *who)
{
    struct mcp_client *m = new0(sizeof *m);

    *m = (struct mcp_client){ .api = a, .control = a->control, .caller = *who, .uid = -1 };
    m->caller.actor.kind = ACTOR_AGT;
    m->caller.gated = false; /* a session has only the network that it declares */
    m->account = account_of(a->control, m->caller.owner, m->caller.family);
    arena_init(&m->arena, CLIENT_MAX);
    m->caller.labels = (struct json_map){ NULL, 0 };
    for (size_t i = 0; i < who->labels.n; i++)
        caller_label(&m->caller, who->labels.p[i].key, who->labels.p[i].value, &m->arena);
    return m;
}

struct mcp_client *mcp_client_of_call(const struct call *c)
{
    struct mcp_client *m = mcp_client_new(c->api, &c->caller);
    const struct http_peer *p = http_peer(c->x);
    struct str provider = call_header(c, "Sandbox-Provider");
    const char *usual = getenv("SANDBOX_PROVIDER");

    if (p->is_unix)
        m->uid = (int64_t)p->cred.uid;
    m->role = guard_role(c);
    if (!str_copy(provider, m->provider, sizeof m->provider) || !provider.n)
        snprintf(m->provider, sizeof m->provider, "%s", usual ? usual : "");
    m->checkpoints = str_eq(call_header(c, CHECKPOINT_HEADER), STR("calls"));
    if (!str_copy(call_header(c, "Sandboxer-Session"), m->secret, sizeof m->secret))
        m->secret[0] = 0;
    return m;
}

const struct caller *mcp_caller(struct mcp_session *s)
{
    const struct mcp_client *m = s->user;

    return &m->caller;
}

/* A gateway can lower the trust of each request below that of the session's first one, never raise
 * it. */
struct mcp_trust mcp_client_trust(const struct mcp_session *s, const void *user)
{
    const struct mcp_client *began = s->user, *now = user;
    struct mcp_trust t = { .role = role_least(began->role, now->role),
                           .verbs = began->caller.verbs & now->caller.verbs };

    t.less = t.role < began->role || t.verbs != began->caller.verbs;
    return t;
}

/* --- registration --- */

struct peer_registration {
    struct mcp_session *session; /* referenced */
    struct peer_op op;
    char client[RECORD_TOOL_MAX];
};

static void on_client_peer_ended(struct peer_watch *w)
{
    mcp_session_end(container_of(w, struct mcp_client, watch)->session);
}

void mcp_client_bind(struct mcp_client *m, struct peer *p)
{
    m->peer = peer_ref(p);
    caller_narrow(&m->caller, p, &m->arena);
}

static void attach_session_peer(struct mcp_session *s, struct peer *p)
{
    struct mcp_client *m = s->user;

    mcp_client_bind(m, p);
    m->session = s;
    m->watch.ended = on_client_peer_ended;
    peer_watch(p, &m->watch);
    snprintf(s->key, sizeof s->key, "%s", p->record.id);
    if (s->users)
        mcp_client_in_use(s, true);
}

static void on_peer_registered(struct peer_op *op, int r, const struct err *e)
{
    struct peer_registration *x = container_of(op, struct peer_registration, op);
    struct mcp_session *s = x->session;
    const struct mcp_client *m = s->user;
    bool ended = r >= 0 && (op->peer->record.ended_ns || !op->peer->trust);
    struct err gone;

    if (s->ended && r >= 0 && op->way == PEER_BY_SESSION) {
        peer_end(op->peer, &m->caller.actor, "its session ended", NULL, NULL);
    } else if (ended && !s->ended) {
        r = err_set(&gone, ERR_BUSY, "the previous session is still ending; try again");
        mcp_met(s, r, &gone);
    } else if (!s->ended) {
        if (r >= 0)
            attach_session_peer(s, op->peer);
        mcp_met(s, r, e);
    }
    peer_unref(op->peer);
    mcp_session_unref(s);
    free(x);
}

void mcp_client_meet(struct mcp_session *s, struct str client)
{
    struct mcp_client *m = s->user;
    struct peer_registration *x;
    struct err e;

    if (m->caller.by_token && !tokens_by_id(m->api->tokens, str_from(m->caller.actor.id))) {
        mcp_met(s, err_set(&e, ERR_DENIED, "the token is expired or revoked"), &e);
        return;
    }
    x = new0(sizeof *x);
    x->session = mcp_session_ref(s);
    snprintf(x->client, sizeof x->client, "%.*s", client.n > 200 ? 200 : (int)client.n,
             client.n ? client.p : "mcp");
    x->op = (struct peer_op){ .way = s->stateless   ? PEER_BY_CALLER
                                     : m->secret[0] ? PEER_BY_SECRET
                                                    : PEER_BY_SESSION,
                              .secret = str_from(m->secret),
                              .caller = &m->caller,
                              .uid = m->uid,
                              .role = m->role,
                              .client = x->client,
                              .done = on_peer_registered };
    peers_register(m->api->trust, &x->op);
}

/* --- use and end --- */

void mcp_client_in_use(struct mcp_session *s, bool yes)
{
    struct mcp_client *m = s->user;

    if (yes && m->peer && !m->attached) {
        peer_attach(m->peer);
        m->attached = true;
    } else if (!yes) {
        detach_client(m);
    }
}

void mcp_client_left(struct mcp_session *s)
{
    struct mcp_client *m = s->user;

    peer_watch_stop(&m->watch);
    mcp_workspace_leave(m);
    if (!m->peer || s->stateless || s->approved)
        return;
    if (m->secret[0] && !s->deleted)
        peer_leave(m->peer);
    else
        peer_end(m->peer, &m->caller.actor, "its session ended", NULL, NULL);
}

/* --- audit --- */

void mcp_client_refused(void *user, struct mcp_refusal *x)
{
    const struct mcp_client *m = user;
    const struct trust_refusal r = { .type = "mcp.refused",
                                     .peer = m->peer,
                                     .owner = m->caller.owner,
                                     .actor = &m->caller.actor,
                                     .tool = x->tool,
                                     .code = x->code,
                                     .reason = x->reason,
                                     .audit = x->audit_id };

    if (id_make("aud_", x->audit_id, NULL) >= 0)
        trust_refused(m->api->trust, &r);
}
