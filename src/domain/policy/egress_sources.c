/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_sources.h"

#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "lib/net/host.h"
#include "domain/policy/egress_check.h"
#include "domain/policy/spot.h"

static const uint16_t web_ports[] = { 80, 443 };

static int fail_policy_memory(struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "the policy needs more memory than is allowed");
}

/* Makes an entry for every program, with room for n endpoints. */
static struct egress_entry *new_entry(struct arena *a, const char *key, size_t n,
                                      struct egress_policy *p)
{
    struct egress_entry *entry = arena_alloc(a, sizeof *entry);
    struct egress_endpoint *eps = arena_array(a, n + 1, sizeof *eps);

    if (!entry || !eps)
        return NULL;
    *entry = (struct egress_entry){ .key = key, .endpoints = { eps, 0 } };
    *p = (struct egress_policy){ .version = 1, .network_policies = { entry, n ? 1 : 0 } };
    return entry;
}

int egress_ports_put_(struct egress_endpoint *ep, const uint16_t *ports, size_t n, struct arena *a)
{
    struct json *list = arena_alloc(a, sizeof *list), *items = arena_array(a, n, sizeof *items);

    if (!list || !items)
        return -ERR_TOO_BIG;
    for (size_t i = 0; i < n; i++)
        items[i] = (struct json){ .type = JSON_INT, .i = ports[i] };
    *list = (struct json){ .type = JSON_ARRAY, .list = { items, n } };
    ep->ports_ = list;
    return 0;
}

/* An address that is written explicitly is declared, of any class. */
static int declare_address(struct egress_endpoint *ep, struct arena *a)
{
    struct address address;
    const char **list;

    if (!address_parse(str_from(ep->host), &address) ||
        address_classify(&address) == ADDRESS_PUBLIC)
        return 0;
    list = arena_array(a, 1, sizeof *list);
    if (!list)
        return -ERR_TOO_BIG;
    list[0] = ep->host;
    ep->allowed_ips = (struct json_strs){ list, 1 };
    return 0;
}

static int add_endpoint(struct egress_entry *entry, struct str host, const uint16_t *ports,
                        size_t n, struct arena *a, struct err *e)
{
    struct egress_endpoint *ep = (struct egress_endpoint *)entry->endpoints.p + entry->endpoints.n;

    ep->host = arena_dup(a, host);
    if (!ep->host || egress_ports_put_(ep, ports, n, a) < 0 || declare_address(ep, a) < 0)
        return fail_policy_memory(e);
    entry->endpoints.n++;
    return 0;
}

/* "10.0.0.5,fd00::5": the addresses of the name. */
static int place_name(struct egress_endpoint *ep, struct str addresses, struct arena *a,
                      struct err *e)
{
    const char **list = arena_array(a, EGRESS_ADDRESSES_MAX, sizeof *list);
    size_t n = 0;

    while (list && addresses.p) {
        struct str one;

        addresses = str_cut(addresses, ',', &one);
        if (one.n > 1 && one.p[0] == '[' && one.p[one.n - 1] == ']')
            one = (struct str){ one.p + 1, one.n - 2 };
        if (n == EGRESS_ADDRESSES_MAX)
            return err_set(e, ERR_TOO_BIG, "has more than %d addresses", EGRESS_ADDRESSES_MAX);
        list[n] = arena_dup(a, one);
        if (!list[n++])
            return fail_policy_memory(e);
    }
    if (!list)
        return fail_policy_memory(e);
    ep->allowed_ips = (struct json_strs){ list, n };
    return 0;
}

/* Splits into host and ports; brackets are only for IPv6 addresses. */
static bool cut_item(struct str item, struct str *ret_host, struct str *ret_ports)
{
    struct address address;
    struct str rest;

    *ret_ports = (struct str){ 0 };
    if (item.n == 0 || item.p[0] != '[') {
        *ret_ports = str_cut(item, ':', ret_host);
        return !ret_ports->p || ret_ports->n > 0;
    }
    rest = str_cut((struct str){ item.p + 1, item.n - 1 }, ']', ret_host);
    if (!rest.p || !address_parse(*ret_host, &address) || !address.v6)
        return false;
    if (rest.n)
        *ret_ports = (struct str){ rest.p + 1, rest.n - 1 };
    return rest.n == 0 || (rest.p[0] == ':' && rest.n > 1);
}

static bool read_ports(struct str text, uint16_t ports[EGRESS_PORTS_MAX], size_t *ret_n)
{
    struct str one;
    uint64_t port;

    *ret_n = 0;
    while (text.p) {
        text = str_cut(text, ',', &one);
        if (!str_to_u64(one, &port) || port == 0 || port > UINT16_MAX || one.p[0] == '0' ||
            *ret_n == EGRESS_PORTS_MAX)
            return false;
        ports[(*ret_n)++] = (uint16_t)port;
    }
    return true;
}

static struct egress_endpoint *last_endpoint(const struct egress_entry *entry)
{
    return (struct egress_endpoint *)entry->endpoints.p + entry->endpoints.n - 1;
}

static int add_item(struct egress_entry *entry, const char *item, struct arena *a, struct err *e)
{
    uint16_t ports[EGRESS_PORTS_MAX] = { EGRESS_ALLOW_PORT };
    char shown[80];
    struct str host, list, place, at = str_cut(str_from(item), '=', &place);
    size_t n = 1;
    bool loopback;
    int r;

    log_printable(str_from(item), shown, sizeof shown);
    if (!cut_item(place, &host, &list) || host.n == 0 || (at.p && !at.n))
        return err_set(e, ERR_INVALID, "'%s' is not HOST[:PORT[,PORT…]][=ADDRESS[,ADDRESS…]]",
                       shown);
    if (list.p && !read_ports(list, ports, &n))
        return err_set(e, ERR_INVALID,
                       "'%s': ports must be numbers from 1 to 65535 separated by ','", shown);
    loopback = host_names_loopback(host) && !at.p;
    r = add_endpoint(entry, loopback ? STR("127.0.0.1") : host, ports, n, a, e);
    /* With this name, 127.0.0.1 inside remains the sandbox's: take_endpoint() in
     * control/egress/places.c. */
    if (r >= 0 && loopback && str_eq(host, STR(HOST_INSIDE)))
        last_endpoint(entry)->name = HOST_INSIDE;
    return r < 0 || !at.p ? r
                          : err_wrap(e, place_name(last_endpoint(entry), at, a, e), "'%s'", shown);
}

/* Messages of the check name locations in a file; this names the item instead. */
static int check_items(struct egress_policy *p, struct json_strs items, struct arena *a,
                       struct err *e)
{
    const struct egress_entry *entry = p->network_policies.p;
    char shown[80];

    for (size_t i = 0; i < entry->endpoints.n; i++) {
        struct egress_entry one = *entry;
        struct egress_policy alone = { .version = 1, .network_policies = { &one, 1 } };
        int r;

        one.endpoints.p = (struct egress_endpoint *)entry->endpoints.p + i;
        one.endpoints.n = 1;
        log_printable(str_from(items.p[i]), shown, sizeof shown);
        r = egress_check(&alone, (struct egress_places){ .list = "this" }, a, e);
        if (r < 0)
            return err_wrap(e, r, "'%s'", shown);
    }
    return egress_check(p, (struct egress_places){ 0 }, a, e);
}

int egress_from_allow(struct json_strs items, struct arena *a, struct egress_policy *ret,
                      struct err *e)
{
    struct egress_policy p;
    struct egress_entry *entry = new_entry(a, "allow", items.n, &p);
    int r = entry ? 0 : fail_policy_memory(e);

    if (items.n > EGRESS_ENDPOINTS_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d items", EGRESS_ENDPOINTS_MAX);
    for (size_t i = 0; i < items.n && r >= 0; i++)
        r = add_item(entry, items.p[i], a, e);
    if (r >= 0)
        r = check_items(&p, items, a, e);
    if (r >= 0)
        *ret = p;
    return r;
}

/* "*.example.com" in such a list means every name below, which is "**.example.com" here. */
static int add_listed_name(struct egress_entry *entry, struct str name, struct arena *a,
                           struct err *e)
{
    char deep[HOST_MAX + 2];

    if (!str_starts(name, STR("*.")) || name.n > HOST_MAX)
        return add_endpoint(entry, name, web_ports, COUNT_OF(web_ports), a, e);
    snprintf(deep, sizeof deep, "*" STR_FMT, STR_ARG(name));
    return add_endpoint(entry, str_from(deep), web_ports, COUNT_OF(web_ports), a, e);
}

/* The lists while they are parsed. */
struct lists {
    struct egress_policy *p;
    struct egress_entry *entry;
    const char **allowed, **denied, **names;
    size_t n_allowed, n_denied, n_names;
    bool public;
};

static int add_allowed(struct lists *l, const char *item, struct arena *a, struct err *e)
{
    struct prefix prefix;

    if (!prefix_parse(str_from(item), &prefix)) {
        l->names[l->n_names++] = item;
        return add_listed_name(l->entry, str_from(item), a, e);
    }
    if (prefix.bits == 0) {
        l->public = true;
        l->n_denied = 0; /* allow takes precedence */
    } else {
        l->allowed[l->n_allowed++] = item;
    }
    return 0;
}

static int add_denied(struct lists *l, const char *item, struct err *e)
{
    struct prefix prefix;
    char shown[80];

    log_printable(str_from(item), shown, sizeof shown);
    if (!prefix_parse(str_from(item), &prefix))
        return err_set(e, ERR_INVALID, "denyOut accepts only addresses and prefixes, not '%s'",
                       shown);
    if (prefix.bits == 0 && !prefix.base.v6)
        l->public = false; /* in these lists it means all traffic */
    l->denied[l->n_denied++] = item;
    return 0;
}

static int take_lists(struct lists *l, struct json_strs allow_out, struct json_strs deny_out,
                      struct arena *a, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < deny_out.n && r >= 0; i++)
        r = add_denied(l, deny_out.p[i], e);
    for (size_t i = 0; i < allow_out.n && r >= 0; i++)
        r = add_allowed(l, allow_out.p[i], a, e);
    l->p->unlisted.allowed_ips = (struct json_strs){ l->allowed, l->n_allowed };
    l->p->unlisted.denied_ips = (struct json_strs){ l->denied, l->n_denied };
    l->public &= !policy_denies_public_(&l->p->unlisted.denied_ips); /* denyOut may deny all */
    l->p->unlisted.access = l->public ? EGRESS_UNLISTED_PUBLIC : EGRESS_UNLISTED_DENY;
    if (l->entry->endpoints.n == 0)
        l->p->network_policies.n = 0;
    if (r >= 0 && l->n_allowed + l->n_denied > EGRESS_ADDRESSES_MAX)
        return err_set(e, ERR_TOO_BIG, "allowOut and denyOut have more than %d addresses",
                       EGRESS_ADDRESSES_MAX);
    return r;
}

int egress_from_lists(struct json_strs allow_out, struct json_strs deny_out, bool internet,
                      struct arena *a, struct egress_policy *ret, struct err *e)
{
    struct egress_policy p;
    struct lists l = { .p = &p, .public = internet };
    int r;

    if (allow_out.n > EGRESS_ENDPOINTS_MAX || deny_out.n > EGRESS_ENDPOINTS_MAX)
        return err_set(e, ERR_TOO_BIG, "a list has more than %d items", EGRESS_ENDPOINTS_MAX);
    l.entry = new_entry(a, "allowOut", allow_out.n, &p);
    l.allowed = arena_array(a, allow_out.n + 1, sizeof *l.allowed);
    l.names = arena_array(a, allow_out.n + 1, sizeof *l.names);
    l.denied = arena_array(a, deny_out.n + 1, sizeof *l.denied);
    if (!l.entry || !l.allowed || !l.names || !l.denied)
        return fail_policy_memory(e);
    r = take_lists(&l, allow_out, deny_out, a, e);
    if (r >= 0 && p.network_policies.n)
        r = check_items(&p, (struct json_strs){ l.names, l.n_names }, a, e);
    else if (r >= 0)
        r = egress_check(&p, (struct egress_places){ 0 }, a, e);
    if (r >= 0)
        *ret = p;
    return r;
}

int egress_from_profile(const struct json_objects *endpoints, const struct json *document,
                        struct arena *a, struct egress_policy *ret, struct err *e)
{
    struct egress_places places = { .document = document, .list = "network.egress" };
    struct egress_policy p;
    struct egress_entry *entry = new_entry(a, "profile", endpoints->n, &p);
    int r;

    if (!entry)
        return fail_policy_memory(e);
    entry->endpoints = *endpoints;
    r = egress_check(&p, places, a, e);
    if (r >= 0)
        *ret = p;
    return r;
}

static bool key_taken(const struct egress_entry *entries, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(entries[i].key, key) == 0)
            return true;
    return false;
}

/* "web", or "web (2)" if another part has that key. */
static const char *unused_entry_key(const struct egress_entry *entries, size_t n, const char *key,
                                    struct arena *a)
{
    char text[EGRESS_NAME_MAX + 1];
    unsigned number = 1;

    if (!key_taken(entries, n, key))
        return key;
    do
        snprintf(text, sizeof text, "%.100s (%u)", key, ++number);
    while (key_taken(entries, n, text));
    return arena_dup(a, str_from(text));
}

static int copy_list(struct json_objects *list, size_t size, struct arena *a, struct err *e)
{
    void *copy = arena_array(a, list->n + 1, size);

    if (!copy)
        return fail_policy_memory(e);
    if (list->n)
        memcpy(copy, list->p, list->n * size);
    list->p = copy;
    return 0;
}

/* The check modifies endpoints and rules, so those of a part are copied. */
static int copy_policy_entry(struct egress_entry *entry, struct arena *a, struct err *e)
{
    struct egress_endpoint *eps;
    int r = copy_list(&entry->endpoints, sizeof *eps, a, e);

    eps = entry->endpoints.p;
    for (size_t i = 0; i < entry->endpoints.n && r >= 0; i++) {
        r = copy_list(&eps[i].rules, sizeof(struct egress_allow), a, e);
        if (r >= 0)
            r = copy_list(&eps[i].deny_rules, sizeof(struct egress_rule), a, e);
    }
    return r;
}

static int join_entries(const struct egress_policy *part, struct egress_entry *entries, size_t *n,
                        struct arena *a, struct err *e)
{
    const struct egress_entry *from = part->network_policies.p;
    size_t before = *n;
    int r = 0;

    for (size_t i = 0; i < part->network_policies.n && r >= 0; i++) {
        struct egress_entry *to = &entries[*n];

        *to = from[i];
        to->key = unused_entry_key(entries, before, from[i].key, a);
        if (!to->key)
            return fail_policy_memory(e);
        r = copy_policy_entry(to, a, e);
        (*n)++;
    }
    return r;
}

static bool says_unlisted(const struct egress_policy *p)
{
    return p->unlisted.access != EGRESS_UNLISTED_DENY || p->unlisted.allowed_ips.n ||
           p->unlisted.denied_ips.n;
}

int egress_join(const struct egress_policy *const *parts, size_t n, struct arena *a,
                struct egress_policy *ret, struct err *e)
{
    struct egress_policy p = { .version = 1 };
    struct egress_entry *entries;
    size_t room = 1, used = 0;
    int r = 0;

    for (size_t i = 0; i < n; i++)
        room += parts[i]->network_policies.n;
    entries = arena_array(a, room, sizeof *entries);
    if (!entries)
        return fail_policy_memory(e);
    for (size_t i = 0; i < n && r >= 0; i++) {
        if (!parts[i]->checked_)
            return err_set(e, ERR_BUG, "internal error: unchecked policy joined");
        if (says_unlisted(parts[i]))
            p.unlisted = parts[i]->unlisted;
        r = join_entries(parts[i], entries, &used, a, e);
    }
    p.network_policies = (struct json_objects){ entries, used };
    if (r >= 0)
        r = egress_check(&p, (struct egress_places){ 0 }, a, e);
    if (r >= 0)
        *ret = p;
    return r;
}
