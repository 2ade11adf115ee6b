/* Servers inside, at an address of ours: below /daytona/preview/ID/PORT, for who has the sandbox's
 * token for ports, or a link that was signed for that port. */
#include "api/daytona/preview.h"

#include <stdio.h>

#include "api/daytona/inside.h"
#include "api/e2b/inside.h"
#include "api/port_proxy.h"
#include "base/clock.h"
#include "crypto/secret.h"

enum { SEGMENTS = 4, EXPIRES_USUAL_S = 60, EXPIRES_MAX_S = 86400, SIGNED_MAX = 160 };

#define AUTH_KEY "DAYTONA_SANDBOX_AUTH_KEY"

static bool read_port(struct str text, uint16_t *ret)
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

/* "UNTIL.SIGNATURE"; NULL: it is not good. */
static const struct token_record *link_holder(const struct call *c, uint16_t port, struct str given)
{
    struct str until, signature = str_cut(given, '.', &until);
    char what[LINK_WHAT];
    int64_t seconds;

    if (!signature.p || !str_to_i64(until, &seconds) || seconds < clock_wall() / NS_PER_S)
        return NULL;
    name_link(sandbox_view(c->sandbox).record->id, port, seconds, what);
    return e2b_holder(c->api, what, signature);
}

/* --- who may --- */

static const struct token_record *token_holder(struct call *c)
{
    struct str given = call_header(c, "X-Daytona-Preview-Token");

    if (!given.p && url_query(c->query, STR(AUTH_KEY), &c->arena, &given, NULL) < 0)
        return NULL;
    return e2b_traffic_holder(c->api, sandbox_view(c->sandbox).record->id, given);
}

static bool find_box(struct call *c)
{
    static const struct caller anybody = { .admin = true }; /* the token says who may */

    return control_find_now(c->api->control, &anybody, c->params[0], &c->sandbox) &&
           sandbox_state_usable(sandbox_state(c->sandbox));
}

/* The port's segment is "PORT", or "PORT~LINK". */
bool preview_by_token(struct call *c)
{
    struct str number, link = str_cut(c->params[1], '~', &number);
    const struct token_record *holder;
    uint16_t port;

    if (!read_port(number, &port)) {
        call_fail_with(c, 400, "invalid", "a port is a number from 1 to 65535");
        return false;
    }
    holder = !find_box(c) ? NULL : link.p ? link_holder(c, port, link) : token_holder(c);
    if (holder) {
        c->params[1] = number;
        return e2b_enter(c, holder);
    }
    /* Whose id it is, and whether it is one, is nobody's business without a token. */
    call_fail_with(c, 401, "unauthenticated",
                   "send X-Daytona-Preview-Token, as getPreviewLink() told it, or follow a link "
                   "that is not over");
    return false;
}

/* --- the request's way --- */

static void add_query(struct buf *out, struct str query)
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

/* What the server inside is asked for: what stands behind the port, without our token. */
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
    add_query(&text, c->query);
    p = arena_dup(&c->own, buf_str(&text));
    return (struct str){ p ? p : "/", p ? text.n : 1 };
}

static void closed(struct call *c, uint16_t port, const struct err *e)
{
    char text[64];

    (void)e;
    snprintf(text, sizeof text, "nothing listens on port %u in the sandbox", port);
    call_fail_with(c, 502, "upstream", text);
}

/* The path that all previews of the sandbox have in common. */
static struct str prefix_of(struct call *c)
{
    char text[sizeof DAYTONA + ID_MAX + 16];
    const char *copy;

    snprintf(text, sizeof text, DAYTONA "/preview/%s/", sandbox_view(c->sandbox).record->id);
    copy = arena_dup(&c->own, str_from(text));
    if (!copy)
        abort(); /* it is short */
    return str_from(copy);
}

/* A preview's page has the origin "null" (CSP sandbox), so each of its requests is one of another
 * origin, and a browser may ask first. The link or token is in the address: no cookie opens it. */
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

static void pass_on(struct call *c)
{
    uint16_t port = 0;

    (void)read_port(c->params[1], &port);
    if (!answer_preflight(c))
        port_proxy_to(c, port, prefix_of(c), target_of(c), closed);
}

static const struct route any_port = { .handle = pass_on,
                                       .path = DAYTONA_ANY_PORT,
                                       .verb = VERB_EXEC,
                                       .flags = ROUTE_STREAM | ROUTE_LONG | ROUTE_NULL_ORIGIN,
                                       .face = &daytona_preview_face };

/* The first segments of a path; all of it where it has no more. */
static struct str head_of(struct str path)
{
    size_t n = 0;

    for (unsigned i = 0; i < SEGMENTS && n < path.n; i++)
        n += 1 + str_find((struct str){ path.p + n + 1, path.n - n - 1 }, '/');
    return (struct str){ path.p, n };
}

/* What stands behind the port is the server's inside, however it is spelled. */
bool preview_route(struct call *c, struct str path)
{
    struct url_path p;

    if (!str_starts(path, STR(DAYTONA "/preview/")) ||
        url_path(head_of(path), &c->arena, &p, NULL) < 0 || p.n < SEGMENTS)
        return false;
    c->params[0] = p.segments[2];
    c->params[1] = p.segments[3];
    c->route = &any_port;
    return true;
}

/* --- addresses --- */

struct address {
    const struct call *call;
    uint16_t port;
    int64_t until_s; /* 0: by token */
};

static void write_address(struct json_writer *w, const void *what)
{
    const struct address *a = what;
    const struct call *c = a->call;
    const char *id = sandbox_view(c->sandbox).record->id;
    char base[128] = "", token[E2B_HELD_TEXT], name[LINK_WHAT], link[SIGNED_MAX] = "", url[512];

    (void)daytona_base(c, base, sizeof base);
    if (a->until_s) {
        name_link(id, a->port, a->until_s, name);
        e2b_held_token(c->api, name, c->caller.actor.id, token);
        snprintf(link, sizeof link, "%lld.%s", (long long)a->until_s, token);
    } else {
        e2b_traffic_token(c, id, token);
    }
    snprintf(url, sizeof url, "%s" DAYTONA "/preview/%s/%u%s%s", base, id, a->port,
             link[0] ? "~" : "", link);
    json_begin_object(w);
    put(w, "sandboxId", id);
    put_number(w, "port", a->port);
    put(w, "url", url);
    put(w, "token", link[0] ? link : token);
    json_end_object(w);
}

static void answer_address(struct call *c, int64_t until_s)
{
    struct address a = { .call = c, .until_s = until_s };

    if (read_port(c->params[1], &a.port))
        call_answer(c, 200, write_address, &a);
    else
        call_fail_with(c, 400, "invalid", "a port is a number from 1 to 65535");
}

static void preview_url(struct call *c)
{
    answer_address(c, 0);
}

static void signed_url(struct call *c)
{
    uint64_t seconds = EXPIRES_USUAL_S;

    if (call_query_number(c, "expiresInSeconds", EXPIRES_MAX_S, &seconds) >= 0)
        answer_address(c, clock_wall() / NS_PER_S + (int64_t)(seconds ? seconds : EXPIRES_USUAL_S));
}

static void cannot_expire(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "a link is good until its time is over");
}

#define PORTS DAYTONA_ONE "/ports/{port}"

const struct route routes_daytona_preview[] = {
    { H1_GET, VERB_EXEC, PORTS "/preview-url", DAYTONA_LIVE, preview_url, .face = &daytona_face },
    { H1_GET, VERB_EXEC, PORTS "/signed-preview-url", DAYTONA_LIVE, signed_url,
      .face = &daytona_face },
    { H1_POST, VERB_EXEC, PORTS "/signed-preview-url/{token}/expire", DAYTONA_LIVE, cannot_expire,
      .face = &daytona_face },
    { .path = NULL },
};
