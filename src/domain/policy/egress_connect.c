/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/own.h"
#include "domain/policy/compiled.h"
#include "domain/policy/host_pattern.h"

enum { FOUND_MAX = 64, SHOWN_HOST = 128 };

/* The nodes of the hosts that a name matches. */
struct host_nodes {
    const struct trie *x;
    const struct str *labels; /* of the name in question, the last label first */
    size_t label_count;
    uint32_t nodes[FOUND_MAX];
    size_t n;
    bool named; /* at least one has a host */
    bool full;  /* the list is incomplete */
    size_t steps;
};

enum { ANY_PORT = 1 }; /* for queries about a name; no rule depends on this port */

static void note_host(struct host_nodes *f, uint32_t node)
{
    size_t n;

    if (!node)
        return;
    trie_items(f->x, node, &n);
    if (n == 0)
        return; /* belongs only to longer hosts */
    if (f->n == FOUND_MAX)
        f->full = true;
    else
        f->nodes[f->n++] = node;
}

/* Matches labels such as "ab*cd" for the first label of the name: one attempt for each shape, at
 * most as many as a label has ways to be split. */
static void find_infix(struct host_nodes *f, uint32_t node, struct str label)
{
    size_t n;
    uint32_t shapes = trie_find(f->x, node, TRIE_SHAPES, STR(""), &f->steps);
    const struct trie_item *items = shapes ? trie_items(f->x, shapes, &n) : NULL;

    for (size_t i = 0; items && i < n; i++) {
        const struct shape *shape = items[i].what;
        char key[LABEL_KEY + 1];
        struct str prefix, suffix;

        if ((size_t)shape->prefix + shape->suffix > label.n)
            continue;
        prefix = (struct str){ label.p, shape->prefix };
        suffix = (struct str){ label.p + label.n - shape->suffix, shape->suffix };
        note_host(f, trie_find(f->x, node, TRIE_INFIX, infix_key(prefix, suffix, key), &f->steps));
    }
}

/* Follows words and stars; hosts have few stars, so there are few paths. */
static void find_below(struct host_nodes *f, uint32_t node, size_t used)
{
    uint32_t next;

    if (used == f->label_count) {
        note_host(f, node);
        return;
    }
    note_host(f, trie_find(f->x, node, TRIE_STARS, STR(""), &f->steps));
    if (used + 1 == f->label_count)
        find_infix(f, node, f->labels[used]);
    next = trie_find(f->x, node, TRIE_WORD, f->labels[used], &f->steps);
    if (next)
        find_below(f, next, used + 1);
    next = trie_find(f->x, node, TRIE_STAR, STR(""), &f->steps);
    if (next)
        find_below(f, next, used + 1);
}

/* Returns false if the name is not canonical. */
static bool find_host_name(struct host_nodes *f, uint32_t root, struct str name)
{
    struct str labels[HOST_LABELS_MAX];
    struct host_pattern p;

    if (host_pattern_parse(name, &p) || p.wild)
        return false;
    for (size_t i = 0; i < p.n; i++)
        labels[i] = p.labels[i].text;
    f->labels = labels;
    f->label_count = p.n;
    find_below(f, root, 0);
    f->labels = NULL;
    return true;
}

/* The loopback names mean 127.0.0.1 if the policy has the port there, else ::1. */
static void find_loopback(struct host_nodes *f, uint32_t root, uint16_t port)
{
    uint32_t at[2] = { trie_find(f->x, root, TRIE_ADDRESS, STR("127.0.0.1"), &f->steps),
                       trie_find(f->x, root, TRIE_ADDRESS, STR("::1"), &f->steps) };

    for (size_t i = 0; port != ANY_PORT && i < COUNT_OF(at); i++)
        if (at[i] && trie_find(f->x, at[i], TRIE_PORT, port_key(&port), &f->steps)) {
            note_host(f, at[i]);
            return;
        }
    for (size_t i = 0; i < COUNT_OF(at); i++)
        note_host(f, at[i]);
}

/* Finds all hosts that match. */
static bool find_hosts(const struct egress_snapshot *s, const struct egress_connect_query *query,
                       struct host_nodes *f)
{
    bool good = true;

    *f = (struct host_nodes){ .x = &s->trie };
    if (query->host_is_address)
        note_host(f, trie_find(f->x, s->hosts, TRIE_ADDRESS, query->host, &f->steps));
    else if (host_names_loopback(query->host))
        find_loopback(f, s->hosts, query->port);
    else
        good = find_host_name(f, s->hosts, query->host);
    f->named = f->n > 0;
    return good;
}

static bool is_metadata(struct str name)
{
    struct host h;

    return host_parse(name, false, &h, NULL) >= 0 && host_is_metadata(&h);
}

static bool program_matches(const struct programs *who, struct str path)
{
    for (size_t i = 0; i < who->n; i++)
        if (glob_match(who->p[i], path))
            return true;
    return false;
}

static bool who_matches(const struct programs *who, const struct egress_connect_query *query)
{
    bool good = who->any;

    if (!good && query->identity_known)
        good = program_matches(who, query->binary);
    for (size_t i = 0; !good && query->identity_known && i < query->n_ancestors; i++)
        good = program_matches(who, query->ancestors[i]);
    return good;
}

/* The endpoints found for one query. */
struct connect_candidates {
    const struct egress_connect_query *query;
    struct egress_match *m;
    const struct egress_endpoint_c *barred; /* the first that does not allow the program */
    const struct egress_limit *over;        /* the first that has expired */
    bool full;
};

static void consider_endpoint(struct connect_candidates *a, const struct egress_endpoint_c *ep)
{
    struct egress_match *m = a->m;

    if (limit_is_over(ep->limit)) {
        if (!a->over)
            a->over = ep->limit;
        return;
    }
    m->needs_identity |= !ep->who->any && !a->query->identity_known;
    if (!who_matches(ep->who, a->query)) {
        if (!a->barred || ep->order < a->barred->order)
            a->barred = ep;
    } else if (m->all_count_ == EGRESS_MATCH_MAX) {
        a->full = true;
    } else {
        m->all_[m->all_count_++] = ep;
    }
}

/* By name, then by position. Permanent entries come first: nothing is used up. */
static bool endpoint_precedes(const struct egress_endpoint_c *a, const struct egress_endpoint_c *b)
{
    struct str x = a->policy, y = b->policy;
    int r = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

    if (!a->limit != !b->limit)
        return !a->limit;
    if (r == 0)
        r = (x.n > y.n) - (x.n < y.n);
    return r ? r < 0 : a->order < b->order;
}

/* Summarizes the endpoints that apply. They agree on addresses and TLS (egress_check.h); if one is
 * inspected, the connection is. */
static void summarize_match(struct egress_match *m)
{
    const struct egress_endpoint_c *best = m->all_[0];

    m->audit_only = true;
    for (size_t i = 0; i < m->all_count_; i++) {
        const struct egress_endpoint_c *ep = m->all_[i];

        if (endpoint_precedes(ep, best))
            best = ep;
        if (ep->protocol == EGRESS_TCP)
            continue;
        m->protocol = ep->protocol;
        m->audit_only &= ep->audit;
        m->encoded_slash |= ep->encoded_slash;
    }
    m->audit_only &= m->protocol != EGRESS_TCP;
    m->endpoint = best;
    m->limit = m->protocol == EGRESS_TCP ? best->limit : NULL;
    m->policy = best->policy;
    m->endpoint_name = best->name;
    m->tls = best->tls;
    m->exact_host = !best->wild;
}

/* "example.com:443", for people. */
struct printable_destination {
    char host[SHOWN_HOST];
    unsigned port;
};

static struct printable_destination
make_printable_destination(const struct egress_connect_query *query)
{
    struct printable_destination s = { .port = query->port };

    log_printable(query->host, s.host, sizeof s.host);
    return s;
}

static bool means_loopback(const struct egress_connect_query *query)
{
    return !query->host_is_address && host_names_loopback(query->host);
}

static enum egress_verdict refuse_connection(const struct connect_candidates *a,
                                             const struct host_nodes *f, struct egress_reason *why)
{
    struct printable_destination to = make_printable_destination(a->query);
    const struct str none = { 0 };
    char program[SHOWN_HOST];

    if (!a->barred && a->over) {
        egress_limit_refuse(a->over, why);
        return EGRESS_DENIED;
    }
    if (!a->barred && !f->named && means_loopback(a->query))
        return egress_refuse_(
            why, "policy_denied", none,
            "Grant a port of the loopback: --allow 127.0.0.1:PORT, or an endpoint "
            "with host 127.0.0.1 and allowed_ips: ['127.0.0.1'].",
            "%s:%u is the loopback of the machine that the sandbox runs on, and "
            "the policy grants no port of it.",
            to.host, to.port);
    if (!a->barred && !f->named)
        return egress_refuse_(
            why, "policy_denied", none,
            "Add an endpoint with this host and port to the policy, or use another destination.",
            "%s:%u is not allowed by any policy.", to.host, to.port);
    if (!a->barred)
        return egress_refuse_(
            why, "port_not_allowed", none,
            "Use a port that the policy allows for this host, or add this port to the policy.",
            "%s is in the policy, but not on port %u.", to.host, to.port);
    if (!a->query->identity_known)
        return egress_refuse_(why, "identity_unknown", a->barred->place,
                              "Connect from a running program that does not share its socket.",
                              "%s:%u is allowed for certain programs only, and the connecting "
                              "program could not be identified.",
                              to.host, to.port);
    log_printable(a->query->binary, program, sizeof program);
    return egress_refuse_(why, "binary_not_allowed", a->barred->place,
                          "Use a program that the entry lists, or add this one to its binaries.",
                          "%s may not connect to %s:%u: it is not one of the programs of '" STR_FMT
                          "'.",
                          program, to.host, to.port, STR_ARG(a->barred->policy));
}

static enum egress_verdict refuse_early(const struct egress_snapshot *s,
                                        const struct egress_connect_query *query,
                                        struct egress_reason *why)
{
    struct printable_destination to = make_printable_destination(query);
    const struct str none = { 0 };

    if (query->port == 0 || port_control_plane(query->port))
        return egress_refuse_(why, "control_plane_port", none,
                              "No policy can allow this port; use the service through another one.",
                              "Port %u of %s is never allowed: cluster control planes use it.",
                              to.port, to.host);
    if (query->host_is_address ? !address_grantable(&query->address) : is_metadata(query->host))
        return egress_refuse_(
            why, "metadata_denied", none,
            "No policy can allow it; ask the owner of the sandbox for credentials.",
            "%s is a metadata service and never allowed.", to.host);
    if (s->endpoint_count == 0 && s->unlisted == EGRESS_UNLISTED_DENY && s->allowed.n == 0)
        return egress_refuse_(
            why, "policy_denied", none, "Create a sandbox whose policy has an endpoint for it.",
            "%s:%u is not allowed: the policy allows no connections at all.", to.host, to.port);
    return EGRESS_ALLOWED;
}

static enum egress_verdict refuse_beyond(const struct egress_snapshot *s,
                                         const struct egress_connect_query *query, uint16_t port,
                                         struct egress_reason *why)
{
    struct printable_destination to = make_printable_destination(query);
    char text[EGRESS_CEILING_TEXT];

    egress_ceiling_why(s->ceiling, to.host, query->host_is_address ? &query->address : NULL, port,
                       false, text);
    return egress_refuse_(why, "ceiling_denied", (struct str){ 0 }, EGRESS_CEILING_NEXT, "%s.",
                          text);
}

/* egress_addresses() checks the ceiling of an endpoint without a host. */
static enum egress_verdict allow_within(const struct egress_match *m,
                                        const struct egress_connect_query *query,
                                        struct egress_reason *why)
{
    struct printable_destination to = make_printable_destination(query);
    const struct egress_ceiling *c = m->snapshot_->ceiling;
    const struct address *a = query->host_is_address                   ? &query->address
                              : m->endpoint && m->endpoint->is_address ? &m->endpoint->address
                                                                       : NULL;
    bool within = a ? egress_ceiling_has_address(c, a, query->port, false)
                    : (m->endpoint && !m->endpoint->host.n) ||
                          egress_ceiling_has_name(c, query->host, query->port);

    if (!within)
        return refuse_beyond(m->snapshot_, query, query->port, why);
    egress_reason_set_(why, "allowed", m->endpoint ? m->endpoint->place : STR("unlisted"), "",
                       "%s:%u is allowed by '" STR_FMT "'.", to.host, to.port, STR_ARG(m->policy));
    return EGRESS_ALLOWED;
}

/* A list of addresses applies only to connections to addresses: for names, every name could be sent
 * to resolvers. */
static bool is_unlisted(const struct egress_snapshot *s, const struct egress_connect_query *query)
{
    return (s->unlisted == EGRESS_UNLISTED_PUBLIC && !means_loopback(query)) ||
           (query->host_is_address && s->allowed.n > 0);
}

/* Whether all endpoints that apply have no host. Names are not looked up for them: otherwise every
 * name could be sent to resolvers. */
static bool applies_without_host(const struct egress_match *m)
{
    for (size_t i = 0; i < m->all_count_; i++)
        if (m->all_[i]->host.n)
            return false;
    return m->all_count_ > 0;
}

static enum egress_verdict refuse_lookup(const struct egress_connect_query *query,
                                         struct egress_reason *why)
{
    return egress_refuse_(why, "policy_denied", (struct str){ 0 },
                          "Add an endpoint with this host to the policy, or use another host.",
                          "%s is not the host of any endpoint, so it is not looked up.",
                          make_printable_destination(query).host);
}

static enum egress_verdict refuse_name(const struct egress_connect_query *query,
                                       struct egress_reason *why)
{
    return egress_refuse_(why, "name_invalid", (struct str){ 0 },
                          "Write the name in lower case, without a trailing dot.",
                          "'%s' is not a host name.", make_printable_destination(query).host);
}

enum egress_verdict egress_connect(const struct egress_snapshot *s,
                                   const struct egress_connect_query *query,
                                   struct egress_match *ret, struct egress_reason *why)
{
    struct connect_candidates a = { .query = query, .m = ret };
    struct host_nodes f;

    *ret = (struct egress_match){ .port = query->port,
                                  .generation = s->generation,
                                  .snapshot_ = s,
                                  .address_ = query->address,
                                  .host_is_address_ = query->host_is_address };
    if (refuse_early(s, query, why) != EGRESS_ALLOWED)
        return EGRESS_DENIED;
    if (!find_hosts(s, query, &f))
        return refuse_name(query, why);
    if (!means_loopback(query))
        note_host(&f, s->hosts); /* endpoints without a host apply to all names */
    for (size_t i = 0; i < f.n; i++) {
        uint32_t node = trie_find(f.x, f.nodes[i], TRIE_PORT, port_key(&query->port), &f.steps);
        size_t n = 0;
        const struct trie_item *items = node ? trie_items(f.x, node, &n) : NULL;

        for (size_t k = 0; k < n; k++)
            consider_endpoint(&a, items[k].what);
        f.steps += n;
    }
    ret->steps_ = f.steps;
    if (a.full || f.full)
        return egress_refuse_(why, "policy_too_complex", (struct str){ 0 },
                              "Merge endpoints with the same host and port.",
                              "More than %d endpoints of the policy apply to %s:%u.",
                              EGRESS_MATCH_MAX, make_printable_destination(query).host,
                              query->port);
    if (!query->host_is_address && applies_without_host(ret) && !is_unlisted(s, query))
        return a.barred ? refuse_connection(&a, &f, why) : refuse_lookup(query, why);
    if (ret->all_count_ && (query->identity_known || !ret->needs_identity)) {
        summarize_match(ret);
        return allow_within(ret, query, why);
    }
    if (ret->all_count_ || a.barred || !is_unlisted(s, query))
        return refuse_connection(&a, &f, why);
    ret->policy = STR("unlisted");
    ret->endpoint_name = STR("unlisted");
    return allow_within(ret, query, why);
}

static void add_port(struct egress_ports *ports, uint16_t port)
{
    size_t at = 0;

    while (at < ports->n && ports->p[at] < port)
        at++;
    if (at < ports->n && ports->p[at] == port)
        return;
    if (ports->n == EGRESS_NAME_PORTS_MAX) {
        ports->any = true;
        return;
    }
    memmove(&ports->p[at + 1], &ports->p[at], (ports->n - at) * sizeof ports->p[0]);
    ports->p[at] = port;
    ports->n++;
}

/* Selects the endpoints of a name: those that accept all these addresses, or all endpoints if no
 * addresses are given. */
struct address_choice {
    const struct egress_snapshot *s;
    const struct egress_connect_query *query;
    const struct address *list;
    size_t n;
    struct egress_reason *why; /* of the first that does not */
    bool refused;
};

/* ep NULL: `unlisted`. */
static bool choose_addresses(struct address_choice *c, const struct egress_endpoint_c *ep)
{
    /* Port 0: within the ceiling if any port is. */
    struct egress_match m = { .endpoint = ep, .snapshot_ = c->s, .port = 0 };
    struct egress_reason why;

    if (!c->list || egress_addresses(&m, c->list, c->n, &why) != EGRESS_DENIED)
        return true;
    if (!c->refused)
        *c->why = why;
    c->refused = true;
    return false;
}

static void add_ports(const struct host_nodes *f, struct address_choice *c,
                      struct egress_ports *ports)
{
    for (size_t i = 0; i < f->n && !ports->any; i++) {
        size_t n;
        const struct trie_item *items = trie_items(f->x, f->nodes[i], &n);

        for (size_t k = 0; k < n && !ports->any; k++) {
            const struct egress_endpoint_c *ep = items[k].what;

            if (limit_is_over(ep->limit) || !choose_addresses(c, ep))
                continue;
            for (size_t p = 0; p < ep->port_count; p++)
                add_port(ports, ep->ports[p]);
        }
    }
    if (is_unlisted(c->s, c->query) && !ports->any)
        ports->any = choose_addresses(c, NULL);
}

enum egress_verdict egress_name(const struct egress_snapshot *s, struct str name,
                                struct egress_ports *ret, struct egress_reason *why)
{
    struct egress_connect_query query = { .host = name, .port = ANY_PORT };
    struct address_choice all = { .s = s, .query = &query };
    struct printable_destination to = make_printable_destination(&query);
    struct host_nodes f;

    *ret = (struct egress_ports){ 0 };
    if (refuse_early(s, &query, why) != EGRESS_ALLOWED)
        return EGRESS_DENIED;
    if (!find_hosts(s, &query, &f))
        return refuse_name(&query, why);
    ret->steps_ = f.steps;
    add_ports(&f, &all, ret);
    if (!ret->any && ret->n == 0)
        return means_loopback(&query)
                   ? refuse_connection(&(struct connect_candidates){ .query = &query }, &f, why)
                   : refuse_lookup(&query, why);
    if (!means_loopback(&query) && !egress_ceiling_has_name(s->ceiling, name, 0)) {
        *ret = (struct egress_ports){ 0 };
        return refuse_beyond(s, &query, 0, why);
    }
    egress_reason_set_(why, "allowed", (struct str){ 0 }, "", "%s may be looked up.", to.host);
    return EGRESS_ALLOWED;
}

enum egress_verdict egress_name_addresses(const struct egress_snapshot *s, struct str name,
                                          const struct address *list, size_t n,
                                          struct egress_ports *ret, struct egress_reason *why)
{
    struct egress_connect_query query = { .host = name, .port = ANY_PORT };
    struct address_choice c = { .s = s, .query = &query, .list = list, .n = n, .why = why };
    struct printable_destination to = make_printable_destination(&query);
    struct host_nodes f;

    *ret = (struct egress_ports){ 0 };
    if (!list || !find_hosts(s, &query, &f))
        return refuse_name(&query, why);
    ret->steps_ = f.steps;
    add_ports(&f, &c, ret);
    if (!ret->any && ret->n == 0) {
        if (!c.refused)
            egress_name(s, name, ret, why); /* no endpoint has it: sets the reason */
        *ret = (struct egress_ports){ 0 };
        return EGRESS_DENIED;
    }
    egress_reason_set_(why, "allowed", (struct str){ 0 }, "",
                       "%s and its %zu addresses are allowed.", to.host, n);
    return EGRESS_ALLOWED;
}

bool egress_name_declared(const struct egress_snapshot *s, struct str name)
{
    struct egress_connect_query query = { .host = name, .port = ANY_PORT };
    struct host_nodes f;

    if (!find_hosts(s, &query, &f))
        return false;
    for (size_t i = 0; i < f.n; i++) {
        size_t n;
        const struct trie_item *items = trie_items(f.x, f.nodes[i], &n);

        for (size_t k = 0; k < n; k++)
            if (egress_endpoint_at_known_(items[k].what))
                return true;
    }
    return false;
}
