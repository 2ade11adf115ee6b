/* SPDX-License-Identifier: Apache-2.0 */
/* Which fields belong to which protocol, and which of them are enforced. */
#include "base/own.h"
#include "domain/policy/protocol.h"

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
    unsigned group; /* enum protocol_fields; 0: every protocol has the field */
    bool enforced;  /* otherwise the policy is refused in the end */
} fields[] = {
    { "path", says_path, PROTOCOL_INSPECTED, true },
    { "enforcement", says_audit, PROTOCOL_INSPECTED, true },
    { "access", says_access, PROTOCOL_ACCESS, true },
    { "rules", says_rules, PROTOCOL_INSPECTED, true },
    { "deny_rules", says_deny_rules, PROTOCOL_INSPECTED, true },
    { "allow_encoded_slash", says_encoded_slash, PROTOCOL_HTTP, true },
    { "websocket_credential_rewrite", says_websocket_rewrite, PROTOCOL_WEBSOCKET_REWRITE, false },
    { "request_body_credential_rewrite", says_body_rewrite, PROTOCOL_BODY_REWRITE, false },
    { "allow_uninspected_credentials", says_uninspected, 0, false },
    { "persisted_queries", says_persisted, PROTOCOL_GRAPHS, false },
    { "graphql_persisted_queries", says_registry, PROTOCOL_GRAPHS, false },
    { "graphql_max_body_bytes", says_graphql_body, PROTOCOL_GRAPHS, false },
    { "json_rpc", says_json_rpc, PROTOCOL_JSON_RPC, false },
    { "mcp", says_mcp, PROTOCOL_MCP, false },
    { "credential_signing", says_signing, PROTOCOL_HTTP, false },
    { "signing_service", says_service, PROTOCOL_HTTP, false },
    { "signing_region", says_region, PROTOCOL_HTTP, false },
    { "credential_binding", says_binding, PROTOCOL_HTTP, false },
};

static int check_protocol_fields(const struct policy_spot *s)
{
    unsigned has = protocols[s->ep->protocol].fields;

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (!fields[i].is_said(s->ep) || !fields[i].group || fields[i].group & has)
            continue;
        if (s->ep->protocol == EGRESS_TCP)
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

/* --- Of single protocols: something that allows is required; otherwise everything would be denied
 * for no visible reason. --- */

int protocol_check_choice_(const struct policy_spot *s)
{
    if (!s->ep->has_rules && s->ep->access == EGRESS_ACCESS_NONE)
        return spot_fail(s, "access", "or rules are needed with the protocol %s",
                         egress_protocol_names[s->ep->protocol]);
    return 0;
}

int protocol_check_sql_(const struct policy_spot *s)
{
    int r = protocol_check_choice_(s);

    if (r >= 0 && s->ep->enforcement == EGRESS_ENFORCE)
        return spot_fail(s, "enforcement", "sql can only be audited");
    return r;
}

int protocol_check_json_rpc_(const struct policy_spot *s)
{
    if (!s->ep->has_rules)
        return spot_fail(s, "rules", "are needed with the protocol %s",
                         egress_protocol_names[s->ep->protocol]);
    return 0;
}

int protocol_check_mcp_(const struct policy_spot *s)
{
    if (!s->ep->has_rules && !s->ep->mcp.allow_all_known_mcp_methods)
        return spot_fail(s, "rules",
                         "are needed with the protocol %s, or "
                         "mcp.allow_all_known_mcp_methods",
                         egress_protocol_names[s->ep->protocol]);
    return 0;
}

/* --- Of every protocol --- */

static int check_base(const struct policy_spot *s)
{
    const struct egress_endpoint *ep = s->ep;
    const struct protocol *p = &protocols[ep->protocol];

    if (ep->has_rules && ep->access != EGRESS_ACCESS_NONE)
        return spot_fail(s, "rules", "and access cannot both be given");
    if (ep->has_rules && ep->rules.n == 0)
        return spot_fail(s, "rules", "is empty, which would deny everything");
    if (ep->has_deny_rules && ep->deny_rules.n == 0)
        return spot_fail(s, "deny_rules", "must not be empty; omit it");
    return p->check_endpoint ? p->check_endpoint(s) : 0;
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
    if (!protocols[s->ep->protocol].enforced)
        return spot_refuse(s, "protocol",
                           "%s is not enforced by this version, so it is not accepted",
                           egress_protocol_names[s->ep->protocol]);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (!fields[i].enforced && fields[i].is_said(s->ep))
            return spot_refuse(s, fields[i].field,
                               "is not enforced by this version, so it is not accepted");
    return 0;
}
