#include <stdio.h>
#include <strings.h>

#include "base/log.h"
#include "base/own.h"
#include "policy/compiled.h"
#include "policy/path.h"

enum { SHOWN_PATH = 160, SHOWN_METHOD = 24 };

struct request {
    const struct egress_match *m;
    struct str method, path, query;
};

static const char *const read_methods[] = { "GET", "HEAD", "OPTIONS" };
static const char *const write_methods[] = { "POST", "PUT", "PATCH" };

static bool is_one_of(struct str method, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(method, str_from(list[i])))
            return true;
    return false;
}

/* Methods are case-sensitive where they are served: "post" is not POST, so what allows is exact. */
static bool preset_allows(enum egress_access access, struct str method)
{
    switch (access) {
    case EGRESS_FULL:
        return true;
    case EGRESS_READ_WRITE:
        if (is_one_of(method, write_methods, COUNT_OF(write_methods)))
            return true;
        return is_one_of(method, read_methods, COUNT_OF(read_methods));
    case EGRESS_READ_ONLY:
        return is_one_of(method, read_methods, COUNT_OF(read_methods));
    default:
        return false;
    }
}

static bool same_method(struct str rule, struct str method, bool deny)
{
    return deny ? rule.n == method.n && strncasecmp(rule.p, method.p, rule.n) == 0
                : str_eq(rule, method);
}

/* A rule for GET is one for HEAD, too. */
static bool method_matches(const struct rule_c *rule, struct str method, bool deny)
{
    return rule->method.n == 0 || same_method(rule->method, method, deny) ||
           (str_eq(rule->method, STR("GET")) && same_method(STR("HEAD"), method, deny));
}

static bool value_matches(const struct query_c *q, struct str value)
{
    for (size_t i = 0; i < q->n; i++)
        if (glob_match(q->any[i], value))
            return true;
    return false;
}

/* All values of a key have to match for an allow, one is enough for a deny. Without the key neither
 * matches. The query was decoded before, so that it can be decoded is known. */
static bool key_matches(const struct query_c *q, struct str query, bool deny)
{
    char key[PATH_QUERY_MAX], value[PATH_QUERY_MAX];
    bool all = true, any = false, there = false;
    struct str k, v;

    while (path_query_next(&query, &k, &v)) {
        size_t key_n = 0, value_n = 0;
        bool good;

        if (!path_query_decode(k, key, sizeof key, &key_n) ||
            !str_eq((struct str){ key, key_n }, q->key))
            continue;
        good = path_query_decode(v, value, sizeof value, &value_n) &&
               value_matches(q, (struct str){ value, value_n });
        there = true;
        all &= good;
        any |= good;
    }
    return there && (deny ? any : all);
}

static bool rule_matches(const struct rule_c *rule, const struct request *r, bool deny)
{
    if (!method_matches(rule, r->method, deny))
        return false;
    if (rule->path && !glob_match(rule->path, r->path))
        return false;
    for (size_t i = 0; i < rule->query_count; i++)
        if (!key_matches(&rule->query[i], r->query, deny))
            return false;
    return true;
}

static const struct rule_c *rule_at(const struct request *r, uint32_t node, bool deny)
{
    size_t n;
    const struct trie_item *items = trie_items(&r->m->snapshot_->trie, node, &n);

    for (size_t i = 0; i < n; i++)
        if (rule_matches(items[i].what, r, deny))
            return items[i].what;
    return NULL;
}

/* Down the parts of the path: rules hang where the parts they write out end. */
static const struct rule_c *find_rule(const struct request *r, uint32_t node, bool deny)
{
    struct str rest = { r->path.p + 1, r->path.n - 1 }, part;
    const struct rule_c *rule = rule_at(r, node, deny);
    size_t steps = 0;

    while (!rule && rest.p) {
        rest = str_cut(rest, '/', &part);
        node = trie_find(&r->m->snapshot_->trie, node, TRIE_PART, part, &steps);
        if (!node)
            break;
        rule = rule_at(r, node, deny);
    }
    return rule;
}

static bool applies(const struct request *r, const struct egress_endpoint_c *ep)
{
    return ep->protocol != EGRESS_TCP && (!ep->limit || !ep->limit->ended) &&
           (!ep->path || glob_match(ep->path, r->path));
}

/* The endpoint whose path says most decides how the request is treated; those that say as much
 * agree. NULL: none is for this path. */
static const struct egress_endpoint_c *treatment(const struct request *r)
{
    const struct egress_endpoint_c *best = NULL;

    for (size_t i = 0; i < r->m->all_count_; i++) {
        const struct egress_endpoint_c *ep = r->m->all_[i];

        if (applies(r, ep) && (!best || ep->specificity > best->specificity))
            best = ep;
    }
    return best;
}

static const struct rule_c *denying_rule(const struct request *r)
{
    const struct rule_c *rule = NULL;

    for (size_t i = 0; i < r->m->all_count_ && !rule; i++)
        if (applies(r, r->m->all_[i]))
            rule = find_rule(r, r->m->all_[i]->denies, true);
    return rule;
}

struct permit {
    struct str place;                   /* of what allows; empty if nothing does */
    struct egress_limit *limit;         /* what it uses up */
    const struct egress_limit *nothing; /* would allow it, but has no use left */
};

/* The place of what allows it; empty if nothing does. */
static struct str allowing_place(const struct request *r, const struct egress_endpoint_c *ep)
{
    const struct rule_c *rule = NULL;

    if (!applies(r, ep))
        return (struct str){ 0 };
    if (preset_allows(ep->access, r->method))
        return ep->place;
    rule = find_rule(r, ep->allows, false);
    return rule ? rule->place : (struct str){ 0 };
}

/* The first that lasts, else the first that has a use left. */
static struct permit find_permit(const struct request *r)
{
    struct permit found = { 0 };

    for (size_t i = 0; i < r->m->all_count_; i++) {
        const struct egress_endpoint_c *ep = r->m->all_[i];
        struct str place = { 0 };

        if (!found.place.n || !ep->limit)
            place = allowing_place(r, ep);
        if (!place.n)
            continue;
        if (limit_is_over(ep->limit))
            found.nothing = ep->limit;
        else
            found = (struct permit){ .place = place, .limit = ep->limit };
        if (found.place.n && !found.limit)
            break;
    }
    return found;
}

static bool query_is_good(struct str query)
{
    char scratch[PATH_QUERY_MAX];
    struct str key, value;
    size_t n;

    if (query.n > PATH_QUERY_MAX)
        return false;
    while (path_query_next(&query, &key, &value))
        if (!path_query_decode(key, scratch, sizeof scratch, &n) ||
            !path_query_decode(value, scratch, sizeof scratch, &n))
            return false;
    return true;
}

static bool has_encoded_slash(struct str path)
{
    return memmem(path.p, path.n, "%2F", 3) != NULL;
}

struct shown {
    char method[SHOWN_METHOD], path[SHOWN_PATH];
};

static struct shown show(const struct request *r)
{
    struct shown s = { 0 };

    log_printable(r->method, s.method, sizeof s.method);
    log_printable(r->path, s.path, sizeof s.path);
    return s;
}

static enum egress_verdict refuse_form(const struct request *r, struct egress_reason *why,
                                       const char *what)
{
    struct shown s = show(r);

    egress_reason_set_(why, "request_malformed", (struct str){ 0 },
                       "Send the request in its usual form.", "%s %s %s.", s.method, s.path, what);
    return EGRESS_DENIED;
}

static enum egress_verdict judge(const struct request *r, const struct egress_endpoint_c *how,
                                 struct egress_reason *why)
{
    const struct rule_c *deny = denying_rule(r);
    struct permit permit = { 0 };
    struct shown s = show(r);

    if (!deny)
        permit = find_permit(r);
    if (permit.place.n) {
        egress_reason_set_(why, "allowed", permit.place, "", "%s %s is allowed.", s.method, s.path);
        why->limit = permit.limit;
        return EGRESS_ALLOWED;
    }
    if (permit.nothing) {
        egress_limit_refuse(permit.nothing, why);
        return EGRESS_DENIED;
    }
    if (deny)
        egress_reason_set_(
            why, "request_denied_by_rule", deny->place,
            "This request is excluded on purpose; do without it, or ask who owns the policy.",
            "%s %s is denied by a rule of '" STR_FMT "'.", s.method, s.path, STR_ARG(r->m->policy));
    else
        egress_reason_set_(why, "request_denied", how ? how->place : (struct str){ 0 },
                           "Use a method and path that a rule allows, or add a rule for this one.",
                           how ? "%s %s is not allowed by any rule."
                               : "%s %s: no endpoint is for this path.",
                           s.method, s.path);
    return (how ? how->audit : r->m->audit_only) ? EGRESS_AUDITED : EGRESS_DENIED;
}

enum egress_verdict egress_request(const struct egress_match *m, struct str method, struct str path,
                                   struct str query, struct egress_reason *why)
{
    struct request r = { .m = m, .method = method, .path = path, .query = query };
    const struct egress_endpoint_c *how;

    if (m->protocol != EGRESS_REST || !m->snapshot_) {
        egress_reason_set_(why, "not_inspected", (struct str){ 0 },
                           "Give the endpoint protocol: rest to have its requests judged.",
                           "Requests of this connection are not inspected.");
        return EGRESS_DENIED;
    }
    if (method.n == 0 || path.n == 0 || path.p[0] != '/')
        return refuse_form(&r, why, "is not a request");
    if (!query_is_good(query))
        return refuse_form(&r, why, "has a query that cannot be decoded");
    how = treatment(&r);
    if (how && has_encoded_slash(path) && !how->encoded_slash)
        return refuse_form(&r, why, "holds %2F, which the endpoint does not allow");
    return judge(&r, how, why);
}
