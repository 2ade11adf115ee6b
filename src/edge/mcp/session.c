/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/session.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/crypto/random.h"
#include "edge/mcp/internal.h"
#include "lib/quota/quota.h"

const char *const mcp_level_names[] = { "debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency" };

int mcp_server_init(struct mcp_server *s, struct loop *l, const struct mcp_offer *offer, void *user,
                    struct err *e)
{
    *s = (struct mcp_server){ .loop = l, .offer = offer, .user = user };
    return crypto_random(s->key, sizeof s->key, e);
}

void mcp_server_done(struct mcp_server *s)
{
    for (struct link *m; (m = list_first(&s->sessions));)
        mcp_session_end(container_of(m, struct mcp_session, link));
    mcp_tasks_done(s);
}

/* --- sessions --- */

/* Whether one of the limits is reached. Sessions without a peer are always possible: the daemon
 * makes them itself (job.h). */
static bool is_session_limit_reached(struct mcp_server *server, const char *peer,
                                     const char *holder, const char *family)
{
    size_t of_peer = 0, of_holder = 0, of_family = 0;

    LIST_EACH (const struct mcp_session, s, &server->sessions, link) {
        of_peer += strcmp(s->peer, peer) == 0;
        of_holder += strcmp(s->holder, holder) == 0;
        of_family += family[0] && strcmp(s->family, family) == 0;
    }
    return peer[0] && (server->n_sessions >= MCP_SESSIONS_MAX || of_peer >= MCP_SESSIONS_PEER_MAX ||
                       of_holder >= MCP_SESSIONS_PEER_MAX ||
                       of_family >= quota_token_part(MCP_SESSIONS_PEER_MAX));
}

int mcp_session_new(struct mcp_server *server, const char *peer, void *user,
                    void (*free_user)(void *user), struct mcp_session **ret, struct err *e)
{
    const char *holder = peer[0] && server->offer->holder ? server->offer->holder(user) : peer;
    const char *family = peer[0] && server->offer->family ? server->offer->family(user) : "";
    struct mcp_session *s = new0(sizeof *s);
    int r =
        is_session_limit_reached(server, peer, holder, family)
            ? err_set(e, ERR_BUSY,
                      "the limit of sessions is reached (%d in total, %d per client and owner); "
                      "end some",
                      MCP_SESSIONS_MAX, MCP_SESSIONS_PEER_MAX)
            : id_make("mcp_", s->id, e);

    if (r < 0) {
        free(s);
        free_user(user);
        return r;
    }
    s->server = server;
    s->loop = server->loop;
    s->offer = server->offer;
    s->refs = 1;
    s->user = user;
    s->free_user = free_user;
    s->level = MCP_SILENT;
    snprintf(s->peer, sizeof s->peer, "%s", peer);
    snprintf(s->key, sizeof s->key, "%s", peer);
    snprintf(s->holder, sizeof s->holder, "%s", holder);
    snprintf(s->family, sizeof s->family, "%s", family);
    list_append(&server->sessions, &s->link);
    server->n_sessions++;
    *ret = s;
    return 0;
}

struct mcp_session *mcp_session_ref(struct mcp_session *s)
{
    s->refs++;
    return s;
}

static void on_session_free(struct loop_later *l)
{
    struct mcp_session *s = container_of(l, struct mcp_session, later);

    s->free_user(s->user);
    free(s);
}

void mcp_session_unref(struct mcp_session *s)
{
    if (s && --s->refs == 0)
        loop_later(s->loop, &s->later, on_session_free, NULL);
}

void mcp_session_end(struct mcp_session *s)
{
    if (s->ended)
        return;
    s->ended = true;
    s->back = NULL;
    link_leave(&s->link);
    s->server->n_sessions--;
    mcp_session_ref(s);
    for (struct link *m; (m = list_first(&s->requests));)
        mcp_request_cancel(container_of(m, struct mcp_request, in_session));
    mcp_watches_done(s);
    if (s->on_end)
        s->on_end(s);
    if (s->offer->session_ended)
        s->offer->session_ended(s);
    mcp_session_unref(s);
    mcp_session_unref(s); /* the server's */
}

struct mcp_session *mcp_session_find(struct mcp_server *server, struct str id)
{
    LIST_EACH (struct mcp_session, s, &server->sessions, link) {
        if (!s->stateless && str_eq(str_from(s->id), id))
            return s;
    }
    return NULL;
}

/* --- identification and use --- */

void mcp_met(struct mcp_session *s, int r, const struct err *e)
{
    s->meeting = false;
    s->met = r >= 0;
    mcp_session_ref(s);
    for (struct mcp_request *q; (q = mcp_request_waiting(s));)
        mcp_request_continue(q, r, e);
    mcp_session_unref(s);
}

void mcp_session_hold(struct mcp_session *s)
{
    if (s->users++ == 0 && s->offer->in_use)
        s->offer->in_use(s, true);
}

/* Uses the offer of the session, because the server may be freed by now. */
void mcp_session_release(struct mcp_session *s)
{
    if (--s->users == 0 && s->offer->in_use)
        s->offer->in_use(s, false);
}

void mcp_refused(const struct mcp_server *server, void *user, struct mcp_refusal *x)
{
    if (server->offer->refused)
        server->offer->refused(user, x);
}

/* --- outs --- */

void mcp_out_drained(struct mcp_out *o)
{
    LIST_EACH_SAFE (struct mcp_request, r, &o->requests, in_out) {
        if (r->on_drain && !mcp_is_finished(r))
            r->on_drain(r);
    }
}

void mcp_out_gone(struct mcp_out *o, bool cancel)
{
    for (struct link *m; (m = list_take(&o->requests));) {
        struct mcp_request *r = container_of(m, struct mcp_request, in_out);

        r->out = NULL;
        if (cancel || r->streams)
            mcp_request_cancel(r);
        else if (r->on_drain && !mcp_is_finished(r))
            r->on_drain(r);
    }
}
