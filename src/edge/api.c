#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/daytona/daytona.h"
#include "api/daytona/preview.h"
#include "api/domain.h"
#include "api/e2b/e2b.h"
#include "api/guard.h"
#include "api/inside.h"
#include "api/mcp.h"
#include "api/replay.h"
#include "api/route.h"
#include "api/shares.h"
#include "api/ssh_supply.h"
#include "base/clock.h"
#include "control/tokens.h"
#include "json/reader.h"
#include "tls/door.h"
#include "trust/trust.h"

static void client_left(struct http_exchange *x)
{
    struct call *c = http_state(x);

    c->x = NULL;
    meters_ended(c, CALL_LEFT);
    if (c->on_gone)
        c->on_gone(c);
    call_unref(c);
}

static void found(struct find_op *f, int r, const struct err *e)
{
    struct call *c = container_of(f, struct call, find);
    struct err gone;

    if (!c->x) {
        call_unref(c);
        return;
    }
    if (r >= 0 && f->sandbox) {
        c->sandbox = sandbox_ref(f->sandbox);
        sandbox_touch(c->sandbox);
    } else if (r >= 0 && (c->route->flags & ROUTE_LIVE)) {
        r = record_fail_ended(f->record, c->route->face ? ERR_NOT_FOUND : ERR_CONFLICT, &gone);
        e = &gone;
    }
    if (r < 0)
        call_fail(c, e);
    else
        guard_serve(c);
    call_unref(c);
}

/* Programs choose names freely, so an id is an id: only a person's command line asks for more. */
static bool may_shorten(const struct call *c)
{
    return !c->route->face && str_eq(call_header(c, "Sandboxer-Ids"), STR("short"));
}

static void dispatch(struct call *c)
{
    struct sandbox *s;

    if (!(c->route->flags & ROUTE_SANDBOX)) {
        guard_serve(c);
        return;
    }
    if (control_find_now(c->api->control, &c->caller, c->params[0], &s)) {
        c->sandbox = s;
        sandbox_touch(s);
        guard_serve(c);
        return;
    }
    c->find = (struct find_op){ .caller = &c->caller,
                                .id = c->params[0],
                                .label = c->route->face ? c->route->face->names : NULL,
                                .may_be_short = may_shorten(c),
                                .done = found };
    call_ref(c);
    control_find(c->api->control, &c->find);
}

static void body_came(struct http_exchange *x, struct str body)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    struct call *c = http_state(x);
    struct err e;

    c->body = body;
    if (!(c->route->flags & ROUTE_JSON)) {
        dispatch(c);
        return;
    }
    if (json_read(body.n ? body : STR("{}"), limits, &c->arena, &c->json, &e) < 0) {
        err_wrap(&e, -1, "the body");
        call_fail(c, &e);
    } else {
        dispatch(c);
    }
}

static void fail_unrouted(struct call *c, unsigned allowed)
{
    call_fail_with(c, allowed ? 405 : 404, allowed ? "invalid" : "not_found",
                   allowed ? "this path has other methods; GET /openapi.json lists them"
                           : "there is no such path; GET /openapi.json lists them all");
}

/* A parameter that nobody reads is a mistake that its sender should hear of. */
static bool query_known(struct call *c)
{
    struct str rest = c->query, name;
    struct url_pair p;
    struct err e;

    if (c->route->face) /* whoever wrote the client knows of no difference */
        return true;
    while (url_next(&rest, &p)) {
        if (url_decode(p.name, true, &c->arena, &name, &e) < 0) {
            call_fail(c, &e);
            return false;
        }
        if (route_takes(c->route, name))
            continue;
        (void)err_set(&e, ERR_INVALID, "there is no parameter '%.40s' here; this takes: %s",
                      name.n ? name.p : "", c->route->query ? c->route->query : "none");
        call_fail(c, &e);
        return false;
    }
    return true;
}

static bool find_our_route(struct call *c)
{
    unsigned allowed = 0;

    if (!daytona_route(c) && !e2b_route(c))
        c->route = route_find(http_request(c->x)->method, &c->path, c->params, &allowed);
    if (!c->route)
        fail_unrouted(c, allowed);
    return c->route;
}

static bool find_route(struct call *c)
{
    const struct h1_request *q = http_request(c->x);
    struct url u = url_split(q->path);
    struct err e;

    if (q->form != H1_ORIGIN) {
        call_fail_with(c, 400, "invalid", "this is no proxy");
        return false;
    }
    c->query = u.query;
    domain_find(c);
    /* What is for a server inside is nobody else's, whatever its path, and how that is spelled. */
    if (e2b_route_inside(c, u.path) || preview_route(c, u.path))
        return true;
    if (url_path(u.path, &c->arena, &c->path, &e) < 0) {
        call_fail_with(c, 400, "invalid", e.msg);
        return false;
    }
    return find_our_route(c);
}

static size_t body_max(const struct call *c)
{
    uint64_t max = c->api->config->limits.body_bytes;

    if (!(c->route->flags & (ROUTE_TEXT | ROUTE_CONTENT)) && max > CALL_BODY_MAX)
        max = CALL_BODY_MAX;
    return (size_t)max;
}

static void on_request(struct http_exchange *x)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    c->api = http_user(x);
    c->api->calls++;
    c->loop = c->api->loop;
    c->began_ns = clock_mono();
    c->x = x;
    c->refs = 2; /* the exchange's and ours */
    arena_init(&c->arena, CALL_ARENA_MAX);
    arena_init(&c->own, PTRDIFF_MAX);
    http_set_state(x, c);
    http_on_gone(x, client_left);
    if (find_route(c) && call_authenticate(c) && shares_admit(c) && query_known(c)) {
        if (c->route->flags & (ROUTE_JSON | ROUTE_TEXT))
            http_collect(x, body_max(c), body_came);
        else
            dispatch(c);
    }
    call_unref(c);
}

/* Whatever it has open ends with it, on every interface. */
static void on_token_ended(struct token_watcher *w, const struct token_record *r)
{
    struct api *a = container_of(w, struct api, token_ends);

    http_end_part(a->server, str_from(r->id), 401, STR(CALL_TOKEN_ENDED));
}

static void api_free(struct api *a)
{
    token_watcher_stop(&a->token_ends);
    replays_close(a);
    if (a->server)
        http_server_free(a->server);
    e2b_done(a);
    ssh_supply_free(a->ssh);
    tls_door_free(a->tls);
    event_unsubscribe(&a->mcp_events);
    mcp_server_done(&a->mcp);
    metrics_unregister(&a->meters);
    trust_close(a->trust);
    tokens_close(a->tokens);
    buf_done(&a->openapi);
    a->over = true;
    if (!a->calls)
        api_release(a);
}

static int open_trust(struct api *a, struct err *e)
{
    const struct trust_setup setup = { .control = a->control,
                                       .tokens = a->tokens,
                                       .bundle = a->config->trust.bundle,
                                       .failure = a->config->trust.failure,
                                       .mode = a->config->trust.mode,
                                       .self_approval = a->config->trust.self_approval,
                                       .silence_ns = a->config->trust.silence,
                                       .grace_ns = a->config->trust.grace };

    return trust_open(&setup, &a->trust, e);
}

void api_reload(struct api *a)
{
    (void)trust_reload(a->trust, NULL); /* which says what is wrong */
}

static size_t mcp_max(const struct config *c)
{
    return c->limits.body_bytes < MCP_IN_MAX ? (size_t)c->limits.body_bytes : MCP_IN_MAX;
}

int api_open(const struct api_setup *s, struct api **ret, struct err *e)
{
    struct http_config http = { .on_request = on_request };
    struct api *a = calloc(1, sizeof *a);
    int r;

    if (!a)
        abort();
    a->loop = s->loop;
    a->control = s->control;
    a->config = s->config;
    a->owner = s->owner;
    buf_init(&a->openapi, 4 << 20);
    http.user = a;
    shares_open(a, &http);
    a->mcp_web = (struct mcp_web){ .server = &a->mcp,
                                   .max = mcp_max(s->config),
                                   .silence_ns = s->config->trust.silence };
    r = mcp_server_init(&a->mcp, s->loop, &mcp_offer, a, e);
    if (r >= 0)
        r = tokens_open(s->control, &a->tokens, e);
    if (r >= 0)
        r = open_trust(a, e);
    if (r >= 0)
        r = meters_register(a, e);
    if (r >= 0)
        r = e2b_open(a, e);
    if (r >= 0)
        r = http_server_new(s->loop, &http, &a->server, e);
    if (r < 0) {
        api_free(a);
        return r;
    }
    a->token_ends.ended = on_token_ended;
    tokens_watch(a->tokens, &a->token_ends);
    control_subscribe(s->control, &a->mcp_events, mcp_event);
    trust_set_runner(a->trust, &(struct trust_runner){ .run = approved_run, .user = a });
    *ret = a;
    return 0;
}

static void note_address(struct api *a, int fd)
{
    struct sockaddr_storage at = { 0 };
    socklen_t n = sizeof at;

    if (!a->tcp.ss_family && getsockname(fd, (struct sockaddr *)&at, &n) >= 0 &&
        (at.ss_family == AF_INET || at.ss_family == AF_INET6))
        a->tcp = at;
}

int api_listen(struct api *a, int fd, struct err *e)
{
    note_address(a, fd);
    return http_server_listen(a->server, fd, e);
}

static int serve_tls(void *user, int fd, int net, struct err *e)
{
    return http_server_adopt_for(((struct api *)user)->server, fd, net, e);
}

int api_listen_tls(struct api *a, int fd, struct str chain, struct str key, struct err *e)
{
    struct tls_door_setup s = { .loop = a->loop,
                                .fd = fd,
                                .connections = shares_of_tls(a->config),
                                .strangers = shares_of_strangers(a->config),
                                .serve = serve_tls,
                                .user = a };
    int r = crypto_tls_identity_new(chain, key, &s.identity, e);

    if (r < 0) {
        close(fd);
        return err_wrap(e, r, "domain");
    }
    return tls_door_open(&s, &a->tls, e);
}

int api_renew_tls(struct api *a, struct str chain, struct str key, struct err *e)
{
    struct crypto_tls_identity *identity;
    int r = crypto_tls_identity_new(chain, key, &identity, e);

    if (r >= 0)
        tls_door_renew(a->tls, identity);
    return r;
}

static void stopped(struct http_server *server, void *user)
{
    struct api *a = user;
    void (*on_closed)(void *) = a->on_closed;
    void *whose = a->user;

    (void)server;
    api_free(a);
    on_closed(whose);
}

/* Whoever only listens would listen until the deadline. Programs in the foreground may still end.
 */
static void hang_up_on_listeners(struct api *a)
{
    struct link *next;

    for (struct link *m = list_first(&a->listening); m; m = next) {
        struct call *c = container_of(m, struct call, listening);

        next = list_after(&a->listening, m);
        if (!c->x || (c->route->method != H1_GET && !c->route->face))
            continue;
        call_ref(c);
        http_cut(call_take_exchange(c));
        if (c->on_gone)
            c->on_gone(c);
        call_unref(c);
    }
}

void api_close(struct api *a, int64_t deadline, void (*on_closed)(void *user), void *user)
{
    a->on_closed = on_closed;
    a->user = user;
    e2b_close(a);
    tls_door_shut(a->tls);
    hang_up_on_listeners(a);
    mcp_server_done(&a->mcp);
    mcp_web_close(&a->mcp_web);
    http_server_stop(a->server, deadline, stopped);
}
