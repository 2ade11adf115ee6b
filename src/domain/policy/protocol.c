/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/protocol.h"

#include "base/own.h"
#include "domain/policy/compiled.h"

const char *const egress_protocol_names[] = {
    [EGRESS_TCP] = "tcp",
    [EGRESS_REST] = "rest",
    [EGRESS_WEBSOCKET] = "websocket",
    [EGRESS_GRAPHQL] = "graphql",
    [EGRESS_SQL] = "sql",
    [EGRESS_JSON_RPC] = "json-rpc",
    [EGRESS_MCP] = "mcp",
    NULL,
};

/* Nothing is inspected: whatever the program sends may pass. *why is unchanged. */
static enum egress_verdict allow_uninspected(const struct egress_match *m,
                                             const struct egress_action *a,
                                             struct egress_reason *why)
{
    return EGRESS_ALLOWED;
}

const struct protocol protocols[EGRESS_PROTOCOLS_] = {
    [EGRESS_TCP] = { .enforced = true, .needs_host = true, .judge = allow_uninspected },
    [EGRESS_REST] = { .enforced = true,
                      .fields = PROTOCOL_INSPECTED | PROTOCOL_ACCESS | PROTOCOL_HTTP |
                                PROTOCOL_WEBSOCKET_REWRITE | PROTOCOL_BODY_REWRITE,
                      .rule_fields = RULE_METHOD | RULE_PATH | RULE_QUERY,
                      .check_endpoint = protocol_check_choice_,
                      .check_rule = protocol_check_rest_rule_,
                      .check_passable = protocol_check_http_passable_,
                      .compile_rule = protocol_compile_http_rule_,
                      .action = EGRESS_ACTION_HTTP,
                      .judge = protocol_judge_http_ },
    [EGRESS_WEBSOCKET] = { .fields = PROTOCOL_INSPECTED | PROTOCOL_ACCESS | PROTOCOL_HTTP |
                                     PROTOCOL_WEBSOCKET_REWRITE | PROTOCOL_GRAPHS,
                           .rule_fields = RULE_METHOD | RULE_PATH | RULE_QUERY | RULE_OPERATION,
                           .check_endpoint = protocol_check_choice_,
                           .check_rule = protocol_check_websocket_rule_ },
    [EGRESS_GRAPHQL] = { .fields =
                             PROTOCOL_INSPECTED | PROTOCOL_ACCESS | PROTOCOL_HTTP | PROTOCOL_GRAPHS,
                         .rule_fields = RULE_OPERATION,
                         .check_endpoint = protocol_check_choice_,
                         .check_rule = protocol_check_graphql_rule_ },
    [EGRESS_SQL] = { .fields = PROTOCOL_INSPECTED | PROTOCOL_ACCESS,
                     .rule_fields = RULE_COMMAND,
                     .check_endpoint = protocol_check_sql_,
                     .check_rule = protocol_check_sql_rule_ },
    [EGRESS_JSON_RPC] = { .fields = PROTOCOL_INSPECTED | PROTOCOL_HTTP | PROTOCOL_JSON_RPC,
                          .rule_fields = RULE_METHOD,
                          .check_endpoint = protocol_check_json_rpc_,
                          .check_rule = protocol_check_json_rpc_rule_ },
    [EGRESS_MCP] = { .needs_host = true,
                     .fields =
                         PROTOCOL_INSPECTED | PROTOCOL_HTTP | PROTOCOL_JSON_RPC | PROTOCOL_MCP,
                     .rule_fields = RULE_METHOD | RULE_TOOL,
                     .check_endpoint = protocol_check_mcp_,
                     .check_rule = protocol_check_mcp_rule_ },
};

enum egress_verdict egress_judge(const struct egress_match *m, const struct egress_action *a,
                                 struct egress_reason *why)
{
    const struct protocol *p = &protocols[m->protocol];

    if (!m->snapshot_ || !p->judge || (p->action && p->action != a->kind))
        return egress_refuse_(why, "policy_denied", (struct str){ 0 }, "Connect again.",
                              "No decision exists for this request.");
    return p->judge(m, a, why);
}
