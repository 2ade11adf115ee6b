/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/ceiling.h"

#include <stdio.h>

#include "control/plane/plane.h"
#include "domain/model/owner.h"
#include "domain/policy/egress_names.h"
#include "domain/policy/egress_sources.h"

struct policy_author ceiling_author(const struct caller *who)
{
    return (struct policy_author){ .admin = who->admin, .most = who->egress };
}

struct policy_author ceiling_stored_author(const struct control *c, const char *owner, int admin,
                                           unsigned most)
{
    return (struct policy_author){
        .admin = admin < 0 ? owner_is_administrator(owner, c->owner) : admin > 0,
        .most = most <= EGRESS_REACH_COUNT_ ? most : 0,
    };
}

static void narrow_reach(enum egress_reach *reach, enum egress_reach by, const char *from,
                         const char *name, char buf[static EGRESS_FROM_MAX])
{
    if (by >= *reach)
        return;
    *reach = by;
    snprintf(buf, EGRESS_FROM_MAX, "%s%s", from, name);
}

enum egress_reach ceiling_reach(const struct control *c, const struct policy_author *who,
                                const struct profile *p, char buf[static EGRESS_FROM_MAX])
{
    enum egress_reach reach = EGRESS_REACH_LOCAL;

    snprintf(buf, EGRESS_FROM_MAX, "administrators");
    if (!who->admin)
        narrow_reach(&reach, (enum egress_reach)c->config->egress.most, "configuration egress.most",
                     "", buf);
    if (who->most)
        narrow_reach(&reach, (enum egress_reach)(who->most - 1), "the token's egress", "", buf);
    if (p)
        narrow_reach(&reach, (enum egress_reach)p->network.most, "network.most of ", p->id, buf);
    return reach;
}

/* --- the list of places --- */

struct ceiling_places {
    const char **p;
    size_t n, max;
    struct arena *arena;
};

static int add_ceiling_place(struct ceiling_places *x, const char *text, struct err *e)
{
    if (!text || x->n == x->max)
        return err_set(e, ERR_TOO_BIG, "the egress ceiling has more than %d places",
                       EGRESS_PLACES_MAX);
    x->p[x->n++] = text;
    return 0;
}

/* HOST:PORTS; brackets around IPv6. */
static int add_host_place(struct ceiling_places *x, const struct egress_endpoint *ep,
                          const char *host, struct err *e)
{
    bool six = strchr(host, ':');
    size_t size = strlen(host) + 4 + 6 * ep->port_count, n;
    char *text = arena_alloc(x->arena, size);

    if (!text)
        return add_ceiling_place(x, NULL, e);
    n = (size_t)snprintf(text, size, six ? "[%s]" : "%s", host);
    for (size_t i = 0; i < ep->port_count; i++)
        n += (size_t)snprintf(text + n, size - n, "%c%u", i ? ',' : ':', (unsigned)ep->ports[i]);
    return add_ceiling_place(x, text, e);
}

/* Names need no place if all public addresses are within the ceiling; their other addresses do. */
static int add_endpoint_places(struct ceiling_places *x, const struct egress_endpoint *ep,
                               bool names, struct err *e)
{
    struct address a;
    struct prefix p;
    bool is_address = ep->host && address_parse(str_from(ep->host), &a);
    int r = is_address || (ep->host && names) ? add_host_place(x, ep, ep->host, e) : 0;

    for (size_t i = 0; !is_address && i < ep->allowed_ips.n && r >= 0; i++)
        if (!ep->host ||
            (prefix_parse(str_from(ep->allowed_ips.p[i]), &p) && prefix_lacks_public(&p)))
            r = add_host_place(x, ep, ep->allowed_ips.p[i], e);
    return r;
}

/* Adds the destinations of the profile's policy, completed by the configuration's names. */
static int add_profile_places(struct ceiling_places *x, const struct profile *p,
                              struct json_strs known, bool names, struct err *e)
{
    struct egress_policy policy = p->network.policy;
    const struct egress_entry *entries;
    int r = known.n ? egress_place_names(&p->network.policy, known, x->arena, &policy, e) : 0;

    if (r < 0)
        return r;
    entries = policy.network_policies.p;
    for (size_t i = 0; i < policy.network_policies.n; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n && r >= 0; k++)
            r = add_endpoint_places(x, &eps[k], names, e);
    }
    return r;
}

static int add_configured_places(struct ceiling_places *x, const struct json_strs *list,
                                 struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < list->n && r >= 0; i++) {
        struct egress_place place;
        size_t size = strlen(list->p[i]) + 8;
        char *text = arena_alloc(x->arena, size);

        if (text && !egress_place_parse(str_from(list->p[i]), 0, &place))
            snprintf(text, size, "%s", list->p[i]);
        else if (text) /* the default port, as for --allow */
            snprintf(text, size, "%s:%d", list->p[i], EGRESS_ALLOW_PORT);
        r = add_ceiling_place(x, text, e);
    }
    return r;
}

/* A name of the configuration needs a place unless all public addresses are within the ceiling. */
static int add_known_names(struct ceiling_places *x, const struct json_strs *list, bool names,
                           struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < list->n && r >= 0; i++) {
        const struct egress_endpoint *ep;

        r = egress_known_read(list->p[i], x->arena, &ep, e);
        r = r < 0 ? r : add_endpoint_places(x, ep, names, e);
    }
    return r;
}

int ceiling_make(const struct control *c, const struct policy_author *who, const struct profile *p,
                 struct arena *a, struct policy_bounds *ret, struct err *e)
{
    struct ceiling_places x = { .p = arena_array(a, EGRESS_PLACES_MAX, sizeof *x.p),
                                .max = EGRESS_PLACES_MAX,
                                .arena = a };
    char *from = arena_alloc(a, EGRESS_FROM_MAX);
    enum egress_reach reach;
    int r = 0;

    if (!x.p || !from)
        return err_set(e, ERR_TOO_BIG, "the egress ceiling needs more memory than is allowed");
    reach = ceiling_reach(c, who, p, from);
    if (reach != EGRESS_REACH_NONE && reach != EGRESS_REACH_LOCAL && p)
        r = add_profile_places(&x, p, c->config->egress.names, reach < EGRESS_REACH_PUBLIC, e);
    if (r >= 0 && (reach == EGRESS_REACH_LISTED || reach == EGRESS_REACH_PUBLIC))
        r = add_configured_places(&x, &c->config->egress.local, e);
    if (r >= 0 && (reach == EGRESS_REACH_LISTED || reach == EGRESS_REACH_PUBLIC))
        r = add_known_names(&x, &c->config->egress.names, reach == EGRESS_REACH_LISTED, e);
    if (r >= 0 && reach == EGRESS_REACH_LISTED)
        r = add_configured_places(&x, &c->config->egress.listed, e);
    if (r < 0)
        return r;
    ret->past = false;
    ret->author = *who;
    ret->names = c->config->egress.names;
    return egress_ceiling_make(reach, from, (struct json_strs){ x.p, x.n }, a, &ret->ceiling, e);
}

int control_ceiling(const struct control *c, const struct caller *who, const char *profile,
                    struct arena *a, struct policy_bounds *ret, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const struct policy_author author = ceiling_author(who);
    int r = profile ? catalog_find(c->catalog, str_from(profile), &p, e) : 0;

    return r < 0 ? r : ceiling_make(c, &author, p, a, ret, e);
}
