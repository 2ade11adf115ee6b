/* SPDX-License-Identifier: Apache-2.0 */
#include "control/image/image_registry.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/secret.h"
#include "lib/json/reader.h"
#include "lib/net/address.h"

enum {
    HOPS_MAX = 5,
    TRIES_MAX = 5,
    TOKEN_MAX = 64 << 10,
    CREDENTIALS_MAX = 4096,
    HTTPS = 443,
    HTTP = 80,
};
#define GET_RETRY_NS (500 * NS_PER_MS)
#define DOCUMENT_NS  (60 * NS_PER_S)
#define BLOB_NS      (24 * 3600 * NS_PER_S)
#define SILENCE_NS   (60 * NS_PER_S)

/* --- allowed destinations --- */

struct registry_location {
    struct host host;
    uint16_t port;
    bool https;
};

/* The configuration's entry for a host and port. */
static const struct config_registry *find_registry_entry(const struct config *c,
                                                         const struct registry_location *p)
{
    const struct config_registry *all = c->images.registries.p;

    for (size_t i = 0; i < c->images.registries.n; i++) {
        struct host h;
        uint16_t port;

        if (authority_parse(str_from(all[i].host), all[i].http ? HTTP : HTTPS, &h, &port, NULL) >=
                0 &&
            port == p->port && strcmp(h.name, p->host.name) == 0)
            return &all[i];
    }
    return NULL;
}

static int parse_location(const char *url, struct registry_location *ret, struct err *e)
{
    struct str s = str_from(url), authority;

    ret->https = str_starts(s, STR("https://"));
    if (!ret->https && !str_starts(s, STR("http://")))
        return err_set(e, ERR_DENIED,
                       "the registry points to a URL that is neither http nor https");
    s = (struct str){ s.p + (ret->https ? 8 : 7), s.n - (ret->https ? 8 : 7) };
    authority = (struct str){ s.p, strcspn(s.p, "/?#") };
    return authority_parse(authority, ret->https ? HTTPS : HTTP, &ret->host, &ret->port, e);
}

static const char *get_scheme(const struct registry *r, const char *host)
{
    const struct config_registry *all = r->config->images.registries.p;

    for (size_t i = 0; i < r->config->images.registries.n; i++)
        if (strcmp(all[i].host, host) == 0 && all[i].http)
            return "http";
    return "https";
}

static bool is_registry_origin(const struct registry *r, const char *url)
{
    char own[OCI_HOST_MAX + 16];
    struct registry_location a, b;

    snprintf(own, sizeof own, "%s://%s/", get_scheme(r, r->host), r->host);
    return parse_location(own, &a, NULL) >= 0 && parse_location(url, &b, NULL) >= 0 &&
           a.https == b.https && a.port == b.port && strcmp(a.host.name, b.host.name) == 0;
}

/* --- credentials --- */

static void wipe_secret(struct buf *b)
{
    if (b->p)
        crypto_wipe(b->p, b->n);
    buf_done(b);
}

static int set_basic_auth(struct registry *r, struct str credentials, struct err *e)
{
    if (str_find(credentials, ':') == credentials.n || credentials.n > CREDENTIALS_MAX)
        return err_set(e, ERR_INVALID, "the registry's credentials must be USER:PASSWORD");
    if (buf_add(&r->basic, STR("Basic ")) < 0 || crypto_base64(credentials, &r->basic) < 0)
        return err_set(e, ERR_TOO_BIG, "the registry's credentials have more than %d bytes",
                       CREDENTIALS_MAX);
    return 0;
}

/* The configured file for the name in the reference, else for the registry's host. */
static const char *find_credentials_file(const struct registry *r, const char *called)
{
    const char *const hosts[] = { called, r->host };

    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        const struct config_registry *known;
        char url[OCI_HOST_MAX + 16];
        struct registry_location p;

        snprintf(url, sizeof url, "%s://%s/", get_scheme(r, hosts[i]), hosts[i]);
        if (parse_location(url, &p, NULL) >= 0 && (known = find_registry_entry(r->config, &p)) &&
            known->creds_file)
            return known->creds_file;
    }
    return NULL;
}

static int read_credentials_file(struct registry *r, const char *path, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char text[CREDENTIALS_MAX];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    int got;

    if (n < 0)
        return err_sys(e, "reading the credentials for %s in %s", r->host, path);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    got = set_basic_auth(r, (struct str){ text, (size_t)n }, e);
    crypto_wipe(text, sizeof text);
    return err_wrap(e, got, "%s", path);
}

int registry_init(struct registry *r, struct loop *loop, struct fetcher_share *requests,
                  const struct config *config, const struct oci_reference *of,
                  struct str credentials, struct err *e)
{
    struct oci_place place = { 0 };
    int got = oci_reference_place(of, &place, e);
    const char *file;

    *r = (struct registry){ .loop = loop, .requests = requests, .config = config };
    buf_init(&r->basic, 2 * CREDENTIALS_MAX);
    buf_init(&r->bearer, TOKEN_MAX);
    if (got < 0)
        return got;
    snprintf(r->host, sizeof r->host, "%s", place.host);
    snprintf(r->repository, sizeof r->repository, "%s", place.path);
    if (credentials.n)
        return set_basic_auth(r, credentials, e);
    file = find_credentials_file(r, of->host);
    return file ? read_credentials_file(r, file, e) : 0;
}

void registry_done(struct registry *r)
{
    wipe_secret(&r->basic);
    wipe_secret(&r->bearer);
}

/* --- requests --- */

static void on_registry_answer(struct fetch_request *q, const struct fetch_answer *a);
static void send_get(struct registry_get *g);

static void finish_get(struct registry_get *g, int r, const struct err *e,
                       const struct fetch_answer *a)
{
    loop_timer_stop(&g->retry_);
    g->done(g, r, e, a);
}

static void on_get_failed(struct loop_timer *t)
{
    struct registry_get *g = container_of(t, struct registry_get, retry_);

    finish_get(g, -(int)g->err_.code, &g->err_, NULL);
}

static void on_get_retry(struct loop_timer *t)
{
    send_get(container_of(t, struct registry_get, retry_));
}

static void set_registry_url(struct registry_get *g)
{
    const struct registry *r = g->registry;

    snprintf(g->url_, sizeof g->url_, "%s://%s/v2/%s/%s", get_scheme(r, r->host), r->host,
             r->repository, g->what);
    g->hops_ = 0;
}

/* Retries a transient error, with backoff; the count restarts when bytes have arrived. */
static void retry_get(struct registry_get *g, const struct err *e)
{
    if (g->from > g->from_before_)
        g->tries_ = 0;
    g->from_before_ = g->from;
    if (++g->tries_ >= TRIES_MAX) {
        finish_get(g, -(int)e->code, e, NULL);
        return;
    }
    g->tried_ = false; /* a token may expire as often */
    set_registry_url(g);
    loop_timer_start(g->registry->loop, &g->retry_,
                     clock_mono() + (GET_RETRY_NS << (g->tries_ - 1)), on_get_retry, NULL);
}

/* True: no answer came, so that it is retried, or has failed. */
static bool end_failed_get(struct registry_get *g, const struct fetch_answer *a)
{
    if (a->err.code == ERR_UPSTREAM || a->err.code == ERR_TIMEOUT)
        retry_get(g, &a->err);
    else if (a->err.code)
        finish_get(g, -(int)a->err.code, &a->err, NULL);
    return a->err.code;
}

static int on_registry_piece(struct fetch_request *q, const struct fetch_answer *head,
                             struct str piece, struct err *e)
{
    struct registry_get *g = container_of(q, struct registry_get, request_);
    bool restart = g->fresh_ && head->status == 200;

    g->fresh_ = false;
    return g->piece(g, restart, piece, e);
}

static size_t fill_registry_headers(struct registry_get *g)
{
    const struct registry *r = g->registry;
    const struct buf *secret = r->bearer.n ? &r->bearer : &r->basic;
    size_t n = 0;

    if (g->accept)
        g->headers_[n++] = (struct fetch_header){ STR("Accept"), str_from(g->accept) };
    if (g->from) {
        snprintf(g->range_, sizeof g->range_, "bytes=%llu-", (unsigned long long)g->from);
        g->headers_[n++] = (struct fetch_header){ STR("Range"), str_from(g->range_) };
    }
    if (secret->n && (r->bearer.n || g->let_in_) && is_registry_origin(r, g->url_))
        g->headers_[n++] = (struct fetch_header){ STR("Authorization"), buf_str(secret) };
    return n;
}

/* Messages omit paths and queries, which may hold secrets. */
static int check_get_url(const struct registry_get *g, struct err *e)
{
    const struct config_registry *known;
    struct registry_location p;
    int r = parse_location(g->url_, &p, e);

    if (r < 0)
        return r;
    known = find_registry_entry(g->registry->config, &p);
    if (!p.https && !(known && known->http))
        return err_set(
            e, ERR_DENIED,
            "%s:%u would be reached by unencrypted http, which images.registries does not allow",
            p.host.name, (unsigned)p.port);
    if (port_control_plane(p.port) || host_is_metadata(&p.host))
        return err_set(e, ERR_DENIED,
                       "%s:%u is a metadata service or the port of a control plane, which images "
                       "cannot come from",
                       p.host.name, (unsigned)p.port);
    return 0;
}

/* Non-public addresses and certificates of the URL's host: the fetch process connects to no others.
 * A redirect comes back here with its own URL. */
static void declare_host(struct registry_get *g)
{
    const struct config_registry *known;
    struct registry_location p;

    g->request_.reach = FETCH_REACH_PUBLIC;
    g->request_.addresses = g->addresses_;
    g->request_.address_count = 0;
    if (parse_location(g->url_, &p, NULL) < 0 ||
        !(known = find_registry_entry(g->registry->config, &p)))
        return;
    g->request_.ca_file = known->ca_file;
    for (size_t i = 0; i < known->addresses.n && g->request_.address_count < FETCH_ADDRESSES_MAX;
         i++)
        if (address_parse(str_from(known->addresses.p[i]),
                          &g->addresses_[g->request_.address_count]))
            g->request_.address_count++;
}

static void send_get(struct registry_get *g)
{
    int r = check_get_url(g, &g->err_);

    g->request_ = (struct fetch_request){ .method = FETCH_GET,
                                          .url = g->url_,
                                          .headers = g->headers_,
                                          .header_count = fill_registry_headers(g),
                                          .timeout = g->piece ? BLOB_NS : DOCUMENT_NS,
                                          .silence = g->piece ? SILENCE_NS : 0,
                                          .max_body = g->max_body,
                                          .piece = g->piece ? on_registry_piece : NULL,
                                          .done = on_registry_answer };
    declare_host(g);
    g->fresh_ = true;
    r = r < 0 ? r : fetcher_start(g->registry->requests, &g->request_, &g->err_);
    if (r < 0) /* `done` is called from the loop */
        loop_timer_start(g->registry->loop, &g->retry_, clock_mono(), on_get_failed, NULL);
}

/* --- tokens --- */

static int parse_bearer_token(struct registry *r, struct str body, struct err *e)
{
    const struct json_limits limits = { .bytes = TOKEN_MAX, .depth = 8 };
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * TOKEN_MAX);
    const struct json *v, *token;
    int got = json_read(body, limits, &a, &v, e);

    if (got < 0)
        return err_wrap(e, got, "the registry's token");
    token = json_get(v, STR("token"));
    if (!token || token->type != JSON_STR)
        token = json_get(v, STR("access_token"));
    if (!token || token->type != JSON_STR || token->s.n == 0)
        return err_set(e, ERR_UPSTREAM, "the registry's token server returned no token");
    wipe_secret(&r->bearer);
    if (buf_add(&r->bearer, STR("Bearer ")) < 0 || buf_add(&r->bearer, token->s) < 0)
        return err_set(e, ERR_TOO_BIG,
                       "the registry's token has %zu bytes, more than the allowed %zu", token->s.n,
                       r->bearer.max);
    return 0;
}

static void on_bearer_token(struct fetch_request *q, const struct fetch_answer *a)
{
    struct registry_get *g = container_of(q, struct registry_get, request_);
    struct err e;
    int r;

    if (end_failed_get(g, a))
        return;
    if (a->status == 200)
        r = parse_bearer_token(g->registry, a->body, &e);
    else
        r = err_set(&e, a->status == 401 || a->status == 403 ? ERR_DENIED : ERR_UPSTREAM,
                    "the token server of %s answers %d%s", g->registry->host, a->status,
                    g->registry->basic.n ? "" : "; it may require credentials");
    if (r < 0) {
        finish_get(g, r, &e, NULL);
        return;
    }
    set_registry_url(g);
    send_get(g);
}

static int add_query_parameter(struct buf *url, const char *name, const char *value)
{
    int r = buf_addf(url, "%c%s=", strchr(url->p, '?') ? '&' : '?', name);

    for (const char *p = value; *p && r >= 0; p++)
        r = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                    strchr("-._~:/", *p)
                ? buf_add_c(url, *p)
                : buf_addf(url, "%%%02X", (unsigned)(unsigned char)*p);
    return r;
}

/* Requests the scope for reading this repository only; ignores the scope of the challenge. */
static int set_token_url(struct registry_get *g, struct err *e)
{
    AUTO(buf_done) struct buf url = BUF_INIT(FETCH_URL_MAX);
    char scope[OCI_PATH_MAX + 32];
    int r = buf_add(&url, str_from(g->challenge_.realm));

    snprintf(scope, sizeof scope, "repository:%s:pull", g->registry->repository);
    if (r >= 0 && g->challenge_.service[0])
        r = add_query_parameter(&url, "service", g->challenge_.service);
    r = r < 0 ? r : add_query_parameter(&url, "scope", scope);
    if (r < 0 || strchr(g->challenge_.realm, '#') ||
        !str_copy(buf_str(&url), g->url_, sizeof g->url_))
        return err_set(e, ERR_UPSTREAM, "the registry's challenge has no valid URL for tokens");
    return check_get_url(g, e);
}

static void request_bearer_token(struct registry_get *g)
{
    const struct registry *reg = g->registry;
    int r = set_token_url(g, &g->err_);

    g->headers_[0] = (struct fetch_header){ STR("Authorization"), buf_str(&reg->basic) };
    g->request_ = (struct fetch_request){ .method = FETCH_GET,
                                          .url = g->url_,
                                          .headers = g->headers_,
                                          .header_count = reg->basic.n ? 1 : 0,
                                          .timeout = DOCUMENT_NS,
                                          .max_body = TOKEN_MAX,
                                          .done = on_bearer_token };
    declare_host(g);
    r = r < 0 ? r : fetcher_start(reg->requests, &g->request_, &g->err_);
    if (r < 0)
        finish_get(g, r, &g->err_, NULL);
}

/* --- answers --- */

static void handle_unauthorized(struct registry_get *g, const struct fetch_answer *a)
{
    struct registry *reg = g->registry;
    struct err e;
    int r = 0;

    if (!is_registry_origin(reg, g->url_) || g->tried_)
        r = err_set(&e, ERR_DENIED, "%s denies access to %s%s", reg->host, reg->repository,
                    reg->basic.n ? " with these credentials" : "; it may require credentials");
    if (r >= 0)
        r = oci_challenge_parse(fetch_answer_header(a, "WWW-Authenticate"), &g->challenge_, &e);
    if (r >= 0 && !g->challenge_.bearer && !reg->basic.n)
        r = err_set(&e, ERR_DENIED, "%s requires credentials for %s", reg->host, reg->repository);
    if (r < 0) {
        finish_get(g, r, &e, NULL);
        return;
    }
    wipe_secret(&reg->bearer);
    g->tried_ = g->let_in_ = true;
    if (g->challenge_.bearer)
        request_bearer_token(g);
    else
        send_get(g);
}

static void follow_redirect(struct registry_get *g, const struct fetch_answer *a)
{
    struct str to = fetch_answer_redirect(a);
    struct err e;
    int r = 0;

    if (++g->hops_ > HOPS_MAX)
        r = err_set(&e, ERR_UPSTREAM, "%s redirects more than %d times", g->registry->host,
                    HOPS_MAX);
    else if (!to.p || !str_copy(to, g->url_, sizeof g->url_))
        r = err_set(&e, ERR_UPSTREAM, "%s redirects to no valid URL", g->registry->host);
    if (r < 0)
        finish_get(g, r, &e, NULL);
    else
        send_get(g);
}

static int set_status_error(const struct registry_get *g, int status, struct err *e)
{
    const struct registry *r = g->registry;

    if (status == 404)
        return err_set(e, ERR_NOT_FOUND, "%s has no %s of %s", r->host, g->what, r->repository);
    if (status == 403)
        return err_set(e, ERR_DENIED, "%s denies access to %s", r->host, r->repository);
    return err_set(e, ERR_UPSTREAM, "%s answers %d for %s of %s", r->host, status, g->what,
                   r->repository);
}

/* The registry itself, not a redirect of it, has an address that requests may not reach. */
static void fail_private_address(struct registry_get *g)
{
    struct err e;
    int r =
        err_set(&e, ERR_DENIED,
                "registry %s: its address is not public; if that is intended, an administrator "
                "must name the host and its addresses in images.registries of the configuration",
                g->registry->host);

    finish_get(g, r, &e, NULL);
}

static void on_registry_answer(struct fetch_request *q, const struct fetch_answer *a)
{
    struct registry_get *g = container_of(q, struct registry_get, request_);
    struct err e;
    int r;

    if (a->err.code == ERR_DENIED && is_registry_origin(g->registry, g->url_)) {
        fail_private_address(g);
        return;
    }
    if (end_failed_get(g, a))
        return;
    if (a->status == 200 || (a->status == 206 && g->from)) {
        finish_get(g, 0, NULL, a);
        return;
    }
    if (a->status == 401) {
        handle_unauthorized(g, a);
        return;
    }
    if (a->status >= 300 && a->status < 400 && a->status != 304) {
        follow_redirect(g, a);
        return;
    }
    /* The partial blob is not a prefix of the registry's. */
    if (a->status == 416 && g->from && g->piece) {
        g->from = 0;
        retry_get(
            g, &(struct err){ .code = ERR_UPSTREAM,
                              .msg = "the registry's blob is shorter than the partial download" });
        return;
    }
    r = set_status_error(g, a->status, &e);
    if (a->status == 429 || a->status == 408 || a->status >= 500)
        retry_get(g, &e);
    else
        finish_get(g, r, &e, NULL);
}

void registry_start(struct registry_get *g)
{
    g->tries_ = 0;
    g->tried_ = g->let_in_ = false;
    g->from_before_ = g->from;
    set_registry_url(g);
    send_get(g);
}

void registry_cancel(struct registry_get *g)
{
    if (!g->registry)
        return;
    loop_timer_stop(&g->retry_);
    fetcher_cancel(&g->request_);
}
