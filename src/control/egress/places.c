/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/places.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "control/egress/ceiling.h"
#include "lib/net/host.h"
#include "domain/policy/egress_file.h"

struct place_search {
    const struct egress_ceiling *ceiling;
    struct egress_own own;
    struct gate_place *list; /* room for GATE_PLACES_MAX */
    size_t n;
    bool full;
};

static void sort_found(struct place_search *s)
{
    size_t n = 0;

    qsort(s->list, s->n, sizeof *s->list, gate_place_compare);
    for (size_t i = 0; i < s->n; i++)
        if (!n || gate_place_compare(&s->list[n - 1], &s->list[i]) != 0)
            s->list[n++] = s->list[i];
    s->n = n;
}

static void add_found(struct place_search *s, const struct address *a, uint16_t port)
{
    if (s->n == GATE_PLACES_MAX)
        sort_found(s); /* there may be duplicates */
    if (s->n == GATE_PLACES_MAX)
        s->full = true;
    else if (!port_control_plane(port))
        s->list[s->n++] = gate_place_of(a, port);
}

static bool is_own_address(const struct place_search *s, const struct address *a)
{
    for (size_t i = 0; i < s->own.n; i++)
        if (address_equal(&s->own.list[i], a))
            return true;
    return false;
}

static bool declares_address(const struct json_strs *ips, const struct address *a)
{
    for (size_t i = 0; i < ips->n; i++) {
        struct prefix p;

        if (prefix_parse(str_from(ips->p[i]), &p) && p.bits == (a->v6 ? 128u : 32u) &&
            address_equal(&p.base, a))
            return true;
    }
    return false;
}

static void find_address(struct place_search *s, const struct egress_endpoint *ep,
                         const struct address *a)
{
    bool own = is_own_address(s, a);

    if (!address_grantable(a) || (!own && address_classify(a) == ADDRESS_PUBLIC))
        return;
    for (size_t i = 0; i < ep->port_count; i++)
        if (egress_ceiling_has_address(s->ceiling, a, ep->ports[i], own))
            add_found(s, a, ep->ports[i]);
}

static void next_address(struct address *a)
{
    for (size_t i = a->v6 ? 16 : 4; i > 0 && ++a->bytes[i - 1] == 0; i--)
        ;
}

/* The gate matches addresses, not ranges: a range counts as all addresses in it, and a range that
 * is larger than the gate's list is refused, even if the ceiling has only a part of it. */
static void find_in_range(struct place_search *s, const struct egress_endpoint *ep,
                          const struct prefix *p)
{
    unsigned free_bits = (p->base.v6 ? 128u : 32u) - p->bits;
    struct address a = p->base;

    if (free_bits && !prefix_lacks_public(p))
        return;
    if (free_bits > 16 || (size_t)1 << free_bits > GATE_PLACES_MAX) {
        s->full = true;
        return;
    }
    for (size_t n = (size_t)1 << free_bits; n > 0 && !s->full; n--, next_address(&a))
        find_address(s, ep, &a);
}

static void find_in_endpoint(struct place_search *s, const struct egress_endpoint *ep)
{
    bool is_address;
    struct address a;
    struct prefix p;

    if (!ep->host)
        return;
    is_address = address_parse(str_from(ep->host), &a);
    for (size_t i = 0; !is_address && i < ep->allowed_ips.n; i++)
        if (prefix_parse(str_from(ep->allowed_ips.p[i]), &p))
            find_in_range(s, ep, &p);
    if (is_address && (is_own_address(s, &a) || declares_address(&ep->allowed_ips, &a)))
        find_address(s, ep, &a);
}

/* Addresses that no endpoint names are allowed with every port of the ceiling. */
static void find_unlisted(struct place_search *s, const struct address *a)
{
    const struct egress_ceiling *c = s->ceiling;

    if (c->reach == EGRESS_REACH_LOCAL)
        add_found(s, a, 0);
    for (size_t i = 0; i < c->places.n && c->reach != EGRESS_REACH_LOCAL; i++) {
        const struct egress_place *p = &c->list[i];

        if (!p->is_prefix || !prefix_has(&p->prefix, a))
            continue;
        if (!p->port_count)
            add_found(s, a, 0);
        for (size_t k = 0; k < p->port_count; k++)
            add_found(s, a, p->ports[k]);
    }
}

static void find_policy_places(struct place_search *s, const struct egress_policy *p)
{
    const struct egress_entry *entries = p->network_policies.p;
    const struct json_strs *ips = &p->unlisted.allowed_ips;

    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            find_in_endpoint(s, &eps[k]);
    }
    for (size_t i = 0; i < ips->n; i++) {
        struct prefix one;

        if (prefix_parse(str_from(ips->p[i]), &one) && one.bits == (one.base.v6 ? 128u : 32u) &&
            address_grantable(&one.base) && address_classify(&one.base) != ADDRESS_PUBLIC)
            find_unlisted(s, &one.base);
    }
    sort_found(s);
}

/* An invalid policy, such as one of an earlier version, has no places: the worker refuses it, and
 * reports why to programs. */
static int compute_places(struct policy_text *t, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX + CEILING_ARENA_MAX);
    AUTO_FREE struct gate_place *list = malloc(GATE_PLACES_MAX * sizeof *list);
    struct egress_ceiling ceiling;
    struct place_search s = { .ceiling = &ceiling, .list = list };
    struct egress_policy policy = { 0 };
    int r = egress_policy_from_json(t->json, &a, &policy, e);

    if (!list)
        abort();
    if (r >= 0) {
        r = egress_ceiling_read(t->ceiling, &a, &ceiling, e);
        if (r < 0)
            return r;
        s.own = policy_own_addresses(&a);
        find_policy_places(&s, &policy);
    }
    if (s.full)
        return err_set(e, ERR_TOO_BIG,
                       "the policy allows more than %d addresses and ports that are not public; "
                       "allow fewer",
                       GATE_PLACES_MAX);
    t->places_ = malloc(s.n * sizeof *list + 1);
    if (!t->places_)
        abort();
    memcpy(t->places_, list, s.n * sizeof *list);
    t->n_places_ = s.n;
    t->has_places_ = true;
    return 0;
}

int policy_places(struct policy_text *t, const struct gate_place **ret, size_t *ret_n,
                  struct err *e)
{
    int r = t->has_places_ ? 0 : compute_places(t, e);

    if (r < 0)
        return r;
    *ret = t->places_;
    *ret_n = t->n_places_;
    return 0;
}

static void take_endpoint(struct listeners_taken *t, const struct egress_endpoint *ep)
{
    struct address a;

    if (!ep->host || !address_parse(str_from(ep->host), &a) ||
        (strcmp(ep->host, "127.0.0.1") != 0 && strcmp(ep->host, "::1") != 0) ||
        (ep->name && strcmp(ep->name, HOST_INSIDE) == 0))
        return;
    for (size_t i = 0; i < ep->port_count; i++)
        listeners_take_port(t, a.v6, ep->ports[i]);
}

struct listeners_taken policy_taken(const struct policy_text *t)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct listeners_taken taken = { 0 };
    struct egress_policy policy = { 0 };
    const struct egress_entry *entries;

    if (!t || egress_policy_from_json(t->json, &a, &policy, NULL) < 0)
        return taken;
    entries = policy.network_policies.p;
    for (size_t i = 0; i < policy.network_policies.n; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            take_endpoint(&taken, &eps[k]);
    }
    return taken;
}
