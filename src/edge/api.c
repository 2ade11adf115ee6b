/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/api.h"

#include "edge/core/built.h"
#include "edge/core/domain.h"
#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "edge/tools/approved_calls.h"
#include "edge/core/replay.h"
#include "edge/core/sandbox_token.h"
#include "edge/core/shares.h"
#include "edge/core/ssh_supply.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "control/owner/tokens.h"
#include "lib/json/reader.h"
#include "lib/tls/listener.h"
#include "trust/trust.h"

static void on_client_left(struct http_exchange *x)
{
    struct call *c = http_state(x);

    c->x = NULL;
    meters_ended(c, CALL_LEFT);
    if (c->on_gone)
        c->on_gone(c);
    call_unref(c);
}

static void on_call_sandbox_found(struct find_op *f, int r, const struct err *e)
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
        r = record_fail_ended(f->record, c->dialect->native ? ERR_CONFLICT : ERR_NOT_FOUND, &gone);
        e = &gone;
    }
    if (r < 0)
        call_fail(c, e);
    else
        guard_serve(c);
    call_unref(c);
}

/* Without waiting: by its id, or by its name unless a label takes precedence. */
static bool find_call_sandbox_now(struct call *c, struct sandbox **ret)
{
    struct control *control = c->api->control;

    return control_find_now(control, &c->caller, c->params[0], ret) ||
           (!c->dialect->label && control_find_named(control, &c->caller, c->params[0], ret));
}

static void dispatch_call(struct call *c)
{
    struct sandbox *s;

    if (!(c->route->flags & ROUTE_SANDBOX)) {
        guard_serve(c);
        return;
    }
    if (c->dialect->suffixed_ids)
        c->params[0] = id_cut_suffix("sbx_", c->params[0]);
    if (find_call_sandbox_now(c, &s)) {
        c->sandbox = s;
        sandbox_touch(s);
        guard_serve(c);
        return;
    }
    c->find = (struct find_op){ .caller = &c->caller,
                                .id = c->params[0],
                                .label = c->dialect->label,
                                .done = on_call_sandbox_found };
    /* Prefixes of ids are accepted for the command line only: programs choose names freely, which
     * could match a prefix. */
    c->find.may_be_short =
        c->dialect->native && str_eq(call_header(c, "Sandboxer-Ids"), STR("short"));
    call_ref(c);
    control_find(c->api->control, &c->find);
}

static void on_call_body(struct http_exchange *x, struct str body)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    struct call *c = http_state(x);
    struct err e;

    c->body = body;
    if ((c->route->flags & ROUTE_JSON) &&
        json_read(body.n ? body : STR("{}"), limits, &c->arena, &c->json, &e) < 0) {
        err_wrap(&e, -1, "the body");
        call_fail(c, &e);
    } else {
        dispatch_call(c);
    }
}

/* Unknown parameters are refused, so that the client notices the mistake. */
static bool check_query_parameters(struct call *c)
{
    struct str rest = c->query, name;
    struct url_pair p;
    struct err e;

    if (!c->dialect->native) /* clients of other vendors' APIs may send unknown parameters */
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

static bool find_call_route(struct call *c)
{
    const struct h1_request *q = http_request(c->x);
    struct url u = url_split(q->path);
    struct dialect_match found;
    struct err e;

    if (q->form != H1_ORIGIN)
        return call_fail_with(c, 400, "invalid",
                              "this server is not a proxy: send a path, not a URL");
    c->query = u.query;
    domain_find(c);
    if (dialect_match(&c->api->dialects, &(struct dialect_request){ q, u.path, c->port }, &c->arena,
                      &found, &e) < 0)
        return call_fail_with(c, 400, "invalid", "%s", e.msg);
    c->dialect = found.dialect;
    c->route = found.route;
    c->guard_row = found.guard;
    memcpy(c->params, found.params, sizeof c->params);
    if (!c->route && found.allowed)
        return call_fail_with(c, 405, "invalid",
                              "this path has other methods; GET /openapi.json lists them");
    return c->route || call_fail_with(c, 404, "not_found",
                                      "there is no such path; GET /openapi.json lists them all");
}

static size_t call_body_max(const struct call *c)
{
    uint64_t max = c->api->config->limits.body_bytes;
    bool content = c->route->flags & (ROUTE_TEXT | ROUTE_CONTENT);

    return !content && max > CALL_BODY_MAX ? CALL_BODY_MAX : (size_t)max;
}

static void on_request(struct http_exchange *x)
{
    struct call *c = new0(sizeof *c);

    c->api = http_user(x);
    c->api->calls++;
    c->loop = c->api->loop;
    c->began_ns = clock_mono();
    c->x = x;
    c->refs = 2; /* for the exchange and for this function */
    arena_init(&c->arena, CALL_ARENA_MAX);
    arena_init(&c->own, PTRDIFF_MAX);
    http_set_state(x, c);
    http_on_gone(x, on_client_left);
    if (find_call_route(c) && call_authenticate(c) && shares_admit(c) &&
        check_query_parameters(c)) {
        if (c->route->flags & (ROUTE_JSON | ROUTE_TEXT))
            http_collect(x, call_body_max(c), on_call_body);
        else
            dispatch_call(c);
    }
    call_unref(c);
}

/* Ends all connections of a token that ended, on every interface. */
static void on_token_ended(struct token_watcher *w, const struct token_record *r)
{
    struct api *a = container_of(w, struct api, token_ends);

    http_end_part(a->server, str_from(r->id), 401, STR(CALL_TOKEN_ENDED));
}

static void close_dialects(struct api *a)
{
    for (size_t i = 0; dialects[i]; i++)
        if (dialects[i]->close)
            dialects[i]->close(a);
}

static void api_free(struct api *a)
{
    token_watcher_stop(&a->token_ends);
    replays_close(a);
    if (a->server)
        http_server_free(a->server);
    close_dialects(a);
    built_close(a);
    ssh_supply_free(a->ssh);
    tls_listener_free(a->tls);
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
                                       .serves_tenants = config_serves_tenants(a->config),
                                       .silence_ns = a->config->trust.silence,
                                       .grace_ns = a->config->trust.grace };

    return trust_open(&setup, &a->trust, e);
}

void api_reload(struct api *a)
{
    (void)trust_reload(a->trust, NULL); /* logs the failure */
}

int api_open(const struct api_setup *s, struct api **ret, struct err *e)
{
    struct http_config http = { .on_request = on_request };
    struct api *a = new0(sizeof *a);
    uint64_t body_max = s->config->limits.body_bytes;
    int r;

    *a = (struct api){ .loop = s->loop,
                       .control = s->control,
                       .config = s->config,
                       .owner = s->owner,
                       .daemon = s->daemon };
    dialect_set_init(&a->dialects);
    buf_init(&a->openapi, 4 << 20);
    http.user = a;
    shares_open(a, &http);
    a->mcp_web = (struct mcp_web){ .server = &a->mcp,
                                   .max = body_max < MCP_IN_MAX ? (size_t)body_max : MCP_IN_MAX,
                                   .silence_ns = s->config->trust.silence };
    r = mcp_server_init(&a->mcp, s->loop, &mcp_offer, a, e);
    if (r >= 0)
        r = tokens_open(s->control, &a->tokens, e);
    if (r >= 0)
        r = open_trust(a, e);
    if (r >= 0)
        r = meters_register(a, e);
    if (r >= 0)
        r = sandbox_tokens_open(a, e);
    if (r >= 0)
        r = built_open(a, e);
    for (size_t i = 0; r >= 0 && dialects[i]; i++)
        if (dialects[i]->open)
            r = dialects[i]->open(a, e);
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

int api_listen(struct api *a, int fd, struct err *e)
{
    struct sockaddr_storage at = { 0 };
    socklen_t n = sizeof at;

    if (!a->tcp.ss_family && getsockname(fd, (struct sockaddr *)&at, &n) >= 0 &&
        (at.ss_family == AF_INET || at.ss_family == AF_INET6))
        a->tcp = at;
    return http_server_listen(a->server, fd, e);
}

static int on_tls_connection(void *user, int fd, int net, struct err *e)
{
    return http_server_adopt_for(((struct api *)user)->server, fd, net, e);
}

int api_listen_tls(struct api *a, int fd, struct str chain, struct str key, struct err *e)
{
    struct tls_listener_setup s = { .loop = a->loop,
                                    .fd = fd,
                                    .connections = shares_of_tls(a->config),
                                    .strangers = shares_of_strangers(a->config),
                                    .serve = on_tls_connection,
                                    .user = a };
    int r = crypto_tls_identity_new(chain, key, &s.identity, e);

    if (r < 0) {
        close(fd);
        return err_wrap(e, r, "domain");
    }
    return tls_listener_open(&s, &a->tls, e);
}

int api_renew_tls(struct api *a, struct str chain, struct str key, struct err *e)
{
    struct crypto_tls_identity *identity;
    int r = crypto_tls_identity_new(chain, key, &identity, e);

    if (r >= 0)
        tls_listener_renew(a->tls, identity);
    return r;
}

bool api_is_idle(const struct api *a)
{
    struct http_stats stats;

    http_server_stats(a->server, &stats);
    return stats.connections == 0 && a->calls == 0 && trust_is_idle(a->trust);
}

uint64_t api_requests(const struct api *a)
{
    struct http_stats stats;

    http_server_stats(a->server, &stats);
    return stats.requests;
}

static void on_api_server_stopped(struct http_server *server, void *user)
{
    struct api *a = user;
    void (*on_closed)(void *) = a->on_closed;
    void *whose = a->user;

    api_free(a);
    on_closed(whose);
}

/* Cuts streams, which would last until the deadline. Foreground programs may still finish. */
static void cut_listening_calls(struct api *a)
{
    LIST_EACH_SAFE (struct call, c, &a->listening, listening) {
        if (c->x && c->route->method != H1_GET && c->dialect->native)
            continue;
        call_ref(c);
        if (c->x) {
            http_cut(call_take_exchange(c));
            if (c->on_gone && !c->on_close)
                c->on_gone(c);
        }
        if (c->on_close)
            c->on_close(c);
        call_unref(c);
    }
}

void api_close(struct api *a, int64_t deadline, void (*on_closed)(void *user), void *user)
{
    a->on_closed = on_closed;
    a->user = user;
    close_dialects(a);
    tls_listener_shut(a->tls);
    cut_listening_calls(a);
    mcp_server_done(&a->mcp);
    mcp_web_close(&a->mcp_web);
    http_server_stop(a->server, deadline, on_api_server_stopped);
}
