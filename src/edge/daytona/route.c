/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "edge/core/bind_known.h"
#include "edge/daytona/internal.h"
#include "lib/http/origin.h"

const struct route *const daytona_tables[] = {
    routes_daytona_create,      routes_daytona_list,
    routes_daytona_sandboxes,   routes_daytona_preview,
    routes_daytona_snapshots,   routes_daytona_info,
    routes_daytona_process,     routes_daytona_files,
    routes_daytona_download,    routes_daytona_file_search,
    routes_daytona_file_tools,  routes_daytona_git,
    routes_daytona_sessions,    routes_daytona_pty,
    routes_daytona_interpreter, NULL,
};

static void fail_daytona_path(struct call *c)
{
    call_fail_with(
        c, 404, "not_found",
        "this path of Daytona's API is not supported; docs/daytona.md lists the supported ones");
}

static const struct route unknown = { .handle = fail_daytona_path,
                                      .face = &daytona_face,
                                      .path = ROUTE_UNKNOWN };

bool daytona_route(struct call *c)
{
    unsigned allowed;

    if (!c->path.n || !str_eq(c->path.segments[0], STR("daytona")))
        return false;
    c->path.slash = false; /* clients may append a slash */
    c->route =
        route_find_in(daytona_tables, http_request(c->x)->method, &c->path, c->params, &allowed);
    if (!c->route)
        c->route = &unknown;
    return true;
}

bool daytona_read_body(struct call *c, const struct json_field *fields, size_t n, void *out)
{
    struct err e;

    if (bind_known(c->json, fields, n, out, &c->arena, &e) >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

static void write_done_object(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_end_object(w);
}

void daytona_answer_done(struct call *c)
{
    call_answer(c, 200, write_done_object, NULL);
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
