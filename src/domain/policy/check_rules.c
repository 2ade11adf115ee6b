/* SPDX-License-Identifier: Apache-2.0 */
/* Checks rules for requests, by protocol. */
#include <stdio.h>
#include <strings.h>

#include "base/own.h"
#include "domain/policy/glob.h"
#include "domain/policy/path.h"
#include "domain/policy/protocol.h"

static int rule_fail(const struct rule_spot *r, const char *field, const char *why)
{
    char path[128];

    snprintf(path, sizeof path, r->deny ? "deny_rules[%zu]%s%s" : "rules[%zu].allow%s%s", r->index,
             *field ? "." : "", field);
    return spot_fail(r->s, path, "%s", why);
}

static int check_glob(const struct rule_spot *r, const char *field, const char *text,
                      char separator)
{
    AUTO(arena_done) struct arena scratch = ARENA_INIT(1 << 20);
    const struct glob *g;
    struct err why;

    if (glob_compile(str_from(text), GLOB_PARTS, separator, &scratch, &g, &why) < 0)
        return rule_fail(r, field, why.msg);
    return 0;
}

/* A glob, {any: [globs]} or {glob: glob}. */
static int read_matcher(const struct rule_spot *r, const char *field, const struct json *v,
                        struct json_strs *ret)
{
    const struct json *any = json_get(v, STR("any")), *one = json_get(v, STR("glob"));
    const char **list;
    size_t n;
    int bad = 0;

    if (v->type == JSON_OBJECT && (v->list.n != 1 || (!any && !one)))
        return rule_fail(r, field, "must be a glob, {any: [globs]} or {glob: a glob}");
    if (any && (any->type != JSON_ARRAY || any->list.n == 0 || any->list.n > EGRESS_ANY_MAX))
        return rule_fail(r, field, "any must be a list of 1 to 32 globs");
    if (!any)
        one = v->type == JSON_OBJECT ? one : v;
    n = any ? any->list.n : 1;
    list = arena_array(r->s->arena, n, sizeof *list);
    if (!list)
        return spot_no_room(r->s);
    for (size_t i = 0; i < n && bad >= 0; i++) {
        const struct json *item = any ? &any->list.p[i] : one;

        if (item->type != JSON_STR || memchr(item->s.p, '\0', item->s.n))
            return rule_fail(r, field, "a glob must not contain a NUL byte");
        list[i] = arena_dup(r->s->arena, item->s);
        bad = list[i] ? check_glob(r, field, list[i], '.') : spot_no_room(r->s);
    }
    *ret = (struct json_strs){ .p = list, .n = n };
    return bad;
}

static int read_rule_query(const struct rule_spot *r)
{
    const struct json *query = r->rule->query_;
    struct egress_matcher *list;
    int bad = 0;

    if (!query)
        return 0;
    if (query->type != JSON_OBJECT || query->list.n == 0 || query->list.n > EGRESS_QUERY_MAX)
        return rule_fail(r, "query", "must be an object of 1 to 16 keys");
    list = arena_array(r->s->arena, query->list.n, sizeof *list);
    if (!list)
        return spot_no_room(r->s);
    for (size_t i = 0; i < query->list.n && bad >= 0; i++) {
        const struct json *one = &query->list.p[i];

        list[i].key = arena_dup(r->s->arena, one->key);
        if (!list[i].key)
            return spot_no_room(r->s);
        bad = memchr(one->key.p, '\0', one->key.n)
                  ? rule_fail(r, "query", "a key must not contain a NUL byte")
                  : read_matcher(r, "query", one, &list[i].any);
    }
    r->rule->query = list;
    r->rule->query_count = query->list.n;
    return bad;
}

static bool is_token(const char *text)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("\"(),/:;<=>?@[\\]{}*", *c))
            return false;
    return *text;
}

static bool has_wildcard(const char *text)
{
    return strpbrk(text, "*?[{") != NULL;
}

int protocol_check_rest_rule_(const struct rule_spot *r)
{
    const struct egress_rule *rule = r->rule;
    const char *flaw;

    if (rule->method && strcmp(rule->method, "*") != 0 && !is_token(rule->method))
        return rule_fail(r, "method", "must be '*' or the name of a method");
    if (!r->deny && !rule->method)
        return rule_fail(r, "method", "is required; '*' means every method");
    if (!r->deny && !rule->path)
        return rule_fail(r, "path", "is required; '/**' means every path");
    if (!rule->path)
        return 0;
    if (rule->path[0] != '/' && strcmp(rule->path, "**") != 0)
        return rule_fail(r, "path", "must begin with '/' or be '**'");
    flaw = path_pattern_flaw(str_from(rule->path));
    return flaw ? rule_fail(r, "path", flaw) : check_glob(r, "path", rule->path, '/');
}

static bool has_operation(const struct egress_rule *rule)
{
    return rule->operation_type || rule->operation_name || rule->has_fields;
}

int protocol_check_graphql_rule_(const struct rule_spot *r)
{
    static const char *const types[] = { "query", "mutation", "subscription" };
    const struct egress_rule *rule = r->rule;
    bool known = false;

    for (size_t i = 0; i < COUNT_OF(types); i++)
        known |= rule->operation_type && strcmp(rule->operation_type, types[i]) == 0;
    if (!known)
        return rule_fail(r, "operation_type", "must be query, mutation or subscription");
    if (rule->has_fields && rule->fields.n == 0)
        return rule_fail(r, "fields", "must not be empty; omit it");
    for (size_t i = 0; i < rule->fields.n; i++)
        if (!*rule->fields.p[i])
            return rule_fail(r, "fields", "has an empty name");
    return 0;
}

int protocol_check_websocket_rule_(const struct rule_spot *r)
{
    const struct egress_rule *rule = r->rule, *other;
    const struct egress_allow *allows = r->s->ep->rules.p;

    if (has_operation(rule)) {
        if (rule->method || rule->path || rule->query_)
            return rule_fail(r, "", "mixes an operation with method, path or query");
        return protocol_check_graphql_rule_(r);
    }
    for (size_t i = 0; i < r->s->ep->rules.n; i++) {
        other = &allows[i].allow;
        if (!r->deny && has_operation(other) && rule->method &&
            strcasecmp(rule->method, "WEBSOCKET_TEXT") == 0)
            return rule_fail(r, "method",
                             "WEBSOCKET_TEXT would allow operations that other rules restrict");
    }
    return protocol_check_rest_rule_(r);
}

int protocol_check_sql_rule_(const struct rule_spot *r)
{
    return r->rule->command ? 0 : rule_fail(r, "command", "is required");
}

int protocol_check_json_rpc_rule_(const struct rule_spot *r)
{
    const char *method = r->rule->method;

    if (!method)
        return rule_fail(r, "method", "is required");
    if (strcmp(method, "*") != 0 && has_wildcard(method))
        return rule_fail(r, "method", "must be '*' or the whole name of a method");
    return 0;
}

static int check_tool(const struct rule_spot *r)
{
    const struct egress_rule *rule = r->rule;
    const struct json *name = rule->params_ ? json_get(rule->params_, STR("name")) : NULL;
    const struct json *tool = rule->tool_ ? rule->tool_ : name;
    struct json_strs globs = { 0 };
    int bad;

    if (rule->params_ && (!name || rule->params_->list.n != 1))
        return rule_fail(r, "params", "only params.name can be matched");
    if (rule->tool_ && name)
        return rule_fail(r, "tool", "and params.name cannot both be given");
    if (rule->method && strcmp(rule->method, "tools/call") != 0)
        return rule_fail(r, "tool", "needs method: tools/call");
    bad = read_matcher(r, "tool", tool, &globs);
    for (size_t i = 0; i < globs.n && bad >= 0; i++)
        if (has_wildcard(globs.p[i]) && r->s->ep->has_mcp && !r->s->ep->mcp.strict_tool_names)
            return rule_fail(r, "tool", "a wildcard needs mcp.strict_tool_names");
    return bad;
}

static bool names_tool(const struct egress_rule *rule)
{
    return rule->tool_ || rule->params_;
}

/* Whether one rule is for every tool while another names tools, and would have no effect. */
static bool contradicts_tools(const struct rule_spot *r)
{
    const struct egress_allow *allows = r->s->ep->rules.p;
    bool others = false;

    for (size_t i = 0; i < r->s->ep->rules.n; i++)
        others |= names_tool(&allows[i].allow);
    return others && r->rule->method &&
           (strcmp(r->rule->method, "tools/call") == 0 || strcmp(r->rule->method, "tools/*") == 0);
}

int protocol_check_mcp_rule_(const struct rule_spot *r)
{
    const struct egress_rule *rule = r->rule;
    bool all = r->s->ep->has_mcp && r->s->ep->mcp.allow_all_known_mcp_methods;

    if (!rule->method && !all)
        return rule_fail(r, "method", "is required");
    if (rule->method && has_wildcard(rule->method) &&
        !str_starts(str_from(rule->method), STR("tools/")))
        return rule_fail(r, "method", "wildcards are only for methods below tools/");
    if (names_tool(rule))
        return check_tool(r);
    if (contradicts_tools(r))
        return rule_fail(r, "tool", "is required, because another rule names tools");
    return 0;
}

static int check_policy_rule(const struct rule_spot *r)
{
    const struct protocol *p = &protocols[r->s->ep->protocol];
    const struct egress_rule *rule = r->rule;
    unsigned has = (rule->method ? RULE_METHOD : 0u) | (rule->path ? RULE_PATH : 0u) |
                   (rule->query_ ? RULE_QUERY : 0u) | (rule->command ? RULE_COMMAND : 0u) |
                   (has_operation(rule) ? RULE_OPERATION : 0u) |
                   (names_tool(rule) ? RULE_TOOL : 0u);
    int bad;

    if (has == 0)
        return rule_fail(r, "",
                         r->deny ? "must have at least one field"
                                 : "must have at least one field; an empty rule allows nothing");
    if (has & ~p->rule_fields)
        return rule_fail(r, "", "has a field without a meaning for this protocol");
    bad = p->check_rule(r);
    return bad < 0 ? bad : read_rule_query(r);
}

int policy_check_rules_(const struct policy_spot *s)
{
    struct egress_allow *allows = s->ep->rules.p;
    struct egress_rule *denies = s->ep->deny_rules.p;
    int r = 0;

    for (size_t i = 0; i < s->ep->rules.n && r >= 0; i++)
        r = check_policy_rule(&(struct rule_spot){ .s = s, .rule = &allows[i].allow, .index = i });
    for (size_t i = 0; i < s->ep->deny_rules.n && r >= 0; i++)
        r = check_policy_rule(
            &(struct rule_spot){ .s = s, .rule = &denies[i], .index = i, .deny = true });
    return r;
}
