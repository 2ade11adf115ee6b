/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/route.h"

const struct route *const route_tables[] = {
    routes_sandboxes, routes_run,       routes_processes,      routes_files,  routes_events,
    routes_profiles,  routes_hosts,     routes_images,         routes_expire, routes_tokens,
    routes_sync,      routes_egress,    routes_egress_log,     routes_peers,  routes_approvals,
    routes_trust,     routes_snapshots, routes_snapshot_files, routes_meta,   routes_secrets,
    routes_audit,     routes_mcp,       routes_ports,          routes_ssh,    NULL,
};

bool route_takes(const struct route *r, struct str name)
{
    struct str rest = str_from(r->query), word;

    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        if (word.n && (word.p[word.n - 1] == '*' || word.p[word.n - 1] == '!'))
            word.n--;
        if (word.n && str_eq(word, name))
            return true;
    }
    return false;
}

/* Compares "/v1/sandboxes/{id}" with decoded segments; variable ones go to params. */
static bool matches_pattern(const char *pattern, const struct url_path *p,
                            struct str params[ROUTE_PARAMS])
{
    struct str rest = { pattern + 1, strlen(pattern + 1) }, part;
    size_t n_params = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (!rest.p)
            return false;
        rest = str_cut(rest, '/', &part);
        if (part.n && part.p[0] == '{')
            params[n_params++] = p->segments[i];
        else if (!str_eq(part, p->segments[i]))
            return false;
    }
    return !rest.p && !p->slash;
}

const struct route *route_find(enum h1_method m, const struct url_path *p,
                               struct str params[ROUTE_PARAMS], unsigned *ret_allowed)
{
    return route_find_in(route_tables, m, p, params, ret_allowed);
}

const struct route *route_find_any(enum h1_method m, const struct url_path *p,
                                   struct str params[ROUTE_PARAMS], unsigned *ret_allowed)
{
    const struct route *const *const all[] = { daytona_tables, e2b_plane_tables, route_tables };
    const struct route *r = NULL;

    for (size_t i = 0; !r && i < sizeof all / sizeof all[0]; i++)
        r = route_find_in(all[i], m, p, params, ret_allowed);
    return r;
}

const struct route *route_find_in(const struct route *const *tables, enum h1_method m,
                                  const struct url_path *p, struct str params[ROUTE_PARAMS],
                                  unsigned *ret_allowed)
{
    *ret_allowed = 0;
    if (m == H1_HEAD)
        m = H1_GET;
    for (size_t t = 0; tables[t]; t++)
        for (const struct route *r = tables[t]; r->path; r++) {
            if (!matches_pattern(r->path, p, params))
                continue;
            if (r->method == m)
                return r;
            *ret_allowed |= 1u << r->method;
        }
    return NULL;
}
