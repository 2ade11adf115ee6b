/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "edge/mcp/web_internal.h"

static void on_web_session_free(struct loop_later *l)
{
    struct web_session *k = container_of(l, struct web_session, later);

    mcp_session_unref(k->session);
    free(k);
}

/* The session has ended: closes its streams. */
static void on_web_session_ended(struct mcp_session *s)
{
    struct web_session *k = s->transport;

    loop_timer_stop(&k->idle);
    LIST_EACH_SAFE (struct web_stream, t, &k->streams, in_session) {
        if (t->pipe.x)
            http_cut(take_ptr(t->pipe.x));
        web_stream_free(t);
    }
    replay_done(&k->replay);
    loop_later(s->loop, &k->later, on_web_session_free, NULL);
}

static bool is_web_session_used(struct web_session *k)
{
    bool used = list_first(&k->session->requests);

    LIST_EACH (const struct web_stream, t, &k->streams, in_session)
        used |= t->pipe.x != NULL;
    return used;
}

/* Ends the session if it had neither requests nor connected streams for silence_ns. */
static void on_web_session_idle(struct loop_timer *t)
{
    struct web_session *k = container_of(t, struct web_session, idle);

    if (is_web_session_used(k))
        k->used = clock_mono();
    if (clock_mono() - k->used >= k->web->silence_ns)
        web_session_end(k);
    else
        loop_timer_start(k->session->loop, t, k->used + k->web->silence_ns, on_web_session_idle,
                         NULL);
}

int web_session_new(struct mcp_web *web, struct mcp_who who, struct web_session **ret,
                    struct err *e)
{
    struct mcp_session *s;
    struct web_session *k;
    int r = mcp_session_new(web->server, who.peer, who.user, who.free_user, &s, e);

    if (r < 0)
        return r;
    k = new0(sizeof *k);
    k->session = mcp_session_ref(s);
    k->web = web;
    replay_init(&k->replay, &web->room, s->holder, s->family);
    s->transport = k;
    s->on_end = on_web_session_ended;
    k->back = web_stream_new(web, s, k, NULL);
    s->back = &k->back->out;
    web_session_touch(k);
    loop_timer_start(s->loop, &k->idle, k->used + web->silence_ns, on_web_session_idle, NULL);
    *ret = k;
    return 0;
}

struct web_session *web_session_of(struct mcp_web *web, struct http_exchange *x, const char *peer)
{
    const struct h1_head *h = &http_request(x)->head;
    struct mcp_session *s;

    if (h1_count(h, STR("Mcp-Session-Id")) != 1)
        return NULL;
    s = mcp_session_find(web->server, h1_value(h, STR("Mcp-Session-Id")));
    return s && s->on_end == on_web_session_ended && strcmp(s->peer, peer) == 0 ? s->transport
                                                                                : NULL;
}

void web_session_touch(struct web_session *k)
{
    k->used = clock_mono();
}

void web_session_end(struct web_session *k)
{
    mcp_session_end(k->session);
}
