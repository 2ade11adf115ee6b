/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/reach.h"

#include "base/own.h"
#include "domain/model/token.h"
#include "lib/net/address.h"
#include "lib/net/host.h"
#include "domain/policy/egress_file.h"

enum { REACH_KNOWN = 1, REACH_OUT = 2, REACH_PUBLIC = 4, PORT_USUAL = 443, PORT_ANY = 1 };

typedef bool endpoint_fn(void *user, const struct egress_endpoint *p);

/* Whether fn returns true for every endpoint. */
static bool all_endpoints(const struct egress_policy *p, endpoint_fn *fn, void *user)
{
    const struct egress_entry *entries = p->network_policies.p;

    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *endpoints = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            if (!fn(user, &endpoints[k]))
                return false;
    }
    return true;
}

/* "10.0.0.0/8": whether it is more than one address. */
static bool is_range(struct str prefix, const struct address *a)
{
    uint64_t bits;

    return prefix.p && str_to_u64(prefix, &bits) && bits < (a->v6 ? 128 : 32);
}

/* A range with public addresses grants only these. */
static bool are_public(const struct json_strs *ips)
{
    for (size_t i = 0; i < ips->n; i++) {
        struct prefix p;

        if (!prefix_parse(str_from(ips->p[i]), &p) || prefix_lacks_public(&p))
            return false;
    }
    return true;
}

/* The worker resolves names, and connects to public addresses only, unless allowed_ips says
 * otherwise. */
static bool is_public_endpoint(void *user, const struct egress_endpoint *p)
{
    struct address a;
    bool special =
        p->host && address_parse(str_from(p->host), &a) && address_classify(&a) != ADDRESS_PUBLIC;

    return !special && are_public(&p->allowed_ips);
}

static unsigned compute_reach(const struct egress_policy *p)
{
    bool unlisted = p->unlisted.access == EGRESS_UNLISTED_PUBLIC || p->unlisted.allowed_ips.n;
    bool is_public =
        all_endpoints(p, is_public_endpoint, NULL) && are_public(&p->unlisted.allowed_ips);

    return REACH_KNOWN | (p->network_policies.n || unlisted ? REACH_OUT : 0) |
           (is_public ? REACH_PUBLIC : 0);
}

/* An unreadable policy counts as reaching everything. */
static unsigned get_policy_reach(struct policy_text *t)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_policy p = { 0 };

    if (!t->reach_)
        t->reach_ = egress_policy_from_json(t->json, &a, &p, NULL) < 0 ? REACH_KNOWN | REACH_OUT
                                                                       : compute_reach(&p);
    return t->reach_;
}

bool policy_lets_out(struct policy_text *t)
{
    return t && get_policy_reach(t) & REACH_OUT;
}

/* --- lists --- */

/* below: every name below the approved one; a pattern that was approved covers itself, too. */
static bool covers_host(bool below, struct str approved, struct str host)
{
    if (!below)
        return str_eq(approved, host);
    return host.n > approved.n + 1 && host.p[host.n - approved.n - 1] == '.' &&
           str_eq((struct str){ host.p + host.n - approved.n, approved.n }, approved);
}

static bool word_has_port(struct str word)
{
    size_t colon = word.n;

    while (colon > 0 && word.p[colon - 1] != ':' && word.p[colon - 1] != ']')
        colon--;
    return colon > 0 && word.p[colon - 1] == ':';
}

/* An approved address covers itself only. */
static bool covers_address(const struct host *approved, struct str host)
{
    struct address a;

    return approved->is_address && address_parse(host, &a) && address_equal(&approved->address, &a);
}

/* Whether a word of the list covers the host and port. */
static bool is_approved(struct str words, struct str host, uint16_t port)
{
    struct str word;

    while (words.n) {
        bool below, covers;
        struct host name;
        uint16_t number;

        words = str_cut(words, ' ', &word);
        below = str_starts(word, STR("*."));
        if (below)
            word = (struct str){ word.p + 2, word.n - 2 };
        if (authority_parse(word, PORT_ANY, &name, &number, NULL) < 0 || (below && name.is_address))
            continue;
        covers = name.is_address ? covers_address(&name, host)
                                 : covers_host(below, str_from(name.name), host);
        if (covers && (number == port || !word_has_port(word)))
            return true;
    }
    return false;
}

/* An endpoint by address names it twice: as its host, and in allowed_ips. */
static bool is_one_public_address(const struct egress_endpoint *p)
{
    struct address host, ip;

    if (!address_parse(str_from(p->host), &host) || address_classify(&host) != ADDRESS_PUBLIC)
        return false;
    for (size_t i = 0; i < p->allowed_ips.n; i++) {
        struct str text, prefix = str_cut(str_from(p->allowed_ips.p[i]), '/', &text);

        if (!address_parse(text, &ip) || is_range(prefix, &ip) || !address_equal(&host, &ip))
            return false;
    }
    return true;
}

static bool is_listed_endpoint(void *user, const struct egress_endpoint *p)
{
    const struct str *words = user;
    struct str host = str_from(p->host ? p->host : "");

    if (!host.n || str_starts(host, STR("**.")) || (p->allowed_ips.n && !is_one_public_address(p)))
        return false;
    for (size_t i = 0; i < p->port_count; i++)
        if (!is_approved(*words, host, p->ports[i]))
            return false;
    return p->port_count > 0;
}

bool policy_within(struct policy_text *t, struct str approved)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_policy p = { 0 };

    if (!policy_lets_out(t))
        return true;
    if (!approved.n)
        return false;
    if (str_eq(approved, STR(TOKEN_PUBLIC)))
        return get_policy_reach(t) & REACH_PUBLIC;
    return egress_policy_from_json(t->json, &a, &p, NULL) >= 0 &&
           p.unlisted.access != EGRESS_UNLISTED_PUBLIC && !p.unlisted.allowed_ips.n &&
           all_endpoints(&p, is_listed_endpoint, &approved);
}

/* --- valid approvals --- */

/* An approval is always within the ceiling `public`: other addresses need a policy that a master
 * has reviewed. */
static int check_approved_word(struct str word, struct err *e)
{
    bool below = str_starts(word, STR("*."));
    struct str name = below ? (struct str){ word.p + 2, word.n - 2 } : word;
    struct host host;
    uint16_t port;

    if (authority_parse(name, PORT_USUAL, &host, &port, e) < 0)
        return err_wrap(e, -(int)ERR_INVALID, "network: '" STR_FMT "'", STR_ARG(word));
    if (below && host.is_address)
        return err_set(e, ERR_INVALID,
                       "network: '" STR_FMT "': '*.' must be followed by a name, not an address",
                       STR_ARG(word));
    if (host.is_address && address_classify(&host.address) != ADDRESS_PUBLIC)
        return err_set(
            e, ERR_DENIED,
            "network: '" STR_FMT
            "' is not a public address, and a token can only be approved within the ceiling "
            "`public`: leave it out, and have a master approve the sandboxes that need it",
            STR_ARG(word));
    return 0;
}

int approval_check(struct str approved, struct err *e)
{
    struct str word;
    int r = approved.n < TOKEN_NETWORK_MAX
                ? 0
                : err_set(e, ERR_TOO_BIG, "network: more than %d bytes", TOKEN_NETWORK_MAX - 1);

    if (str_eq(approved, STR(TOKEN_PUBLIC)))
        return 0;
    while (r >= 0 && approved.n) {
        approved = str_cut(approved, ' ', &word);
        r = check_approved_word(word, e);
    }
    return r;
}
