/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <strings.h>

#include "base/log.h"
#include "base/own.h"
#include "domain/policy/compiled.h"
#include "domain/policy/path.h"
#include "domain/policy/protocol.h"

enum { SHOWN_PATH = 96, SHOWN_METHOD = 24 };

/* A request in one of the readings of its path. */
struct judged_request {
    const struct egress_match *m;
    const struct egress_http *sent;
    struct str path;    /* the reading */
    struct str wide[3]; /* texts that deny rules are matched with */
};

/* Methods are case-sensitive: "post" is not POST. Rules that allow match exactly. */
static bool preset_allows(enum egress_access access, struct str method)
{
    static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH" };
    size_t n = access == EGRESS_READ_WRITE ? 6 : access == EGRESS_READ_ONLY ? 3 : 0;

    for (size_t i = 0; i < n; i++)
        if (str_eq(method, str_from(methods[i])))
            return true;
    return access == EGRESS_FULL;
}

static bool same_method(struct str rule, struct str method, bool deny)
{
    return deny ? rule.n == method.n && strncasecmp(rule.p, method.p, rule.n) == 0
                : str_eq(rule, method);
}

/* A rule for GET also matches HEAD. */
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

/* The values of a key, for one way to split the query. */
struct values {
    bool there; /* the key occurs, as the rule writes it */
    bool any, all;
};

static void match_values(const struct query_c *q, struct str query, const char *separators,
                         struct values *ret)
{
    char key[PATH_QUERY_MAX], folded[PATH_QUERY_MAX], value[PATH_QUERY_MAX];
    struct str k, v;

    while (path_query_next(&query, separators, &k, &v)) {
        struct str name = { key, 0 }, text = { value, 0 };
        bool good;

        if (!path_query_decode(k, key, sizeof key, &name.n) ||
            !str_eq((struct str){ folded, path_query_fold(name, folded) }, q->folded) ||
            !path_query_decode(v, value, sizeof value, &text.n))
            continue;
        good = value_matches(q, text);
        ret->there |= str_eq(name, q->key);
        ret->all &= good;
        ret->any |= good || value_matches(q, str_trim(text));
    }
}

/* For an allow, all values of a key, and of keys that servers take for it, must match; for a deny,
 * one is enough. If the key is absent, neither matches. The query is known to be decodable. */
static bool key_matches(const struct query_c *q, struct str query, bool deny)
{
    struct values seen = { .all = true };

    match_values(q, query, "&", &seen);
    match_values(q, query, "&;", &seen);
    return deny ? seen.any : seen.there && seen.all;
}

static bool rule_matches(const struct rule_c *rule, const struct judged_request *r, struct str path,
                         bool deny)
{
    if (!method_matches(rule, r->sent->method, deny))
        return false;
    if (rule->path && !glob_match(rule->path, path))
        return false;
    for (size_t i = 0; i < rule->query_count; i++)
        if (!key_matches(&rule->query[i], r->sent->query, deny))
            return false;
    return true;
}

static const struct rule_c *rule_at(const struct judged_request *r, uint32_t node, struct str path,
                                    bool deny)
{
    size_t n;
    const struct trie_item *items = trie_items(&r->m->snapshot_->trie, node, &n);

    for (size_t i = 0; i < n; i++)
        if (rule_matches(items[i].what, r, path, deny))
            return items[i].what;
    return NULL;
}

/* Descends along the parts of the path: rules are indexed by their literal parts. */
static const struct rule_c *find_rule(const struct judged_request *r, uint32_t node,
                                      struct str path, bool deny)
{
    struct str rest = { path.p + 1, path.n - 1 }, part;
    const struct rule_c *rule = rule_at(r, node, path, deny);
    size_t steps = 0;

    while (!rule && rest.p) {
        rest = str_cut(rest, '/', &part);
        node = trie_find(&r->m->snapshot_->trie, node, TRIE_PART, part, &steps);
        if (!node)
            break;
        rule = rule_at(r, node, path, deny);
    }
    return rule;
}

static bool is_inspected(const struct egress_endpoint_c *ep)
{
    return ep->protocol != EGRESS_TCP && (!ep->limit || !ep->limit->ended);
}

static bool endpoint_applies(const struct judged_request *r, const struct egress_endpoint_c *ep)
{
    return is_inspected(ep) && (!ep->path || glob_match(ep->path, r->path));
}

/* The endpoint with the most specific path determines the treatment; equally specific ones agree.
 * NULL: no endpoint has this path. */
static const struct egress_endpoint_c *most_specific_endpoint(const struct judged_request *r)
{
    const struct egress_endpoint_c *best = NULL;

    for (size_t i = 0; i < r->m->all_count_; i++) {
        const struct egress_endpoint_c *ep = r->m->all_[i];

        if (endpoint_applies(r, ep) && (!best || ep->specificity > best->specificity))
            best = ep;
    }
    return best;
}

/* Deny rules match more than rules that allow: docs/egress-policy.md. */
static const struct rule_c *denying_rule(const struct judged_request *r)
{
    const struct rule_c *rule = NULL;

    for (size_t i = 0; i < r->m->all_count_ && !rule; i++) {
        const struct egress_endpoint_c *ep = r->m->all_[i];

        if (!ep->has_denies || !is_inspected(ep))
            continue;
        for (size_t k = 0; k < COUNT_OF(r->wide) && !rule; k++)
            if (!ep->path_wide || glob_match(ep->path_wide, r->wide[k]))
                rule = find_rule(r, ep->denies, r->wide[k], true);
    }
    return rule;
}

struct permit {
    struct str place;                   /* location of the rule that allows; empty: none */
    struct egress_limit *limit;         /* the limit that it uses */
    const struct egress_limit *nothing; /* would allow, but has no use left */
};

/* Location of the rule that allows; empty if nothing allows it. */
static struct str allowing_place(const struct judged_request *r, const struct egress_endpoint_c *ep)
{
    const struct rule_c *rule = NULL;

    if (!endpoint_applies(r, ep))
        return (struct str){ 0 };
    if (preset_allows(ep->access, r->sent->method))
        return ep->place;
    rule = find_rule(r, ep->allows, r->path, false);
    return rule ? rule->place : (struct str){ 0 };
}

/* Returns the first permanent one, else the first with a use left. */
static struct permit find_permit(const struct judged_request *r)
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

/* "GET /%61, which servers read as /a,", for messages. */
struct printable_request {
    char method[SHOWN_METHOD], path[SHOWN_PATH], read_as[SHOWN_PATH + 32];
};

static struct printable_request make_printable_request(const struct judged_request *r)
{
    struct printable_request s = { 0 };
    char reading[SHOWN_PATH];

    log_printable(r->sent->method, s.method, sizeof s.method);
    log_printable(r->sent->path, s.path, sizeof s.path);
    if (r->path.n == 0 || str_eq(r->path, r->sent->path))
        return s;
    log_printable(r->path, reading, sizeof reading);
    snprintf(s.read_as, sizeof s.read_as, ", which servers may read as %s,", reading);
    return s;
}

static enum egress_verdict refuse_request(const struct judged_request *r, struct egress_reason *why,
                                          const char *code, const char *what, const char *next)
{
    struct printable_request s = make_printable_request(r);

    return egress_refuse_(why, code, (struct str){ 0 }, next, "%s %s%s %s.", s.method, s.path,
                          s.read_as, what);
}

static void explain_denial(const struct judged_request *r, const struct rule_c *deny,
                           const struct egress_endpoint_c *how, struct egress_reason *why)
{
    struct printable_request s = make_printable_request(r);

    if (deny)
        egress_reason_set_(
            why, "request_denied_by_rule", deny->place,
            "This request is denied on purpose; avoid it, or ask the owner of the policy.",
            "%s %s%s is denied by a rule of '" STR_FMT "'.", s.method, s.path, s.read_as,
            STR_ARG(r->m->policy));
    else
        egress_reason_set_(why, "request_denied", how ? how->place : (struct str){ 0 },
                           "Use a method and path that a rule allows, or add a rule for this one.",
                           how ? "%s %s%s is not allowed by any rule."
                               : "%s %s%s: no endpoint has this path.",
                           s.method, s.path, s.read_as);
}

static enum egress_verdict judge_by_rules(const struct judged_request *r,
                                          const struct egress_endpoint_c *how,
                                          struct egress_reason *why)
{
    const struct rule_c *deny = denying_rule(r);
    struct permit permit = { 0 };
    struct printable_request s;

    if (!deny)
        permit = find_permit(r);
    if (permit.place.n) {
        s = make_printable_request(r);
        egress_reason_set_(why, "allowed", permit.place, "", "%s %s is allowed.", s.method, s.path);
        why->limit = permit.limit;
        return EGRESS_ALLOWED;
    }
    if (permit.nothing) {
        egress_limit_refuse(permit.nothing, why);
        return EGRESS_DENIED;
    }
    explain_denial(r, deny, how, why);
    return (how ? how->audit : r->m->audit_only) ? EGRESS_AUDITED : EGRESS_DENIED;
}

/* Sets the wide readings: in lower case, without trailing '/', and folded. */
static void set_wide_readings(struct judged_request *r, struct path_text *lower,
                              struct path_text *folded)
{
    lower->n = r->path.n;
    for (size_t i = 0; i < r->path.n; i++) {
        char c = r->path.p[i];

        lower->bytes[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    path_fold(r->path, folded);
    r->wide[0] = r->wide[1] = (struct str){ lower->bytes, lower->n };
    while (r->wide[1].n > 1 && lower->bytes[r->wide[1].n - 1] == '/')
        r->wide[1].n--;
    r->wide[2] = (struct str){ folded->bytes, folded->n };
}

static enum egress_verdict judge_reading(struct judged_request *r, struct egress_reason *why)
{
    struct path_text lower, folded;
    const struct egress_endpoint_c *how = most_specific_endpoint(r);
    enum egress_verdict v;

    if (how && memmem(r->path.p, r->path.n, "%2F", 3) && !how->encoded_slash)
        return refuse_request(r, why, "request_malformed",
                              "contains %2F, which the endpoint does not allow",
                              "Send the request in its usual form.");
    set_wide_readings(r, &lower, &folded);
    v = judge_by_rules(r, how, why);
    memset(r->wide, 0, sizeof r->wide);
    return v;
}

/* A path with several readings must be allowed in each of them. */
static enum egress_verdict judge_readings(const struct egress_match *m, const struct egress_http *q,
                                          struct egress_reason *why)
{
    struct judged_request r = { .m = m, .sent = q };
    unsigned ways = path_ways(q->path);
    enum egress_verdict all = EGRESS_ALLOWED;
    struct path_text text;

    for (unsigned reading = 0; reading < PATH_READINGS && all != EGRESS_DENIED; reading++) {
        struct egress_reason other;
        const char *flaw;
        enum egress_verdict v;

        if (reading & ~ways)
            continue;
        r.path = (struct str){ 0 };
        flaw = path_read(q->path, reading, m->encoded_slash, &text);
        if (flaw)
            return refuse_request(
                &r, why, "path_invalid", flaw,
                "Write the path in canonical form, without parts that servers read differently.");
        r.path = (struct str){ text.bytes, text.n };
        v = judge_reading(&r, &other);
        if (reading == 0 || (v != EGRESS_ALLOWED && all == EGRESS_ALLOWED) || v == EGRESS_DENIED)
            *why = other;
        if (reading == 0 || v != EGRESS_ALLOWED)
            all = v;
    }
    return all;
}

/* --- Requests that no rule can allow --- */

static const struct str known_methods[] = {
    { "GET", 3 },   { "HEAD", 4 },    { "POST", 4 },    { "PUT", 3 },   { "DELETE", 6 },
    { "PATCH", 5 }, { "OPTIONS", 7 }, { "CONNECT", 7 }, { "TRACE", 5 },
};

bool egress_method_refused(struct str method)
{
    for (size_t i = 0; i < COUNT_OF(known_methods); i++)
        if (same_method(known_methods[i], method, true))
            return !str_eq(known_methods[i], method) || str_eq(method, STR("CONNECT")) ||
                   str_eq(method, STR("TRACE"));
    return method.n == 0;
}

/* Some servers let a query parameter replace the method. */
static bool overrides_method(struct str query)
{
    char name[PATH_QUERY_MAX];
    struct str key, value;
    size_t n;

    while (path_query_next(&query, "&;", &key, &value)) {
        if (!path_query_decode(key, name, sizeof name, &n))
            continue;
        n = path_query_fold((struct str){ name, n }, name);
        if (str_eq((struct str){ name, n }, STR("_method")))
            return true;
    }
    return false;
}

/* Returns false with the refusal in *why. */
static bool is_inspectable(const struct egress_match *m, const struct egress_http *q,
                           struct egress_reason *why)
{
    const struct judged_request r = { .m = m, .sent = q };
    const char *flaw = path_query_flaw(q->query);

    if (egress_method_refused(q->method))
        refuse_request(
            &r, why, "method_denied",
            "is refused: CONNECT, TRACE and methods that are not in upper case are not allowed",
            "Use another method, in upper case.");
    else if (q->upgrades)
        refuse_request(&r, why, "upgrade_denied",
                       "is refused: requests to this endpoint are inspected, so the protocol "
                       "cannot be upgraded",
                       "Repeat the request without Upgrade.");
    else if (flaw)
        refuse_request(&r, why, "request_malformed", flaw, "Send the request in its usual form.");
    else if (overrides_method(q->query))
        refuse_request(&r, why, "method_override_denied",
                       "is refused: a query parameter overrides the method",
                       "Use the method directly.");
    else
        return true;
    return false;
}

enum egress_verdict protocol_judge_http_(const struct egress_match *m,
                                         const struct egress_action *a, struct egress_reason *why)
{
    return is_inspectable(m, &a->http, why) ? judge_readings(m, &a->http, why) : EGRESS_DENIED;
}
