/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>

#include "base/own.h"
#include "domain/policy/compiled.h"
#include "domain/policy/host_pattern.h"
#include "domain/policy/path.h"
#include "domain/policy/protocol.h"

enum { MEMORY_MAX = 256 << 20, PLACE_TEXT = 256 };

struct policy_compiler {
    struct egress_snapshot *s;
    struct arena *a;
    struct err *e;
    size_t endpoints;
};

static int fail_compiler_memory(const struct policy_compiler *c)
{
    return err_set(c->e, ERR_TOO_BIG, "the policy needs more memory than is allowed");
}

static int copy_compiled_text(const struct policy_compiler *c, struct str text, struct str *ret)
{
    char *p = arena_dup(c->a, text);

    if (!p)
        return fail_compiler_memory(c);
    *ret = (struct str){ p, text.n };
    return 0;
}

static int copy_rule_place(const struct policy_compiler *c, struct str *ret, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int copy_rule_place(const struct policy_compiler *c, struct str *ret, const char *fmt, ...)
{
    AUTO(buf_done) struct buf text = BUF_INIT(PLACE_TEXT);
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = buf_addv(&text, fmt, ap);
    va_end(ap);
    return r < 0 ? fail_compiler_memory(c) : copy_compiled_text(c, buf_str(&text), ret);
}

static int compile_prefixes(const struct policy_compiler *c, const struct json_strs *list,
                            struct prefixes *ret)
{
    ret->p = arena_array(c->a, list->n + 1, sizeof *ret->p);
    if (!ret->p)
        return fail_compiler_memory(c);
    for (ret->n = 0; ret->n < list->n; ret->n++)
        if (!prefix_parse(str_from(list->p[ret->n]), &ret->p[ret->n]))
            return err_set(c->e, ERR_BUG, "internal error: invalid address passed validation");
    return 0;
}

/* paths: every step-th pointer is a path; an empty list means every program. */
static int compile_programs(const struct policy_compiler *c, const void *paths, size_t n,
                            size_t step, const struct programs **ret)
{
    struct programs *who = arena_alloc(c->a, sizeof *who);
    int r = 0;

    if (!who || !(who->p = arena_array(c->a, n + 1, sizeof(struct glob *))))
        return fail_compiler_memory(c);
    who->any = n == 0;
    for (size_t i = 0; i < n && r >= 0; i++) {
        const char *path = *(const char *const *)(const void *)((const char *)paths + i * step);

        who->any |= strcmp(path, "/**") == 0 || strcmp(path, "**") == 0;
        r = glob_compile(str_from(path), GLOB_PARTS, '/', c->a, &who->p[who->n++], c->e);
    }
    *ret = who;
    return r;
}

/* A rule to be compiled. Deny rules match more: docs/egress-policy.md. */
struct rule_in {
    const struct egress_rule *rule;
    bool deny;
    struct str place;
};

static enum glob_dialect dialect_of(const struct rule_in *in)
{
    return in->deny ? GLOB_PARTS_WIDE : GLOB_PARTS;
}

static int compile_query(const struct policy_compiler *c, const struct rule_in *in,
                         struct rule_c *rule)
{
    size_t count = in->rule->query_count;
    struct query_c *list = arena_array(c->a, count + 1, sizeof *list);
    int r = 0;

    if (!list)
        return fail_compiler_memory(c);
    for (size_t i = 0; i < count && r >= 0; i++) {
        const struct egress_matcher *m = &in->rule->query[i];
        struct str key = str_from(m->key);
        char *folded = arena_dup(c->a, key);
        struct query_c *q = &list[i];

        q->any = arena_array(c->a, m->any.n, sizeof *q->any);
        if (!q->any || !folded)
            return fail_compiler_memory(c);
        q->folded = (struct str){ folded, path_query_fold(key, folded) };
        r = copy_compiled_text(c, key, &q->key);
        for (; q->n < m->any.n && r >= 0; q->n++)
            r = glob_compile(str_from(m->any.p[q->n]), dialect_of(in), '.', c->a, &q->any[q->n],
                             c->e);
    }
    rule->query = list;
    rule->query_count = count;
    return r;
}

static int copy_method(const struct policy_compiler *c, const char *method, struct str *ret)
{
    char *upper;

    if (!method || strcmp(method, "*") == 0)
        return 0;
    upper = arena_dup(c->a, str_from(method));
    if (!upper)
        return fail_compiler_memory(c);
    for (char *p = upper; *p; p++)
        if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p & ~0x20);
    *ret = str_from(upper);
    return 0;
}

/* Descends along the literal parts of the rule's path; it can only match below them. */
static uint32_t rule_node(struct egress_snapshot *s, uint32_t node, struct str prefix, bool literal)
{
    struct str rest = { prefix.p + 1, prefix.n - 1 }, part;

    while (rest.p) {
        rest = str_cut(rest, '/', &part);
        if (!rest.p && !literal)
            break; /* the last part may be longer */
        node = trie_add(&s->trie, node, TRIE_PART, part);
    }
    return node;
}

/* Deny rules are indexed, and looked up, in lower case. */
static int index_rule(const struct policy_compiler *c, const struct rule_in *in, uint32_t root,
                      const struct glob *narrow, const struct rule_c *rule)
{
    struct str prefix = narrow ? glob_prefix(narrow) : (struct str){ 0 };
    char *text;

    if (prefix.n == 0 || prefix.p[0] != '/') {
        trie_put(&c->s->trie, root, rule);
        return 0;
    }
    text = arena_dup(c->a, prefix);
    if (!text)
        return fail_compiler_memory(c);
    for (char *p = text; in->deny && p < text + prefix.n; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p | 0x20);
    prefix.p = text;
    trie_put(&c->s->trie, rule_node(c->s, root, prefix, glob_is_literal(narrow)), rule);
    return 0;
}

/* *ret_narrow is the literal part of the path; for a wide "/x/…" it is shorter, since /x matches,
 * too. */
static int compile_rule_path(const struct policy_compiler *c, const struct rule_in *in,
                             const struct glob **ret, const struct glob **ret_narrow)
{
    struct str path = str_from(in->rule->path);
    int r;

    *ret = *ret_narrow = NULL;
    if (!path.p)
        return 0;
    while (in->deny && path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    r = glob_compile(path, GLOB_PARTS, '/', c->a, ret_narrow, c->e);
    return r < 0 ? r : glob_compile(path, dialect_of(in), '/', c->a, ret, c->e);
}

int protocol_compile_http_rule_(const struct policy_compiler *c, const struct rule_in *in,
                                uint32_t root)
{
    struct rule_c *rule = arena_alloc(c->a, sizeof *rule);
    const struct glob *narrow = NULL;
    int r;

    if (!rule)
        return fail_compiler_memory(c);
    rule->place = in->place;
    r = copy_method(c, in->rule->method, &rule->method);
    if (r >= 0)
        r = compile_rule_path(c, in, &rule->path, &narrow);
    if (r >= 0)
        r = compile_query(c, in, rule);
    return r < 0 ? r : index_rule(c, in, root, narrow, rule);
}

static int compile_rules(const struct policy_compiler *c, const struct egress_endpoint *in,
                         struct egress_endpoint_c *ep)
{
    const struct egress_allow *allows = in->rules.p;
    const struct egress_rule *denies = in->deny_rules.p;
    int r = 0;

    ep->allows = trie_node(&c->s->trie);
    ep->denies = trie_node(&c->s->trie);
    ep->has_denies = in->deny_rules.n > 0;
    for (size_t i = 0; i < in->rules.n + in->deny_rules.n && r >= 0; i++) {
        bool deny = i >= in->rules.n;
        size_t k = deny ? i - in->rules.n : i;
        struct rule_in one = { .rule = deny ? &denies[k] : &allows[k].allow, .deny = deny };

        r = copy_rule_place(c, &one.place, STR_FMT ".%s[%zu]", STR_ARG(ep->place),
                            deny ? "deny_rules" : "rules", k);
        if (r >= 0)
            r = protocols[in->protocol].compile_rule(c, &one, deny ? ep->denies : ep->allows);
    }
    return r;
}

static int compile_path(const struct policy_compiler *c, const struct egress_endpoint *in,
                        struct egress_endpoint_c *ep)
{
    int r;

    for (const char *p = in->path; p && *p; p++)
        ep->specificity += *p != '*';
    if (!in->path)
        return 0;
    r = glob_compile(str_from(in->path), GLOB_PLAIN, '/', c->a, &ep->path, c->e);
    if (r < 0)
        return r;
    return glob_compile(str_from(in->path), GLOB_PLAIN_WIDE, '/', c->a, &ep->path_wide, c->e);
}

/* A query tries every shape, so each is added once. */
static int add_shape(const struct policy_compiler *c, uint32_t node, const struct label *l)
{
    uint32_t shapes = trie_add(&c->s->trie, node, TRIE_SHAPES, STR(""));
    uint32_t before = c->s->trie.nodes;
    struct shape *shape = arena_alloc(c->a, sizeof *shape);

    if (!shape)
        return fail_compiler_memory(c);
    *shape = (struct shape){ (uint8_t)l->prefix.n, (uint8_t)l->suffix.n };
    trie_add(&c->s->trie, shapes, TRIE_SHAPES, (struct str){ (char *)shape, sizeof *shape });
    if (c->s->trie.nodes > before)
        trie_put(&c->s->trie, shapes, shape);
    return 0;
}

static const enum trie_kind kinds[] = {
    [LABEL_WORD] = TRIE_WORD,
    [LABEL_STAR] = TRIE_STAR,
    [LABEL_INFIX] = TRIE_INFIX,
    [LABEL_STARS] = TRIE_STARS,
};

static int host_node(const struct policy_compiler *c, struct egress_endpoint_c *ep, uint32_t *ret)
{
    struct host_pattern p;
    int r = 0;

    *ret = c->s->hosts;
    if (ep->host.n == 0) {
        ep->wild = true;
        return 0;
    }
    if (address_parse(ep->host, &ep->address)) {
        ep->is_address = true;
        *ret = trie_add(&c->s->trie, *ret, TRIE_ADDRESS, ep->host);
        return 0;
    }
    if (host_pattern_parse(ep->host, &p))
        return err_set(c->e, ERR_BUG, "internal error: invalid host passed validation");
    ep->wild = p.wild;
    for (size_t i = 0; i < p.n && r >= 0; i++) {
        const struct label *l = &p.labels[i];
        bool plain = l->kind == LABEL_STAR || l->kind == LABEL_STARS;
        uint32_t up = *ret;

        *ret = trie_add(&c->s->trie, up, kinds[l->kind], plain ? STR("") : l->text);
        r = l->kind == LABEL_INFIX ? add_shape(c, up, l) : 0;
    }
    return r;
}

static int index_endpoint(const struct policy_compiler *c, struct egress_endpoint_c *ep)
{
    uint32_t node;
    int r = host_node(c, ep, &node);

    if (r < 0)
        return r;
    trie_put(&c->s->trie, node, ep);
    for (size_t i = 0; i < ep->port_count; i++)
        trie_put(&c->s->trie, trie_add(&c->s->trie, node, TRIE_PORT, port_key(&ep->ports[i])), ep);
    return 0;
}

/* Copies names and locations, for messages. */
static int copy_endpoint_names(const struct policy_compiler *c, const struct egress_entry *entry,
                               size_t index, struct egress_endpoint_c *ep)
{
    const struct egress_endpoint *in = (const struct egress_endpoint *)entry->endpoints.p + index;
    int r = copy_compiled_text(c, str_from(entry->name ? entry->name : entry->key), &ep->policy);

    if (r >= 0)
        r = copy_rule_place(c, &ep->place, "network_policies.%s.endpoints[%zu]", entry->key, index);
    ep->name = ep->place;
    if (r >= 0 && in->name)
        r = copy_compiled_text(c, str_from(in->name), &ep->name);
    if (r >= 0)
        r = copy_compiled_text(c, str_from(in->host), &ep->host);
    return r;
}

/* A permanent entry has no limit. */
static int compile_limit(const struct policy_compiler *c, const struct egress_entry *entry,
                         struct egress_limit **ret)
{
    struct egress_limit *l;
    int r;

    if (!entry->until_ && !entry->has_uses)
        return 0;
    l = &c->s->limits[c->s->limit_count++];
    *l = (struct egress_limit){ .until = entry->until_ ? entry->until : INT64_MAX,
                                .counted = entry->has_uses,
                                .uses = entry->uses,
                                .left = entry->spent ? 0 : entry->uses };
    r = copy_compiled_text(c, str_from(entry->name ? entry->name : entry->key), &l->policy);
    if (r >= 0)
        r = copy_rule_place(c, &l->place, "network_policies.%s", entry->key);
    if (r >= 0 && entry->until_)
        r = copy_compiled_text(c, str_from(entry->until_), &l->until_text);
    *ret = l;
    return r;
}

/* The parts of an entry that its endpoints share. */
struct shared_programs {
    const struct programs *who;
    struct egress_limit *limit;
};

static int compile_endpoint(struct policy_compiler *c, const struct egress_entry *entry,
                            size_t index, const struct shared_programs *shared)
{
    const struct egress_endpoint *in = (const struct egress_endpoint *)entry->endpoints.p + index;
    struct egress_endpoint_c *ep = arena_alloc(c->a, sizeof *ep);
    uint16_t *ports = arena_array(c->a, in->port_count, sizeof *ports);
    int r;

    if (!ep || !ports)
        return fail_compiler_memory(c);
    *ep = (struct egress_endpoint_c){
        .order = c->endpoints++,
        .ports = ports,
        .port_count = in->port_count,
        .who = shared->who,
        .limit = shared->limit,
        .protocol = in->protocol,
        .tls = in->tls == EGRESS_TLS_SKIP ? EGRESS_TLS_SKIP : EGRESS_TLS_AUTO,
        .access = in->access,
        .audit = in->enforcement == EGRESS_AUDIT,
        .encoded_slash = in->allow_encoded_slash,
    };
    memcpy(ports, in->ports, in->port_count * sizeof *ports);
    r = copy_endpoint_names(c, entry, index, ep);
    if (r >= 0 && in->binaries.n)
        r = compile_programs(c, in->binaries.p, in->binaries.n, sizeof in->binaries.p[0], &ep->who);
    if (r >= 0)
        r = compile_prefixes(c, &in->allowed_ips, &ep->allowed);
    if (r >= 0)
        r = compile_path(c, in, ep);
    if (r >= 0)
        r = compile_rules(c, in, ep);
    return r < 0 ? r : index_endpoint(c, ep);
}

static int compile_entries(struct policy_compiler *c, const struct egress_policy *p)
{
    const struct egress_entry *entries = p->network_policies.p;
    int r = 0;

    c->s->limits = arena_array(c->a, p->network_policies.n, sizeof *c->s->limits);
    if (!c->s->limits)
        return fail_compiler_memory(c);
    for (size_t i = 0; i < p->network_policies.n && r >= 0; i++) {
        const struct egress_binary *list = entries[i].binaries.p;
        struct shared_programs shared = { 0 };

        r = compile_programs(c, list, list ? entries[i].binaries.n : 0, sizeof *list, &shared.who);
        if (r >= 0)
            r = compile_limit(c, &entries[i], &shared.limit);
        for (size_t k = 0; k < entries[i].endpoints.n && r >= 0; k++)
            r = compile_endpoint(c, &entries[i], k, &shared);
    }
    return r;
}

static int compile_policy(struct policy_compiler *c, const struct egress_policy *p)
{
    int r;

    if (!p->checked_)
        return err_set(c->e, ERR_BUG, "internal error: unchecked policy compiled");
    c->s->hosts = trie_node(&c->s->trie);
    r = compile_entries(c, p);
    if (r >= 0)
        r = compile_prefixes(c, &p->unlisted.allowed_ips, &c->s->allowed);
    if (r >= 0)
        r = compile_prefixes(c, &p->unlisted.denied_ips, &c->s->denied);
    c->s->unlisted = p->unlisted.access;
    c->s->endpoint_count = c->endpoints;
    trie_seal(&c->s->trie);
    return r;
}

static int copy_ceiling(const struct policy_compiler *c, const struct egress_ceiling *from)
{
    struct egress_ceiling *to = arena_alloc(c->a, sizeof *to);
    const char **places = arena_array(c->a, from->places.n + 1, sizeof *places);
    const char *set_by = arena_dup(c->a, str_from(from->from));

    if (!to || !places || !set_by)
        return fail_compiler_memory(c);
    for (size_t i = 0; i < from->places.n; i++)
        if (!(places[i] = arena_dup(c->a, str_from(from->places.p[i]))))
            return fail_compiler_memory(c);
    c->s->ceiling = to;
    return egress_ceiling_make(from->reach, set_by, (struct json_strs){ places, from->places.n },
                               c->a, to, c->e);
}

struct egress_snapshot *egress_compile(const struct egress_policy *p, uint64_t generation,
                                       struct err *e)
{
    return egress_compile_under(p, NULL, generation, e);
}

struct egress_snapshot *egress_compile_under(const struct egress_policy *p,
                                             const struct egress_ceiling *ceiling,
                                             uint64_t generation, struct err *e)
{
    struct egress_snapshot *s = new0(sizeof *s);
    struct policy_compiler c = { .s = s, .e = e };

    s->arena = (struct arena)ARENA_INIT(MEMORY_MAX);
    s->refs = 1;
    s->generation = generation;
    c.a = &s->arena;
    if (compile_policy(&c, p) < 0 || (ceiling && copy_ceiling(&c, ceiling) < 0)) {
        egress_snapshot_unref(s);
        return NULL;
    }
    return s;
}

struct egress_snapshot *egress_snapshot_ref(struct egress_snapshot *s)
{
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void egress_snapshot_unref(struct egress_snapshot *s)
{
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    trie_done(&s->trie);
    arena_done(&s->arena);
    free(s);
}

void egress_snapshot_unrefp_(struct egress_snapshot **s)
{
    egress_snapshot_unref(*s);
}

const struct egress_ceiling *egress_snapshot_ceiling(const struct egress_snapshot *s)
{
    return s->ceiling;
}

uint64_t egress_snapshot_generation(const struct egress_snapshot *s)
{
    return s->generation;
}
