/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/internal.h"
#include "edge/e2b/builds.h"
#include "edge/e2b/signature.h"
#include "edge/core/shares.h"

#include <stdio.h>

#include "edge/core/guard.h"
#include "edge/core/port_proxy.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/secret.h"
#include "lib/json/reader.h"

/* --- state --- */

struct e2b_state *e2b_state_of(struct api *a)
{
    return *dialect_state(&a->dialects, &e2b_dialect);
}

static int open_e2b(struct api *a, struct err *e)
{
    *dialect_state(&a->dialects, &e2b_dialect) = new0(sizeof(struct e2b_state));
    return builds_open(a, e);
}

static void close_e2b(struct api *a)
{
    if (!e2b_state_of(a))
        return;
    watchers_close(a);
    builds_close(a);
}

/* --- tokens --- */

void e2b_upload_token(const struct api *a, const char *build, const char *hash,
                      char ret[static SANDBOX_TOKEN_CODE_TEXT])
{
    char what[ID_MAX + BUILD_HASH_MAX + 16];

    snprintf(what, sizeof what, "upload:%s:%s", build, hash);
    sandbox_token_sign(a, what, ret);
}

/* Answers to approved requests are shown to the approver as well, so they contain no tokens. */
bool e2b_may_enter(const struct call *c)
{
    return caller_may(&c->caller, VERB_EXEC) && caller_may(&c->caller, VERB_FILES) && !c->approved;
}

/* --- the control plane --- */

static bool authenticate_e2b_key(struct call *c)
{
    struct str key = call_header(c, "X-API-KEY");

    if (!key.p)
        key = call_bearer(c);
    if (!key.p)
        return call_refuse(c, "send X-API-KEY; `sandboxer token create --e2b` makes one");
    return call_by_token(c, key) && guard_identify(c) && call_may_use(c);
}

/* --- files for a build: authenticated by a signed link --- */

/* The holder of the link acts for the owner of the build, for this file only. */
static bool authenticate_upload_link(struct call *c)
{
    static const struct caller anybody = { .admin = true };
    struct str token = { NULL, 0 }, id = { NULL, 0 };
    char right[SANDBOX_TOKEN_CODE_TEXT], hash[BUILD_HASH_MAX];
    const struct e2b_build *b;

    if (call_query(c, "token", &token) < 0 || call_query(c, "build", &id) < 0)
        return false;
    c->caller = anybody;
    b = build_find(c, c->params[0], id);
    c->caller = (struct caller){ 0 };
    if (!b || !str_copy(c->params[1], hash, sizeof hash))
        return call_refuse(c, "the upload link is invalid");
    e2b_upload_token(c->api, b->id, hash, right);
    if (!crypto_equal(str_from(right), token))
        return call_refuse(c, "the upload link is invalid");
    snprintf(c->caller.owner, sizeof c->caller.owner, "%s", b->owner);
    snprintf(c->caller.family, sizeof c->caller.family, "%s", b->family);
    c->caller.labels = b->labels;
    c->caller.by_token = true;
    return guard_identify(c);
}

/* --- envd --- */

/* Answers the call and returns false unless the sandbox runs; a paused one counts as absent. */
static bool is_sandbox_up(struct call *c, struct str id)
{
    if (c->sandbox && sandbox_state_usable(sandbox_state(c->sandbox)))
        return true;
    e2b_fail_gone(c, id);
    return false;
}

/* Finds the named sandbox, if it exists. `ret` is its id in our form, as in tokens. */
static void find_e2b_sandbox(struct call *c, struct str id, char ret[static ID_MAX])
{
    static const struct caller anybody = { .admin = true }; /* the token authorizes the caller */

    if (!id_read("sbx_", id, ret) && !str_copy(id, ret, ID_MAX))
        ret[0] = 0;
    control_find_now(c->api->control, &anybody, id, &c->sandbox);
}

/* The sandbox that the request names, in its Host or in a header. */
static struct str named_sandbox(const struct call *c)
{
    return c->port.id.p ? c->port.id : id_cut_suffix("sbx_", call_header(c, "E2b-Sandbox-Id"));
}

/* Checks the token before the sandbox's state: only holders of its tokens learn whether it
 * exists. */
static bool authenticate_sandbox_token(struct call *c)
{
    struct str given = call_header(c, "X-Access-Token"), name = named_sandbox(c);
    const struct token_record *holder;
    char id[ID_MAX];

    find_e2b_sandbox(c, name, id);
    holder = sandbox_token_holder(c->api, id, given);
    if (!holder)
        return call_refuse(
            c, given.p ? "the access token does not belong to this sandbox, or its API key is "
                         "expired or revoked; connect again"
                       : "send X-Access-Token with the token from the answer to create or connect");
    return is_sandbox_up(c, name) && sandbox_token_enter(c, holder);
}

/* --- ports: services that the daemon provides, and servers inside --- */

/* Answers like E2B's front, with the same bytes whether or not the sandbox exists. */
static bool refuse_port(struct call *c)
{
    return call_fail_with(c, 403, "denied",
                          "send E2B-Traffic-Access-Token or X-Access-Token with the token from the "
                          "answer to create or connect");
}

static bool authenticate_port_token(struct call *c)
{
    struct str name = named_sandbox(c);
    const struct token_record *holder;
    char id[ID_MAX];

    find_e2b_sandbox(c, name, id);
    holder = sandbox_traffic_holder(c->api, id, call_header(c, "E2B-Traffic-Access-Token"));
    if (!holder)
        holder = sandbox_token_holder(c->api, id, call_header(c, "X-Access-Token"));
    if (!holder)
        return refuse_port(c);
    return is_sandbox_up(c, name) && sandbox_token_enter(c, holder);
}

/* --- envd's files: also authenticated by a signed link --- */

struct signed_link_search {
    const struct api *api;
    const struct signed_link *link;
    struct str signature;
    struct sandbox *box;   /* being compared */
    struct sandbox *found; /* referenced */
    uint64_t tried;
};

static bool is_signed_by(void *user, const char *holder)
{
    const struct signed_link_search *k = user;
    char token[SANDBOX_TOKEN_TEXT];

    sandbox_token_make(k->api, sandbox_view(k->box).record->id, holder, token);
    return signature_good(k->link, str_from(token), k->signature);
}

static bool is_signed_by_maker(void *user, struct sandbox *s)
{
    struct signed_link_search *k = user;
    const char *maker = sandbox_view(s).record->maker;

    k->box = s;
    k->tried++;
    if (!maker[0] || !is_signed_by(k, maker))
        return false;
    k->found = sandbox_ref(s);
    return true;
}

/* Finds the signer of a link. Where all sandboxes share one address, a link names no sandbox: it
 * belongs to the sandbox whose maker's token signed it. The number of comparisons is bounded
 * (limits.link_checks), because the sender is not authenticated yet. A link that names an unknown
 * sandbox matches none. */
static const struct token_record *find_signed(struct call *c, const struct signed_link *l,
                                              struct str signature)
{
    struct signed_link_search k = {
        .api = c->api, .link = l, .signature = signature, .box = c->sandbox
    };

    if (!c->sandbox && !named_sandbox(c).p) {
        control_each(c->api->control, is_signed_by_maker, &k);
        k.box = c->sandbox = k.found;
        shares_count_link_checks(c, k.tried);
    }
    return c->sandbox ? sandbox_link_holder(c, is_signed_by, &k) : NULL;
}

static bool authenticate_signature(struct call *c)
{
    struct signed_link l = {
        .operation = http_request(c->x)->method == H1_POST ? "write" : "read",
    };
    struct str signature = { NULL, 0 };
    const struct token_record *holder;

    if (call_query(c, "signature", &signature) < 0 || call_query(c, "path", &l.path) < 0 ||
        call_query(c, "username", &l.user) < 0 ||
        call_query(c, "signature_expiration", &l.expires) < 0)
        return false;
    if (!signature.n)
        return call_refuse(c, "missing signature query parameter");
    if (!signature_well_formed(signature))
        return call_refuse(c, "invalid signature");
    if (signature_expired(&l, clock_wall()))
        return call_refuse(c, "signature is already expired");
    /* the maximum number of comparisons */
    if (!shares_may_check_link(c, named_sandbox(c).p ? 0 : control_count(c->api->control)))
        return false;
    holder = find_signed(c, &l, signature);
    if (!holder)
        return call_refuse(c, "invalid signature");
    return is_sandbox_up(c, str_from(sandbox_view(c->sandbox).record->id)) &&
           sandbox_token_enter(c, holder);
}

static bool authenticate_token_or_link(struct call *c)
{
    struct str name = named_sandbox(c);
    char id[ID_MAX];

    if (call_header(c, "X-Access-Token").p)
        return name.p ? authenticate_sandbox_token(c)
                      : call_refuse(c, "send E2b-Sandbox-Id with the access token");
    if (name.p)
        find_e2b_sandbox(c, name,
                         id); /* an unknown sandbox gets the same answers as an existing one */
    return authenticate_signature(c);
}

/* --- policy --- */

/* The message in the body of a streaming call, for the policy. */
static const struct json *read_stream_message(struct call *c)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    const struct json *v = NULL;
    struct str text;

    if (envelope_read(c->body, &text, NULL) < 0 || json_read(text, limits, &c->arena, &v, NULL) < 0)
        return NULL; /* the handler reports the error */
    return v;
}

/* --- ports of a sandbox --- */

/* The port that a request names; 0: an invalid one. */
static uint64_t requested_port(const struct h1_request *q, struct domain_port of_host)
{
    struct str text = h1_value(&q->head, STR("E2b-Sandbox-Port"));
    uint64_t port = E2B_ENVD_PORT;

    if (of_host.id.p)
        return of_host.port;
    if (text.p && (!str_to_u64(text, &port) || port > UINT16_MAX))
        port = 0;
    return port;
}

/* Compares the decoded first segment only. */
static bool is_below_v1(struct str path, struct arena *a)
{
    struct str first, name;

    str_cut((struct str){ path.p + 1, path.n - 1 }, '/', &first); /* path begins with '/' */
    return url_decode(first, false, a, &name, NULL) >= 0 && str_eq(name, STR("v1"));
}

/* Whether the request names a sandbox, in its Host or in a header, and which of its ports. */
static bool read_sandbox_port(const struct dialect_request *q, struct arena *a, uint64_t *ret)
{
    *ret = 0;
    if (!q->port.id.p &&
        (!h1_find(&q->head->head, STR("E2b-Sandbox-Id")) || is_below_v1(q->path, a)))
        return false;
    *ret = requested_port(q->head, q->port);
    return true;
}

static bool is_for_envd(const struct dialect_request *q, struct arena *a, struct dialect_match *ret)
{
    uint64_t port;

    return read_sandbox_port(q, a, &port) && port == E2B_ENVD_PORT;
}

static bool is_for_code(const struct dialect_request *q, struct arena *a, struct dialect_match *ret)
{
    uint64_t port;

    return read_sandbox_port(q, a, &port) && port == E2B_CODE_PORT;
}

/* Services that E2B runs inside sandboxes and the daemon provides. */
static bool is_for_service(const struct dialect_request *q, struct arena *a,
                           struct dialect_match *ret)
{
    return is_for_envd(q, a, ret) || is_for_code(q, a, ret);
}

static bool is_for_sandbox(const struct dialect_request *q, struct arena *a,
                           struct dialect_match *ret)
{
    uint64_t port;

    return read_sandbox_port(q, a, &port);
}

static void proxy_e2b_port(struct call *c)
{
    uint64_t port = requested_port(http_request(c->x), c->port);

    if (port)
        port_proxy(c, (uint16_t)port, e2b_fail_closed);
    else
        call_fail_with(c, 400, "invalid", "E2b-Sandbox-Port: must be a number from 1 to 65535");
}

/* --- routes --- */

static void fail_e2b_path(struct call *c)
{
    call_fail_with(c, 404, "not_found",
                   "this path of E2B's API is not supported; docs/e2b.md lists the supported ones");
}

static void fail_envd_path(struct call *c)
{
    struct url_path p;
    struct err e;

    if (url_path(url_split(http_request(c->x)->path).path, &c->arena, &p, &e) < 0)
        call_fail_with(c, 400, "invalid", "%s", e.msg);
    else
        fail_e2b_path(c);
}

static const struct route routes_envd[] = {
    { H1_GET, VERB_READ, "/health", ROUTE_QUIET, call_answer_empty, "Whether the sandbox is there",
      .status = 204 },
    { .path = NULL },
};

static const struct route unknown = { .handle = fail_e2b_path, .path = ROUTE_UNKNOWN },
                          unknown_inside = { .handle = fail_envd_path, .path = ROUTE_UNKNOWN },
                          any_port = { .handle = proxy_e2b_port,
                                       .path = ROUTE_ANY_PORT,
                                       .verb = VERB_EXEC,
                                       .flags = ROUTE_STREAM | ROUTE_LONG };

static const struct route *const plane_tables[] = { routes_e2b,           routes_e2b_create,
                                                    routes_e2b_list,      routes_e2b_logs,
                                                    routes_e2b_metrics,   routes_e2b_snapshots,
                                                    routes_e2b_templates, NULL },
                                 *const upload_tables[] = { routes_e2b_upload, NULL },
                                 *const files_tables[] = { routes_envd_files, NULL },
                                 *const envd_tables[] = { routes_envd, routes_envd_compose, NULL },
                                 *const rpc_tables[] = { routes_envd_process,
                                                         routes_envd_filesystem, routes_envd_watch,
                                                         NULL },
                                 *const code_tables[] = { routes_e2b_code, NULL };

/* First segments that only E2B uses: unknown paths below them get an error in E2B's format. */
static const char *const plane_prefixes[] = {
    "v2",        "v3",      "sandboxes", "templates",     "secrets",
    "snapshots", "volumes", "teams",     "api-keys",      "access-tokens",
    "admin",     "nodes",   "health",    "volumecontent", NULL
};

const struct dialect e2b_dialect = { .name = "e2b",
                                     .client = "e2b",
                                     .suffixed_ids = true,
                                     .tables = plane_tables,
                                     .unknown = &unknown,
                                     .prefixes = plane_prefixes,
                                     .guards = e2b_guard_rows,
                                     .authenticate = authenticate_e2b_key,
                                     .fail = e2b_fail,
                                     .open = open_e2b,
                                     .close = close_e2b };

/* Files for a build: authenticated by the link of the build. */
const struct dialect e2b_upload_dialect = { .name = "e2b uploads",
                                            .client = "e2b",
                                            .tables = upload_tables,
                                            .guards = e2b_guard_rows,
                                            .authenticate = authenticate_upload_link,
                                            .fail = e2b_fail };

/* Links to files that name no sandbox, where all sandboxes share one address. */
const struct dialect e2b_files_dialect = { .name = "e2b files",
                                           .client = "e2b",
                                           .tables = files_tables,
                                           .guards = e2b_guard_rows,
                                           .authenticate = authenticate_token_or_link,
                                           .fail = envd_fail };

const struct dialect envd_files_dialect = { .name = "envd files",
                                            .client = "e2b",
                                            .claims = is_for_envd,
                                            .tables = files_tables,
                                            .guards = e2b_guard_rows,
                                            .authenticate = authenticate_token_or_link,
                                            .fail = envd_fail };

const struct dialect envd_rpc_dialect = { .name = "envd rpc",
                                          .client = "e2b",
                                          .claims = is_for_envd,
                                          .tables = rpc_tables,
                                          .guards = e2b_guard_rows,
                                          .authenticate = authenticate_sandbox_token,
                                          .fail = rpc_fail_call,
                                          .arguments = read_stream_message };

const struct dialect envd_dialect = { .name = "envd",
                                      .client = "e2b",
                                      .claims = is_for_envd,
                                      .tables = envd_tables,
                                      .guards = e2b_guard_rows,
                                      .authenticate = authenticate_sandbox_token,
                                      .fail = envd_fail };

const struct dialect e2b_code_dialect = { .name = "e2b code interpreter",
                                          .client = "e2b",
                                          .claims = is_for_code,
                                          .tables = code_tables,
                                          .guards = e2b_guard_rows,
                                          .authenticate = authenticate_port_token,
                                          .fail = e2b_fail };

/* Unknown paths of both services. */
const struct dialect e2b_service_dialect = { .name = "e2b services",
                                             .client = "e2b",
                                             .claims = is_for_service,
                                             .unknown = &unknown_inside,
                                             .guards = e2b_guard_rows,
                                             .authenticate = authenticate_sandbox_token,
                                             .fail = e2b_fail };

/* All other ports: the server inside handles all paths. */
const struct dialect e2b_port_dialect = { .name = "e2b ports",
                                          .client = "e2b",
                                          .claims = is_for_sandbox,
                                          .unknown = &any_port,
                                          .guards = e2b_guard_rows,
                                          .authenticate = authenticate_port_token,
                                          .fail = e2b_fail };
