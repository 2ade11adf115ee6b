/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as plain data: entries, each with endpoints and the programs that may reach them. All
 * formats of a policy are converted to it (egress_file.h, egress_sources.h), egress_check.h
 * validates it, egress.h compiles and queries it.
 *
 * The tables here define its only schema: they read YAML and JSON, write JSON, and
 * docs/egress-policy.md is checked against them. All data is on the arena that it was read to. */
#ifndef DOMAIN_POLICY_EGRESS_POLICY_H
#define DOMAIN_POLICY_EGRESS_POLICY_H

#include "lib/json/bind.h"

enum {
    EGRESS_ENDPOINTS_MAX = 10000, /* of a policy, in all entries */
    EGRESS_ENTRIES_MAX = 10000,
    EGRESS_PORTS_MAX = 32, /* of an endpoint */
    EGRESS_USES_MAX = 1000000,
    EGRESS_BINARIES_MAX = 256,  /* of an entry, or of an endpoint */
    EGRESS_ADDRESSES_MAX = 256, /* of an endpoint */
    EGRESS_RULES_MAX = 256,     /* of an endpoint, and the same number of deny rules */
    EGRESS_QUERY_MAX = 16,      /* keys of a rule */
    EGRESS_ANY_MAX = 32,        /* globs of a matcher */
    EGRESS_NAME_MAX = 128,      /* bytes of a name or key */
    EGRESS_WILD_LABELS_MAX = 2, /* of a host, not counting its first label */
};

enum egress_protocol {
    EGRESS_TCP, /* bytes pass unchanged; also for an endpoint without a protocol */
    EGRESS_REST,
    EGRESS_WEBSOCKET,
    EGRESS_GRAPHQL,
    EGRESS_SQL,
    EGRESS_JSON_RPC,
    EGRESS_MCP,
    EGRESS_PROTOCOLS_,
};
extern const char *const egress_protocol_names[]; /* in this order; ends with NULL */
enum egress_access { EGRESS_ACCESS_NONE, EGRESS_READ_ONLY, EGRESS_READ_WRITE, EGRESS_FULL };
enum egress_tls { EGRESS_TLS_AUTO, EGRESS_TLS_SKIP, EGRESS_TLS_TERMINATE, EGRESS_TLS_PASSTHROUGH };
enum egress_enforcement { EGRESS_ENFORCE, EGRESS_AUDIT };
enum egress_persisted { EGRESS_PERSISTED_DENY, EGRESS_PERSISTED_REGISTERED };
enum egress_signing { EGRESS_SIGV4, EGRESS_SIGV4_BODY, EGRESS_SIGV4_NO_BODY };
enum egress_unlisted { EGRESS_UNLISTED_DENY, EGRESS_UNLISTED_PUBLIC };

/* A value must match one of the globs. */
struct egress_matcher {
    const char *key;
    struct json_strs any;
};

struct egress_rule {
    const char *method, *path; /* NULL: every */
    const char *command, *operation_type, *operation_name;
    struct json_strs fields;
    bool has_fields;
    const struct json *query_, *tool_, *params_; /* as in the document */
    const struct egress_matcher *query;          /* set by the check */
    size_t query_count;
};

struct egress_allow { /* an item of `rules` */
    struct egress_rule allow;
};

struct egress_endpoint {
    const char *name; /* for people and logs; may be NULL */
    const char *host; /* lower case, or the result of address_text(); NULL: any */
    const uint16_t *ports;
    size_t port_count;
    const char *path; /* NULL: every path */
    enum egress_protocol protocol;
    enum egress_access access; /* NONE: there are rules, or it is not inspected */
    enum egress_tls tls;
    enum egress_enforcement enforcement;
    struct json_objects rules;      /* of struct egress_allow */
    struct json_objects deny_rules; /* of struct egress_rule */
    struct json_strs binaries;      /* replace the entry's, unless empty */
    struct json_strs allowed_ips;   /* addresses or prefixes; empty: public addresses */
    bool has_protocol, has_enforcement, has_rules, has_deny_rules; /* given in the document */
    bool allow_encoded_slash;

    /* Parsed and checked, but refused until they are enforced. */
    bool websocket_credential_rewrite, has_websocket_credential_rewrite;
    bool request_body_credential_rewrite, has_request_body_credential_rewrite;
    bool allow_uninspected_credentials, has_allow_uninspected_credentials;
    bool has_persisted_queries, has_graphql_max_body_bytes, has_json_rpc, has_mcp;
    bool has_credential_signing, has_credential_binding;
    enum egress_persisted persisted_queries;
    enum egress_signing credential_signing;
    uint32_t graphql_max_body_bytes;
    struct {
        uint32_t max_body_bytes;
    } json_rpc;
    struct {
        uint32_t max_body_bytes;
        bool strict_tool_names, allow_all_known_mcp_methods;
    } mcp;
    const struct json *graphql_persisted_queries;
    const char *signing_service, *signing_region;
    struct {
        const char *provider;
    } credential_binding;

    const struct json *port_, *ports_; /* as in the document; the check merges both into ports_ */
};

struct egress_binary {
    const char
        /* absolute; a glob: '*' within a part, '**' across parts; "**" alone means every program */
        *path;
    bool harness; /* of older files; ignored */
};

struct egress_entry {
    const char *key;               /* in network_policies */
    const char *name;              /* for people; NULL: the key */
    struct json_objects endpoints; /* of struct egress_endpoint */
    struct json_objects binaries;  /* of struct egress_binary; empty: every program */
    const char *until_;            /* as in the document; NULL: permanent */
    int64_t until;                 /* wall clock ns; set by the check; 0: permanent */
    uint32_t uses;                 /* number of connections, or of requests if they are inspected */
    bool has_uses;
    bool spent; /* all uses are spent */
};

/* A stage that inspects requests. Checked, but refused until it is implemented. */
struct egress_middleware {
    const char *key;
    const char *name, *middleware;
    int64_t order;
    const char *on_error;
    struct {
        struct json_strs include, exclude;
    } endpoints;
    const struct json *config; /* the middleware's own configuration */
};

struct egress_policy {
    uint32_t version;
    struct { /* this and the next two are not about egress, which the check notes */
        bool include_workdir;
        struct json_strs read_only, read_write;
    } filesystem_policy;
    bool has_filesystem_policy;
    struct {
        unsigned compatibility;
    } landlock;
    bool has_landlock;
    struct {
        const struct json *run_as_user, *run_as_group;
    } process;
    bool has_process;
    struct json_objects network_policies;    /* of struct egress_entry */
    struct json_objects network_middlewares; /* of struct egress_middleware */
    struct {                                 /* destinations that no endpoint names */
        enum egress_unlisted access;
        struct json_strs allowed_ips, denied_ips; /* allowed_ips take precedence */
    } unlisted;

    struct json_strs notes; /* of the check: ignored fields and similar */
    bool checked_;
};

extern const struct json_field egress_policy_fields[];
extern const size_t egress_policy_field_count;

/* The fields of an endpoint, for other documents with endpoints, such as profiles. */
enum { EGRESS_ENDPOINT_FIELD_COUNT = 26 };
extern const struct json_field egress_endpoint_fields[EGRESS_ENDPOINT_FIELD_COUNT];

#endif
