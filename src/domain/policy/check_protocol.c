/* SPDX-License-Identifier: Apache-2.0 */
/* Which fields belong to which protocol, and which of them are enforced. */
#include "base/own.h"
#include "domain/policy/spot.h"

#define P(protocol) (1u << EGRESS_##protocol)
enum {
    HTTP = P(REST) | P(WEBSOCKET) | P(GRAPHQL) | P(JSON_RPC) | P(MCP),
    INSPECTED = HTTP | P(SQL),
    PRESETS = P(REST) | P(WEBSOCKET) | P(GRAPHQL) | P(SQL),
    GRAPHS = P(GRAPHQL) | P(WEBSOCKET),
    ENFORCED = P(TCP) | P(REST),
};

#define SAYS(name, cond)                                                                           \
    static bool says_##name(const struct egress_endpoint *ep)                                      \
    {                                                                                              \
        return (cond);                                                                             \
    }
SAYS(path, ep->path != NULL)
SAYS(audit, ep->has_enforcement && (ep->has_protocol || ep->enforcement == EGRESS_AUDIT))
SAYS(access, ep->access != EGRESS_ACCESS_NONE)
SAYS(rules, ep->has_rules)
SAYS(deny_rules, ep->has_deny_rules)
SAYS(encoded_slash, ep->allow_encoded_slash)
SAYS(websocket_rewrite, ep->websocket_credential_rewrite)
SAYS(body_rewrite, ep->request_body_credential_rewrite)
SAYS(uninspected, ep->allow_uninspected_credentials)
SAYS(persisted, ep->has_persisted_queries)
SAYS(registry, ep->graphql_persisted_queries != NULL)
SAYS(graphql_body, ep->has_graphql_max_body_bytes)
SAYS(json_rpc, ep->has_json_rpc)
SAYS(mcp, ep->has_mcp)
SAYS(signing, ep->has_credential_signing)
SAYS(service, ep->signing_service != NULL)
SAYS(region, ep->signing_region != NULL)
SAYS(binding, ep->has_credential_binding)

/* Rejects a field that has no meaning for its protocol: the restriction would not be enforced. */
static const struct {
    const char *field;
    bool (*is_said)(const struct egress_endpoint *ep);
    unsigned belongs; /* to these protocols */
    bool enforced;    /* otherwise the policy is refused in the end */
} fields[] = {
    { "path", says_path, INSPECTED, true },
    { "enforcement", says_audit, INSPECTED, true },
    { "access", says_access, PRESETS, true },
    { "rules", says_rules, INSPECTED, true },
    { "deny_rules", says_deny_rules, INSPECTED, true },
    { "allow_encoded_slash", says_encoded_slash, HTTP, true },
    { "websocket_credential_rewrite", says_websocket_rewrite, P(REST) | P(WEBSOCKET), false },
    { "request_body_credential_rewrite", says_body_rewrite, P(REST), false },
    { "allow_uninspected_credentials", says_uninspected, INSPECTED | P(TCP), false },
    { "persisted_queries", says_persisted, GRAPHS, false },
    { "graphql_persisted_queries", says_registry, GRAPHS, false },
    { "graphql_max_body_bytes", says_graphql_body, GRAPHS, false },
    { "json_rpc", says_json_rpc, P(JSON_RPC) | P(MCP), false },
    { "mcp", says_mcp, P(MCP), false },
    { "credential_signing", says_signing, HTTP, false },
    { "signing_service", says_service, HTTP, false },
    { "signing_region", says_region, HTTP, false },
    { "credential_binding", says_binding, HTTP, false },
};

static int check_protocol_fields(const struct policy_spot *s)
{
    unsigned protocol = 1u << s->ep->protocol;

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (!fields[i].is_said(s->ep) || fields[i].belongs & protocol)
            continue;
        if (protocol == P(TCP))
            return spot_fail(s, fields[i].field, "needs an inspected protocol, such as rest");
        return spot_fail(s, fields[i].field, "has no meaning with the protocol %s",
                         egress_protocol_names[s->ep->protocol]);
    }
    return 0;
}

static int check_tls(const struct policy_spot *s)
{
    if (s->ep->tls == EGRESS_TLS_SKIP && s->ep->protocol != EGRESS_TCP)
        return spot_fail(s, "tls",
                         "%s cannot be inspected inside TLS; omit the protocol or write tls: auto",
                         egress_protocol_names[s->ep->protocol]);
    if (s->ep->tls == EGRESS_TLS_TERMINATE || s->ep->tls == EGRESS_TLS_PASSTHROUGH)
        return spot_note(s, "tls: terminate and passthrough mean auto");
    return 0;
}

/* Requires something that allows; otherwise everything would be denied for no visible reason. */
static int check_base(const struct policy_spot *s)
{
    const struct egress_endpoint *ep = s->ep;
    const char *protocol = egress_protocol_names[ep->protocol];

    if (ep->has_rules && ep->access != EGRESS_ACCESS_NONE)
        return spot_fail(s, "rules", "and access cannot both be given");
    if (ep->has_rules && ep->rules.n == 0)
        return spot_fail(s, "rules", "is empty, which would deny everything");
    if (ep->has_deny_rules && ep->deny_rules.n == 0)
        return spot_fail(s, "deny_rules", "must not be empty; omit it");
    if (1u << ep->protocol & PRESETS && !ep->has_rules && ep->access == EGRESS_ACCESS_NONE)
        return spot_fail(s, "access", "or rules are needed with the protocol %s", protocol);
    if (ep->protocol == EGRESS_JSON_RPC && !ep->has_rules)
        return spot_fail(s, "rules", "are needed with the protocol %s", protocol);
    if (ep->protocol == EGRESS_MCP && !ep->has_rules && !ep->mcp.allow_all_known_mcp_methods)
        return spot_fail(s, "rules",
                         "are needed with the protocol %s, or "
                         "mcp.allow_all_known_mcp_methods",
                         protocol);
    if (ep->protocol == EGRESS_SQL && ep->enforcement == EGRESS_ENFORCE)
        return spot_fail(s, "enforcement", "sql can only be audited");
    return 0;
}

static int check_credentials(const struct policy_spot *s)
{
    const struct egress_endpoint *ep = s->ep;

    if (ep->has_credential_signing && (!ep->signing_service || !*ep->signing_service))
        return spot_fail(s, "signing_service", "is required with credential_signing");
    if (ep->has_credential_signing && ep->request_body_credential_rewrite)
        return spot_fail(s, "credential_signing", "cannot go with request_body_credential_rewrite");
    return 0;
}

static int check_persisted_queries(const struct policy_spot *s)
{
    const struct json *all = s->ep->graphql_persisted_queries;

    if (!all)
        return 0;
    if (all->type != JSON_OBJECT)
        return spot_fail(s, "graphql_persisted_queries", "must be an object of operations");
    for (const struct json *one = json_first(all); one != json_end(all); one++) {
        const struct json *type = json_get(one, STR("operation_type"));

        if (!type || type->type != JSON_STR)
            return spot_fail(s, "graphql_persisted_queries", "an operation needs operation_type");
    }
    return 0;
}

int policy_check_protocol_(const struct policy_spot *s)
{
    static int (*const checks[])(const struct policy_spot *) = {
        check_protocol_fields, check_tls, check_base, check_credentials, check_persisted_queries,
    };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = checks[i](s);
    return r;
}

int policy_check_enforced_(const struct policy_spot *s)
{
    if (!(1u << s->ep->protocol & ENFORCED))
        return spot_refuse(s, "protocol",
                           "%s is not enforced by this version, so it is not accepted",
                           egress_protocol_names[s->ep->protocol]);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (!fields[i].enforced && fields[i].is_said(s->ep))
            return spot_refuse(s, fields[i].field,
                               "is not enforced by this version, so it is not accepted");
    return 0;
}
