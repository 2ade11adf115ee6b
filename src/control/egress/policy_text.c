/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/policy_text.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/net/host.h"
#include "domain/package_hosts/package_hosts.h"
#include "domain/policy/egress.h"
#include "domain/policy/egress_check.h"
#include "domain/policy/egress_file.h"
#include "domain/policy/egress_names.h"
#include "domain/policy/egress_sources.h"

enum { PARTS_MAX = 5, OWN_MAX = 1024 };

struct policy_parts {
    struct arena arena;
    struct egress_policy own[PARTS_MAX];
    const struct egress_policy *p[PARTS_MAX];
    size_t n;
};

struct policy_text *policy_text_ref(struct policy_text *t)
{
    t->refs++;
    return t;
}

void policy_text_unref(struct policy_text *t)
{
    if (!t || --t->refs > 0)
        return;
    policy_text_unref(t->spent);
    free(t->places_);
    free(t);
}

void policy_text_unrefp_(struct policy_text **t)
{
    policy_text_unref(*t);
}

/* problem: "" for none. */
static int make_text(struct str json, uint32_t endpoints, const struct policy_bounds *b,
                     const char *problem, struct policy_text **ret, struct err *e)
{
    AUTO(buf_done) struct buf ceiling = BUF_INIT(EGRESS_CEILING_BYTES_MAX);
    int r = egress_ceiling_write(&b->ceiling, &ceiling, e);
    size_t why = strlen(problem);
    struct policy_text *t;
    char *text;

    if (r < 0)
        return r;
    t = malloc(sizeof *t + json.n + ceiling.n + why + 1);
    if (!t)
        abort();
    text = (char *)(t + 1);
    if (json.n)
        memcpy(text, json.p, json.n);
    memcpy(text + json.n, ceiling.p, ceiling.n);
    memcpy(text + json.n + ceiling.n, problem, why + 1);
    *t = (struct policy_text){ .json = { text, json.n },
                               .ceiling = { text + json.n, ceiling.n },
                               .author = b->author,
                               .problem = why ? text + json.n + ceiling.n : NULL,
                               .endpoints = endpoints,
                               .refs = 1 };
    *ret = t;
    return 0;
}

/* Compiles it as a worker does. */
static int try_compiling(struct str json, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_policy policy;
    int r = egress_policy_from_json(json, &a, &policy, e);

    if (r < 0)
        return r;
    s = egress_compile(&policy, 1, e);
    return s ? 0 : -(int)(e->code ? e->code : ERR_BUG);
}

int policy_text_stored(struct str json, uint32_t endpoints, const struct policy_bounds *b,
                       struct policy_text **ret, struct err *e)
{
    struct err why = { 0 };

    return make_text(json, endpoints, b, try_compiling(json, &why) < 0 ? why.msg : "", ret, e);
}

int policy_text_missing(const char *problem, struct policy_text **ret, struct err *e)
{
    const struct policy_bounds nothing = { .ceiling = { .reach = EGRESS_REACH_NONE, .from = "" } };

    return make_text(STR(""), 0, &nothing, problem, ret, e);
}

static int write_policy_text(const struct egress_policy *p, const struct policy_bounds *b,
                             struct policy_text **ret, struct err *e)
{
    AUTO(buf_done) struct buf json = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    const struct egress_entry *entries = p->network_policies.p;
    size_t endpoints = 0;
    int r = egress_policy_to_json(p, &json, e);

    for (size_t i = 0; i < p->network_policies.n; i++)
        endpoints += entries[i].endpoints.n;
    return r < 0 ? r : make_text(buf_str(&json), (uint32_t)endpoints, b, "", ret, e);
}

/* The same for a copy in which all uses are spent; *ret stays NULL if the policy has none. */
static int write_spent_text(const struct egress_policy *p, const struct policy_bounds *b,
                            struct policy_text **ret, struct err *e)
{
    const size_t n = p->network_policies.n;
    AUTO_FREE struct egress_entry *entries = new0_array(n + 1, sizeof *entries);
    struct egress_policy spent = *p;
    bool any = false;

    if (n)
        memcpy(entries, p->network_policies.p, n * sizeof *entries);
    for (size_t i = 0; i < n; i++) {
        any |= entries[i].has_uses && !entries[i].spent;
        entries[i].spent |= entries[i].has_uses;
    }
    spent.network_policies.p = entries;
    return any ? write_policy_text(&spent, b, ret, e) : 0;
}

/* An estimate: the worker determines them itself. */
struct egress_own policy_own_addresses(struct arena *a)
{
    struct ifaddrs *all = NULL;
    struct address *list = arena_array(a, OWN_MAX, sizeof *list);
    size_t n = 0;

    if (!list || getifaddrs(&all) < 0)
        return (struct egress_own){ 0 };
    for (const struct ifaddrs *i = all; i && n < OWN_MAX; i = i->ifa_next)
        n += i->ifa_addr && address_from_sockaddr(i->ifa_addr, &list[n], NULL);
    freeifaddrs(all);
    return (struct egress_own){ list, n };
}

/* Compiled here once, so that a worker does not refuse it. */
static int compile_policy_text(const struct egress_policy *p, const struct policy_bounds *b,
                               struct policy_text **ret, struct err *e)
{
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = egress_compile(p, 1, e);
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL, *spent = NULL;
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    int r = s ? 0 : -(int)(e->code ? e->code : ERR_BUG);

    if (s && b->ceiling.reach != EGRESS_REACH_LOCAL)
        r = egress_ceiling_check(&b->ceiling, p, policy_own_addresses(&a), e);
    r = r < 0 ? r : write_policy_text(p, b, &t, e);
    r = r < 0 ? r : write_spent_text(p, b, &spent, e);
    if (r < 0 || !t)
        return r;
    t->spent = take_ptr(spent);
    *ret = take_ptr(t);
    return 0;
}

bool policy_wanted(const struct profile *p, const struct create_request *q)
{
    if (q->capabilities.network_given)
        return q->capabilities.network;
    return q->egress.given || p->network.egress.n;
}

/* JSON; or YAML, which may begin with the same brace. An error is about YAML then: it has a line. */
static int read_policy_source(struct str text, struct arena *a, struct egress_policy *ret,
                              struct err *e)
{
    size_t n = 0;

    while (n < text.n && strchr(" \t\r\n", text.p[n]))
        n++;
    if (n == text.n || text.p[n] != '{')
        return egress_policy_read(text, a, ret, e);
    if (text.n > EGRESS_FILE_BYTES_MAX)
        return egress_policy_from_json(text, a, ret, e);
    return egress_policy_from_json(text, a, ret, NULL) >= 0 ? 0
                                                            : egress_policy_read(text, a, ret, e);
}

static int check_part_times(const struct egress_policy *p, const struct policy_bounds *b,
                            struct err *e)
{
    return b->past ? 0 : egress_check_times(p, clock_wall(), e);
}

static int read_policy_tree(const struct json *v, struct arena *a, struct egress_policy *ret,
                            struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(REQUEST_JSON_MAX);
    struct json_writer w;
    int r;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, v);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : egress_policy_from_json(buf_str(&text), a, ret, e);
}

static int add_policy_part(struct policy_parts *x, const struct json *v,
                           const struct policy_bounds *b, struct err *e)
{
    struct egress_policy *part = &x->own[x->n];
    int r = v->type == JSON_STR ? read_policy_source(v->s, &x->arena, part, e)
                                : read_policy_tree(v, &x->arena, part, e);

    return r < 0 ? r : check_part_times(part, b, e);
}

/* The profile's variables, as programs see them. */
static const char *const *list_profile_env(const struct profile *p, struct arena *a)
{
    const char **env = arena_array(a, p->env.n + 1, sizeof *env);
    size_t n = 0;

    for (size_t i = 0; env && i < p->env.n; i++) {
        size_t size = strlen(p->env.p[i].key) + strlen(p->env.p[i].value) + 2;
        char *text = arena_alloc(a, size);

        if (!text)
            break;
        snprintf(text, size, "%s=%s", p->env.p[i].key, p->env.p[i].value);
        env[n++] = text;
    }
    return env;
}

/* Files of this machine and variables of the profile may name addresses that are not public; these
 * count if the caller's ceiling has them. */
static bool is_package_host(const char *text, const struct policy_bounds *b)
{
    static const struct address loopback = { .bytes = { 127, 0, 0, 1 } };
    const struct address *at = NULL;
    struct host h;
    uint16_t port;

    if (authority_parse(str_from(text), 0, &h, &port, NULL) < 0)
        return false;
    if (h.is_address)
        at = &h.address;
    else if (host_names_loopback(str_from(h.name)))
        at = &loopback;
    return !at || address_classify(at) == ADDRESS_PUBLIC ||
           egress_ceiling_has_address(&b->ceiling, at, port, false);
}

/* Reads with the rights of the control plane: unreadable files name no hosts. */
static int add_package_part(struct policy_parts *x, const struct profile *p,
                            const struct policy_bounds *b, struct err *e)
{
    AUTO_CLOSE int root = -1;
    const char *const *env;
    struct package_hosts *found = arena_alloc(&x->arena, sizeof *found);
    const char **hosts = arena_array(&x->arena, PACKAGE_HOSTS_HOSTS_MAX, sizeof *hosts);
    size_t n = 0;

    if (!p)
        return err_set(e, ERR_INVALID, "egress.packages: can only be used in a create request");
    root = open(p->image ? p->image : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    env = list_profile_env(p, &x->arena);
    if (root < 0)
        return err_set(e, ERR_UNSUPPORTED, "egress.packages: the image of %s cannot be read here",
                       p->id);
    if (!env || !found || !hosts)
        return err_set(e, ERR_TOO_BIG,
                       "egress.packages: the list of hosts needs more than %zu bytes; name hosts "
                       "with allow",
                       x->arena.max);
    package_hosts_find(p->image ? PACKAGE_HOSTS_OF_CALLER : PACKAGE_HOSTS_OF_OPERATOR, root,
                       p->image ? "/root" : NULL, env, found);
    for (size_t i = 0; i < found->n; i++)
        if (is_package_host(found->hosts[i], b))
            hosts[n++] = found->hosts[i];
    if (!n)
        return err_set(e, ERR_NOT_FOUND,
                       "egress.packages: found no hosts in the configuration of package managers "
                       "inside; name hosts with allow");
    return egress_from_allow((struct json_strs){ hosts, n }, &x->arena, &x->own[x->n], e);
}

static void count_part(struct policy_parts *x)
{
    x->p[x->n] = &x->own[x->n];
    x->n++;
}

static int add_request_parts(struct policy_parts *x, const struct profile *p,
                             const struct egress_request *q, const struct policy_bounds *b,
                             struct err *e)
{
    int r = 0;

    if (q->allow.n) {
        r = egress_from_allow(q->allow, &x->arena, &x->own[x->n], e);
        count_part(x);
    }
    if (r >= 0 && q->packages) {
        r = add_package_part(x, p, b, e);
        count_part(x);
    }
    if (r >= 0 && q->policy) {
        r = err_wrap(e, add_policy_part(x, q->policy, b, e), "egress.policy");
        count_part(x);
    }
    if (r >= 0 && (q->allow_out.n || q->deny_out.n)) {
        /* A list of denied destinations allows the rest; a list of allowed ones does not. */
        r = egress_from_lists(q->allow_out, q->deny_out, q->deny_out.n > 0, &x->arena,
                              &x->own[x->n], e);
        count_part(x);
    }
    return r;
}

/* Endpoints without addresses get those that the configuration has for their names. */
static int complete_policy(const struct egress_policy *p, struct arena *a,
                           const struct policy_bounds *b, struct policy_text **ret, struct err *e)
{
    struct egress_policy placed = *p;
    int r = b->names.n ? egress_place_names(p, b->names, a, &placed, e) : 0;

    return r < 0 ? r : compile_policy_text(&placed, b, ret, e);
}

static int join_policy_parts(struct policy_parts *x, const struct policy_bounds *b,
                             struct policy_text **ret, struct err *e)
{
    struct egress_policy joined;
    int r = egress_join(x->p, x->n, &x->arena, &joined, e);

    return r < 0 ? r : complete_policy(&joined, &x->arena, b, ret, e);
}

int policy_text_make(const struct profile *p, const struct create_request *q,
                     const struct policy_bounds *b, struct policy_text **ret, struct err *e)
{
    struct policy_parts x = { .arena = ARENA_INIT(EGRESS_MEMORY_MAX) };
    int r;

    x.p[x.n++] = &p->network.policy;
    r = add_request_parts(&x, p, &q->egress, b, e);
    r = r < 0 ? r : join_policy_parts(&x, b, ret, e);
    arena_done(&x.arena);
    return r;
}

/* A JSON object without a version is no policy, but the `egress` of a create request. */
static bool is_egress_request(struct str text, struct arena *a, const struct json **ret)
{
    const struct json_limits limits = { .bytes = EGRESS_JSON_BYTES_MAX,
                                        .depth = EGRESS_FILE_DEPTH_MAX };

    return json_read(text, limits, a, ret, NULL) >= 0 && (*ret)->type == JSON_OBJECT &&
           (*ret)->list.n > 0 && !json_get(*ret, STR("version"));
}

int policy_text_read(struct str text, const struct policy_bounds *b, struct policy_text **ret,
                     struct err *e)
{
    struct policy_parts x = { .arena = ARENA_INIT(EGRESS_MEMORY_MAX) };
    struct egress_request q = { 0 };
    struct egress_policy policy;
    const struct json *v;
    int r;

    if (is_egress_request(text, &x.arena, &v)) {
        r = json_bind(v, egress_request_fields, EGRESS_REQUEST_FIELD_COUNT, &q, &x.arena, e);
        r = r < 0 ? r : add_request_parts(&x, NULL, &q, b, e);
        r = r < 0 ? r : join_policy_parts(&x, b, ret, e);
    } else {
        r = read_policy_source(text, &x.arena, &policy, e);
        r = r < 0 ? r : check_part_times(&policy, b, e);
        r = r < 0 ? r : complete_policy(&policy, &x.arena, b, ret, e);
    }
    arena_done(&x.arena);
    return r;
}
