#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "policy/compiled.h"
#include "policy/host_pattern.h"

enum { FOUND_MAX = 64, SHOWN_HOST = 128 };

/* The nodes of the hosts that a name matches. */
struct found {
    const struct trie *x;
    const struct str *labels; /* of the asked name, the last first */
    size_t label_count;
    uint32_t nodes[FOUND_MAX];
    size_t n;
    bool named; /* at least one of them is a host */
    bool full;  /* there were more */
    size_t steps;
};

enum { ANY_PORT = 1 }; /* of a question about a name; no rule has to do with this one */

static void note_host(struct found *f, uint32_t node)
{
    size_t n;

    if (!node)
        return;
    trie_items(f->x, node, &n);
    if (n == 0)
        return; /* only longer hosts pass here */
    if (f->n == FOUND_MAX)
        f->full = true;
    else
        f->nodes[f->n++] = node;
}

/* Labels such as "ab*cd" above the first label of the name: one try for each shape there is, of
 * which there are no more than a label has ways to be cut. */
static void find_infix(struct found *f, uint32_t node, struct str label)
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

/* Follows words and stars; hosts have few stars, so the ways are few. */
static void find_below(struct found *f, uint32_t node, size_t used)
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

/* False if it is not a canonical name. */
static bool find_name(struct found *f, uint32_t root, struct str name)
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

/* The names of loopback stand for 127.0.0.1 where the policy has the port there, else for ::1. */
static void find_loopback(struct found *f, uint32_t root, uint16_t port)
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

/* All hosts that match. */
static bool find_hosts(const struct egress_snapshot *s, const struct egress_ask *ask,
                       struct found *f)
{
    bool good = true;

    *f = (struct found){ .x = &s->trie };
    if (ask->host_is_address)
        note_host(f, trie_find(f->x, s->hosts, TRIE_ADDRESS, ask->host, &f->steps));
    else if (host_names_loopback(ask->host))
        find_loopback(f, s->hosts, ask->port);
    else
        good = find_name(f, s->hosts, ask->host);
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

static bool who_matches(const struct programs *who, const struct egress_ask *ask)
{
    bool good = who->any;

    if (!good && ask->identity_known)
        good = program_matches(who, ask->binary);
    for (size_t i = 0; !good && ask->identity_known && i < ask->n_ancestors; i++)
        good = program_matches(who, ask->ancestors[i]);
    return good;
}

/* What was found for one question. */
struct answer {
    const struct egress_ask *ask;
    struct egress_match *m;
    const struct egress_endpoint_c *barred; /* the first that has other programs */
    const struct egress_limit *over;        /* the first that has run out */
    bool full;
};

static void take(struct answer *a, const struct egress_endpoint_c *ep)
{
    struct egress_match *m = a->m;

    if (limit_is_over(ep->limit)) {
        if (!a->over)
            a->over = ep->limit;
        return;
    }
    m->needs_identity |= !ep->who->any && !a->ask->identity_known;
    if (!who_matches(ep->who, a->ask)) {
        if (!a->barred || ep->order < a->barred->order)
            a->barred = ep;
    } else if (m->all_count_ == EGRESS_MATCH_MAX) {
        a->full = true;
    } else {
        m->all_[m->all_count_++] = ep;
    }
}

static void take_port(struct answer *a, struct found *f)
{
    for (size_t i = 0; i < f->n; i++) {
        uint32_t node = trie_find(f->x, f->nodes[i], TRIE_PORT, port_key(&a->ask->port), &f->steps);
        size_t n = 0;
        const struct trie_item *items = node ? trie_items(f->x, node, &n) : NULL;

        for (size_t k = 0; k < n; k++)
            take(a, items[k].what);
        f->steps += n;
    }
}

static int compare_policies(struct str a, struct str b)
{
    int r = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

    return r ? r : (a.n > b.n) - (a.n < b.n);
}

static bool wins(const struct egress_endpoint_c *a, const struct egress_endpoint_c *b)
{
    int r = compare_policies(a->policy, b->policy);

    if (!a->limit != !b->limit)
        return !a->limit; /* what lasts is not used up */
    return r ? r < 0 : a->order < b->order;
}

/* All that apply agree on addresses and TLS (the check saw to it); one inspected is enough to look
 * into the connection. */
static void settle(struct egress_match *m)
{
    const struct egress_endpoint_c *best = m->all_[0];

    m->audit_only = true;
    for (size_t i = 0; i < m->all_count_; i++) {
        const struct egress_endpoint_c *ep = m->all_[i];

        if (wins(ep, best))
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
struct shown {
    char host[SHOWN_HOST];
    unsigned port;
};

static struct shown show(const struct egress_ask *ask)
{
    struct shown s = { .port = ask->port };

    log_printable(ask->host, s.host, sizeof s.host);
    return s;
}

static bool means_loopback(const struct egress_ask *ask)
{
    return !ask->host_is_address && host_names_loopback(ask->host);
}

static enum egress_verdict refuse(const struct answer *a, const struct found *f,
                                  struct egress_reason *why)
{
    struct shown to = show(a->ask);
    char program[SHOWN_HOST];

    if (!a->barred && a->over) {
        egress_limit_refuse(a->over, why);
    } else if (!a->barred && !f->named && means_loopback(a->ask)) {
        egress_reason_set_(why, "policy_denied", (struct str){ 0 },
                           "Grant a port of the loopback: --allow 127.0.0.1:PORT, or an endpoint "
                           "with host 127.0.0.1 and allowed_ips: ['127.0.0.1'].",
                           "%s:%u is the loopback of the machine that the sandbox runs on, and "
                           "the policy grants no port of it.",
                           to.host, to.port);
    } else if (!a->barred && !f->named) {
        egress_reason_set_(
            why, "policy_denied", (struct str){ 0 },
            "Add an endpoint with this host and port to the policy, or use one it has.",
            "%s:%u is not allowed by any policy.", to.host, to.port);
    } else if (!a->barred) {
        egress_reason_set_(why, "port_not_allowed", (struct str){ 0 },
                           "Use a port that the policy has for this host, or add this one to it.",
                           "%s is in the policy, but not with port %u.", to.host, to.port);
    } else if (!a->ask->identity_known) {
        egress_reason_set_(
            why, "identity_unknown", a->barred->place,
            "Connect from a program whose path can be seen; a process that has ended or "
            "shares its socket cannot.",
            "%s:%u is for certain programs only, and which one asks is not known.", to.host,
            to.port);
    } else {
        log_printable(a->ask->binary, program, sizeof program);
        egress_reason_set_(why, "binary_not_allowed", a->barred->place,
                           "Use a program that the entry lists, or add this one to its binaries.",
                           "%s may not connect to %s:%u: it is not one of the programs of '" STR_FMT
                           "'.",
                           program, to.host, to.port, STR_ARG(a->barred->policy));
    }
    return EGRESS_DENIED;
}

static enum egress_verdict refuse_early(const struct egress_snapshot *s,
                                        const struct egress_ask *ask, struct egress_reason *why)
{
    struct shown to = show(ask);

    if (ask->port == 0 || port_control_plane(ask->port)) {
        egress_reason_set_(why, "control_plane_port", (struct str){ 0 },
                           "No policy can allow this port; use the service through another one.",
                           "Port %u of %s is never allowed: cluster control planes use it.",
                           to.port, to.host);
        return EGRESS_DENIED;
    }
    if (ask->host_is_address ? !address_grantable(&ask->address) : is_metadata(ask->host)) {
        egress_reason_set_(why, "metadata_denied", (struct str){ 0 },
                           "No policy can allow it; get credentials from who made the sandbox.",
                           "%s is a metadata service and never allowed.", to.host);
        return EGRESS_DENIED;
    }
    if (s->endpoint_count == 0 && s->unlisted == EGRESS_UNLISTED_DENY && s->allowed.n == 0) {
        egress_reason_set_(why, "policy_denied", (struct str){ 0 },
                           "Make a sandbox whose policy has an endpoint for it.",
                           "%s:%u is not allowed: the policy allows no connections at all.",
                           to.host, to.port);
        return EGRESS_DENIED;
    }
    return EGRESS_ALLOWED;
}

static enum egress_verdict allow(const struct egress_match *m, const struct egress_ask *ask,
                                 struct egress_reason *why)
{
    struct shown to = show(ask);
    struct str rule = m->endpoint ? m->endpoint->place : STR("unlisted");

    egress_reason_set_(why, "allowed", rule, "", "%s:%u is allowed by '" STR_FMT "'.", to.host,
                       to.port, STR_ARG(m->policy));
    return EGRESS_ALLOWED;
}

static enum egress_verdict refuse_beyond(const struct egress_snapshot *s,
                                         const struct egress_ask *ask, uint16_t port,
                                         struct egress_reason *why)
{
    struct shown to = show(ask);
    char text[EGRESS_CEILING_TEXT];

    egress_ceiling_why(s->ceiling, to.host, ask->host_is_address ? &ask->address : NULL, port,
                       false, text);
    egress_reason_set_(why, "ceiling_denied", (struct str){ 0 }, EGRESS_CEILING_NEXT, "%s.", text);
    return EGRESS_DENIED;
}

/* An endpoint without a host is held to the ceiling by egress_addresses(). */
static enum egress_verdict allow_within(const struct egress_match *m, const struct egress_ask *ask,
                                        struct egress_reason *why)
{
    const struct egress_ceiling *c = m->snapshot_->ceiling;
    const struct address *a = ask->host_is_address                     ? &ask->address
                              : m->endpoint && m->endpoint->is_address ? &m->endpoint->address
                                                                       : NULL;
    bool within = a ? egress_ceiling_has_address(c, a, ask->port, false)
                    : (m->endpoint && !m->endpoint->host.n) ||
                          egress_ceiling_has_name(c, ask->host, ask->port);

    return within ? allow(m, ask, why) : refuse_beyond(m->snapshot_, ask, ask->port, why);
}

static enum egress_verdict refuse_complex(const struct egress_ask *ask, struct egress_reason *why)
{
    struct shown to = show(ask);

    egress_reason_set_(
        why, "policy_too_complex", (struct str){ 0 }, "Merge endpoints that share host and port.",
        "More than %d endpoints of the policy apply to %s:%u.", EGRESS_MATCH_MAX, to.host, to.port);
    return EGRESS_DENIED;
}

/* A list of addresses is for who asks for addresses: names would leave with every lookup. */
static bool is_unlisted(const struct egress_snapshot *s, const struct egress_ask *ask)
{
    return (s->unlisted == EGRESS_UNLISTED_PUBLIC && !means_loopback(ask)) ||
           (ask->host_is_address && s->allowed.n > 0);
}

/* Whether all that apply are endpoints without a host, for which no name is looked up: every name
 * would leave through them. */
static bool applies_without_host(const struct egress_match *m)
{
    for (size_t i = 0; i < m->all_count_; i++)
        if (m->all_[i]->host.n)
            return false;
    return m->all_count_ > 0;
}

static enum egress_verdict refuse_lookup(const struct egress_ask *ask, struct egress_reason *why)
{
    struct shown to = show(ask);

    egress_reason_set_(why, "policy_denied", (struct str){ 0 },
                       "Add an endpoint with this host to the policy, or use one it has.",
                       "%s is not the host of any endpoint, so it is not looked up.", to.host);
    return EGRESS_DENIED;
}

static enum egress_verdict refuse_name(const struct egress_ask *ask, struct egress_reason *why)
{
    struct shown to = show(ask);

    egress_reason_set_(why, "name_invalid", (struct str){ 0 },
                       "Write the name in lower case, without a dot at its end.",
                       "'%s' is not the name of a host.", to.host);
    return EGRESS_DENIED;
}

enum egress_verdict egress_connect(const struct egress_snapshot *s, const struct egress_ask *ask,
                                   struct egress_match *ret, struct egress_reason *why)
{
    struct answer a = { .ask = ask, .m = ret };
    struct found f;

    *ret = (struct egress_match){ .port = ask->port,
                                  .generation = s->generation,
                                  .snapshot_ = s,
                                  .address_ = ask->address,
                                  .host_is_address_ = ask->host_is_address };
    if (refuse_early(s, ask, why) != EGRESS_ALLOWED)
        return EGRESS_DENIED;
    if (!find_hosts(s, ask, &f))
        return refuse_name(ask, why);
    if (!means_loopback(ask))
        note_host(&f, s->hosts); /* endpoints without a host are for all the others */
    take_port(&a, &f);
    ret->steps_ = f.steps;
    if (a.full || f.full)
        return refuse_complex(ask, why);
    if (!ask->host_is_address && applies_without_host(ret) && !is_unlisted(s, ask))
        return a.barred ? refuse(&a, &f, why) : refuse_lookup(ask, why);
    if (ret->all_count_ && (ask->identity_known || !ret->needs_identity)) {
        settle(ret);
        return allow_within(ret, ask, why);
    }
    if (ret->all_count_ || a.barred || !is_unlisted(s, ask))
        return refuse(&a, &f, why);
    ret->policy = STR("unlisted");
    ret->endpoint_name = STR("unlisted");
    return allow_within(ret, ask, why);
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

/* Which endpoints of a name count: those that take all these addresses, or all if there are none
 * to be taken. */
struct chosen {
    const struct egress_snapshot *s;
    const struct egress_ask *ask;
    const struct address *list;
    size_t n;
    struct egress_reason *why; /* the first that does not */
    bool refused;
};

/* ep NULL: what is unlisted. */
static bool chooses(struct chosen *c, const struct egress_endpoint_c *ep)
{
    /* Port 0: within the ceiling if some port is. */
    struct egress_match m = { .endpoint = ep, .snapshot_ = c->s, .port = 0 };
    struct egress_reason why;

    if (!c->list || egress_addresses(&m, c->list, c->n, &why) != EGRESS_DENIED)
        return true;
    if (!c->refused)
        *c->why = why;
    c->refused = true;
    return false;
}

static void add_ports(const struct found *f, struct chosen *c, struct egress_ports *ports)
{
    for (size_t i = 0; i < f->n && !ports->any; i++) {
        size_t n;
        const struct trie_item *items = trie_items(f->x, f->nodes[i], &n);

        for (size_t k = 0; k < n && !ports->any; k++) {
            const struct egress_endpoint_c *ep = items[k].what;

            if (limit_is_over(ep->limit) || !chooses(c, ep))
                continue;
            for (size_t p = 0; p < ep->port_count; p++)
                add_port(ports, ep->ports[p]);
        }
    }
    if (is_unlisted(c->s, c->ask) && !ports->any)
        ports->any = chooses(c, NULL);
}

enum egress_verdict egress_name(const struct egress_snapshot *s, struct str name,
                                struct egress_ports *ret, struct egress_reason *why)
{
    struct egress_ask ask = { .host = name, .port = ANY_PORT };
    struct chosen all = { .s = s, .ask = &ask };
    struct shown to = show(&ask);
    struct found f;

    *ret = (struct egress_ports){ 0 };
    if (refuse_early(s, &ask, why) != EGRESS_ALLOWED)
        return EGRESS_DENIED;
    if (!find_hosts(s, &ask, &f))
        return refuse_name(&ask, why);
    ret->steps_ = f.steps;
    add_ports(&f, &all, ret);
    if (!ret->any && ret->n == 0)
        return means_loopback(&ask) ? refuse(&(struct answer){ .ask = &ask }, &f, why)
                                    : refuse_lookup(&ask, why);
    if (!means_loopback(&ask) && !egress_ceiling_has_name(s->ceiling, name, 0)) {
        *ret = (struct egress_ports){ 0 };
        return refuse_beyond(s, &ask, 0, why);
    }
    egress_reason_set_(why, "allowed", (struct str){ 0 }, "", "%s may be looked up.", to.host);
    return EGRESS_ALLOWED;
}

enum egress_verdict egress_name_addresses(const struct egress_snapshot *s, struct str name,
                                          const struct address *list, size_t n,
                                          struct egress_ports *ret, struct egress_reason *why)
{
    struct egress_ask ask = { .host = name, .port = ANY_PORT };
    struct chosen c = { .s = s, .ask = &ask, .list = list, .n = n, .why = why };
    struct shown to = show(&ask);
    struct found f;

    *ret = (struct egress_ports){ 0 };
    if (!list || !find_hosts(s, &ask, &f))
        return refuse_name(&ask, why);
    ret->steps_ = f.steps;
    add_ports(&f, &c, ret);
    if (!ret->any && ret->n == 0) {
        if (!c.refused)
            egress_name(s, name, ret, why); /* no endpoint has it: for the reason */
        *ret = (struct egress_ports){ 0 };
        return EGRESS_DENIED;
    }
    egress_reason_set_(why, "allowed", (struct str){ 0 }, "",
                       "%s and its %zu addresses are allowed.", to.host, n);
    return EGRESS_ALLOWED;
}

bool egress_name_declared(const struct egress_snapshot *s, struct str name)
{
    struct egress_ask ask = { .host = name, .port = ANY_PORT };
    struct found f;

    if (!find_hosts(s, &ask, &f))
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
