/* Two endpoints that can apply to one connection have to agree on how it is treated. What they
 * allow and deny may differ: that is added up.
 *
 * Every endpoint hangs at the last whole labels of its host in a trie. It can only meet endpoints
 * that hang there or, with a wildcard, further up, so few pairs are looked at. */
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "net/address.h"
#include "policy/glob.h"
#include "policy/host_pattern.h"
#include "policy/spot.h"
#include "policy/trie.h"

/* What may be compared, in pairs; globs count for many. */
enum { WORK_MAX = 2000000, GLOBS_WORK = 1000, SCRATCH_MAX = 64 << 20 };

/* What endpoints have to agree on. Equal manners never disagree. */
struct manner {
    bool skip;
    bool raw, inspected;
    const char *ips; /* as ips_text() has them */
    enum egress_protocol protocol;
    enum egress_enforcement enforcement;
    bool slash;
    const char *path;
    size_t specificity;
};

struct face {
    struct egress_entry *entry;
    struct egress_endpoint *ep;
    struct manner manner;
    uint32_t group; /* endpoints of one group have equal manners */
    uint32_t node;
    bool wild;
};

struct faces {
    const struct spot *s;
    struct face *all;
    size_t n;
    struct trie trie;
    uint32_t *parents; /* by node */
    struct arena scratch;
    size_t work;
};

static struct manner manner_of(const struct egress_endpoint *ep)
{
    struct manner m = {
        .skip = ep->tls == EGRESS_TLS_SKIP,
        .raw = ep->has_protocol && ep->protocol == EGRESS_TCP,
        .inspected = ep->protocol != EGRESS_TCP,
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

/* "192.0.2.0/24 192.0.2.7/32": one text for one set, however it was written. */
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

static bool same_requests(const struct manner *a, const struct manner *b)
{
    return a->protocol == b->protocol && a->enforcement == b->enforcement && a->slash == b->slash;
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

/* They treat requests differently, and which of them decides depends on the path alone. */
static bool need_paths(const struct manner *a, const struct manner *b)
{
    return a->inspected && b->inspected && a->specificity == b->specificity && !same_requests(a, b);
}

/* What they disagree on; NULL: nothing. */
static const char *disagreement(const struct manner *a, const struct manner *b)
{
    if (a->skip != b->skip)
        return "tls";
    if (strcmp(a->ips, b->ips) != 0)
        return "allowed_ips";
    if ((a->raw && b->inspected) || (b->raw && a->inspected))
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

/* Of two that hang in one line of the trie. */
static bool hosts_overlap(const struct face *a, const struct face *b)
{
    struct host_pattern x, y;

    if (!a->ep->host || !b->ep->host)
        return true;
    if (!a->wild && !b->wild)
        return a->node == b->node;
    return !host_pattern_parse(str_from(a->ep->host), &x) &&
           !host_pattern_parse(str_from(b->ep->host), &y) && host_pattern_overlap(&x, &y);
}

static int fail_pair(const struct faces *f, const struct face *a, const struct face *b,
                     const char *what)
{
    struct spot one = *f->s, two = *f->s;
    char first[SPOT_TEXT];

    if (a > b)
        return fail_pair(f, b, a, what);
    one.entry = a->entry;
    one.ep = a->ep;
    two.entry = b->entry;
    two.ep = b->ep;
    spot_name(&one, first);
    return spot_fail(&two, NULL, "can meet %s (%s) on one connection, but has another %s", first,
                     a->ep->host ? a->ep->host : "any host", what);
}

static int check_pair(struct faces *f, const struct face *a, const struct face *b)
{
    const char *what;

    f->work += need_paths(&a->manner, &b->manner) ? GLOBS_WORK : 1;
    if (f->work > WORK_MAX)
        return err_set(f->s->e, ERR_TOO_BIG,
                       "too many endpoints that differ overlap to compare them all");
    if (!ports_overlap(a->ep, b->ep) || !hosts_overlap(a, b))
        return 0;
    what = disagreement(&a->manner, &b->manner);
    return what ? fail_pair(f, a, b, what) : 0;
}

/* Against those that hang at the node; pairs at one node are taken in one order only. */
static int check_at(struct faces *f, const struct face *face, uint32_t node)
{
    size_t n;
    const struct trie_item *items = trie_items(&f->trie, node, &n);
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        const struct face *other = items[i].what;

        if (other->group != face->group && (other->wild || node == face->node) &&
            (node != face->node || other < face))
            r = check_pair(f, face, other);
    }
    return r;
}

static int check_face(struct faces *f, const struct face *face)
{
    int r = 0;

    for (uint32_t node = face->node; node && r >= 0; node = f->parents[node])
        r = check_at(f, face, node);
    return r;
}

static void hang(struct faces *f, struct face *face, uint32_t root)
{
    struct host_pattern p;
    struct address address;
    struct str host = str_from(face->ep->host);
    size_t tail;

    face->node = root;
    face->wild = !host.n;
    if (face->wild)
        return;
    if (address_parse(host, &address)) {
        face->node = trie_add(&f->trie, root, TRIE_ADDRESS, host);
        f->parents[face->node] = root;
        return;
    }
    host_pattern_parse(host, &p);
    tail = host_pattern_tail(&p);
    face->wild = p.wild;
    for (size_t i = 0; i < tail; i++) {
        uint32_t up = face->node;

        face->node = trie_add(&f->trie, up, TRIE_WORD, p.labels[i].text);
        f->parents[face->node] = up;
    }
}

/* Equal manners have equal texts, and a text is a node of the trie. */
static int group_of(struct faces *f, struct face *face, uint32_t root)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 16);
    struct manner *m = &face->manner;
    char *kept;

    m->ips = ips_text(&f->scratch, &face->ep->allowed_ips);
    if (!m->ips || buf_addf(&text, "%d%d%d%d%d%d %s %s", m->skip, m->raw, m->inspected, m->protocol,
                            m->enforcement, m->slash, m->path, m->ips) < 0)
        return spot_no_room(f->s);
    kept = arena_dup(&f->scratch, buf_str(&text));
    if (!kept)
        return spot_no_room(f->s);
    face->group = trie_add(&f->trie, root, TRIE_PART, str_from(kept));
    return 0;
}

/* How many endpoints there are, and how many nodes they can need: a host has fewer labels than
 * bytes, and each endpoint has a group at most. */
static size_t count(const struct egress_policy *p, size_t *ret_nodes)
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

static void collect(struct faces *f)
{
    struct egress_entry *entries = f->s->policy->network_policies.p;

    for (size_t i = 0; i < f->s->policy->network_policies.n; i++) {
        struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            f->all[f->n++] =
                (struct face){ .entry = &entries[i], .ep = &eps[k], .manner = manner_of(&eps[k]) };
    }
}

static int check_faces(struct faces *f)
{
    uint32_t root = trie_node(&f->trie), groups = trie_node(&f->trie);
    int r = 0;

    for (size_t i = 0; i < f->n && r >= 0; i++)
        r = group_of(f, &f->all[i], groups);
    if (r < 0 || f->trie.nodes <= groups + 1)
        return r; /* one group: nobody to disagree with */
    for (size_t i = 0; i < f->n; i++) {
        hang(f, &f->all[i], root);
        trie_put(&f->trie, f->all[i].node, &f->all[i]);
    }
    trie_seal(&f->trie);
    for (size_t i = 0; i < f->n && r >= 0; i++)
        r = check_face(f, &f->all[i]);
    return r;
}

int policy_check_overlaps_(const struct spot *s)
{
    struct faces f = { .s = s, .scratch = ARENA_INIT(SCRATCH_MAX) };
    size_t nodes, n = count(s->policy, &nodes);
    int r;

    f.all = arena_array(&f.scratch, n + 1, sizeof *f.all);
    f.parents = arena_array(&f.scratch, nodes + 1, sizeof *f.parents);
    if (f.all && f.parents) {
        collect(&f);
        r = check_faces(&f);
    } else {
        r = spot_no_room(s);
    }
    trie_done(&f.trie);
    arena_done(&f.scratch);
    return r;
}
