/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "edge/daytona/file_link.h"
#include "edge/daytona/internal.h"
#include "edge/core/answers.h"
#include "edge/core/bind_known.h"
#include "edge/core/sandbox_token.h"
#include "edge/core/guard.h"
#include "edge/core/shares.h"
#include "base/clock.h"
#include "lib/http/origin.h"

/* --- authentication --- */

static bool authenticate_daytona_key(struct call *c)
{
    struct str key = call_bearer(c);

    if (c->route->flags & ROUTE_OPEN)
        return true;
    if (!key.p)
        return call_refuse(
            c, "send Authorization: Bearer KEY; `sandboxer token create --daytona` makes one");
    return call_by_token(c, key) && guard_identify(c) && call_may_use(c);
}

/* Whether the route accepts signed links: downloads and uploads of one file. */
static bool takes_links(const struct call *c)
{
    static const char *const paths[] = { DAYTONA_INSIDE "/files/download",
                                         DAYTONA_INSIDE "/files/upload-v2" };

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (strcmp(c->route->path, paths[i]) == 0)
            return true;
    return false;
}

bool daytona_find_usable(struct call *c)
{
    static const struct caller anybody = { .admin = true };

    return control_find_now(c->api->control, &anybody, c->params[0], &c->sandbox) &&
           sandbox_state_usable(sandbox_state(c->sandbox));
}

static void make_signing_key(const struct call *c, const char *holder, char *ret)
{
    char what[ID_MAX + 16];

    snprintf(what, sizeof what, "files:%s", sandbox_view(c->sandbox).record->id);
    sandbox_token_make(c->api, what, holder, ret);
}

void daytona_signing_key(const struct call *c, char *ret)
{
    make_signing_key(c, c->caller.actor.id, ret);
}

struct tried_link {
    const struct call *call;
    const struct file_link *link;
};

static bool is_link_of_holder(void *user, const char *holder)
{
    const struct tried_link *t = user;
    char key[SANDBOX_TOKEN_TEXT];

    make_signing_key(t->call, holder, key);
    return file_link_good(t->link, str_from(key), clock_wall() / NS_PER_S);
}

static bool authenticate_file_link(struct call *c)
{
    struct file_link l = { .method = http_request(c->x)->method == H1_POST ? "POST" : "GET" };
    struct tried_link tried = { c, &l };
    const struct token_record *holder;

    if (call_query(c, "path", &l.path) < 0 || call_query(c, "expires", &l.expires) < 0 ||
        call_query(c, "signature", &l.signature) < 0)
        return false;
    if (!shares_may_check_link(c, 0))
        return false;
    holder = daytona_find_usable(c) ? sandbox_link_holder(c, is_link_of_holder, &tried) : NULL;
    return holder ? sandbox_token_enter(c, holder)
                  : call_refuse(c, "the link is invalid or expired");
}

static bool authenticate_key_or_link(struct call *c)
{
    struct str signature = { NULL, 0 };

    if (!call_bearer(c).p && takes_links(c) &&
        url_query(c->query, STR("signature"), &c->arena, &signature, NULL) > 0)
        return authenticate_file_link(c);
    return authenticate_daytona_key(c);
}

/* --- errors --- */

struct problem {
    const char *message, *code, *source;
    struct str path;
    int status;
    int64_t time_ns;
};

static const struct json_field problem_fields[] = {
    { "statusCode", JSON_KIND_INT, JSON_AT(struct problem, status) },
    { "message", JSON_KIND_TEXT, JSON_AT(struct problem, message) },
    { "code", JSON_KIND_TEXT, JSON_AT(struct problem, code) },
    { "source", JSON_KIND_TEXT, JSON_AT(struct problem, source) },
    { "path", JSON_KIND_SLICE, JSON_AT(struct problem, path), .required = true },
    { "timestamp", JSON_KIND_TIME, JSON_AT(struct problem, time_ns) },
};
static const struct json_shape daytona_problem = { NULL, JSON_FIELDS(problem_fields) };

static const struct {
    int status;
    const char *code;
} codes[] = {
    { 400, "BAD_REQUEST" }, { 401, "UNAUTHORIZED" },         { 403, "FORBIDDEN" },
    { 404, "NOT_FOUND" },   { 408, "REQUEST_TIMEOUT" },      { 409, "CONFLICT" },
    { 410, "GONE" },        { 422, "UNPROCESSABLE_ENTITY" },
};

static const char *daytona_problem_code(int status)
{
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return "INTERNAL_SERVER_ERROR";
}

static void fail_daytona(struct call *c, const struct err *e, int status, const char *code,
                         const char *source)
{
    const struct problem p = { .message = e->msg,
                               .code = code,
                               .source = source,
                               .path = url_split(http_request(c->x)->path).path,
                               .status = status,
                               .time_ns = clock_wall() };

    call_answer_as(c, status, &daytona_problem, &p);
}

/* Handlers use codes in capitals, which are Daytona's own and more specific than the status. */
static bool is_daytona_code(const char *code)
{
    return code[0] >= 'A' && code[0] <= 'Z';
}

static void fail_daytona_plane(struct call *c, const struct err *e, int status, const char *code)
{
    fail_daytona(c, e, status, daytona_problem_code(status), "DAYTONA_API");
}

static void fail_toolbox(struct call *c, const struct err *e, int status, const char *code)
{
    fail_daytona(c, e, status, is_daytona_code(code) ? code : daytona_problem_code(status),
                 "DAYTONA_DAEMON");
}

static void fail_toolbox_files(struct call *c, const struct err *e, int status, const char *code)
{
    const char *own = status == 404   ? "FILE_NOT_FOUND"
                      : status == 403 ? "FILE_ACCESS_DENIED"
                                      : daytona_problem_code(status);

    fail_daytona(c, e, status,
                 is_daytona_code(code) ? code
                 : c->sandbox          ? own
                                       : daytona_problem_code(status),
                 "DAYTONA_DAEMON");
}

/* --- requests and answers --- */

bool daytona_read_body(struct call *c, const struct json_field *fields, size_t n, void *out)
{
    struct err e;

    if (bind_known(c->json, fields, n, out, &c->arena, &e) >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

void daytona_answer_done(struct call *c)
{
    call_answer_bytes(c, 200, "application/json", STR("{}\n"));
}

bool daytona_base_url(const struct call *c, char *ret, size_t cap)
{
    const struct http_peer *peer = http_peer(c->x);
    struct str host = call_header(c, "Host");
    char url[ORIGIN_URL];

    if (!peer->is_unix && host.n && host.n < cap - 9) { /* validated before */
        snprintf(ret, cap, "%s://" STR_FMT, call_scheme(c), STR_ARG(host));
        return true;
    }
    return origin_url(peer->is_unix ? &c->api->tcp : &peer->local, url) &&
           str_copy(str_from(url), ret, cap);
}

/* --- routes --- */

static void fail_daytona_path(struct call *c)
{
    call_fail_with(
        c, 404, "not_found",
        "this path of Daytona's API is not supported; docs/daytona.md lists the supported ones");
}

static const struct route unknown = { .handle = fail_daytona_path, .path = ROUTE_UNKNOWN };

static const struct route *const plane_tables[] = { routes_daytona_create,
                                                    routes_daytona_list,
                                                    routes_daytona_sandboxes,
                                                    routes_daytona_preview,
                                                    routes_daytona_snapshots,
                                                    routes_daytona_info,
                                                    NULL },
                                 *const toolbox_tables[] = { routes_toolbox_info,
                                                             routes_daytona_process,
                                                             routes_daytona_git,
                                                             routes_daytona_sessions,
                                                             routes_daytona_pty,
                                                             routes_daytona_interpreter,
                                                             NULL },
                                 *const files_tables[] = { routes_daytona_files,
                                                           routes_daytona_download,
                                                           routes_daytona_file_search,
                                                           routes_daytona_file_tools, NULL };

static const char *const prefixes[] = { "daytona", NULL };

const struct dialect daytona_dialect = { .name = "daytona",
                                         .client = "daytona",
                                         .tables = plane_tables,
                                         .slash = true,
                                         .unknown = &unknown,
                                         .prefixes = prefixes,
                                         .guards = daytona_guard_rows,
                                         .authenticate = authenticate_daytona_key,
                                         .fail = fail_daytona_plane,
                                         .label = DAYTONA_NAME };

const struct dialect toolbox_dialect = { .name = "daytona toolbox",
                                         .client = "daytona",
                                         .tables = toolbox_tables,
                                         .slash = true,
                                         .guards = daytona_guard_rows,
                                         .authenticate = authenticate_daytona_key,
                                         .fail = fail_toolbox,
                                         .label = DAYTONA_NAME };

const struct dialect toolbox_files_dialect = { .name = "daytona files",
                                               .client = "daytona",
                                               .tables = files_tables,
                                               .slash = true,
                                               .guards = daytona_guard_rows,
                                               .authenticate = authenticate_key_or_link,
                                               .fail = fail_toolbox_files,
                                               .label = DAYTONA_NAME };

/* Servers in sandboxes, authenticated by a port token or a signed link. */
const struct dialect daytona_preview_dialect = { .name = "daytona previews",
                                                 .client = "daytona",
                                                 .claims = preview_claims,
                                                 .unknown = &preview_any_port,
                                                 .guards = daytona_guard_rows,
                                                 .authenticate = preview_authenticate,
                                                 .fail = fail_daytona_plane };
