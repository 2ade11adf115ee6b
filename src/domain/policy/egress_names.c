/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_names.h"

#include <string.h>

#include "lib/net/host.h"
#include "domain/policy/egress_sources.h"
#include "domain/policy/host_pattern.h"
#include "domain/policy/spot.h"

struct known_name {
    struct host_pattern pattern;
    const struct egress_endpoint *at;
};

struct placing {
    const struct known_name *known;
    size_t n_known;
    struct egress_endpoint *eps; /* of one entry, with room for one for each port */
    size_t n;
    struct arena *arena;
    struct err *e;
};

static int lack_memory(struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "egress.names: the policy needs more memory than is allowed");
}

int egress_known_read(const char *item, struct arena *a, const struct egress_endpoint **ret,
                      struct err *e)
{
    const struct egress_endpoint *ep;
    struct egress_policy p;
    struct address address;
    struct prefix at;
    int r = egress_from_allow((struct json_strs){ &item, 1 }, a, &p, e);

    if (r < 0)
        return r;
    ep = ((const struct egress_entry *)p.network_policies.p)->endpoints.p;
    if (!ep->allowed_ips.n || address_parse(str_from(ep->host), &address))
        return err_set(e, ERR_INVALID, "'%.80s' must be NAME=ADDRESS", item);
    for (size_t i = 0; i < ep->allowed_ips.n; i++)
        if (!prefix_parse(str_from(ep->allowed_ips.p[i]), &at) || !prefix_lacks_public(&at))
            return err_set(e, ERR_INVALID, "'%.80s' has public addresses, which need no entry",
                           item);
    *ret = ep;
    return 0;
}

static int read_known(struct json_strs items, struct placing *x)
{
    struct known_name *list = arena_array(x->arena, items.n, sizeof *list);

    if (!list)
        return lack_memory(x->e);
    for (size_t i = 0; i < items.n; i++) {
        int r = egress_known_read(items.p[i], x->arena, &list[i].at, x->e);

        if (r < 0)
            return err_wrap(x->e, r, "egress.names");
        if (host_pattern_parse(str_from(list[i].at->host), &list[i].pattern))
            return err_set(x->e, ERR_BUG, "egress.names: '%.80s' was not checked", items.p[i]);
    }
    x->known = list;
    x->n_known = items.n;
    return 0;
}

static bool endpoint_has_port(const struct egress_endpoint *ep, uint16_t port)
{
    for (size_t i = 0; i < ep->port_count; i++)
        if (ep->ports[i] == port)
            return true;
    return false;
}

static const struct egress_endpoint *find_known_name(const struct placing *x,
                                                     const struct host_pattern *host, uint16_t port)
{
    for (size_t i = 0; i < x->n_known; i++)
        if (endpoint_has_port(x->known[i].at, port) &&
            host_pattern_covers(&x->known[i].pattern, host))
            return x->known[i].at;
    return NULL;
}

/* Makes an endpoint of the ports that belong to the same item. */
static int split_off(const struct placing *x, const struct egress_endpoint *from,
                     const struct egress_endpoint *const *at, const struct egress_endpoint *place,
                     struct egress_endpoint *ret)
{
    uint16_t ports[EGRESS_PORTS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < from->port_count; i++)
        if (at[i] == place)
            ports[n++] = from->ports[i];
    *ret = *from;
    if (place)
        ret->allowed_ips = place->allowed_ips;
    return egress_ports_put_(ret, ports, n, x->arena) < 0 ? lack_memory(x->e) : 0;
}

static bool is_before(const struct egress_endpoint *const *at, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (at[k] == at[i])
            return true;
    return false;
}

static int split_endpoint_by_names(struct placing *x, size_t which)
{
    const struct egress_endpoint from = x->eps[which];
    const struct egress_endpoint *at[EGRESS_PORTS_MAX];
    struct host_pattern host;
    struct address address;
    int r = 0;

    if (!from.host || from.allowed_ips.n || address_parse(str_from(from.host), &address) ||
        host_pattern_parse(str_from(from.host), &host))
        return 0;
    for (size_t i = 0; i < from.port_count; i++)
        at[i] = find_known_name(x, &host, from.ports[i]);
    for (size_t i = 0; i < from.port_count && r >= 0; i++)
        if (!is_before(at, i))
            r = split_off(x, &from, at, at[i], &x->eps[i ? x->n++ : which]);
    return r;
}

static int split_entry_by_names(struct placing *x, struct egress_entry *entry)
{
    const struct egress_endpoint *old = entry->endpoints.p;
    size_t n = entry->endpoints.n, room = 1;
    int r = 0;

    for (size_t i = 0; i < n; i++)
        room += old[i].port_count;
    x->eps = arena_array(x->arena, room, sizeof *x->eps);
    if (!x->eps)
        return lack_memory(x->e);
    if (n)
        memcpy(x->eps, old, n * sizeof *old);
    x->n = n;
    for (size_t i = 0; i < n && r >= 0; i++)
        r = split_endpoint_by_names(x, i);
    entry->endpoints = (struct json_objects){ x->eps, x->n };
    return r;
}

int egress_place_names(const struct egress_policy *p, struct json_strs items, struct arena *a,
                       struct egress_policy *ret, struct err *e)
{
    struct placing x = { .arena = a, .e = e };
    struct egress_policy placed;
    struct egress_entry *entries;
    int r = egress_join(&p, 1, a, &placed, e);

    if (r >= 0)
        r = read_known(items, &x);
    entries = placed.network_policies.p;
    for (size_t i = 0; r >= 0 && i < placed.network_policies.n; i++)
        r = split_entry_by_names(&x, &entries[i]);
    if (r >= 0)
        r = egress_check(&placed, (struct egress_places){ 0 }, a, e);
    if (r >= 0)
        *ret = placed;
    return r;
}
