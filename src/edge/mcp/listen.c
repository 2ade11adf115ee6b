/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications of changes, to sessions that subscribed and to streams of stateless clients. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "edge/mcp/internal.h"

/* The analyser reports members of an intrusive list as leaked. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { NOTE_MAX = 32 << 10 };
#define QUIET         NS_PER_S
#define NOTHING_THERE "there is no resource with this URI to watch; resources/list names them"

static const struct {
    const char *wish, *method;
} lists[] = {
    [MCP_TOOLS] = { "toolsListChanged", "notifications/tools/list_changed" },
    [MCP_PROMPTS] = { "promptsListChanged", "notifications/prompts/list_changed" },
    [MCP_RESOURCES] = { "resourcesListChanged", "notifications/resources/list_changed" },
};

/* --- the watches --- */

static void free_mcp_watch(struct mcp_watch *w)
{
    struct mcp_source *x = w->source;

    w->session->unwatched++;
    link_leave(&w->link);
    loop_timer_stop(&w->quiet);
    free(w);
    if (x) {
        x->watch_ = NULL;
        x->end(x);
    }
}

static void on_watch_quiet_over(struct loop_timer *t);

static void start_quiet(struct mcp_watch *w)
{
    loop_timer_start(w->session->loop, &w->quiet, clock_mono() + QUIET, on_watch_quiet_over, NULL);
}

int mcp_watch_add(struct mcp_session *s, struct mcp_request *listener, struct str uri,
                  unsigned which, struct mcp_source *x, struct err *e)
{
    struct mcp_watch *w;
    size_t n = 0;

    LIST_EACH (const struct mcp_watch, other, &s->watches, link)
        n++;
    if (n >= MCP_WATCHES_MAX)
        return err_set(e, ERR_QUOTA, "%d resources are watched already", MCP_WATCHES_MAX);
    if (!listener)
        mcp_watch_remove(s, uri); /* subscribing twice replaces the watch */
    w = new0(sizeof *w + uri.n + 1);
    if (uri.n)
        memcpy(w->uri, uri.p, uri.n);
    w->session = s;
    w->listener = listener;
    w->lists = which;
    w->source = x;
    if (x)
        x->watch_ = w;
    w->again = x && x->changed_;
    if (w->again) /* notify after the answer that confirms the watch */
        start_quiet(w);
    list_append(&s->watches, &w->link);
    return 0;
}

void mcp_watch_remove(struct mcp_session *s, struct str uri)
{
    LIST_EACH_SAFE (struct mcp_watch, w, &s->watches, link) {
        if (!w->listener && str_eq(str_from(w->uri), uri))
            free_mcp_watch(w);
    }
}

void mcp_watches_done(struct mcp_session *s)
{
    for (struct link *l; (l = list_first(&s->watches));)
        free_mcp_watch(container_of(l, struct mcp_watch, link));
}

static void on_listener_end(struct mcp_request *r)
{
    LIST_EACH_SAFE (struct mcp_watch, w, &r->session->watches, link) {
        if (w->listener == r)
            free_mcp_watch(w);
    }
}

/* --- notifying --- */

#define UPDATED "notifications/resources/updated"

static void write_subscription_id(struct json_writer *w, const struct mcp_request *listener)
{
    json_field_tree(w, MCP_META "subscriptionId", listener->m->id);
}

static void send_change_notice(struct mcp_session *s, const struct mcp_watch *watch,
                               const char *method, struct str uri)
{
    AUTO(buf_done) struct buf text = BUF_INIT(NOTE_MAX);
    struct mcp_out *o = watch && watch->listener ? watch->listener->out : s->back;
    struct json_writer w;

    if (!o)
        return;
    json_writer_init(&w, &text, JSON_COMPACT);
    rpc_begin_notification(&w, method);
    json_begin_object(&w);
    if (uri.p)
        json_field_str(&w, "uri", uri);
    if (watch && watch->listener) {
        json_field_begin_object(&w, "_meta");
        write_subscription_id(&w, watch->listener);
        json_end_object(&w);
    }
    json_end_object(&w);
    json_end_object(&w);
    if (json_writer_finish(&w, NULL) >= 0)
        o->ops->send(o, buf_str(&text));
}

/* Notifies at most once per QUIET. May free the watch and its session. */
static void notify_watch(struct mcp_watch *w)
{
    if (loop_timer_started(&w->quiet)) {
        w->again = true;
        return;
    }
    w->again = false;
    start_quiet(w);
    send_change_notice(w->session, w, UPDATED, str_from(w->uri));
}

static void on_watch_quiet_over(struct loop_timer *t)
{
    struct mcp_watch *w = container_of(t, struct mcp_watch, quiet);

    if (w->again)
        notify_watch(w);
}

void mcp_source_changed(struct mcp_source *x)
{
    x->changed_ = true;
    if (x->watch_)
        notify_watch(x->watch_);
}

/* Notifies each watch of the list `which`, or of the URI if `which` is negative. Stops as soon as a
 * watch was freed meanwhile: a failed send ends all watches of the same stream or connection. */
static void notify_watches(struct mcp_session *s, int which, const char *method, struct str uri)
{
    uint64_t before = s->unwatched;

    LIST_EACH_SAFE (struct mcp_watch, w, &s->watches, link) {
        if (which >= 0 ? !(w->lists & 1u << which) : !str_eq(str_from(w->uri), uri))
            continue;
        if (w->source && w->source->poke)
            w->source->poke(w->source);
        if (w->source)
            mcp_source_changed(w->source);
        else
            send_change_notice(s, w, method, uri);
        if (s->unwatched != before)
            return;
    }
}

void mcp_resource_changed(struct mcp_server *server, struct str uri)
{
    LIST_EACH_SAFE (struct mcp_session, s, &server->sessions, link)
        notify_watches(s, -1, UPDATED, uri);
}

void mcp_list_changed(struct mcp_server *server, enum mcp_list which)
{
    LIST_EACH_SAFE (struct mcp_session, s, &server->sessions, link) {
        notify_watches(s, (int)which, lists[which].method, (struct str){ NULL, 0 });
        if (s->version) /* sessions get it without a subscription */
            send_change_notice(s, NULL, lists[which].method, (struct str){ NULL, 0 });
    }
}

/* --- subscriptions/listen --- */

static bool wants_list(const struct json *wishes, const char *name)
{
    const struct json *v = json_get(wishes, str_from(name));

    return v && v->type == JSON_BOOL && v->b;
}

/* A resource that the client wants to watch. */
struct watch_wish {
    struct str uri;
    bool granted;
    struct mcp_source *source;         /* of a granted one, until the watch exists */
    const struct mcp_verdict *refused; /* by the policy, or NULL */
};

/* The offer decides on them one after the other. The client gets one acknowledgement after all are
 * decided. */
struct mcp_wishes {
    unsigned lists;
    size_t n, at; /* at: the one that is being decided */
    bool asking;  /* continue_wishes() is on the stack and continues by itself */
    struct watch_wish all[];
};

static size_t count_wishes(const struct mcp_wishes *w, bool granted)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n; i++)
        n += granted ? w->all[i].granted : w->all[i].refused != NULL;
    return n;
}

static void write_accepted_wishes(struct json_writer *w, const struct mcp_wishes *wishes)
{
    json_field_begin_object(w, "notifications");
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        if (wishes->lists & 1u << i)
            json_field_bool(w, lists[i].wish, true);
    if (count_wishes(wishes, true)) {
        json_field_begin_array(w, "resourceSubscriptions");
        for (size_t i = 0; i < wishes->n; i++)
            if (wishes->all[i].granted)
                json_put_str(w, wishes->all[i].uri);
        json_end_array(w);
    }
    json_end_object(w);
}

/* Refused resources are listed apart from the acknowledged ones, each with its audit id. */
static void write_refused_wishes(struct json_writer *w, const struct mcp_wishes *wishes)
{
    if (!count_wishes(wishes, false))
        return;
    json_field_begin_array(w, "sandboxer/refused");
    for (size_t i = 0; i < wishes->n; i++) {
        const struct watch_wish *one = &wishes->all[i];

        if (!one->refused)
            continue;
        json_begin_object(w);
        json_field_str(w, "uri", one->uri);
        mcp_write_verdict(w, one->refused);
        mcp_write_str(w, "message", one->refused->reason);
        json_end_object(w);
    }
    json_end_array(w);
}

static void send_acknowledgement(struct mcp_request *r)
{
    AUTO(buf_done) struct buf text = BUF_INIT((size_t)2 * MCP_WATCHES_MAX * MCP_URI_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    rpc_begin_notification(&w, "notifications/subscriptions/acknowledged");
    json_begin_object(&w);
    write_accepted_wishes(&w, r->wishes);
    json_field_begin_object(&w, "_meta");
    write_subscription_id(&w, r);
    write_refused_wishes(&w, r->wishes);
    json_end_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    if (json_writer_finish(&w, NULL) >= 0)
        mcp_send(r, buf_str(&text));
}

static int add_granted_watches(struct mcp_request *r, struct err *e)
{
    struct mcp_wishes *w = r->wishes;

    for (size_t i = 0; i < w->n; i++) {
        struct watch_wish *one = &w->all[i];

        if (!one->granted)
            continue;
        if (mcp_watch_add(r->session, r, one->uri, 0, one->source, e) < 0)
            return -(int)ERR_QUOTA;
        one->source = NULL;
    }
    if (w->lists && mcp_watch_add(r->session, r, (struct str){ NULL, 0 }, w->lists, NULL, NULL) < 0)
        w->lists = 0;
    return 0;
}

static void begin_listening(struct mcp_request *r)
{
    struct err e;

    r->on_end = r->on_cancel = on_listener_end;
    if (add_granted_watches(r, &e) < 0) {
        on_listener_end(r);
        mcp_fail(r, RPC_INVALID_PARAMS, "%s", e.msg);
        return;
    }
    r->streams = true;
    send_acknowledgement(r);
}

void mcp_query_watch(struct mcp_request *r, struct str uri)
{
    const struct mcp_offer *o = r->session->offer;

    if (o->watch)
        o->watch(r, uri);
    else
        mcp_watched(r, false);
}

static void continue_wishes(struct mcp_request *r)
{
    struct mcp_wishes *w = r->wishes;
    size_t before;

    w->asking = true;
    do {
        before = w->at;
        if (before < w->n)
            mcp_query_watch(r, w->all[before].uri);
    } while (w->at != before);
    w->asking = false;
    if (w->at == w->n && !mcp_is_finished(r))
        begin_listening(r);
}

/* The wish at r->wishes->at is decided. */
static void settle_wish(struct mcp_request *r)
{
    r->wishes->at++;
    if (!r->wishes->asking)
        continue_wishes(r);
}

static void grant_wish(struct mcp_request *r, struct mcp_source *x)
{
    struct watch_wish *one = r->wishes ? &r->wishes->all[r->wishes->at] : NULL;

    if (!one) {
        mcp_subscribed(r, x);
        return;
    }
    one->granted = true;
    one->source = x;
    settle_wish(r);
}

void mcp_watched(struct mcp_request *r, bool there)
{
    if (!there)
        mcp_not_watched(r, NOTHING_THERE);
    else if (!mcp_is_finished(r))
        grant_wish(r, NULL);
}

void mcp_watched_by(struct mcp_request *r, struct mcp_source *x)
{
    if (mcp_is_finished(r))
        x->end(x);
    else
        grant_wish(r, x);
}

void mcp_not_watched(struct mcp_request *r, const char *fmt, ...)
{
    struct err e;
    va_list ap;

    if (mcp_is_finished(r))
        return;
    va_start(ap, fmt);
    vsnprintf(e.msg, sizeof e.msg, fmt, ap);
    va_end(ap);
    if (r->wishes)
        settle_wish(r);
    else
        mcp_fail_uri(r, mcp_param_str(r, "uri"), "%s", e.msg);
}

void mcp_wishes_done(struct mcp_request *r)
{
    for (size_t i = 0; r->wishes && i < r->wishes->n; i++) {
        struct mcp_source *x = take_ptr(r->wishes->all[i].source);

        if (x)
            x->end(x);
    }
}

bool mcp_wish_refuse(struct mcp_request *r, const struct mcp_verdict *v)
{
    struct mcp_verdict *kept;

    if (!r->wishes || mcp_is_finished(r))
        return false;
    kept = arena_alloc(&r->arena, sizeof *kept);
    if (!kept)
        abort(); /* bounded by MCP_WATCHES_MAX */
    *kept = *v;
    r->wishes->all[r->wishes->at].refused = kept;
    settle_wish(r);
    return true;
}

/* Returns false after it has failed the request. */
static bool read_watch_wishes(struct mcp_request *r, const struct json *uris)
{
    size_t n = uris ? uris->list.n : 0;
    struct mcp_wishes *w = arena_alloc(&r->arena, sizeof *w + n * sizeof w->all[0]);

    if (!w)
        abort(); /* at most MCP_WATCHES_MAX */
    *w = (struct mcp_wishes){ .n = n };
    for (size_t i = 0; i < n; i++) {
        const struct json *v = &json_first(uris)[i];

        if (v->type != JSON_STR || v->s.n >= MCP_URI_MAX) {
            mcp_fail(r, RPC_INVALID_PARAMS, "resourceSubscriptions: must be URIs");
            return false;
        }
        w->all[i] = (struct watch_wish){ .uri = v->s };
    }
    r->wishes = w;
    return true;
}

void mcp_listen(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    const struct json *wishes = mcp_object(r->m->params, "notifications");
    const struct json *uris = wishes ? json_get(wishes, STR("resourceSubscriptions")) : NULL;

    if (!wishes || (uris && (uris->type != JSON_ARRAY || uris->list.n > MCP_WATCHES_MAX))) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "notifications: must list the subscriptions, with at most %d resources",
                 MCP_WATCHES_MAX);
        return;
    }
    if (!read_watch_wishes(r, uris))
        return;
    for (unsigned i = 0; i < COUNT_OF(lists); i++)
        if (wants_list(wishes, lists[i].wish) && (o->lists_change || i == MCP_RESOURCES))
            r->wishes->lists |= 1u << i;
    continue_wishes(r);
}
