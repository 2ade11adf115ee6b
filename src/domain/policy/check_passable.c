/* SPDX-License-Identifier: Apache-2.0 */
/* Rejects endpoints of HTTP that cannot let anything pass: such a policy would be silently wrong. */
#include <strings.h>

#include "base/own.h"
#include "domain/policy/glob.h"
#include "domain/policy/host_pattern.h"
#include "domain/policy/protocol.h"

/* Larger policies are not checked pairwise, which would take too long. */
enum { HTTPS_PORT = 443, SCRATCH_MAX = 4 << 20, SIBLINGS_MAX = 256, DENIES_MAX = 256 };
enum { COMPILE_WORK = 256 }; /* of one glob, in steps of glob_covered() */

#define WILD "*?[{\\" /* characters of globs that are not literal */

static int check_port(const struct policy_spot *s)
{
    for (size_t i = 0; i < s->ep->port_count; i++)
        if (s->ep->ports[i] == HTTPS_PORT)
            return spot_fail(
                s, "ports",
                "nothing can pass on port 443 with the protocol %s, because TLS is not inspected "
                "yet; omit the protocol and its rules for 443, or use a port without TLS",
                egress_protocol_names[s->ep->protocol]);
    return 0;
}

/* --- Rules that are completely denied by others --- */

/* The requests that a rule allows, or `access` for one method. */
struct reach {
    const char *method;
    const char *path; /* NULL: every path */
    bool crosses;     /* the path is an endpoint's, whose wildcards match across parts */
    /* Paths of deny rules for the method that could deny a part of it. */
    const char *denied[DENIES_MAX];
    size_t n;
};

static bool is_every(const char *text, const char *every)
{
    return !text || strcmp(text, every) == 0 || strcmp(text, "**") == 0;
}

/* GET covers HEAD. */
static bool covers_method(const char *deny, const char *allow)
{
    if (!deny || strcmp(deny, "*") == 0)
        return true;
    return strcasecmp(deny, allow) == 0 ||
           (strcasecmp(deny, "GET") == 0 && strcasecmp(allow, "HEAD") == 0);
}

/* Whether the texts before the first wildcards leave open that a path matches both. */
static bool can_meet(const char *a, const char *b)
{
    size_t n = strcspn(a, WILD), m = strcspn(b, WILD);

    return strncasecmp(a, b, n < m ? n : m) == 0;
}

/* Whether the one is X and ** behind it, and the other begins with X and has its wildcards
 * behind it. */
static bool covers_below(const char *deny, const char *allow)
{
    struct str below = str_from(deny);

    if (!str_ends(below, STR("/**")))
        return false;
    below.n -= STR("**").n;
    return strcspn(deny, WILD) == below.n && strcspn(allow, WILD) >= below.n &&
           strncasecmp(allow, deny, below.n) == 0;
}

/* Whether one rule of the endpoint covers the reach by itself; notes the others that could cover a
 * part of it. */
static bool denies_all(const struct egress_endpoint *ep, struct reach *r)
{
    const struct egress_rule *denies = ep->deny_rules.p;

    for (size_t i = 0; i < ep->deny_rules.n; i++) {
        const char *path = denies[i].path;

        if (denies[i].query_ || !covers_method(denies[i].method, r->method))
            continue;
        if (is_every(path, "/**") || (r->path && !r->crosses && strcmp(path, r->path) == 0) ||
            (r->path && covers_below(path, r->path)))
            return true;
        if (r->n < DENIES_MAX && (!r->path || can_meet(path, r->path)))
            r->denied[r->n++] = path;
    }
    return false;
}

/* Compiles one glob; false without memory, or without work left. */
static bool compile_reach_path(const struct policy_spot *s, const char *path,
                               enum glob_dialect dialect, struct arena *scratch,
                               const struct glob **ret)
{
    if (*s->work < COMPILE_WORK)
        return false;
    *s->work -= COMPILE_WORK;
    return glob_compile(str_from(path), dialect, '/', scratch, ret, NULL) >= 0;
}

/* Whether the noted rules together provably cover every path of the reach; false also if in doubt.
 * Deny rules match a path in either case: a path as it is written is one of the readings that all
 * must be allowed (judge_http.c). */
static bool covers_together(const struct policy_spot *s, const struct reach *r)
{
    AUTO(arena_done) struct arena scratch = ARENA_INIT(SCRATCH_MAX);
    const struct glob *by[DENIES_MAX], *allow;
    bool every = is_every(r->path, "/**");

    if (r->n == 0 ||
        !compile_reach_path(s, every ? "/**" : r->path,
                            r->crosses && !every ? GLOB_PLAIN : GLOB_PARTS, &scratch, &allow))
        return false;
    for (size_t i = 0; i < r->n; i++) {
        if (!compile_reach_path(s, r->denied[i], GLOB_PARTS_WIDE, &scratch, &by[i]))
            return false;
        if (glob_is_literal(allow) && glob_match(by[i], glob_prefix(allow)))
            return true;
    }
    return !glob_is_literal(allow) && glob_covered(allow, by, r->n, s->work);
}

static bool has_ports_of(const struct egress_endpoint *ep, const struct egress_endpoint *other)
{
    size_t found = 0;

    for (size_t i = 0, k = 0; i < other->port_count && k < ep->port_count; k++)
        if (ep->ports[k] == other->ports[i]) {
            i++;
            found++;
        }
    return found == other->port_count;
}

static bool same_addresses(const struct egress_endpoint *a, const struct egress_endpoint *b)
{
    for (size_t i = 0; i < a->allowed_ips.n && i < b->allowed_ips.n; i++)
        if (strcmp(a->allowed_ips.p[i], b->allowed_ips.p[i]) != 0)
            return false;
    return a->allowed_ips.n == b->allowed_ips.n;
}

static bool has_host_of(const struct egress_endpoint *other, const struct egress_endpoint *ep)
{
    struct host_pattern wide, narrow;

    if (!other->host || !ep->host)
        return !other->host && !ep->host && same_addresses(other, ep);
    if (strcmp(other->host, ep->host) == 0)
        return true;
    return !host_pattern_parse(str_from(other->host), &wide) &&
           !host_pattern_parse(str_from(ep->host), &narrow) && host_pattern_covers(&wide, &narrow);
}

/* Whether another endpoint applies to the requests of this one, for every program. */
static bool goes_with(const struct egress_endpoint *other, const struct egress_endpoint *ep)
{
    return protocols[other->protocol].fields & PROTOCOL_HTTP && !other->path &&
           !other->binaries.n && has_host_of(other, ep) && has_ports_of(other, ep);
}

/* Whether an entry applies to every program and does not expire. */
static bool lasts_for_all(const struct egress_entry *entry)
{
    const struct egress_binary *all = entry->binaries.p;

    if (entry->until_ || entry->has_uses)
        return false;
    for (size_t i = 0; i < entry->binaries.n; i++)
        if (is_every(all[i].path, "/**"))
            return true;
    return entry->binaries.n == 0;
}

static bool denied_in(const struct policy_spot *s, const struct egress_entry *entry,
                      struct reach *r)
{
    const struct egress_endpoint *all = entry->endpoints.p;

    for (size_t i = 0; i < entry->endpoints.n; i++)
        if (all[i].deny_rules.n && &all[i] != s->ep && goes_with(&all[i], s->ep) &&
            denies_all(&all[i], r))
            return true;
    return false;
}

/* Whether deny rules cover the reach: of the endpoint, of other endpoints of its entry, and of
 * entries that apply to every program permanently. */
static bool is_denied(const struct policy_spot *s, struct reach *r)
{
    const struct egress_entry *entries = s->policy->network_policies.p;
    size_t siblings = 0;

    if (denies_all(s->ep, r))
        return true;
    for (size_t i = 0; i < s->policy->network_policies.n; i++)
        siblings += entries[i].endpoints.n;
    for (size_t i = 0; i < s->policy->network_policies.n && siblings <= SIBLINGS_MAX; i++)
        if (((&entries[i] == s->entry && !s->ep->binaries.n) || lasts_for_all(&entries[i])) &&
            denied_in(s, &entries[i], r))
            return true;
    return covers_together(s, r);
}

static bool is_outside(const struct egress_endpoint *ep, const char *path)
{
    AUTO(arena_done) struct arena scratch = ARENA_INIT(SCRATCH_MAX);
    const struct glob *own, *rule;

    if (!ep->path || !path)
        return false;
    return glob_compile(str_from(ep->path), GLOB_PLAIN, '/', &scratch, &own, NULL) >= 0 &&
           glob_compile(str_from(path), GLOB_PARTS, '/', &scratch, &rule, NULL) >= 0 &&
           !glob_overlap(own, rule);
}

/* Why the rule allows nothing; NULL if it allows something. */
static const char *rule_flaw(const struct policy_spot *s, const struct egress_rule *rule)
{
    if (strcasecmp(rule->method, "CONNECT") == 0 || strcasecmp(rule->method, "TRACE") == 0)
        return "CONNECT and TRACE are never allowed where requests are inspected";
    if (is_outside(s->ep, rule->path))
        return "its path does not overlap with the endpoint's path";
    if (is_denied(s, &(struct reach){ .method = rule->method, .path = rule->path }))
        return "deny_rules deny everything that it allows";
    return NULL;
}

static int check_allowing_rules(const struct policy_spot *s)
{
    const struct egress_allow *allows = s->ep->rules.p;
    size_t dead = 0;
    const char *flaw = NULL;

    for (size_t i = 0; i < s->ep->rules.n; i++) {
        const char *why = rule_flaw(s, &allows[i].allow);

        dead += why != NULL;
        flaw = flaw ? flaw : why;
    }
    if (dead == 0)
        return 0;
    if (dead < s->ep->rules.n)
        return spot_note(s, "a rule allows nothing: %s", flaw);
    return spot_fail(s, "rules", "allow no request: %s; change the rules, or remove the endpoint",
                     flaw);
}

static int check_preset(const struct policy_spot *s)
{
    /* For each preset, methods that represent all that it allows; `full` allows every method. */
    static const char *const reads[] = { "GET", "OPTIONS", NULL };
    static const char *const writes[] = { "GET", "OPTIONS", "POST", "PUT", "PATCH", NULL };
    static const char *const every[] = { "*", NULL };
    static const char *const *const methods[] = {
        [EGRESS_READ_ONLY] = reads, [EGRESS_READ_WRITE] = writes, [EGRESS_FULL] = every
    };

    for (const char *const *m = methods[s->ep->access]; *m; m++)
        if (!is_denied(s, &(struct reach){ .method = *m, .path = s->ep->path, .crosses = true }))
            return 0;
    return spot_fail(s, "deny_rules",
                     "deny everything that access allows; narrow them, or remove the endpoint");
}

int protocol_check_http_passable_(const struct policy_spot *s)
{
    int r = check_port(s);

    if (r < 0 || s->ep->enforcement == EGRESS_AUDIT)
        return r; /* denials are only recorded */
    return s->ep->has_rules ? check_allowing_rules(s) : check_preset(s);
}
