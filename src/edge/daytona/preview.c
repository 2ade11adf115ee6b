/* SPDX-License-Identifier: Apache-2.0 */
/* Previews: servers in sandboxes at /daytona/preview/ID/PORT, for callers with the sandbox's port
 * token or a link that was signed for that port. */
#include "edge/daytona/internal.h"

#include <stdio.h>

#include "edge/core/sandbox_token.h"
#include "edge/core/port_proxy.h"
#include "base/clock.h"
#include "lib/crypto/secret.h"

enum { SEGMENTS = 4, EXPIRES_USUAL_S = 60, EXPIRES_MAX_S = 86400, SIGNED_MAX = 160 };

#define AUTH_KEY "DAYTONA_SANDBOX_AUTH_KEY"

static bool read_preview_port(struct str text, uint16_t *ret)
{
    uint64_t n;

    if (!str_to_u64(text, &n) || n == 0 || n > UINT16_MAX)
        return false;
    *ret = (uint16_t)n;
    return true;
}

/* --- links --- */

enum { LINK_WHAT = ID_MAX + 64 };

static void name_link(const char *id, uint16_t port, int64_t until_s, char ret[static LINK_WHAT])
{
    snprintf(ret, LINK_WHAT, "preview:%s:%u:%lld", id, port, (long long)until_s);
}

/* The holder of a link "UNTIL.SIGNATURE"; NULL if it is invalid or expired. */
static const struct token_record *link_holder(const struct call *c, uint16_t port, struct str given)
{
    struct str until, signature = str_cut(given, '.', &until);
    char what[LINK_WHAT];
    int64_t seconds;

    if (!signature.p || !str_to_i64(until, &seconds) || seconds < clock_wall() / NS_PER_S)
        return NULL;
    name_link(sandbox_view(c->sandbox).record->id, port, seconds, what);
    return sandbox_token_holder(c->api, what, signature);
}

/* --- authentication --- */

static const struct token_record *token_holder(struct call *c)
{
    struct str given = call_header(c, "X-Daytona-Preview-Token");

    if (!given.p && url_query(c->query, STR(AUTH_KEY), &c->arena, &given, NULL) < 0)
        return NULL;
    return sandbox_traffic_holder(c->api, sandbox_view(c->sandbox).record->id, given);
}

/* The path segment of the port is "PORT" or "PORT~LINK". */
bool preview_authenticate(struct call *c)
{
    struct str number, link = str_cut(c->params[1], '~', &number);
    const struct token_record *holder;
    uint16_t port;

    if (!read_preview_port(number, &port)) {
        call_fail_with(c, 400, "invalid", "port: must be a number from 1 to 65535");
        return false;
    }
    holder = !daytona_find_usable(c) ? NULL : link.p ? link_holder(c, port, link) : token_holder(c);
    if (holder) {
        c->params[1] = number;
        return sandbox_token_enter(c, holder);
    }
    /* Without a token, the answer does not reveal whether the sandbox exists. */
    return call_refuse(c, "send X-Daytona-Preview-Token with the token from getPreviewLink(), or "
                          "use a link that has not expired");
}

/* --- forwarding --- */

static void add_forwarded_query(struct buf *out, struct str query)
{
    struct url_pair p;
    char sign_ = '?';

    while (url_next(&query, &p)) {
        if (str_eq(p.name, STR(AUTH_KEY)))
            continue;
        buf_add_c(out, sign_);
        buf_add(out, p.name);
        if (p.value.p) {
            buf_add_c(out, '=');
            buf_add(out, p.value);
        }
        sign_ = '&';
    }
}

/* The target for the server in the sandbox: the path after the port, without the token in the
 * query. */
static struct str target_of(struct call *c)
{
    struct buf text AUTO(buf_done) = BUF_INIT(H1_HEAD_MAX);
    struct str path = url_split(http_request(c->x)->path).path;
    const char *p;

    for (unsigned i = 0; i <= SEGMENTS; i++) {
        size_t n = i ? str_find((struct str){ path.p + 1, path.n - 1 }, '/') + 1 : 0;

        path = (struct str){ path.p + n, path.n - n };
        if (!path.n)
            break;
    }
    buf_add(&text, path.n ? path : STR("/"));
    add_forwarded_query(&text, c->query);
    p = arena_dup(&c->own, buf_str(&text));
    return (struct str){ p ? p : "/", p ? text.n : 1 };
}

static void on_preview_port_closed(struct call *c, uint16_t port, const struct err *e)
{
    call_fail_with(c, 502, "upstream", "nothing listens on port %u in the sandbox", port);
}

/* The common path prefix of all previews of the sandbox. */
static struct str prefix_of(struct call *c)
{
    enum { PREFIX = sizeof DAYTONA + ID_MAX + 16 };
    char *text = call_alloc(c, 1, PREFIX);

    snprintf(text, PREFIX, DAYTONA "/preview/%s/", sandbox_view(c->sandbox).record->id);
    return str_from(text);
}

/* Answers CORS preflight requests. A preview's page has the origin "null" (CSP sandbox), so all of
 * its requests are cross-origin and a browser may send a preflight first. The link or token is in
 * the address: no cookie grants access. */
static bool answer_preflight(struct call *c)
{
    struct str headers = call_header(c, "Access-Control-Request-Headers");
    struct h1_field fields[4] = {
        { STR("Access-Control-Allow-Origin"), STR("null") },
        { STR("Access-Control-Allow-Methods"),
          STR("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS") },
        { STR("Access-Control-Max-Age"), STR("600") },
        { STR("Access-Control-Allow-Headers"), headers },
    };

    if (http_request(c->x)->method != H1_OPTIONS ||
        !str_eq(call_header(c, "Origin"), STR("null")) ||
        !call_header(c, "Access-Control-Request-Method").p)
        return false;
    (void)http_respond(call_take_exchange(c), 204, fields, headers.n ? 4 : 3, STR(""), NULL);
    return true;
}

static void proxy_preview(struct call *c)
{
    uint16_t port = 0;

    (void)read_preview_port(c->params[1], &port);
    if (!answer_preflight(c))
        port_proxy_to(c, port, prefix_of(c), target_of(c), on_preview_port_closed);
}

const struct route preview_any_port = { .handle = proxy_preview,
                                        .path = DAYTONA_ANY_PORT,
                                        .verb = VERB_EXEC,
                                        .flags = ROUTE_STREAM | ROUTE_LONG | ROUTE_NULL_ORIGIN };

/* The first SEGMENTS segments of a path, or all of it if it has fewer. */
static struct str head_of(struct str path)
{
    size_t n = 0;

    for (unsigned i = 0; i < SEGMENTS && n < path.n; i++)
        n += 1 + str_find((struct str){ path.p + n + 1, path.n - n - 1 }, '/');
    return (struct str){ path.p, n };
}

/* Decodes only the segments up to the port: the rest belongs to the server in the sandbox. */
bool preview_claims(const struct dialect_request *q, struct arena *a, struct dialect_match *ret)
{
    struct url_path p;

    if (!str_starts(q->path, STR(DAYTONA "/preview/")) ||
        url_path(head_of(q->path), a, &p, NULL) < 0 || p.n < SEGMENTS)
        return false;
    ret->params[0] = p.segments[2];
    ret->params[1] = p.segments[3];
    return true;
}

/* --- preview addresses --- */

struct preview_address {
    const struct call *call;
    uint16_t port;
    int64_t until_s; /* 0: authenticated by token */
};

static void write_preview_address(struct json_writer *w, const void *what)
{
    const struct preview_address *a = what;
    const struct call *c = a->call;
    const char *id = sandbox_view(c->sandbox).record->id;
    char base[128] = "", token[SANDBOX_TOKEN_TEXT], name[LINK_WHAT], link[SIGNED_MAX] = "",
         url[512];

    (void)daytona_base_url(c, base, sizeof base);
    if (a->until_s) {
        name_link(id, a->port, a->until_s, name);
        sandbox_token_make(c->api, name, c->caller.actor.id, token);
        snprintf(link, sizeof link, "%lld.%s", (long long)a->until_s, token);
    } else {
        sandbox_traffic_token(c, id, token);
    }
    snprintf(url, sizeof url, "%s" DAYTONA "/preview/%s/%u%s%s", base, id, a->port,
             link[0] ? "~" : "", link);
    json_begin_object(w);
    json_field_text(w, "sandboxId", id);
    json_field_int(w, "port", a->port);
    json_field_text(w, "url", url);
    json_field_text(w, "token", link[0] ? link : token);
    json_end_object(w);
}

static void answer_address(struct call *c, int64_t until_s)
{
    struct preview_address a = { .call = c, .until_s = until_s };

    if (read_preview_port(c->params[1], &a.port))
        call_answer(c, 200, write_preview_address, &a);
    else
        call_fail_with(c, 400, "invalid", "port: must be a number from 1 to 65535");
}

static void show_preview_url(struct call *c)
{
    answer_address(c, 0);
}

static void show_signed_url(struct call *c)
{
    uint64_t seconds = EXPIRES_USUAL_S;

    if (call_query_number(c, "expiresInSeconds", EXPIRES_MAX_S, &seconds) >= 0)
        answer_address(c, clock_wall() / NS_PER_S + (int64_t)(seconds ? seconds : EXPIRES_USUAL_S));
}

static void fail_link_expiry(struct call *c)
{
    call_fail_with(c, 501, "unsupported",
                   "revoking links is not supported; they expire by themselves");
}

#define PORTS DAYTONA_ONE "/ports/{port}"

const struct route routes_daytona_preview[] = {
    { H1_GET, VERB_EXEC, PORTS "/preview-url", DAYTONA_LIVE, .handle = show_preview_url },
    { H1_GET, VERB_EXEC, PORTS "/signed-preview-url", DAYTONA_LIVE, .handle = show_signed_url },
    { H1_POST, VERB_EXEC, PORTS "/signed-preview-url/{token}/expire", DAYTONA_LIVE,
      .handle = fail_link_expiry },
    { .path = NULL },
};
