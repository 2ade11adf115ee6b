/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_ceiling.h"

#include <stdio.h>

#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"
#include "domain/policy/host_pattern.h"

const char *const egress_reach_names[EGRESS_REACH_COUNT_ + 1] = {
    [EGRESS_REACH_NONE] = "none",     [EGRESS_REACH_PROFILE] = "profile",
    [EGRESS_REACH_LISTED] = "listed", [EGRESS_REACH_PUBLIC] = "public",
    [EGRESS_REACH_LOCAL] = "local",
};

/* --- places --- */

static const char *parse_place_ports(struct str text, struct egress_place *ret)
{
    struct str one;
    uint64_t port;

    ret->port_count = 0;
    if (str_eq(text, STR("*")))
        return NULL;
    while (text.p) {
        text = str_cut(text, ',', &one);
        if (!str_to_u64(one, &port) || port == 0 || port > UINT16_MAX || one.p[0] == '0')
            return "ports must be numbers from 1 to 65535 separated by ',', or '*'";
        if (port_control_plane((uint16_t)port))
            return "names a port of cluster control planes, which is never allowed";
        if (ret->port_count == EGRESS_PORTS_MAX)
            return "has more than 32 ports";
        ret->ports[ret->port_count++] = (uint16_t)port;
    }
    return NULL;
}

/* Splits into the host and the ports behind it; the ports' p is NULL if absent. */
static bool cut_place(struct str text, struct str *ret_host, struct str *ret_ports)
{
    struct str rest;

    *ret_ports = (struct str){ 0 };
    if (text.n == 0 || text.p[0] != '[') {
        *ret_ports = str_cut(text, ':', ret_host);
        return ret_host->n > 0;
    }
    rest = str_cut((struct str){ text.p + 1, text.n - 1 }, ']', ret_host);
    if (!rest.p || (rest.n && rest.p[0] != ':'))
        return false;
    if (rest.n)
        *ret_ports = (struct str){ rest.p + 1, rest.n - 1 };
    return str_find(*ret_host, ':') < ret_host->n; /* brackets are for IPv6 */
}

static bool is_lower(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((s.p[i] >= 'A' && s.p[i] <= 'Z') || s.p[i] == 0)
            return false;
    return true;
}

const char *egress_place_parse(struct str text, uint16_t default_port, struct egress_place *ret)
{
    struct host_pattern pattern;
    struct str ports;

    *ret = (struct egress_place){ 0 };
    if (!cut_place(text, &ret->host, &ports))
        return "must be HOST:PORT, ADDRESS/BITS:PORT or [ADDRESS6/BITS]:PORT";
    ret->is_prefix = prefix_parse(ret->host, &ret->prefix);
    if (!ret->is_prefix && (!is_lower(ret->host) || host_pattern_parse(ret->host, &pattern)))
        return "must be an address, a prefix without host bits, or a host in lower case";
    if (ret->is_prefix && prefix_is_single(&ret->prefix) && !address_grantable(&ret->prefix.base))
        return "is a metadata service, which is never allowed";
    if (ports.p)
        return parse_place_ports(ports, ret);
    if (!default_port)
        return "must have ports, such as 10.0.0.0/8:443 or 127.0.0.1:*";
    ret->ports[ret->port_count++] = default_port;
    return NULL;
}

static bool place_has_port(const struct egress_place *p, uint16_t port)
{
    if (!p->port_count || !port)
        return true;
    for (size_t i = 0; i < p->port_count; i++)
        if (p->ports[i] == port)
            return true;
    return false;
}

static bool place_has_address(const struct egress_place *p, const struct address *a, uint16_t port)
{
    return p->is_prefix && place_has_port(p, port) && prefix_has(&p->prefix, a);
}

static bool place_has_prefix(const struct egress_place *p, const struct prefix *range,
                             uint16_t port)
{
    return place_has_address(p, &range->base, port) && p->prefix.bits <= range->bits;
}

static bool place_has_pattern(const struct egress_place *p, const struct host_pattern *wanted,
                              uint16_t port)
{
    struct host_pattern own;

    return !p->is_prefix && place_has_port(p, port) && !host_pattern_parse(p->host, &own) &&
           host_pattern_covers(&own, wanted);
}

/* --- making, reading, writing --- */

int egress_ceiling_make(enum egress_reach reach, const char *from, struct json_strs places,
                        struct arena *a, struct egress_ceiling *ret, struct err *e)
{
    struct egress_place *list = arena_array(a, places.n + 1, sizeof *list);

    if (!list || places.n > EGRESS_PLACES_MAX)
        return err_set(e, ERR_TOO_BIG, "an egress ceiling has at most %d places",
                       EGRESS_PLACES_MAX);
    for (size_t i = 0; i < places.n; i++) {
        const char *flaw = egress_place_parse(str_from(places.p[i]), 0, &list[i]);

        if (flaw)
            return err_set(e, ERR_INVALID, "egress ceiling: '%.80s' %s", places.p[i], flaw);
    }
    *ret = (struct egress_ceiling){ .reach = reach, .from = from, .places = places, .list = list };
    return 0;
}

#define AT(member) JSON_AT(struct egress_ceiling, member)
static const struct json_field ceiling_fields[] = {
    { "reach", JSON_KIND_ENUM, AT(reach), .names = egress_reach_names, .required = true },
    { "from", JSON_KIND_STR, AT(from), .required = true, .max = EGRESS_FROM_MAX },
    { "places", JSON_KIND_STRS, AT(places), .max = EGRESS_PLACES_MAX },
};

int egress_ceiling_read(struct str json, struct arena *a, struct egress_ceiling *ret, struct err *e)
{
    const struct json_limits limits = { .bytes = EGRESS_CEILING_BYTES_MAX, .depth = 4 };
    struct egress_ceiling w = { 0 };
    const struct json *v;
    int r = json_read(json, limits, a, &v, e);

    if (r >= 0)
        r = json_bind(v, ceiling_fields, COUNT_OF(ceiling_fields), &w, a, e);
    if (r < 0)
        return err_wrap(e, r, "egress ceiling");
    return egress_ceiling_make(w.reach, w.from, w.places, a, ret, e);
}

int egress_ceiling_write(const struct egress_ceiling *c, struct buf *out, struct err *e)
{
    struct json_writer writer;

    json_writer_init(&writer, out, JSON_COMPACT);
    json_unbind(c, ceiling_fields, COUNT_OF(ceiling_fields), &writer);
    return json_writer_finish(&writer, e);
}

/* --- queries --- */

bool egress_ceiling_has_name(const struct egress_ceiling *c, struct str name, uint16_t port)
{
    struct host_pattern wanted;

    if (!c || c->reach >= EGRESS_REACH_PUBLIC)
        return true;
    if (host_pattern_parse(name, &wanted))
        return false;
    for (size_t i = 0; i < c->places.n; i++)
        if (place_has_pattern(&c->list[i], &wanted, port))
            return true;
    return false;
}

bool egress_ceiling_has_address(const struct egress_ceiling *c, const struct address *a,
                                uint16_t port, bool own)
{
    bool public = !own && address_classify(a) == ADDRESS_PUBLIC;

    if (!c || c->reach == EGRESS_REACH_LOCAL || (public && c->reach >= EGRESS_REACH_PUBLIC))
        return true;
    for (size_t i = 0; i < c->places.n; i++)
        if (place_has_address(&c->list[i], a, port))
            return true;
    return false;
}

const char *egress_ceiling_why(const struct egress_ceiling *c, const char *host,
                               const struct address *a, uint16_t port, bool own,
                               char out[static EGRESS_CEILING_TEXT])
{
    bool local = a && (own || address_classify(a) != ADDRESS_PUBLIC);
    char to[112], kind[40] = "an address of this machine";

    if (local && address_classify(a) != ADDRESS_PUBLIC)
        snprintf(kind, sizeof kind, "a %s address", address_class_name(address_classify(a)));

    if (port)
        snprintf(to, sizeof to, a && a->v6 ? "[%.80s]:%u" : "%.80s:%u", host, (unsigned)port);
    else
        snprintf(to, sizeof to, "%.90s", host);
    if (local && c->reach >= EGRESS_REACH_LISTED)
        snprintf(out, EGRESS_CEILING_TEXT, "%s is %s; configuration egress.local does not list it",
                 to, kind);
    else
        snprintf(out, EGRESS_CEILING_TEXT, "%s is beyond the ceiling '%s' of %.100s", to,
                 egress_reach_names[c->reach], c->from);
    return out;
}

/* --- checking a whole policy --- */

struct ceiling_checker {
    const struct egress_ceiling *c;
    struct egress_own own;
    struct err *e;
};

static bool is_own_ceiling_address(const struct ceiling_checker *k, const struct address *a)
{
    for (size_t i = 0; i < k->own.n; i++)
        if (address_equal(&k->own.list[i], a))
            return true;
    return false;
}

static int refuse_place(const struct ceiling_checker *k, const char *host, const struct address *a,
                        uint16_t port)
{
    char text[EGRESS_CEILING_TEXT];

    egress_ceiling_why(k->c, host, a, port, a && is_own_ceiling_address(k, a), text);
    return err_set(k->e, ERR_DENIED, "egress: %.180s; ask an administrator to allow it", text);
}

static bool is_ceiling_address(const struct ceiling_checker *k, const struct address *a,
                               uint16_t port)
{
    return egress_ceiling_has_address(k->c, a, port, is_own_ceiling_address(k, a));
}

static int check_ceiling_address(const struct ceiling_checker *k, const struct egress_endpoint *ep,
                                 const struct address *a)
{
    for (size_t i = 0; i < ep->port_count; i++)
        if (!is_ceiling_address(k, a, ep->ports[i]))
            return refuse_place(k, ep->host, a, ep->ports[i]);
    return 0;
}

/* A range that is not public grants nothing by itself, except for exact addresses: see
 * egress_addresses(). A range may also contain public addresses. */
static bool has_range(const struct ceiling_checker *k, const struct prefix *p, uint16_t port)
{
    if (prefix_is_single(p))
        return is_ceiling_address(k, &p->base, port);
    if (k->c->reach >= EGRESS_REACH_PUBLIC)
        return true;
    for (size_t i = 0; i < k->c->places.n; i++)
        if (place_has_prefix(&k->c->list[i], p, port))
            return true;
    return false;
}

static int check_ceiling_ranges(const struct ceiling_checker *k, const struct json_strs *list,
                                const uint16_t *ports, size_t n)
{
    struct prefix p;

    for (size_t i = 0; i < list->n; i++)
        for (size_t j = 0; j < n; j++)
            if (!prefix_parse(str_from(list->p[i]), &p) || !has_range(k, &p, ports[j]))
                return refuse_place(k, list->p[i], &p.base, ports[j]);
    return 0;
}

/* Whether the ceiling lists the whole range that a name may be at; a range with public addresses
 * grants no others. */
static bool has_granted(const struct ceiling_checker *k, const struct prefix *p, uint16_t port)
{
    if (prefix_is_single(p))
        return (address_classify(&p->base) == ADDRESS_PUBLIC &&
                !is_own_ceiling_address(k, &p->base)) ||
               is_ceiling_address(k, &p->base, port);
    if (k->c->reach == EGRESS_REACH_LOCAL || !prefix_lacks_public(p))
        return true;
    for (size_t i = 0; i < k->c->places.n; i++)
        if (place_has_prefix(&k->c->list[i], p, port))
            return true;
    return false;
}

static int check_ceiling_name(const struct ceiling_checker *k, const struct egress_endpoint *ep)
{
    const struct json_strs *ips = &ep->allowed_ips;
    struct prefix p;

    for (size_t i = 0; i < ep->port_count; i++) {
        if (!egress_ceiling_has_name(k->c, str_from(ep->host), ep->ports[i]))
            return refuse_place(k, ep->host, NULL, ep->ports[i]);
        for (size_t j = 0; j < ips->n; j++)
            if (!prefix_parse(str_from(ips->p[j]), &p) || !has_granted(k, &p, ep->ports[i]))
                return refuse_place(k, ips->p[j], &p.base, ep->ports[i]);
    }
    return 0;
}

/* Checks `unlisted`: every port of the addresses, or the whole internet. */
static int check_ceiling_unlisted(const struct ceiling_checker *k, const struct egress_policy *p)
{
    const struct json_strs *list = &p->unlisted.allowed_ips;

    if (p->unlisted.access == EGRESS_UNLISTED_PUBLIC && k->c->reach < EGRESS_REACH_PUBLIC)
        return refuse_place(k, "every public destination", NULL, 0);
    for (size_t i = 0; i < list->n; i++) {
        struct prefix range;
        bool within;

        if (!prefix_parse(str_from(list->p[i]), &range))
            return err_set(k->e, ERR_BUG,
                           "internal error: unchecked policy compared with a ceiling");
        within = k->c->reach == EGRESS_REACH_LOCAL ||
                 (k->c->reach >= EGRESS_REACH_PUBLIC && has_range(k, &range, 1));
        for (size_t j = 0; !within && j < k->c->places.n; j++)
            within = !k->c->list[j].port_count && place_has_prefix(&k->c->list[j], &range, 0);
        if (!within)
            return refuse_place(k, list->p[i], &range.base, 0);
    }
    return 0;
}

int egress_ceiling_check(const struct egress_ceiling *c, const struct egress_policy *p,
                         struct egress_own own, struct err *e)
{
    const struct ceiling_checker k = { .c = c, .own = own, .e = e };
    const struct egress_entry *entries = p->network_policies.p;
    int r = 0;

    for (size_t i = 0; i < p->network_policies.n && r >= 0; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t j = 0; j < entries[i].endpoints.n && r >= 0; j++) {
            const struct egress_endpoint *ep = &eps[j];
            struct address a;

            if (!ep->host)
                r = check_ceiling_ranges(&k, &ep->allowed_ips, ep->ports, ep->port_count);
            else if (address_parse(str_from(ep->host), &a))
                r = check_ceiling_address(&k, ep, &a);
            else
                r = check_ceiling_name(&k, ep);
        }
    }
    return r < 0 ? r : check_ceiling_unlisted(&k, p);
}
