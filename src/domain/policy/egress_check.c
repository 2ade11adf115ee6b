#include "policy/egress_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/moment.h"
#include "base/own.h"
#include "net/host.h"
#include "policy/glob.h"
#include "policy/host_pattern.h"
#include "policy/path.h"
#include "policy/spot.h"

/* Ranges that no list of addresses may touch, as the format has it. One exact address of them can
 * still be an endpoint's host, and then stand in its list. */
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

static bool prefix_overlaps(const struct prefix *a, const struct prefix *b)
{
    return prefix_has(a, &b->base) || prefix_has(b, &a->base);
}

static bool is_exact(const struct prefix *p)
{
    return p->bits == (p->base.v6 ? 128u : 32u);
}

const char *egress_address_flaw(struct str s)
{
    struct prefix p, bad;

    if (!prefix_parse(s, &p))
        return "must be an address or prefix, as 192.0.2.7 or 192.0.2.0/24, with nothing set "
               "behind "
               "the prefix";
    for (size_t i = 0; i < COUNT_OF(never); i++)
        if (prefix_parse(str_from(never[i]), &bad) && prefix_overlaps(&p, &bad))
            return "must not touch loopback, link-local or unspecified addresses";
    if (is_exact(&p) && !address_grantable(&p.base))
        return "is a metadata service, which nobody can be allowed to reach";
    return NULL;
}

static bool has_name(const struct egress_endpoint *ep)
{
    struct address host;

    return ep && ep->host && !address_parse(str_from(ep->host), &host);
}

/* A range that is not public is of no use without a name: only exact addresses open it. */
static int note_private(const struct spot *s, const char *text)
{
    struct prefix p;

    if (has_name(s->ep) || !prefix_parse(str_from(text), &p) || is_exact(&p) ||
        address_classify(&p.base) == ADDRESS_PUBLIC)
        return 0;
    return spot_note(s, "%s is not public: of such a range only exact addresses can be reached",
                     text);
}

/* Whether it is the address that the endpoint has as its host already: the way to say that just
 * this one is meant, whatever it is. */
static bool repeats_host(const struct egress_endpoint *ep, const char *text)
{
    struct prefix p;
    struct address host;

    return ep && ep->host && address_parse(str_from(ep->host), &host) &&
           prefix_parse(str_from(text), &p) && is_exact(&p) && address_equal(&p.base, &host) &&
           address_grantable(&host);
}

/* One exact address beside a name is meant, too. */
static bool places_name(const struct egress_endpoint *ep, const char *text)
{
    struct prefix p;

    return has_name(ep) && prefix_parse(str_from(text), &p) && is_exact(&p) &&
           address_classify(&p.base) != ADDRESS_UNSPECIFIED && address_grantable(&p.base);
}

static int check_addresses(const struct spot *s, const char *field, const struct json_strs *list)
{
    char path[64];
    int r = 0;

    for (size_t i = 0; i < list->n && r >= 0; i++) {
        const char *flaw = repeats_host(s->ep, list->p[i]) || places_name(s->ep, list->p[i])
                               ? NULL
                               : egress_address_flaw(str_from(list->p[i]));

        snprintf(path, sizeof path, "%s[%zu]", field, i);
        r = flaw ? spot_fail(s, path, "%s", flaw) : note_private(s, list->p[i]);
    }
    return r;
}

/* What is not public is granted by saying its exact address twice, lest a slip grants it. */
static int check_declared(const struct spot *s)
{
    const struct json_strs *list = &s->ep->allowed_ips;
    struct address host;
    bool said = false;

    if (!s->ep->host || !address_parse(str_from(s->ep->host), &host) ||
        address_classify(&host) == ADDRESS_PUBLIC)
        return 0;
    for (size_t i = 0; i < list->n; i++)
        said |= repeats_host(s->ep, list->p[i]);
    if (said)
        return 0;
    return spot_fail(s, "host", "is not a public address; if it is meant, add allowed_ips: ['%s']",
                     s->ep->host);
}

static int check_allowed(const struct spot *s)
{
    int r = check_addresses(s, "allowed_ips", &s->ep->allowed_ips);

    return r < 0 ? r : check_declared(s);
}

static int compare_ports(const void *a, const void *b)
{
    return *(const uint16_t *)a - *(const uint16_t *)b;
}

static int read_port(const struct spot *s, const char *field, const struct json *v, uint16_t *ret)
{
    if (v->type != JSON_INT || v->i < 1 || v->i > UINT16_MAX)
        return spot_fail(s, field, "a port is a whole number from 1 to 65535");
    if (port_control_plane((uint16_t)v->i))
        return spot_fail(s, field, "port %d belongs to cluster control planes and is never allowed",
                         (int)v->i);
    *ret = (uint16_t)v->i;
    return 0;
}

/* Sorted, each once, and as the document would have them. */
static int keep_ports(const struct spot *s, uint16_t *ports, size_t n)
{
    struct json *list = arena_alloc(s->arena, sizeof *list);
    struct json *items = arena_array(s->arena, n, sizeof *items);
    size_t kept = 0;

    if (!list || !items)
        return spot_no_room(s);
    qsort(ports, n, sizeof *ports, compare_ports);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || ports[kept - 1] != ports[i])
            ports[kept++] = ports[i];
    for (size_t i = 0; i < kept; i++)
        items[i] = (struct json){ .type = JSON_INT, .i = ports[i] };
    *list = (struct json){ .type = JSON_ARRAY, .list = { items, kept } };
    s->ep->ports = ports;
    s->ep->port_count = kept;
    s->ep->ports_ = list;
    s->ep->port_ = NULL;
    return 0;
}

static int check_ports(const struct spot *s)
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
        r = read_port(s, "port", one, &ports[0]);
    for (size_t i = 0; i < n && r >= 0; i++)
        r = read_port(s, "ports", &list->list.p[i], &ports[i]);
    return r < 0 ? r : keep_ports(s, ports, one ? 1 : n);
}

static int check_address_host(const struct spot *s, const struct address *address)
{
    char text[ADDRESS_TEXT_MAX];

    if (!address_grantable(address))
        return spot_fail(s, "host", "is a metadata service, which nobody can be allowed to reach");
    if (s->ep->has_protocol && s->ep->protocol == EGRESS_TCP)
        return spot_fail(s, "host", "must be a name with protocol tcp; leave the protocol out");
    s->ep->host = arena_dup(s->arena, address_text(address, text));
    return s->ep->host ? 0 : spot_no_room(s);
}

static int check_name_host(const struct spot *s)
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
        return spot_fail(s, "host", "is a metadata service, which nobody can be allowed to reach");
    if (host_names_loopback(str_from(lower)))
        return spot_fail(s, "host",
                         "names the loopback of this machine; if it is meant, write host: "
                         "127.0.0.1 and allowed_ips: ['127.0.0.1']");
    s->ep->host = lower;
    return 0;
}

static int check_host(const struct spot *s)
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
    if (s->ep->has_protocol && (s->ep->protocol == EGRESS_TCP || s->ep->protocol == EGRESS_MCP))
        return spot_fail(s, "host", "is required with this protocol");
    return 0;
}

static int check_path(const struct spot *s)
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

static int check_program(const struct spot *s, const char *field, size_t i, const char *path)
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
            return spot_fail(s, where, "holds a control character");
    for (rest = str_cut(rest, '/', &part); rest.p;) {
        rest = str_cut(rest, '/', &part);
        if (part.n == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
            return spot_fail(s, where, "must not have '//', '.', '..' or a '/' at the end");
    }
    if (glob_compile(text, GLOB_PARTS, '/', &scratch, &g, &why) < 0)
        return spot_fail(s, where, "%s", why.msg);
    return 0;
}

static int check_own_binaries(const struct spot *s)
{
    const struct json_strs *own = &s->ep->binaries;
    int r = 0;

    for (size_t i = 0; i < own->n && r >= 0; i++)
        r = check_program(s, "binaries", i, own->p[i]);
    return r;
}

/* Names go into messages and logs. */
static int check_printable(const struct spot *s, const char *field, const char *name)
{
    for (const char *c = name; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return spot_fail(s, field, "holds a control character");
    return 0;
}

static int check_own_name(const struct spot *s)
{
    return check_printable(s, "name", s->ep->name);
}

static int check_endpoint(const struct spot *s)
{
    static int (*const checks[])(const struct spot *) = {
        check_own_name,         check_ports,         check_host,
        check_allowed,          check_own_binaries,  check_path,
        policy_check_protocol_, policy_check_rules_, policy_check_enforced_,
    };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = checks[i](s);
    return r;
}

static int check_who(const struct spot *s)
{
    const struct egress_binary *all = s->entry->binaries.p;
    bool harness = false;
    int r = 0;

    for (size_t i = 0; i < s->entry->binaries.n && r >= 0; i++) {
        r = check_program(s, "binaries", i, all[i].path);
        harness |= all[i].harness;
    }
    return r >= 0 && harness ? spot_note(s, "binaries[].harness means nothing") : r;
}

static int check_key(const struct spot *s)
{
    size_t n = strlen(s->entry->key);
    int r;

    if (n == 0 || n > EGRESS_NAME_MAX)
        return spot_fail(s, NULL, "a key has 1 to %d bytes", EGRESS_NAME_MAX);
    if (s->entry->name && !*s->entry->name)
        s->entry->name = NULL;
    r = check_printable(s, NULL, s->entry->key);
    return r < 0 ? r : check_printable(s, "name", s->entry->name);
}

static int check_limits(const struct spot *s)
{
    const char *text = s->entry->until_;

    if (s->entry->spent && !s->entry->has_uses)
        return spot_fail(s, "spent", "is for entries with uses");
    if (text && !moment_parse(str_from(text), &s->entry->until))
        return spot_fail(s, "until", "must be a moment, as in 2026-01-02T03:04:05Z");
    return 0;
}

static int check_entry(struct spot *s)
{
    struct egress_endpoint *eps = s->entry->endpoints.p;
    int r = check_key(s);

    if (r >= 0)
        r = check_who(s);
    if (r >= 0)
        r = check_limits(s);
    for (size_t i = 0; i < s->entry->endpoints.n && r >= 0; i++) {
        s->ep = &eps[i];
        r = check_endpoint(s);
    }
    for (size_t i = 0; i < s->entry->endpoints.n && r >= 0; i++) {
        s->ep = &eps[i];
        r = policy_check_passable_(s);
    }
    s->ep = NULL;
    return r;
}

static int check_entries(struct spot *s)
{
    struct egress_entry *entries = s->policy->network_policies.p;
    size_t endpoints = 0;
    int r = 0;

    for (size_t i = 0; i < s->policy->network_policies.n && r >= 0; i++) {
        s->entry = &entries[i];
        endpoints += entries[i].endpoints.n;
        r = endpoints > EGRESS_ENDPOINTS_MAX
                ? spot_fail(s, "endpoints", "a policy has at most %d endpoints",
                            EGRESS_ENDPOINTS_MAX)
                : check_entry(s);
    }
    s->entry = NULL;
    return r;
}

static int check_denied(const struct spot *s)
{
    const struct json_strs *list = &s->policy->unlisted.denied_ips;
    struct prefix p;

    for (size_t i = 0; i < list->n; i++)
        if (!prefix_parse(str_from(list->p[i]), &p))
            return spot_fail(s, "unlisted.denied_ips",
                             "must be addresses or prefixes, as in "
                             "192.0.2.0/24");
    return 0;
}

int egress_check(struct egress_policy *p, struct egress_places places, struct arena *a,
                 struct err *e)
{
    struct spot s = { .policy = p, .places = places, .arena = a, .e = e };
    int r;

    p->notes = (struct json_strs){ 0 };
    r = policy_check_sections_(&s);
    if (r >= 0)
        r = check_entries(&s);
    if (r >= 0)
        r = check_addresses(&s, "unlisted.allowed_ips", &p->unlisted.allowed_ips);
    if (r >= 0)
        r = check_denied(&s);
    if (r >= 0)
        r = policy_check_middlewares_(&s);
    if (r >= 0)
        r = policy_check_overlaps_(&s);
    p->checked_ = r >= 0;
    return r;
}
