/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_policy.h"

enum { PATHS_MAX = 256 };

static const char *const accesses[] = { "none", "read-only", "read-write", "full", NULL };
static const char *const tls_modes[] = { "auto", "skip", "terminate", "passthrough", NULL };
static const char *const enforcements[] = { "enforce", "audit", NULL };
static const char *const persisted[] = { "deny", "allow_registered", NULL };
static const char *const signings[] = { "sigv4", "sigv4:body", "sigv4:no_body", NULL };
static const char *const compatibilities[] = { "best_effort", "hard_requirement", NULL };
static const char *const unlisted_accesses[] = { "deny", "public", NULL };

#define AT(member) JSON_AT(struct egress_rule, member)
static const struct json_field rule_fields[] = {
    { "method", JSON_KIND_STR, AT(method), .min = 1, .max = 64,
      .doc = "HTTP method; `*` means every method; `GET` includes `HEAD`." },
    { "path", JSON_KIND_STR, AT(path), .min = 1, .max = 512,
      .doc = "Glob for the canonical path; `*` matches within a part, `**` across parts." },
    { "query", JSON_KIND_ANY, AT(query_), .no_null = true,
      .doc = "Key to glob, or to `{any: [globs]}`; here `*` does not match a `.`." },
    { "command", JSON_KIND_STR, AT(command), .max = 512, .doc = "For sql; not accepted yet." },
    { "operation_type", JSON_KIND_STR, AT(operation_type), .max = 32,
      .doc = "For graphql; not accepted yet." },
    { "operation_name", JSON_KIND_STR, AT(operation_name), .max = 512,
      .doc = "For graphql; not accepted yet." },
    { "fields", JSON_KIND_STRS, AT(fields), .max = EGRESS_ANY_MAX,
      .seen = offsetof(struct egress_rule, has_fields), .doc = "For graphql; not accepted yet." },
    { "tool", JSON_KIND_ANY, AT(tool_), .doc = "For mcp; not accepted yet." },
    { "params", JSON_KIND_ANY, AT(params_), .doc = "For mcp; not accepted yet." },
};
#undef AT

static const struct json_field allow_fields[] = {
    { "allow", JSON_KIND_OBJECT, JSON_AT(struct egress_allow, allow), JSON_FIELDS(rule_fields),
      .required = true },
};

#define AT(member)  JSON_AT(struct egress_endpoint, member)
#define HAS(member) .seen = offsetof(struct egress_endpoint, has_##member)

static const struct json_field json_rpc_fields[] = {
    { "max_body_bytes", JSON_KIND_UINT,
      JSON_AT(__typeof__(((struct egress_endpoint *)NULL)->json_rpc), max_body_bytes), .min = 1,
      .max = UINT32_MAX, .preset = "65536", .doc = "Not accepted yet." },
};

#define MCP(member) JSON_AT(__typeof__(((struct egress_endpoint *)NULL)->mcp), member)
static const struct json_field mcp_fields[] = {
    { "max_body_bytes", JSON_KIND_UINT, MCP(max_body_bytes), .min = 1, .max = UINT32_MAX,
      .preset = "65536", .doc = "Not accepted yet." },
    { "strict_tool_names", JSON_KIND_BOOL, MCP(strict_tool_names), .preset = "true",
      .doc = "Not accepted yet." },
    { "allow_all_known_mcp_methods", JSON_KIND_BOOL, MCP(allow_all_known_mcp_methods),
      .preset = "false", .doc = "Not accepted yet." },
};
#undef MCP

static const struct json_field binding_fields[] = {
    { "provider", JSON_KIND_STR,
      JSON_AT(__typeof__(((struct egress_endpoint *)NULL)->credential_binding), provider), .min = 1,
      .max = EGRESS_NAME_MAX, .required = true, .doc = "Not accepted yet." },
};

const struct json_field egress_endpoint_fields[EGRESS_ENDPOINT_FIELD_COUNT] = {
    { "name", JSON_KIND_STR, AT(name), .min = 1, .max = 64, .doc = "Name for people and logs." },
    { "host", JSON_KIND_STR, AT(host), .max = 253,
      .doc = "DNS name, `*.example.com` (one label), `**.example.com` (any number), or address." },
    { "port", JSON_KIND_ANY, AT(port_), .doc = "A port number, instead of a list of one." },
    { "ports", JSON_KIND_ANY, AT(ports_), .doc = "List of 1 to 32 port numbers." },
    { "path", JSON_KIND_STR, AT(path), .max = 512,
      .doc =
          "Glob for the paths of its requests, if several endpoints have the same host and port." },
    { "protocol", JSON_KIND_ENUM, AT(protocol), HAS(protocol), .names = egress_protocol_names,
      .loose = true, .preset = "tcp",
      .doc = "Protocol of the endpoint; all but tcp are inspected request by request." },
    { "access", JSON_KIND_ENUM, AT(access), .names = accesses, .loose = true, .preset = "none",
      .doc = "Preset of allowed requests, unless there are rules." },
    { "tls", JSON_KIND_ENUM, AT(tls), .names = tls_modes, .loose = true, .preset = "auto",
      .doc = "Terminate TLS where requests are inspected, or leave it alone." },
    { "enforcement", JSON_KIND_ENUM, AT(enforcement), HAS(enforcement), .names = enforcements,
      .loose = true, .preset = "enforce",
      .doc = "Whether denied requests are refused, or only recorded." },
    { "rules", JSON_KIND_OBJECTS, AT(rules), HAS(rules), JSON_FIELDS(allow_fields),
      .item_size = sizeof(struct egress_allow), .no_null = true, .max = EGRESS_RULES_MAX,
      .doc = "Rules for allowed requests, instead of `access`." },
    { "deny_rules", JSON_KIND_OBJECTS, AT(deny_rules), HAS(deny_rules), JSON_FIELDS(rule_fields),
      .item_size = sizeof(struct egress_rule), .no_null = true, .max = EGRESS_RULES_MAX,
      .doc = "Rules for denied requests; take precedence over rules that allow." },
    { "binaries", JSON_KIND_STRS, AT(binaries), .no_null = true, .min = 1,
      .max = EGRESS_BINARIES_MAX,
      .doc = "Programs that may connect, instead of those of the entry." },
    { "allowed_ips", JSON_KIND_STRS, AT(allowed_ips), .no_null = true, .max = EGRESS_ADDRESSES_MAX,
      .doc = "Addresses or prefixes that the host must resolve to." },
    { "allow_encoded_slash", JSON_KIND_BOOL, AT(allow_encoded_slash), .preset = "false",
      .doc = "Whether a path may contain `%2F`." },
    { "websocket_credential_rewrite", JSON_KIND_BOOL, AT(websocket_credential_rewrite),
      HAS(websocket_credential_rewrite), .preset = "false", .doc = "Not accepted yet." },
    { "request_body_credential_rewrite", JSON_KIND_BOOL, AT(request_body_credential_rewrite),
      HAS(request_body_credential_rewrite), .preset = "false", .doc = "Not accepted yet." },
    { "allow_uninspected_credentials", JSON_KIND_BOOL, AT(allow_uninspected_credentials),
      HAS(allow_uninspected_credentials), .preset = "false", .doc = "Not accepted yet." },
    { "persisted_queries", JSON_KIND_ENUM, AT(persisted_queries), HAS(persisted_queries),
      .names = persisted, .loose = true, .preset = "deny", .doc = "Not accepted yet." },
    { "graphql_persisted_queries", JSON_KIND_ANY, AT(graphql_persisted_queries),
      .doc = "Not accepted yet." },
    { "graphql_max_body_bytes", JSON_KIND_UINT, AT(graphql_max_body_bytes),
      HAS(graphql_max_body_bytes), .min = 1, .max = UINT32_MAX, .preset = "65536",
      .doc = "Not accepted yet." },
    { "json_rpc", JSON_KIND_OBJECT, AT(json_rpc), HAS(json_rpc), JSON_FIELDS(json_rpc_fields) },
    { "mcp", JSON_KIND_OBJECT, AT(mcp), HAS(mcp), JSON_FIELDS(mcp_fields) },
    { "credential_signing", JSON_KIND_ENUM, AT(credential_signing), HAS(credential_signing),
      .names = signings, .loose = true, .doc = "Not accepted yet." },
    { "signing_service", JSON_KIND_STR, AT(signing_service), .max = 64,
      .doc = "Not accepted yet." },
    { "signing_region", JSON_KIND_STR, AT(signing_region), .max = 64, .doc = "Not accepted yet." },
    { "credential_binding", JSON_KIND_OBJECT, AT(credential_binding), HAS(credential_binding),
      JSON_FIELDS(binding_fields) },
};
#undef AT
#undef HAS

static const struct json_field binary_fields[] = {
    { "path", JSON_KIND_STR, JSON_AT(struct egress_binary, path), .min = 1, .max = 512,
      .required = true, .doc = "Absolute path or glob of a program; `/**` means every program." },
    { "harness", JSON_KIND_BOOL, JSON_AT(struct egress_binary, harness), .preset = "false",
      .doc = "Ignored; in older files only." },
};

static const struct json_field entry_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct egress_entry, name), .max = EGRESS_NAME_MAX,
      .doc = "Name of the entry in messages and logs; default: its key." },
    { "endpoints", JSON_KIND_OBJECTS, JSON_AT(struct egress_entry, endpoints),
      JSON_FIELDS(egress_endpoint_fields), .item_size = sizeof(struct egress_endpoint),
      .max = EGRESS_ENDPOINTS_MAX, .doc = "Where to." },
    { "binaries", JSON_KIND_OBJECTS, JSON_AT(struct egress_entry, binaries),
      JSON_FIELDS(binary_fields), .item_size = sizeof(struct egress_binary), .no_null = true,
      .min = 1, .max = EGRESS_BINARIES_MAX,
      .doc =
          "Programs that may connect, themselves or through descendants; default: every program." },
    { "until", JSON_KIND_STR, JSON_AT(struct egress_entry, until_), .no_null = true, .max = 40,
      .doc = "Time when the entry ends, such as `2026-01-02T03:04:05Z`; connections that it "
             "allowed are then closed." },
    { "uses", JSON_KIND_UINT, JSON_AT(struct egress_entry, uses), .no_null = true,
      .seen = offsetof(struct egress_entry, has_uses), .min = 1, .max = EGRESS_USES_MAX,
      .doc = "Number of uses: connections, or requests if they are inspected." },
    { "spent", JSON_KIND_BOOL, JSON_AT(struct egress_entry, spent), .preset = "false",
      .doc = "Set by the daemon when `uses` are exhausted, or their count was lost; do not write "
             "it." },
};

#define AT(member) JSON_AT(struct egress_middleware, member)
#define IN(member) JSON_AT(__typeof__(((struct egress_middleware *)NULL)->endpoints), member)
static const struct json_field selector_fields[] = {
    { "include", JSON_KIND_STRS, IN(include), .max = 32, .doc = "Not accepted yet." },
    { "exclude", JSON_KIND_STRS, IN(exclude), .max = 32, .doc = "Not accepted yet." },
};
#undef IN
static const struct json_field middleware_fields[] = {
    { "name", JSON_KIND_STR, AT(name), .max = EGRESS_NAME_MAX, .doc = "Not accepted yet." },
    { "middleware", JSON_KIND_STR, AT(middleware), .max = EGRESS_NAME_MAX,
      .doc = "Not accepted yet." },
    { "order", JSON_KIND_INT, AT(order), .preset = "0", .doc = "Not accepted yet." },
    { "on_error", JSON_KIND_STR, AT(on_error), .max = 32, .doc = "Not accepted yet." },
    { "endpoints", JSON_KIND_OBJECT, AT(endpoints), JSON_FIELDS(selector_fields) },
    { "config", JSON_KIND_ANY, AT(config), .doc = "Not accepted yet." },
};
#undef AT

#define AT(member)         JSON_AT(struct egress_policy, member)
#define HAS(member)        .seen = offsetof(struct egress_policy, has_##member)
#define IN(object, member) JSON_AT(__typeof__(((struct egress_policy *)NULL)->object), member)
static const struct json_field filesystem_fields[] = {
    { "include_workdir", JSON_KIND_BOOL, IN(filesystem_policy, include_workdir), .preset = "false",
      .doc = "Checked, but not applied." },
    { "read_only", JSON_KIND_STRS, IN(filesystem_policy, read_only), .max = PATHS_MAX,
      .doc = "Checked, but not applied." },
    { "read_write", JSON_KIND_STRS, IN(filesystem_policy, read_write), .max = PATHS_MAX,
      .doc = "Checked, but not applied." },
};
static const struct json_field landlock_fields[] = {
    { "compatibility", JSON_KIND_ENUM, IN(landlock, compatibility), .names = compatibilities,
      .preset = "best_effort", .doc = "Checked, but not applied." },
};
static const struct json_field process_fields[] = {
    { "run_as_user", JSON_KIND_ANY, IN(process, run_as_user), .doc = "Checked, but not applied." },
    { "run_as_group", JSON_KIND_ANY, IN(process, run_as_group),
      .doc = "Checked, but not applied." },
};
static const struct json_field unlisted_fields[] = {
    { "access", JSON_KIND_ENUM, IN(unlisted, access), .names = unlisted_accesses, .preset = "deny",
      .doc = "Whether public addresses that no endpoint names may be reached, on every port." },
    { "allowed_ips", JSON_KIND_STRS, IN(unlisted, allowed_ips), .max = EGRESS_ADDRESSES_MAX,
      .doc = "Addresses and prefixes that may always be dialled directly, on every port." },
    { "denied_ips", JSON_KIND_STRS, IN(unlisted, denied_ips), .no_null = true,
      .max = EGRESS_ADDRESSES_MAX,
      .doc = "Addresses and prefixes that are denied; `allowed_ips` takes precedence." },
};

const struct json_field egress_policy_fields[] = {
    { "version", JSON_KIND_UINT, AT(version), .min = 1, .max = 1, .required = true,
      .doc = "Version of the format: 1." },
    { "filesystem_policy", JSON_KIND_OBJECT, AT(filesystem_policy), HAS(filesystem_policy),
      JSON_FIELDS(filesystem_fields) },
    { "landlock", JSON_KIND_OBJECT, AT(landlock), HAS(landlock), JSON_FIELDS(landlock_fields) },
    { "process", JSON_KIND_OBJECT, AT(process), HAS(process), JSON_FIELDS(process_fields) },
    { "network_policies", JSON_KIND_NAMED, AT(network_policies), JSON_FIELDS(entry_fields),
      .item_size = sizeof(struct egress_entry), .max = EGRESS_ENTRIES_MAX,
      .doc = "Entries by name: which destinations are allowed for which programs." },
    { "network_middlewares", JSON_KIND_NAMED, AT(network_middlewares),
      JSON_FIELDS(middleware_fields), .item_size = sizeof(struct egress_middleware), .max = 10,
      .doc = "Checked, not accepted yet." },
    { "unlisted", JSON_KIND_OBJECT, AT(unlisted), JSON_FIELDS(unlisted_fields) },
};
const size_t egress_policy_field_count = COUNT_OF(egress_policy_fields);
