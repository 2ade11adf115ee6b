#include "control/policy_text.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "json/reader.h"
#include "packages/packages.h"
#include "policy/egress.h"
#include "policy/egress_file.h"
#include "policy/egress_sources.h"

enum { PARTS_MAX = 5, OWN_MAX = 1024 };

struct parts {
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

int policy_text_stored(struct str json, uint32_t endpoints, const struct policy_bounds *b,
                       struct policy_text **ret, struct err *e)
{
    AUTO(buf_done) struct buf ceiling = BUF_INIT(EGRESS_CEILING_BYTES_MAX);
    int r = egress_ceiling_write(&b->ceiling, &ceiling, e);
    struct policy_text *t;
    char *text;

    if (r < 0)
        return r;
    t = malloc(sizeof *t + json.n + ceiling.n);
    if (!t)
        abort();
    text = (char *)(t + 1);
    memcpy(text, json.p, json.n);
    memcpy(text + json.n, ceiling.p, ceiling.n);
    *t = (struct policy_text){ .json = { text, json.n },
                               .ceiling = { text + json.n, ceiling.n },
                               .author = b->author,
                               .endpoints = endpoints,
                               .refs = 1 };
    *ret = t;
    return 0;
}

static uint32_t count_endpoints(const struct egress_policy *p)
{
    const struct egress_entry *entries = p->network_policies.p;
    size_t n = 0;

    for (size_t i = 0; i < p->network_policies.n; i++)
        n += entries[i].endpoints.n;
    return (uint32_t)n;
}

/* Marks all uses as spent; false: there are none. */
static bool spend(const struct egress_policy *p)
{
    struct egress_entry *entries = p->network_policies.p;
    bool any = false;

    for (size_t i = 0; i < p->network_policies.n; i++) {
        any |= entries[i].has_uses && !entries[i].spent;
        entries[i].spent |= entries[i].has_uses;
    }
    return any;
}

static int write_text(const struct egress_policy *p, const struct policy_bounds *b,
                      struct policy_text **ret, struct err *e)
{
    AUTO(buf_done) struct buf json = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    int r = egress_policy_to_json(p, &json, e);

    return r < 0 ? r : policy_text_stored(buf_str(&json), count_endpoints(p), b, ret, e);
}

/* The worker knows them for sure. */
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

static int check_bounds(const struct egress_policy *p, const struct policy_bounds *b, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);

    if (b->ceiling.reach == EGRESS_REACH_LOCAL)
        return 0;
    return egress_ceiling_check(&b->ceiling, p, policy_own_addresses(&a), e);
}

/* Compiled here once, so that a worker has nothing to say against it. */
static int finish(const struct egress_policy *p, const struct policy_bounds *b,
                  struct policy_text **ret, struct err *e)
{
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = egress_compile(p, 1, e);
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL, *spent = NULL;
    int r = s ? check_bounds(p, b, e) : -(int)(e->code ? e->code : ERR_BUG);

    if (r >= 0)
        r = write_text(p, b, &t, e);
    if (r >= 0 && spend(p))
        r = write_text(p, b, &spent, e);
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

static int read_text(struct str text, struct arena *a, struct egress_policy *ret, struct err *e)
{
    size_t n = 0;

    while (n < text.n && strchr(" \t\r\n", text.p[n]))
        n++;
    return n < text.n && text.p[n] == '{' ? egress_policy_from_json(text, a, ret, e)
                                          : egress_policy_read(text, a, ret, e);
}

static int add_policy(struct parts *x, const struct json *v, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(REQUEST_JSON_MAX);
    struct json_writer w;
    int r;

    if (v->type == JSON_STR)
        return read_text(v->s, &x->arena, &x->own[x->n], e);
    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, v);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : egress_policy_from_json(buf_str(&text), &x->arena, &x->own[x->n], e);
}

/* The profile's variables, as programs see them. */
static const char *const *variables(const struct profile *p, struct arena *a)
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

/* With the rights that the control plane has: what it cannot read names no hosts. */
static int add_packages(struct parts *x, const struct profile *p, struct err *e)
{
    AUTO_CLOSE int root = -1;
    const char *const *env;
    struct packages *found = arena_alloc(&x->arena, sizeof *found);
    const char **hosts = arena_array(&x->arena, PACKAGES_HOSTS_MAX, sizeof *hosts);

    if (!p)
        return err_set(e, ERR_INVALID, "egress.packages: is for sandboxes that are created");
    root = open(p->image ? p->image : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    env = variables(p, &x->arena);
    if (root < 0)
        return err_set(e, ERR_UNSUPPORTED, "egress.packages: the image of %s cannot be read here",
                       p->id);
    if (!env || !found || !hosts)
        return err_set(e, ERR_TOO_BIG, "egress.packages: too much");
    packages_find(root, p->image ? "/root" : NULL, env, found);
    if (!found->n)
        return err_set(e, ERR_NOT_FOUND,
                       "egress.packages: no host is known of any package manager inside; name one "
                       "with allow");
    for (size_t i = 0; i < found->n; i++)
        hosts[i] = found->hosts[i];
    return egress_from_allow((struct json_strs){ hosts, found->n }, &x->arena, &x->own[x->n], e);
}

static int add_lists(struct parts *x, const struct egress_request *q, struct err *e)
{
    /* Who lists what is denied means that the rest is not; who lists what is allowed does not. */
    return egress_from_lists(q->allow_out, q->deny_out, q->deny_out.n > 0, &x->arena, &x->own[x->n],
                             e);
}

static void count_part(struct parts *x)
{
    x->p[x->n] = &x->own[x->n];
    x->n++;
}

static int add_request(struct parts *x, const struct profile *p, const struct egress_request *q,
                       struct err *e)
{
    int r = 0;

    if (q->allow.n) {
        r = egress_from_allow(q->allow, &x->arena, &x->own[x->n], e);
        count_part(x);
    }
    if (r >= 0 && q->packages) {
        r = add_packages(x, p, e);
        count_part(x);
    }
    if (r >= 0 && q->policy) {
        r = err_wrap(e, add_policy(x, q->policy, e), "egress.policy");
        count_part(x);
    }
    if (r >= 0 && (q->allow_out.n || q->deny_out.n)) {
        r = add_lists(x, q, e);
        count_part(x);
    }
    return r;
}

static int join(struct parts *x, const struct policy_bounds *b, struct policy_text **ret,
                struct err *e)
{
    struct egress_policy joined;
    int r = egress_join(x->p, x->n, &x->arena, &joined, e);

    return r < 0 ? r : finish(&joined, b, ret, e);
}

int policy_text_make(const struct profile *p, const struct create_request *q,
                     const struct policy_bounds *b, struct policy_text **ret, struct err *e)
{
    struct parts x = { .arena = ARENA_INIT(EGRESS_MEMORY_MAX) };
    int r;

    x.p[x.n++] = &p->network.policy;
    r = add_request(&x, p, &q->egress, e);
    if (r >= 0)
        r = join(&x, b, ret, e);
    arena_done(&x.arena);
    return r;
}

/* A JSON object that is no policy, which would have a version, but what a create may ask for. */
static bool is_request(struct str text, struct arena *a, const struct json **ret)
{
    const struct json_limits limits = { .bytes = EGRESS_JSON_BYTES_MAX,
                                        .depth = EGRESS_FILE_DEPTH_MAX };

    return json_read(text, limits, a, ret, NULL) >= 0 && (*ret)->type == JSON_OBJECT &&
           (*ret)->list.n > 0 && !json_get(*ret, STR("version"));
}

static int read_request(const struct json *v, struct parts *x, const struct policy_bounds *b,
                        struct policy_text **ret, struct err *e)
{
    struct egress_request q = { 0 };
    int r = json_bind(v, egress_request_fields, EGRESS_REQUEST_FIELD_COUNT, &q, &x->arena, e);

    if (r >= 0)
        r = add_request(x, NULL, &q, e);
    return r < 0 ? r : join(x, b, ret, e);
}

int policy_text_read(struct str text, const struct policy_bounds *b, struct policy_text **ret,
                     struct err *e)
{
    struct parts x = { .arena = ARENA_INIT(EGRESS_MEMORY_MAX) };
    struct egress_policy policy;
    const struct json *v;
    int r;

    if (is_request(text, &x.arena, &v)) {
        r = read_request(v, &x, b, ret, e);
    } else {
        r = read_text(text, &x.arena, &policy, e);
        if (r >= 0)
            r = finish(&policy, b, ret, e);
    }
    arena_done(&x.arena);
    return r;
}
