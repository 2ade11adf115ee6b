/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that any two endpoints that can apply to one connection agree on its treatment. Their
 * rules may differ; they are combined.
 *
 * Every endpoint is indexed in a trie by the last literal labels of its host. It can only overlap
 * with endpoints at the same node or, if they have a wildcard, above it, so few pairs are
 * compared. */
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/net/address.h"
#include "domain/policy/glob.h"
#include "domain/policy/host_pattern.h"
#include "domain/policy/protocol.h"
#include "domain/policy/trie.h"

/* Limit of comparisons in pairs; a comparison of globs counts as many. */
enum { WORK_MAX = 2000000, GLOBS_WORK = 1000, SCRATCH_MAX = 64 << 20 };

/* The properties that endpoints must agree on. Equal treatments never disagree. */
struct endpoint_treatment {
    bool skip;
    bool raw, inspected;
    bool http;       /* the path distinguishes its requests */
    const char *ips; /* from ips_text() */
    enum egress_protocol protocol;
    enum egress_enforcement enforcement;
    bool slash;
    const char *path;
    size_t specificity;
};

struct overlap_endpoint {
    struct egress_entry *entry;
    struct egress_endpoint *ep;
    struct endpoint_treatment treatment;
    uint32_t group; /* endpoints of one group have equal treatments */
    uint32_t node;
    bool wild;
};

struct overlap_index {
    const struct policy_spot *s;
    struct overlap_endpoint *all;
    size_t n;
    struct trie trie;
    uint32_t *parents; /* by node */
    struct arena scratch;
    size_t work;
};

static struct endpoint_treatment treatment_of_endpoint(const struct egress_endpoint *ep)
{
    struct endpoint_treatment m = {
        .skip = ep->tls == EGRESS_TLS_SKIP,
        .raw = ep->has_protocol && ep->protocol == EGRESS_TCP,
        .inspected = ep->protocol != EGRESS_TCP,
        .http = protocols[ep->protocol].fields & PROTOCOL_HTTP,
        .protocol = ep->protocol,
        .enforcement = ep->enforcement,
        .slash = ep->allow_encoded_slash,
        .path = ep->path ? ep->path : "/**",
    };

    for (const char *c = ep->path; c && *c; c++)
        m.specificity += *c != '*';
    return m;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "192.0.2.0/24 192.0.2.7/32": the same text for every spelling of a set. */
static const char *ips_text(struct arena *a, const struct json_strs *list)
{
    AUTO(buf_done) struct buf out = BUF_INIT(EGRESS_ADDRESSES_MAX * (ADDRESS_TEXT_MAX + 8));
    const char *texts[EGRESS_ADDRESSES_MAX];
    char address[ADDRESS_TEXT_MAX], one[ADDRESS_TEXT_MAX + 8];
    struct prefix p;

    for (size_t i = 0; i < list->n; i++) {
        if (!prefix_parse(str_from(list->p[i]), &p))
            return NULL;
        address_text(&p.base, address);
        snprintf(one, sizeof one, "%s/%u", address, p.bits);
        texts[i] = arena_dup(a, str_from(one));
        if (!texts[i])
            return NULL;
    }
    if (list->n)
        qsort(texts, list->n, sizeof texts[0], compare_texts);
    for (size_t i = 0; i < list->n; i++)
        if (i == 0 || strcmp(texts[i], texts[i - 1]) != 0)
            buf_addf(&out, "%s ", texts[i]);
    return arena_dup(a, buf_str(&out));
}

static bool paths_overlap(const char *a, const char *b)
{
    AUTO(arena_done) struct arena scratch = ARENA_INIT(1 << 20);
    const struct glob *x, *y;

    if (glob_compile(str_from(a), GLOB_PLAIN, '/', &scratch, &x, NULL) < 0 ||
        glob_compile(str_from(b), GLOB_PLAIN, '/', &scratch, &y, NULL) < 0)
        return true;
    return glob_overlap(x, y);
}

/* Whether they treat requests differently, so that the path decides between them. */
static bool need_paths(const struct endpoint_treatment *a, const struct endpoint_treatment *b)
{
    return a->inspected && b->inspected && a->specificity == b->specificity &&
           (a->protocol != b->protocol || a->enforcement != b->enforcement || a->slash != b->slash);
}

/* The field that the two disagree on; NULL if they agree. */
static const char *find_disagreement(const struct endpoint_treatment *a,
                                     const struct endpoint_treatment *b)
{
    if (a->skip != b->skip)
        return "tls";
    if (strcmp(a->ips, b->ips) != 0)
        return "allowed_ips";
    if ((a->raw && b->inspected) || (b->raw && a->inspected) ||
        (a->inspected && b->inspected && a->http != b->http))
        return "protocol";
    if (!need_paths(a, b) || !paths_overlap(a->path, b->path))
        return NULL;
    return a->protocol != b->protocol         ? "protocol"
           : a->enforcement != b->enforcement ? "enforcement"
                                              : "allow_encoded_slash";
}

static bool ports_overlap(const struct egress_endpoint *a, const struct egress_endpoint *b)
{
    for (size_t i = 0, k = 0; i < a->port_count && k < b->port_count;) {
        if (a->ports[i] == b->ports[k])
            return true;
        if (a->ports[i] < b->ports[k])
            i++;
        else
            k++;
    }
    return false;
}

/* Compares hosts of two endpoints on one path of the trie. */
static bool hosts_overlap(const struct overlap_endpoint *a, const struct overlap_endpoint *b)
{
    struct host_pattern x, y;

    if (!a->ep->host || !b->ep->host)
        return true;
    if (!a->wild && !b->wild)
        return a->node == b->node;
    return !host_pattern_parse(str_from(a->ep->host), &x) &&
           !host_pattern_parse(str_from(b->ep->host), &y) && host_pattern_overlap(&x, &y);
}

static int fail_pair(const struct overlap_index *f, const struct overlap_endpoint *a,
                     const struct overlap_endpoint *b, const char *what)
{
    struct policy_spot one = *f->s, two = *f->s;
    char first[SPOT_TEXT];

    if (a > b)
        return fail_pair(f, b, a, what);
    one.entry = a->entry;
    one.ep = a->ep;
    two.entry = b->entry;
    two.ep = b->ep;
    spot_name(&one, first);
    return spot_fail(&two, NULL,
                     "can apply to the same connection as %s (%s), but has a different %s", first,
                     a->ep->host ? a->ep->host : "any host", what);
}

static int check_pair(struct overlap_index *f, const struct overlap_endpoint *a,
                      const struct overlap_endpoint *b)
{
    const char *what;

    f->work += need_paths(&a->treatment, &b->treatment) ? GLOBS_WORK : 1;
    if (f->work > WORK_MAX)
        return err_set(
            f->s->e, ERR_TOO_BIG,
            "comparing endpoints that overlap takes more than %d steps; use fewer wildcards",
            WORK_MAX);
    if (!ports_overlap(a->ep, b->ep) || !hosts_overlap(a, b))
        return 0;
    what = find_disagreement(&a->treatment, &b->treatment);
    return what ? fail_pair(f, a, b, what) : 0;
}

/* Compares with the endpoints at a node; each pair at one node is compared once. */
static int check_at(struct overlap_index *f, const struct overlap_endpoint *endpoint, uint32_t node)
{
    size_t n;
    const struct trie_item *items = trie_items(&f->trie, node, &n);
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        const struct overlap_endpoint *other = items[i].what;

        if (other->group != endpoint->group && (other->wild || node == endpoint->node) &&
            (node != endpoint->node || other < endpoint))
            r = check_pair(f, endpoint, other);
    }
    return r;
}

static void index_endpoint_host(struct overlap_index *f, struct overlap_endpoint *endpoint,
                                uint32_t root)
{
    struct host_pattern p;
    struct address address;
    struct str host = str_from(endpoint->ep->host);
    size_t tail;

    endpoint->node = root;
    endpoint->wild = !host.n;
    if (endpoint->wild)
        return;
    if (address_parse(host, &address)) {
        endpoint->node = trie_add(&f->trie, root, TRIE_ADDRESS, host);
        f->parents[endpoint->node] = root;
        return;
    }
    host_pattern_parse(host, &p);
    tail = host_pattern_tail(&p);
    endpoint->wild = p.wild;
    for (size_t i = 0; i < tail; i++) {
        uint32_t up = endpoint->node;

        endpoint->node = trie_add(&f->trie, up, TRIE_WORD, p.labels[i].text);
        f->parents[endpoint->node] = up;
    }
}

/* Assigns a group: equal treatments have equal texts, and a text is a node of the trie. */
static int group_of(struct overlap_index *f, struct overlap_endpoint *endpoint, uint32_t root)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 16);
    struct endpoint_treatment *m = &endpoint->treatment;
    char *kept;

    m->ips = ips_text(&f->scratch, &endpoint->ep->allowed_ips);
    if (!m->ips || buf_addf(&text, "%d%d%d%d%d%d %s %s", m->skip, m->raw, m->inspected, m->protocol,
                            m->enforcement, m->slash, m->path, m->ips) < 0)
        return spot_no_room(f->s);
    kept = arena_dup(&f->scratch, buf_str(&text));
    if (!kept)
        return spot_no_room(f->s);
    endpoint->group = trie_add(&f->trie, root, TRIE_PART, str_from(kept));
    return 0;
}

/* Counts the endpoints, and an upper bound of their nodes: a host has fewer labels than bytes, and
 * each endpoint adds at most one group. */
static size_t count_overlap_nodes(const struct egress_policy *p, size_t *ret_nodes)
{
    const struct egress_entry *entries = p->network_policies.p;
    size_t n = 0;

    *ret_nodes = 2;
    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        n += entries[i].endpoints.n;
        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            *ret_nodes += 1 + (eps[k].host ? strlen(eps[k].host) : 0);
    }
    return n;
}

static int check_indexed_endpoints(struct overlap_index *f)
{
    uint32_t root = trie_node(&f->trie), groups = trie_node(&f->trie);
    int r = 0;

    for (size_t i = 0; i < f->n && r >= 0; i++)
        r = group_of(f, &f->all[i], groups);
    if (r < 0 || f->trie.nodes <= groups + 1)
        return r; /* a single group cannot disagree */
    for (size_t i = 0; i < f->n; i++) {
        index_endpoint_host(f, &f->all[i], root);
        trie_put(&f->trie, f->all[i].node, &f->all[i]);
    }
    trie_seal(&f->trie);
    for (size_t i = 0; i < f->n && r >= 0; i++)
        for (uint32_t node = f->all[i].node; node && r >= 0; node = f->parents[node])
            r = check_at(f, &f->all[i], node);
    return r;
}

int policy_check_overlaps_(const struct policy_spot *s)
{
    struct overlap_index f = { .s = s, .scratch = ARENA_INIT(SCRATCH_MAX) };
    struct egress_entry *entries = s->policy->network_policies.p;
    size_t nodes, n = count_overlap_nodes(s->policy, &nodes);
    int r;

    f.all = arena_array(&f.scratch, n + 1, sizeof *f.all);
    f.parents = arena_array(&f.scratch, nodes + 1, sizeof *f.parents);
    for (size_t i = 0; f.all && i < s->policy->network_policies.n; i++) {
        struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            f.all[f.n++] = (struct overlap_endpoint){ .entry = &entries[i],
                                                      .ep = &eps[k],
                                                      .treatment = treatment_of_endpoint(&eps[k]) };
    }
    r = f.all && f.parents ? check_indexed_endpoints(&f) : spot_no_room(s);
    trie_done(&f.trie);
    arena_done(&f.scratch);
    return r;
}
