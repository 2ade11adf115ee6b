/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/internal.h"
#include "edge/core/json_members.h"
#include "edge/core/port_proxy.h"

const struct route *const e2b_plane_tables[] = {
    routes_e2b,           routes_e2b_create,  routes_e2b_list,
    routes_e2b_logs,      routes_e2b_metrics, routes_e2b_snapshots,
    routes_e2b_templates, routes_envd_files,  NULL
};
const struct route *const e2b_envd_tables[] = { routes_envd,
                                                routes_envd_files,
                                                routes_envd_process,
                                                routes_envd_filesystem,
                                                routes_envd_watch,
                                                routes_envd_compose,
                                                NULL };

const struct route *const e2b_code_tables[] = { routes_e2b_code, NULL };

static void fail_e2b_path(struct call *c)
{
    call_fail_with(c, 404, "not_found", "there is no such path");
}

static void fail_envd_path(struct call *c)
{
    struct url_path p;
    struct err e;

    if (url_path(url_split(http_request(c->x)->path).path, &c->arena, &p, &e) < 0)
        call_fail_with(c, 400, "invalid", e.msg);
    else
        fail_e2b_path(c);
}

struct closed_port {
    const char *id;
    uint16_t port;
};

static void write_closed(struct json_writer *w, const void *what)
{
    const struct closed_port *p = what;

    json_begin_object(w);
    write_str_member(w, "sandboxId", p->id);
    write_str_member(w, "message", "The sandbox is running but port is not open");
    write_int_member(w, "port", p->port);
    write_int_member(w, "code", 502);
    json_end_object(w);
}

static uint64_t requested_port(const struct call *c)
{
    struct str text = call_header(c, "E2b-Sandbox-Port");
    uint64_t port = E2B_ENVD_PORT;

    if (c->port.id.p)
        return c->port.port;
    if (text.p && (!str_to_u64(text, &port) || port > UINT16_MAX))
        port = 0;
    return port;
}

static void on_e2b_port_closed(struct call *c, uint16_t port, const struct err *e)
{
    const struct closed_port p = { sandbox_view(c->sandbox).record->id, port };

    call_answer(c, 502, write_closed, &p);
}

static void proxy_e2b_port(struct call *c)
{
    uint64_t port = requested_port(c);

    if (port)
        port_proxy(c, (uint16_t)port, on_e2b_port_closed);
    else
        call_fail_with(c, 400, "invalid", "E2b-Sandbox-Port: must be a number from 1 to 65535");
}

static const struct route unknown = { .handle = fail_e2b_path,
                                      .face = &e2b_face,
                                      .path = ROUTE_UNKNOWN },
                          unknown_inside = { .handle = fail_envd_path,
                                             .face = &envd_face,
                                             .path = ROUTE_UNKNOWN },
                          any_port = { .handle = proxy_e2b_port,
                                       .face = &port_face,
                                       .path = ROUTE_ANY_PORT,
                                       .verb = VERB_EXEC,
                                       .flags = ROUTE_STREAM | ROUTE_LONG };

/* Path prefixes that only E2B uses: unknown paths below them get an error in E2B's format. */
static bool is_plane(const struct url_path *p)
{
    static const char *const first[] = { "v2",      "v3",        "sandboxes", "templates",
                                         "secrets", "snapshots", "volumes",   "volumecontent",
                                         "teams" };

    for (size_t i = 0; p->n && i < COUNT_OF(first); i++)
        if (str_eq(p->segments[0], str_from(first[i])))
            return true;
    return false;
}

bool e2b_route(struct call *c)
{
    unsigned allowed;

    if (c->path.n && str_eq(c->path.segments[0], STR("v1")))
        return false;
    c->route =
        route_find_in(e2b_plane_tables, http_request(c->x)->method, &c->path, c->params, &allowed);
    if (!c->route && is_plane(&c->path))
        c->route = &unknown;
    return c->route;
}

/* Finds the route of a service that E2B runs inside sandboxes and the daemon provides. */
static const struct route *find_envd_route(struct call *c, const struct route *const *tables,
                                           struct str path)
{
    const struct route *found = NULL;
    unsigned allowed;

    if (url_path(path, &c->arena, &c->path, NULL) >= 0)
        found = route_find_in(tables, http_request(c->x)->method, &c->path, c->params, &allowed);
    return found ? found : &unknown_inside;
}

/* Compares the decoded first segment only. */
static bool is_below_v1(struct call *c, struct str path)
{
    struct str first, name;

    str_cut((struct str){ path.p + 1, path.n - 1 }, '/', &first); /* path begins with '/' */
    return url_decode(first, false, &c->arena, &name, NULL) >= 0 && str_eq(name, STR("v1"));
}

bool e2b_route_inside(struct call *c, struct str path)
{
    uint64_t port;

    if (!c->port.id.p && (!call_header(c, "E2b-Sandbox-Id").p || is_below_v1(c, path)))
        return false;
    port = requested_port(c);
    c->route = port == E2B_ENVD_PORT   ? find_envd_route(c, e2b_envd_tables, path)
               : port == E2B_CODE_PORT ? find_envd_route(c, e2b_code_tables, path)
                                       : &any_port; /* the server inside handles all paths */
    return true;
}

static void answer_envd_health(struct call *c)
{
    call_answer_empty(c);
}

const struct route routes_envd[] = {
    { H1_GET, VERB_READ, "/health", ROUTE_QUIET, answer_envd_health, "Whether the sandbox is there",
      .status = 204, .face = &envd_face },
    { .path = NULL },
};
