/* Who wants to hear of changes: sessions that subscribed, and streams of stateless clients. */
#include <stdlib.h>

#include "base/own.h"
#include "mcp/inside.h"

/* The analyser takes what is in a list for lost. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { NOTE_MAX = 32 << 10 };

static const struct {
    const char *wish, *method;
} lists[] = {
    [MCP_TOOLS] = { "toolsListChanged", "notifications/tools/list_changed" },
    [MCP_PROMPTS] = { "promptsListChanged", "notifications/prompts/list_changed" },
    [MCP_RESOURCES] = { "resourcesListChanged", "notifications/resources/list_changed" },
};

/* --- the watches --- */

static size_t count(struct mcp_session *s)
{
    size_t n = 0;

    for (struct link *l = list_first(&s->watches); l; l = list_after(&s->watches, l))
        n++;
    return n;
}

static void watch_free(struct mcp_watch *w)
{
    link_leave(&w->link);
    free(w);
}

int mcp_watch_add(struct mcp_session *s, struct mcp_request *listener, struct str uri,
                  unsigned which, struct err *e)
{
    struct mcp_watch *w;

    if (count(s) >= MCP_WATCHES_MAX)
        return err_set(e, ERR_QUOTA, "%d resources are watched already", MCP_WATCHES_MAX);
    if (!listener)
        mcp_watch_remove(s, uri); /* twice is once */
    w = calloc(1, sizeof *w + uri.n + 1);
    if (!w)
        abort();
    if (uri.n)
        memcpy(w->uri, uri.p, uri.n);
    w->listener = listener;
    w->lists = which;
    list_append(&s->watches, &w->link);
    return 0;
}

void mcp_watch_remove(struct mcp_session *s, struct str uri)
{
    struct link *next;

    for (struct link *l = list_first(&s->watches); l; l = next) {
        struct mcp_watch *w = container_of(l, struct mcp_watch, link);

        next = list_after(&s->watches, l);
        if (!w->listener && str_eq(str_from(w->uri), uri))
            watch_free(w);
    }
}

void mcp_watches_done(struct mcp_session *s)
{
    for (struct link *l; (l = list_first(&s->watches));)
        watch_free(container_of(l, struct mcp_watch, link));
}

static void forget_listener(struct mcp_request *r)
{
    struct link *next;

    for (struct link *l = list_first(&r->session->watches); l; l = next) {
        struct mcp_watch *w = container_of(l, struct mcp_watch, link);

        next = list_after(&r->session->watches, l);
        if (w->listener == r)
            watch_free(w);
    }
}

/* --- telling --- */

static void put_subscription(struct json_writer *w, const struct mcp_request *listener)
{
    if (!listener)
        return;
    json_key(w, STR("_meta"));
    json_begin_object(w);
    json_key(w, STR(MCP_META "subscriptionId"));
    json_put_tree(w, listener->m->id);
    json_end_object(w);
}

static void tell(struct mcp_session *s, const struct mcp_watch *watch, const char *method,
                 struct str uri)
{
    AUTO(buf_done) struct buf text = BUF_INIT(NOTE_MAX);
    struct mcp_out *o = watch && watch->listener ? watch->listener->out : s->back;
    struct json_writer w;

    if (!o)
        return;
    json_writer_init(&w, &text, JSON_COMPACT);
    rpc_begin_call(&w, method);
    json_begin_object(&w);
    if (uri.p) {
        json_key(&w, STR("uri"));
        json_put_str(&w, uri);
    }
    put_subscription(&w, watch ? watch->listener : NULL);
    json_end_object(&w);
    json_end_object(&w);
    if (json_writer_finish(&w, NULL) >= 0)
        o->ops->send(o, buf_str(&text));
}

/* To each watch that wants it; whoever is told may end its session meanwhile. */
static void tell_watches(struct mcp_session *s, int which, const char *method, struct str uri)
{
    struct link *next;

    for (struct link *l = list_first(&s->watches); l; l = next) {
        const struct mcp_watch *w = container_of(l, struct mcp_watch, link);

        next = list_after(&s->watches, l);
        if (which >= 0 ? w->lists & 1u << which : str_eq(str_from(w->uri), uri))
            tell(s, w, method, uri);
    }
}

void mcp_resource_changed(struct mcp_server *server, struct str uri)
{
    for (struct link *l = list_first(&server->sessions); l; l = list_after(&server->sessions, l))
        tell_watches(container_of(l, struct mcp_session, link), -1,
                     "notifications/resources/updated", uri);
}

void mcp_list_changed(struct mcp_server *server, enum mcp_list which)
{
    for (struct link *l = list_first(&server->sessions); l; l = list_after(&server->sessions, l)) {
        struct mcp_session *s = container_of(l, struct mcp_session, link);

        tell_watches(s, (int)which, lists[which].method, (struct str){ NULL, 0 });
        if (s->version) /* with a session everybody is told */
            tell(s, NULL, lists[which].method, (struct str){ NULL, 0 });
    }
}

/* --- subscriptions/listen --- */

static bool wants(const struct json *wishes, const char *name)
{
    const struct json *v = json_get(wishes, str_from(name));

    return v && v->type == JSON_BOOL && v->b;
}

/* False: it was failed. */
static bool watch_uris(struct mcp_request *r, const struct json *uris)
{
    const struct mcp_offer *o = r->session->server->offer;
    struct err e;

    for (const struct json *v = json_first(uris); v != json_end(uris); v++) {
        if (v->type != JSON_STR || v->s.n >= MCP_URI_MAX) {
            mcp_fail(r, RPC_INVALID_PARAMS, "resourceSubscriptions: must be URIs");
            return false;
        }
        if (!o->watchable || !o->watchable(r->session, v->s))
            continue; /* what cannot be watched is not acknowledged */
        if (mcp_watch_add(r->session, r, v->s, 0, &e) < 0) {
            mcp_fail(r, RPC_INVALID_PARAMS, "%s", e.msg);
            return false;
        }
    }
    return true;
}

static void put_accepted(struct json_writer *w, struct mcp_request *r, unsigned accepted)
{
    struct list *watches = &r->session->watches;
    bool any = false;

    json_key(w, STR("notifications"));
    json_begin_object(w);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        if (accepted & 1u << i) {
            json_key(w, str_from(lists[i].wish));
            json_put_bool(w, true);
        }
    for (struct link *l = list_first(watches); l; l = list_after(watches, l)) {
        const struct mcp_watch *v = container_of(l, struct mcp_watch, link);

        if (v->listener != r || !v->uri[0])
            continue;
        if (!any) {
            json_key(w, STR("resourceSubscriptions"));
            json_begin_array(w);
        }
        any = true;
        json_put_str(w, str_from(v->uri));
    }
    if (any)
        json_end_array(w);
    json_end_object(w);
}

static void acknowledge(struct mcp_request *r, unsigned accepted)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MCP_WATCHES_MAX * MCP_URI_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    rpc_begin_call(&w, "notifications/subscriptions/acknowledged");
    json_begin_object(&w);
    put_accepted(&w, r, accepted);
    put_subscription(&w, r);
    json_end_object(&w);
    json_end_object(&w);
    if (json_writer_finish(&w, NULL) >= 0)
        mcp_send(r, buf_str(&text));
}

void mcp_listen(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->server->offer;
    const struct json *wishes = mcp_object(r->m->params, "notifications");
    const struct json *uris = wishes ? json_get(wishes, STR("resourceSubscriptions")) : NULL;
    unsigned accepted = 0;

    if (!wishes || (uris && (uris->type != JSON_ARRAY || uris->list.n > MCP_WATCHES_MAX))) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "notifications: must say what to listen to, %d resources at most",
                 MCP_WATCHES_MAX);
        return;
    }
    r->on_end = r->on_cancel = forget_listener;
    for (unsigned i = 0; i < COUNT_OF(lists); i++)
        if (wants(wishes, lists[i].wish) && (o->lists_change || i == MCP_RESOURCES))
            accepted |= 1u << i;
    if (uris && !watch_uris(r, uris)) {
        forget_listener(r);
        return;
    }
    if (accepted && mcp_watch_add(r->session, r, (struct str){ NULL, 0 }, accepted, NULL) < 0)
        accepted = 0;
    r->streams = true;
    acknowledge(r, accepted);
}
