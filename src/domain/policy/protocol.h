/* SPDX-License-Identifier: Apache-2.0 */
/* The protocols of endpoints: one row for each, with everything in this module that depends on the
 * protocol. Private to the module. */
#ifndef DOMAIN_POLICY_PROTOCOL_H
#define DOMAIN_POLICY_PROTOCOL_H

#include "domain/policy/egress.h"
#include "domain/policy/spot.h"

/* Groups of fields of an endpoint that the same protocols have; check_protocol.c lists them. */
enum protocol_fields {
    PROTOCOL_INSPECTED = 1 << 0, /* rules, and how they are enforced */
    PROTOCOL_ACCESS = 1 << 1,
    PROTOCOL_HTTP = 1 << 2, /* its requests are HTTP's, with a method and a path */
    PROTOCOL_WEBSOCKET_REWRITE = 1 << 3,
    PROTOCOL_BODY_REWRITE = 1 << 4,
    PROTOCOL_GRAPHS = 1 << 5,
    PROTOCOL_JSON_RPC = 1 << 6,
    PROTOCOL_MCP = 1 << 7,
};

/* Fields of a rule. */
enum protocol_rule_fields {
    RULE_METHOD = 1 << 0,
    RULE_PATH = 1 << 1,
    RULE_QUERY = 1 << 2,
    RULE_COMMAND = 1 << 3,
    RULE_OPERATION = 1 << 4,
    RULE_TOOL = 1 << 5,
};

/* A rule of an endpoint: rules[i].allow or deny_rules[i]. */
struct rule_spot {
    const struct policy_spot *s;
    struct egress_rule *rule;
    size_t index;
    bool deny;
};

struct policy_compiler; /* egress_compile.c */
struct rule_in;

struct protocol {
    bool enforced;        /* otherwise policies with the protocol are refused, after all checks */
    bool needs_host;      /* an endpoint that names it cannot be for addresses alone */
    unsigned fields;      /* enum protocol_fields */
    unsigned rule_fields; /* enum protocol_rule_fields */
    enum egress_action_kind action;
    /* Called by egress_check() for every endpoint, after its fields; NULL: no further check. */
    int (*check_endpoint)(const struct policy_spot *s);
    /* … for every rule, after its fields; every protocol with rule_fields has it. */
    int (*check_rule)(const struct rule_spot *r);
    /* … for every endpoint, after all others: rejects one that lets nothing pass. NULL: no check. */
    int (*check_passable)(const struct policy_spot *s);
    /* Called by egress_compile() for every rule. An enforced protocol with rule_fields has it. */
    int (*compile_rule)(const struct policy_compiler *c, const struct rule_in *in, uint32_t root);
    /* Called by egress_judge() for actions of the protocol's kind. An enforced protocol has it. */
    enum egress_verdict (*judge)(const struct egress_match *m, const struct egress_action *a,
                                 struct egress_reason *why);
};

extern const struct protocol protocols[EGRESS_PROTOCOLS_];

/* check_protocol.c */
int protocol_check_choice_(const struct policy_spot *s);
int protocol_check_sql_(const struct policy_spot *s);
int protocol_check_json_rpc_(const struct policy_spot *s);
int protocol_check_mcp_(const struct policy_spot *s);
/* check_rules.c */
int protocol_check_rest_rule_(const struct rule_spot *r);
int protocol_check_websocket_rule_(const struct rule_spot *r);
int protocol_check_graphql_rule_(const struct rule_spot *r);
int protocol_check_sql_rule_(const struct rule_spot *r);
int protocol_check_json_rpc_rule_(const struct rule_spot *r);
int protocol_check_mcp_rule_(const struct rule_spot *r);
/* check_passable.c */
int protocol_check_http_passable_(const struct policy_spot *s);
/* egress_compile.c */
int protocol_compile_http_rule_(const struct policy_compiler *c, const struct rule_in *in,
                                uint32_t root);
/* judge_http.c */
enum egress_verdict protocol_judge_http_(const struct egress_match *m,
                                         const struct egress_action *a, struct egress_reason *why);

#endif
