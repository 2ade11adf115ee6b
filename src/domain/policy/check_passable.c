/* Endpoints that can let nothing through: a policy with one of them would be silently wrong. */
#include <strings.h>

#include "base/own.h"
#include "policy/egress.h"
#include "policy/glob.h"
#include "policy/spot.h"

/* In larger entries, endpoints are not compared with each other: that would take too long. */
enum { HTTPS_PORT = 443, SCRATCH_MAX = 4 << 20, SIBLINGS_MAX = 256 };

static int check_port(const struct spot *s)
{
    for (size_t i = 0; i < s->ep->port_count; i++)
        if (s->ep->ports[i] == HTTPS_PORT)
            return spot_fail(s, "ports",
                             "nothing can pass on port 443 with the protocol %s, because TLS is "
                             "not inspected yet; leave the protocol and its rules out for 443, or "
                             "use a port without TLS",
                             egress_protocol_name_(s->ep->protocol));
    return 0;
}

/* --- What rules allow, and whether others take all of it away --- */

/* What a rule, or `access` for one method, allows. */
struct reach {
    const char *method;
    const char *path; /* NULL: every */
    bool crosses;     /* the path is an endpoint's, whose wildcards cross everything */
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

/* Whether every path that one pattern has is one of the other; false also where that is not plain
 * to see. */
static bool covers_path(const char *deny, const struct reach *r)
{
    const char *allow = r->path;
    AUTO(arena_done) struct arena scratch = ARENA_INIT(SCRATCH_MAX);
    struct str below, text;
    const struct glob *d, *a;

    if (is_every(deny, "/**") || (allow && !r->crosses && strcmp(deny, allow) == 0))
        return true;
    if (!allow || glob_compile(str_from(deny), GLOB_PARTS_WIDE, '/', &scratch, &d, NULL) < 0 ||
        glob_compile(str_from(allow), GLOB_PARTS, '/', &scratch, &a, NULL) < 0)
        return false;
    if (glob_is_literal(a))
        return glob_match(d, glob_prefix(a));
    below = str_from(deny);
    if (!str_ends(below, STR("/**")))
        return false;
    below.n -= STR("**").n;
    text = glob_prefix(a);
    return !strpbrk(deny, "?[{\\") && memchr(deny, '*', below.n) == NULL && text.n >= below.n &&
           strncasecmp(text.p, below.p, below.n) == 0;
}

static bool denies_all(const struct egress_endpoint *ep, const struct reach *r)
{
    const struct egress_rule *denies = ep->deny_rules.p;

    for (size_t i = 0; i < ep->deny_rules.n; i++)
        if (!denies[i].query_ && covers_method(denies[i].method, r->method) &&
            covers_path(denies[i].path, r))
            return true;
    return false;
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

/* Whether another endpoint of the entry applies wherever this one does. */
static bool goes_with(const struct egress_endpoint *other, const struct egress_endpoint *ep)
{
    bool same_host =
        other->host && ep->host ? strcmp(other->host, ep->host) == 0 : !other->host && !ep->host;

    return same_host && other->protocol != EGRESS_TCP && !other->path && !other->binaries.n &&
           !ep->binaries.n && has_ports_of(other, ep);
}

/* Whether deny rules take back all of it. Those of other entries are not looked at: their programs
 * differ, and they may run out. */
static bool is_denied(const struct spot *s, const struct reach *r)
{
    const struct egress_endpoint *all = s->entry->endpoints.p;
    size_t n = s->entry->endpoints.n;

    if (denies_all(s->ep, r))
        return true;
    for (size_t i = 0; n <= SIBLINGS_MAX && i < n; i++)
        if (all[i].deny_rules.n && goes_with(&all[i], s->ep) && denies_all(&all[i], r))
            return true;
    return false;
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

static bool is_never_sent(const char *method)
{
    return strcasecmp(method, "CONNECT") == 0 || strcasecmp(method, "TRACE") == 0;
}

/* NULL, or why the rule allows nothing. */
static const char *rule_flaw(const struct spot *s, const struct egress_rule *rule)
{
    if (is_never_sent(rule->method))
        return "CONNECT and TRACE are never allowed where requests are inspected";
    if (is_outside(s->ep, rule->path))
        return "its path has nothing in common with the endpoint's path";
    if (is_denied(s, &(struct reach){ .method = rule->method, .path = rule->path }))
        return "deny_rules take back all that it allows";
    return NULL;
}

static int check_allowing_rules(const struct spot *s)
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
    return spot_fail(s, "rules",
                     "let nothing through: %s; change the rules, or take the endpoint "
                     "out",
                     flaw);
}

static int check_preset(const struct spot *s)
{
    /* Of each, methods that stand for all that it allows; `full` is every one. */
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
                     "take back all that access allows, so nothing can pass; narrow them, or take "
                     "the endpoint out");
}

int policy_check_passable_(const struct spot *s)
{
    int r = s->ep->protocol == EGRESS_REST ? check_port(s) : 0;

    if (r < 0 || s->ep->protocol != EGRESS_REST || s->ep->enforcement == EGRESS_AUDIT)
        return r; /* what is only recorded passes */
    return s->ep->has_rules ? check_allowing_rules(s) : check_preset(s);
}
