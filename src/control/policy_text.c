#include "control/policy_text.h"

#include <stdlib.h>

#include "policy/egress.h"
#include "policy/egress_file.h"
#include "policy/egress_sources.h"

enum { PARTS_MAX = 4 };

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
    if (t && --t->refs == 0)
        free(t);
}

void policy_text_unrefp_(struct policy_text **t)
{
    policy_text_unref(*t);
}

struct policy_text *policy_text_stored(struct str json, uint32_t endpoints)
{
    struct policy_text *t = malloc(sizeof *t + json.n);

    if (!t)
        abort();
    memcpy(t + 1, json.p, json.n);
    *t = (struct policy_text){ .json = { (const char *)(t + 1), json.n },
                               .endpoints = endpoints,
                               .refs = 1 };
    return t;
}

static uint32_t count_endpoints(const struct egress_policy *p)
{
    const struct egress_entry *entries = p->network_policies.p;
    size_t n = 0;

    for (size_t i = 0; i < p->network_policies.n; i++)
        n += entries[i].endpoints.n;
    return (uint32_t)n;
}

/* Compiled here once, so that a worker has nothing to say against it. */
static int finish(const struct egress_policy *p, struct policy_text **ret, struct err *e)
{
    AUTO(buf_done) struct buf json = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = egress_compile(p, 1, e);
    int r = s ? egress_policy_to_json(p, &json, e) : -(int)(e->code ? e->code : ERR_BUG);

    if (r >= 0)
        *ret = policy_text_stored(buf_str(&json), count_endpoints(p));
    return r;
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

static int add_request(struct parts *x, const struct create_request *q, struct err *e)
{
    int r = 0;

    if (q->egress.allow.n) {
        r = egress_from_allow(q->egress.allow, &x->arena, &x->own[x->n], e);
        x->p[x->n] = &x->own[x->n];
        x->n++;
    }
    if (r >= 0 && q->egress.policy) {
        r = add_policy(x, q->egress.policy, e);
        err_wrap(e, r, "egress.policy");
        x->p[x->n] = &x->own[x->n];
        x->n++;
    }
    if (r >= 0 && (q->egress.allow_out.n || q->egress.deny_out.n)) {
        /* Who lists what is denied means that the rest is not; who lists what is allowed does not.
         */
        r = egress_from_lists(q->egress.allow_out, q->egress.deny_out, q->egress.deny_out.n > 0,
                              &x->arena, &x->own[x->n], e);
        x->p[x->n] = &x->own[x->n];
        x->n++;
    }
    return r;
}

int policy_text_make(const struct profile *p, const struct create_request *q,
                     struct policy_text **ret, struct err *e)
{
    struct parts x = { .arena = ARENA_INIT(EGRESS_MEMORY_MAX) };
    struct egress_policy joined;
    int r;

    x.p[x.n++] = &p->network.policy;
    r = add_request(&x, q, e);
    if (r >= 0)
        r = egress_join(x.p, x.n, &x.arena, &joined, e);
    if (r >= 0)
        r = finish(&joined, ret, e);
    arena_done(&x.arena);
    return r;
}

int policy_text_read(struct str text, struct policy_text **ret, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_policy policy;
    int r = read_text(text, &a, &policy, e);

    return r < 0 ? r : finish(&policy, ret, e);
}
