/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rfc3339.h"
#include "base/own.h"
#include "lib/net/host.h"
#include "domain/policy/glob.h"
#include "domain/policy/host_pattern.h"
#include "domain/policy/path.h"
#include "domain/policy/protocol.h"

enum { PASSABLE_WORK_MAX = 8 << 20 }; /* a fraction of a second */

/* Ranges that no list of addresses may contain, as the format requires. A single address of them
 * can be an endpoint's host, and then also be in its list. */
static const char *const never[] = {
    "127.0.0.0/8",
    "169.254.0.0/16",
    "0.0.0.0/8",
    "::1/128",
    "::/128",
    "fe80::/10",
    "::ffff:127.0.0.0/104",
    "::ffff:169.254.0.0/112",
    "::ffff:0.0.0.0/104",
};

/* Checks "10.1.0.0/16", "2001:db8::/32", "192.0.2.7"; rejects ranges that must not be granted.
 * Returns NULL, or the error. */
static const char *find_address_flaw(struct str s)
{
    struct prefix p, bad;

    if (!prefix_parse(s, &p))
        return "must be an address or a prefix without host bits, such as 192.0.2.7 or "
               "192.0.2.0/24";
    for (size_t i = 0; i < COUNT_OF(never); i++)
        if (prefix_parse(str_from(never[i]), &bad) &&
            (prefix_has(&p, &bad.base) || prefix_has(&bad, &p.base)))
            return "must not include loopback, link-local or unspecified addresses";
    if (prefix_is_single(&p) && !address_grantable(&p.base))
        return "is a metadata service, which is never allowed";
    return NULL;
}

/* Notes addresses that are not public and cannot be reached: without a host all of them, in
 * `unlisted` ranges. */
static int note_private(const struct policy_spot *s, const char *text)
{
    struct prefix p;

    if ((s->ep && s->ep->host) || !prefix_parse(str_from(text), &p) || !prefix_lacks_public(&p))
        return 0;
    if (s->ep)
        return spot_note(s, "%s is not public: without a host it cannot be reached", text);
    return prefix_is_single(&p)
               ? 0
               : spot_note(s,
                           "%s is not public: only exact addresses of such a range can be reached",
                           text);
}

/* Rejects a list without a host if none of its addresses can be reached. */
static int check_hostless(const struct policy_spot *s)
{
    const struct json_strs *list = &s->ep->allowed_ips;
    struct prefix p;

    if (s->ep->host)
        return 0;
    for (size_t i = 0; i < list->n; i++)
        if (prefix_parse(str_from(list->p[i]), &p) && !prefix_lacks_public(&p))
            return 0;
    return spot_fail(s, "allowed_ips",
                     "has no public address, and without a host only public ones can be reached; "
                     "add the address, or its name, as host");
}

/* Whether it is the address that the endpoint has as its host: this declares that exactly this
 * address is meant. */
static bool repeats_host(const struct egress_endpoint *ep, const char *text)
{
    struct prefix p;
    struct address host;

    return ep && ep->host && address_parse(str_from(ep->host), &host) &&
           prefix_parse(str_from(text), &p) && prefix_is_single(&p) &&
           address_equal(&p.base, &host) && address_grantable(&host);
}

/* An exact address with a name is also a declaration. */
static bool places_name(const struct egress_endpoint *ep, const char *text)
{
    struct address host;
    struct prefix p;

    return ep && ep->host && !address_parse(str_from(ep->host), &host) &&
           prefix_parse(str_from(text), &p) && prefix_is_single(&p) &&
           address_classify(&p.base) != ADDRESS_UNSPECIFIED && address_grantable(&p.base);
}

static int check_endpoint_addresses(const struct policy_spot *s, const char *field,
                                    const struct json_strs *list)
{
    char path[64];
    int r = 0;

    for (size_t i = 0; i < list->n && r >= 0; i++) {
        const char *flaw = repeats_host(s->ep, list->p[i]) || places_name(s->ep, list->p[i])
                               ? NULL
                               : find_address_flaw(str_from(list->p[i]));

        snprintf(path, sizeof path, "%s[%zu]", field, i);
        r = flaw ? spot_fail(s, path, "%s", flaw) : note_private(s, list->p[i]);
    }
    return r;
}

/* An address that is not public must be written twice, so that a typing error cannot grant it. */
static int check_declared(const struct policy_spot *s)
{
    const struct json_strs *list = &s->ep->allowed_ips;
    struct address host;

    if (!s->ep->host || !address_parse(str_from(s->ep->host), &host) ||
        address_classify(&host) == ADDRESS_PUBLIC)
        return 0;
    for (size_t i = 0; i < list->n; i++)
        if (repeats_host(s->ep, list->p[i]))
            return 0;
    return spot_fail(s, "host", "is not a public address; to allow it, add allowed_ips: ['%s']",
                     s->ep->host);
}

static int check_allowed_ips(const struct policy_spot *s)
{
    return check_endpoint_addresses(s, "allowed_ips", &s->ep->allowed_ips);
}

static int compare_ports(const void *a, const void *b)
{
    return *(const uint16_t *)a - *(const uint16_t *)b;
}

static int read_endpoint_port(const struct policy_spot *s, const char *field, const struct json *v,
                              uint16_t *ret)
{
    if (v->type != JSON_INT || v->i < 1 || v->i > UINT16_MAX)
        return spot_fail(s, field, "a port must be a whole number from 1 to 65535");
    if (port_control_plane((uint16_t)v->i))
        return spot_fail(s, field, "port %d belongs to cluster control planes and is never allowed",
                         (int)v->i);
    *ret = (uint16_t)v->i;
    return 0;
}

/* Stores the ports sorted, without duplicates, in the form of a document. */
static int set_endpoint_ports(const struct policy_spot *s, uint16_t *ports, size_t n)
{
    size_t kept = 0;

    qsort(ports, n, sizeof *ports, compare_ports);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || ports[kept - 1] != ports[i])
            ports[kept++] = ports[i];
    s->ep->ports = ports;
    s->ep->port_count = kept;
    s->ep->port_ = NULL;
    return egress_ports_put_(s->ep, ports, kept, s->arena) < 0 ? spot_no_room(s) : 0;
}

static int check_ports(const struct policy_spot *s)
{
    const struct json *one = s->ep->port_, *list = s->ep->ports_;
    size_t n = list && list->type == JSON_ARRAY ? list->list.n : 0;
    uint16_t *ports;
    int r = 0;

    if (one && list)
        return spot_fail(s, "port", "and ports cannot both be given");
    if (!one && (n == 0 || n > EGRESS_PORTS_MAX))
        return spot_fail(s, "ports", "must be a list of 1 to %d port numbers", EGRESS_PORTS_MAX);
    ports = arena_array(s->arena, one ? 1 : n, sizeof *ports);
    if (!ports)
        return spot_no_room(s);
    if (one)
        r = read_endpoint_port(s, "port", one, &ports[0]);
    for (size_t i = 0; i < n && r >= 0; i++)
        r = read_endpoint_port(s, "ports", &list->list.p[i], &ports[i]);
    return r < 0 ? r : set_endpoint_ports(s, ports, one ? 1 : n);
}

static int check_address_host(const struct policy_spot *s, const struct address *address)
{
    char text[ADDRESS_TEXT_MAX];

    if (!address_grantable(address))
        return spot_fail(s, "host", "is a metadata service, which is never allowed");
    if (s->ep->has_protocol && s->ep->protocol == EGRESS_TCP)
        return spot_fail(s, "host", "must be a name with protocol tcp; omit the protocol");
    s->ep->host = arena_dup(s->arena, address_text(address, text));
    return s->ep->host ? 0 : spot_no_room(s);
}

static int check_name_host(const struct policy_spot *s)
{
    struct host_pattern pattern;
    struct host host;
    char *lower = arena_dup(s->arena, str_from(s->ep->host));
    const char *flaw;

    if (!lower)
        return spot_no_room(s);
    for (char *c = lower; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    flaw = host_pattern_parse(str_from(lower), &pattern);
    if (flaw)
        return spot_fail(s, "host", "%s", flaw);
    if (!pattern.wild && host_parse(str_from(lower), false, &host, NULL) >= 0 &&
        host_is_metadata(&host))
        return spot_fail(s, "host", "is a metadata service, which is never allowed");
    if (host_names_loopback(str_from(lower)))
        return spot_fail(s, "host",
                         "is a loopback name; to allow loopback, write host: 127.0.0.1 and "
                         "allowed_ips: ['127.0.0.1']");
    s->ep->host = lower;
    return 0;
}

static int check_endpoint_host(const struct policy_spot *s)
{
    struct address address;

    if (s->ep->host && !*s->ep->host)
        s->ep->host = NULL;
    if (s->ep->host && address_parse(str_from(s->ep->host), &address))
        return check_address_host(s, &address);
    if (s->ep->host)
        return check_name_host(s);
    if (s->ep->allowed_ips.n == 0)
        return spot_fail(s, "host", "is required unless there are allowed_ips");
    if (s->ep->has_protocol && protocols[s->ep->protocol].needs_host)
        return spot_fail(s, "host", "is required with this protocol");
    return 0;
}

static int check_endpoint_path(const struct policy_spot *s)
{
    AUTO(arena_done) struct arena scratch = ARENA_INIT(1 << 20);
    const struct glob *g;
    const char *flaw;
    struct str path;
    struct err why;

    if (s->ep->path && !*s->ep->path)
        s->ep->path = NULL;
    if (!s->ep->path)
        return 0;
    path = str_from(s->ep->path);
    if (path.p[0] != '/' && !str_eq(path, STR("**")))
        return spot_fail(s, "path", "must begin with '/' or be '**'");
    flaw = path_pattern_flaw(path);
    if (flaw)
        return spot_fail(s, "path", "%s", flaw);
    if (glob_compile(path, GLOB_PLAIN, '/', &scratch, &g, &why) < 0)
        return spot_fail(s, "path", "%s", why.msg);
    return 0;
}

static int check_program(const struct policy_spot *s, const char *field, size_t i, const char *path)
{
    AUTO(arena_done) struct arena scratch = ARENA_INIT(1 << 20);
    struct str text = str_from(path), part, rest = text;
    const struct glob *g;
    char where[64];
    struct err why;

    snprintf(where, sizeof where, "%s[%zu]", field, i);
    if (text.n < 2 || (text.p[0] != '/' && !str_eq(text, STR("**"))))
        return spot_fail(s, where, "the path of a program must be absolute");
    for (size_t k = 0; k < text.n; k++)
        if ((unsigned char)text.p[k] < ' ' || text.p[k] == 0x7f)
            return spot_fail(s, where, "contains a control character");
    for (rest = str_cut(rest, '/', &part); rest.p;) {
        rest = str_cut(rest, '/', &part);
        if (part.n == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
            return spot_fail(s, where, "must not contain '//', '.' or '..', or end with '/'");
    }
    if (glob_compile(text, GLOB_PARTS, '/', &scratch, &g, &why) < 0)
        return spot_fail(s, where, "%s", why.msg);
    return 0;
}

static int check_own_binaries(const struct policy_spot *s)
{
    const struct json_strs *own = &s->ep->binaries;
    int r = 0;

    for (size_t i = 0; i < own->n && r >= 0; i++)
        r = check_program(s, "binaries", i, own->p[i]);
    return r;
}

/* Names appear in messages and logs. */
static int check_printable(const struct policy_spot *s, const char *field, const char *name)
{
    for (const char *c = name; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return spot_fail(s, field, "contains a control character");
    return 0;
}

static int check_own_name(const struct policy_spot *s)
{
    return check_printable(s, "name", s->ep->name);
}

static int check_endpoint(const struct policy_spot *s)
{
    static int (*const checks[])(const struct policy_spot *) = {
        check_own_name,         check_ports,         check_endpoint_host,    check_allowed_ips,
        check_hostless,         check_declared,      check_own_binaries,     check_endpoint_path,
        policy_check_protocol_, policy_check_rules_, policy_check_enforced_,
    };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = checks[i](s);
    return r;
}

static int check_who(const struct policy_spot *s)
{
    const struct egress_binary *all = s->entry->binaries.p;
    bool harness = false;
    int r = 0;

    for (size_t i = 0; i < s->entry->binaries.n && r >= 0; i++) {
        r = check_program(s, "binaries", i, all[i].path);
        harness |= all[i].harness;
    }
    return r >= 0 && harness ? spot_note(s, "binaries[].harness is ignored") : r;
}

static int check_key(const struct policy_spot *s)
{
    size_t n = strlen(s->entry->key);
    int r;

    if (n == 0 || n > EGRESS_NAME_MAX)
        return spot_fail(s, NULL, "a key must have 1 to %d bytes", EGRESS_NAME_MAX);
    if (s->entry->name && !*s->entry->name)
        s->entry->name = NULL;
    r = check_printable(s, NULL, s->entry->key);
    return r < 0 ? r : check_printable(s, "name", s->entry->name);
}

static int check_entry(struct policy_spot *s)
{
    struct egress_endpoint *eps = s->entry->endpoints.p;
    int r = check_key(s);

    if (r >= 0)
        r = check_who(s);
    if (r >= 0 && s->entry->spent && !s->entry->has_uses)
        r = spot_fail(s, "spent", "is only allowed with uses");
    if (r >= 0 && s->entry->until_ && !rfc3339_parse(str_from(s->entry->until_), &s->entry->until))
        r = spot_fail(s, "until", "must be a time, such as 2026-01-02T03:04:05Z");
    if (r >= 0 && s->entry->endpoints.n == 0)
        r = spot_fail(
            s, "endpoints",
            "an entry without endpoints allows nothing; add an endpoint, or remove the entry");
    for (size_t i = 0; i < s->entry->endpoints.n && r >= 0; i++) {
        s->ep = &eps[i];
        r = check_endpoint(s);
    }
    s->ep = NULL;
    return r;
}

/* Runs after all endpoints were checked: deny rules of one endpoint may cover another's rules. */
static int check_passable(struct policy_spot *s)
{
    struct egress_entry *entries = s->policy->network_policies.p;
    int r = 0;

    for (size_t i = 0; i < s->policy->network_policies.n && r >= 0; i++) {
        struct egress_endpoint *eps = entries[i].endpoints.p;
        int (*passable)(const struct policy_spot *s);

        s->entry = &entries[i];
        for (size_t k = 0; k < entries[i].endpoints.n && r >= 0; k++) {
            s->ep = &eps[k];
            passable = protocols[s->ep->protocol].check_passable;
            r = passable ? passable(s) : 0;
        }
    }
    s->entry = NULL;
    s->ep = NULL;
    return r;
}

static int check_entries(struct policy_spot *s)
{
    struct egress_entry *entries = s->policy->network_policies.p;
    size_t endpoints = 0;
    int r = 0;

    for (size_t i = 0; i < s->policy->network_policies.n && r >= 0; i++) {
        s->entry = &entries[i];
        endpoints += entries[i].endpoints.n;
        r = endpoints > EGRESS_ENDPOINTS_MAX
                ? spot_fail(s, "endpoints", "a policy must have at most %d endpoints",
                            EGRESS_ENDPOINTS_MAX)
                : check_entry(s);
    }
    s->entry = NULL;
    return r;
}

/* Whether the range has a public address that none of the prefixes has. */
static bool leaves_public(const struct prefix *range, const struct prefix *denied, size_t n)
{
    struct prefix half = *range;
    bool divided = false;

    for (size_t i = 0; i < n; i++) {
        if (denied[i].bits <= range->bits && prefix_has(&denied[i], &range->base))
            return false;
        divided |= denied[i].bits > range->bits && prefix_has(range, &denied[i].base);
    }
    if (!divided || prefix_lacks_public(range))
        return !prefix_lacks_public(range);
    half.bits++;
    if (leaves_public(&half, denied, n))
        return true;
    half.base.bytes[range->bits / 8] |= (uint8_t)(0x80 >> range->bits % 8);
    return leaves_public(&half, denied, n);
}

bool policy_denies_public_(const struct json_strs *list)
{
    static const struct prefix families[] = { { .base.v6 = false }, { .base.v6 = true } };
    struct prefix denied[EGRESS_ADDRESSES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < list->n && n < COUNT_OF(denied); i++)
        n += prefix_parse(str_from(list->p[i]), &denied[n]);
    for (size_t i = 0; i < COUNT_OF(families); i++)
        if (leaves_public(&families[i], denied, n))
            return false;
    return true;
}

/* Whether a direct connection to one of the addresses can be allowed. */
static bool allows_some(const struct json_strs *list)
{
    struct prefix p;

    for (size_t i = 0; i < list->n; i++)
        if (prefix_parse(str_from(list->p[i]), &p) &&
            (prefix_is_single(&p) || !prefix_lacks_public(&p)))
            return true;
    return false;
}

static int check_denied(const struct policy_spot *s)
{
    const struct json_strs *list = &s->policy->unlisted.denied_ips;
    struct prefix p;

    for (size_t i = 0; i < list->n; i++)
        if (!prefix_parse(str_from(list->p[i]), &p))
            return spot_fail(s, "unlisted.denied_ips",
                             "must be addresses or prefixes, such as 192.0.2.0/24");
    if (s->policy->unlisted.access != EGRESS_UNLISTED_PUBLIC ||
        allows_some(&s->policy->unlisted.allowed_ips) || !policy_denies_public_(list))
        return 0;
    return spot_fail(
        s, "unlisted.denied_ips",
        "deny every address that access: public allows; narrow them, or omit unlisted");
}

int egress_check(struct egress_policy *p, struct egress_places places, struct arena *a,
                 struct err *e)
{
    size_t work = PASSABLE_WORK_MAX;
    struct policy_spot s = { .policy = p, .places = places, .arena = a, .e = e, .work = &work };
    int r;

    p->notes = (struct json_strs){ 0 };
    r = policy_check_sections_(&s);
    if (r >= 0)
        r = check_entries(&s);
    if (r >= 0)
        r = check_passable(&s);
    if (r >= 0)
        r = check_endpoint_addresses(&s, "unlisted.allowed_ips", &p->unlisted.allowed_ips);
    if (r >= 0)
        r = check_denied(&s);
    if (r >= 0)
        r = policy_check_middlewares_(&s);
    if (r >= 0)
        r = policy_check_overlaps_(&s);
    p->checked_ = r >= 0;
    return r;
}

int egress_check_times(const struct egress_policy *p, int64_t now, struct err *e)
{
    const struct egress_entry *entries = p->network_policies.p;

    for (size_t i = 0; i < p->network_policies.n; i++)
        if (entries[i].until_ && entries[i].until <= now)
            return err_set(e, ERR_INVALID,
                           "network_policies.%.80s.until: %.40s has passed, so the entry would "
                           "allow nothing; remove it, or set a later time",
                           entries[i].key, entries[i].until_);
    return 0;
}
