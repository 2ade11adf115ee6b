/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_check.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"

#define HEAD "version: 1\nnetwork_policies:\n  web:\n    binaries: [{path: /**}]\n    endpoints:\n"

static char yaml[1 << 16];

static const char *with_endpoints(const char *endpoints)
{
    snprintf(yaml, sizeof yaml, HEAD "%s", endpoints);
    return yaml;
}

/* Endpoints, and what the message says behind "line 6: network_policies.web.endpoints[0]." */
struct row {
    const char *endpoint, *message;
};

static void check_refused(const char *text, const char *message, const char *shown)
{
    struct egress_policy p;
    struct err e = { 0 };
    int r = policy_try(text, &p, &e);

    if (r >= 0)
        FAIL("%s: should be refused: %s", shown, message);
    if (!strstr(e.msg, message))
        FAIL("%s: '%s', not '%s'", shown, e.msg, message);
}

static void check_rows(const struct row *rows, size_t n)
{
    char item[4096];

    for (size_t i = 0; i < n; i++) {
        snprintf(item, sizeof item, "    - %s\n", rows[i].endpoint);
        check_refused(with_endpoints(item), rows[i].message, rows[i].endpoint);
    }
}

TEST(hosts_and_ports)
{
    static const struct row rows[] = {
        { "{port: 443}", "line 6: network_policies.web.endpoints[0].host: is required unless" },
        { "{host: '', port: 443}", "host: is required unless" },
        { "{host: '*', port: 443}", "host: must have two labels without wildcards" },
        { "{host: '**', port: 443}", "host: must have two labels without wildcards" },
        { "{host: '*.com', port: 443}", "host: must have two labels without wildcards" },
        { "{host: '**.com', port: 443}", "host: must have two labels without wildcards" },
        { "{host: 'a.**.example.com', port: 443}", "host: may combine '*' with other characters" },
        { "{host: 'a.b*.example.com', port: 443}", "host: may combine '*' with other characters" },
        { "{host: 'a.example.com.', port: 443}", "host: has an empty label" },
        { "{host: ' a.example.com', port: 443}", "host: contains a character" },
        { "{host: 'a..example.com', port: 443}", "host: has an empty label" },
        { "{host: '{a,b}.example.com', port: 443}", "host: contains a character" },
        { "{host: 0x7f.1, port: 443}", "host: ends with a label that begins with a digit" },
        { "{host: '[::1]', port: 443}", "host: contains a character" },
        { "{host: 169.254.169.254, port: 80}", "host: is a metadata service" },
        { "{host: 'fd00:ec2::254', port: 80}", "host: is a metadata service" },
        { "{host: metadata.google.internal, port: 80}", "host: is a metadata service" },
        { "{host: 10.0.0.7, port: 80}", "host: is not a public address; to allow it, add" },
        { "{host: 127.0.0.1, port: 80, allowed_ips: [8.8.8.8]}", "host: is not a public address" },
        { "{host: 10.0.0.7, port: 80, allowed_ips: [10.0.0.0/24]}", "host: is not a public" },
        { "{host: 192.0.2.7, port: 80, protocol: tcp}", "host: must be a name with protocol tcp" },
        { "{allowed_ips: [192.0.2.7], port: 80, protocol: tcp}", "host: is required with this" },
        { "{allowed_ips: [192.0.2.7], port: 80, protocol: mcp, mcp: {}}",
          "host: is required with" },
        { "{host: a.b}", "ports: must be a list of 1 to 32 port numbers" },
        { "{host: a.b, ports: []}", "ports: must be a list of 1 to 32 port numbers" },
        { "{host: a.b, ports: 443}", "ports: must be a list of 1 to 32 port numbers" },
        { "{host: a.b, port: 0}", "port: a port must be a whole number" },
        { "{host: a.b, port: 65536}", "port: a port must be a whole number" },
        { "{host: a.b, port: '443'}", "port: a port must be a whole number" },
        { "{host: a.b, port: 443, ports: [443]}", "port: and ports cannot both be given" },
        { "{host: a.b, ports: [443, 6443]}", "ports: port 6443 belongs to cluster control planes" },
    };

    check_rows(rows, COUNT_OF(rows));
}

TEST(addresses)
{
    static const struct row rows[] = {
        { "{host: a.b, port: 1, allowed_ips: [10.0.0.0/99]}",
          "allowed_ips[0]: must be an address" },
        { "{host: a.b, port: 1, allowed_ips: [10.1.2.3/8]}", "allowed_ips[0]: must be an address" },
        { "{host: a.b, port: 1, allowed_ips: [example.com]}",
          "allowed_ips[0]: must be an address" },
        { "{host: a.b, port: 1, allowed_ips: [0.0.0.0/0]}", "must not include loopback" },
        { "{host: a.b, port: 1, allowed_ips: ['::/0']}", "must not include loopback" },
        { "{host: a.b, port: 1, allowed_ips: [127.0.0.0/31]}", "must not include loopback" },
        { "{port: 1, allowed_ips: [127.0.0.1]}", "must not include loopback" },
        { "{host: localhost, port: 1}", "host: is a loopback name; to allow loopback, "
                                        "write host: 127.0.0.1" },
        { "{host: Host.sandboxer.internal, port: 1, allowed_ips: [127.0.0.1]}",
          "host: is a loopback name" },
        { "{host: a.b, port: 1, allowed_ips: [169.254.0.0/24]}", "must not include loopback" },
        { "{host: a.b, port: 1, allowed_ips: ['fe80::/64']}", "must not include loopback" },
        { "{host: a.b, port: 1, allowed_ips: ['::ffff:127.0.0.0/120']}",
          "must not include loopback" },
        { "{host: a.b, port: 1, allowed_ips: [169.254.169.254]}", "must not include" },
        { "{host: a.b, port: 1, allowed_ips: [192.0.2.1, 0.1.2.3]}", "allowed_ips[1]: must not" },
        { "{host: a.b, port: 1, allowed_ips: [100.100.100.200]}", "is a metadata service" },
        { "{host: 127.0.0.1, port: 1, allowed_ips: [127.0.0.2]}", "must not include loopback" },
        { "{host: 127.0.0.1, port: 1, allowed_ips: [127.0.0.0/8]}", "must not include loopback" },
        { "{host: 127.0.0.1, port: 1, allowed_ips: [127.0.0.1, '::1']}", "allowed_ips[1]: must" },
        { "{host: 100.100.100.200, port: 1, allowed_ips: [100.100.100.200]}", "is a metadata" },
    };

    check_rows(rows, COUNT_OF(rows));
}

TEST(rules_and_access)
{
    static const struct row rows[] = {
        { "{host: a.b, port: 1, protocol: http}", "protocol: expected one of: tcp, rest" },
        { "{host: a.b, port: 1, protocol: rest, access: all}", "access: expected one of" },
        { "{host: a.b, port: 1, protocol: rest}", "access: or rules are needed" },
        { "{host: a.b, port: 1, protocol: websocket}", "access: or rules are needed" },
        { "{host: a.b, port: 1, protocol: graphql}", "access: or rules are needed" },
        { "{host: a.b, port: 1, protocol: sql, enforcement: audit}",
          "access: or rules are needed" },
        { "{host: a.b, port: 1, protocol: json-rpc}", "rules: are needed with the protocol" },
        { "{host: a.b, port: 1, protocol: mcp}", "rules: are needed with the protocol mcp" },
        { "{host: a.b, port: 1, protocol: mcp, access: full}", "access: has no meaning with" },
        { "{host: a.b, port: 1, protocol: json-rpc, access: full}", "access: has no meaning with" },
        { "{host: a.b, port: 1, protocol: rest, access: full, rules: [{allow: {method: GET, path: "
          "/}}]}",
          "rules: and access cannot both be given" },
        { "{host: a.b, port: 1, protocol: rest, rules: []}", "rules: is empty, which would deny" },
        { "{host: a.b, port: 1, protocol: rest, access: full, deny_rules: []}",
          "deny_rules: must not be empty" },
        { "{host: a.b, port: 1, protocol: rest, deny_rules: [{method: GET}]}",
          "access: or rules are needed" },
        { "{host: a.b, port: 1, deny_rules: [{method: GET}]}",
          "deny_rules: needs an inspected protocol" },
        { "{host: a.b, port: 1, rules: [{allow: {method: GET}}]}",
          "rules: needs an inspected protocol" },
        { "{host: a.b, port: 1, access: full}", "access: needs an inspected protocol" },
        { "{host: a.b, port: 1, enforcement: audit}", "enforcement: needs an inspected protocol" },
        { "{host: a.b, port: 1, protocol: rest, access: full, enforcement: monitor}",
          "enforcement: expected one of: enforce, audit" },
        { "{host: a.b, port: 1, protocol: sql, access: full}", "enforcement: sql can only be" },
        { "{host: a.b, port: 1, protocol: sql, access: full, enforcement: enforce}",
          "enforcement: sql can only be audited" },
        { "{host: a.b, port: 1, protocol: rest, access: full, tls: skip}",
          "tls: rest cannot be inspected inside TLS" },
        { "{host: a.b, port: 1, tls: on}", "tls: expected one of: auto, skip" },
        { "{host: a.b, port: 1, protocol: rest, access: full, path: api}",
          "path: must begin with '/' or be '**'" },
        { "{host: a.b, port: 1, protocol: rest, access: full, path: '/[a'}",
          "path: a '[' has no ']'" },
        { "{host: a.b, port: 1, protocol: rest, access: full, path: '/a b'}",
          "path: contains a character that must be escaped" },
        { "{host: a.b, port: 1, protocol: rest, access: full, json_rpc: {}}",
          "json_rpc: has no meaning with the protocol rest" },
        { "{host: a.b, port: 1, protocol: rest, access: full, advisor_proposed: true}",
          "advisor_proposed: no such field" },
    };

    check_rows(rows, COUNT_OF(rows));
}

TEST(tcp_takes_no_options)
{
    static const char *const options[][2] = {
        { "path: /a", "path" },
        { "enforcement: enforce", "enforcement" },
        { "access: full", "access" },
        { "rules: [{allow: {method: GET, path: /}}]", "rules" },
        { "deny_rules: [{method: GET}]", "deny_rules" },
        { "allow_encoded_slash: true", "allow_encoded_slash" },
        { "websocket_credential_rewrite: true", "websocket_credential_rewrite" },
        { "request_body_credential_rewrite: true", "request_body_credential_rewrite" },
        { "persisted_queries: deny", "persisted_queries" },
        { "graphql_persisted_queries: {}", "graphql_persisted_queries" },
        { "graphql_max_body_bytes: 1", "graphql_max_body_bytes" },
        { "json_rpc: {max_body_bytes: 1}", "json_rpc" },
        { "mcp: {}", "mcp" },
        { "credential_signing: sigv4, signing_service: s3", "credential_signing" },
        { "signing_service: s3", "signing_service" },
        { "signing_region: x", "signing_region" },
        { "credential_binding: {provider: x}", "credential_binding" },
    };
    char endpoint[256], message[128];

    for (size_t i = 0; i < COUNT_OF(options); i++) {
        struct row row = { endpoint, message };

        snprintf(endpoint, sizeof endpoint, "{host: a.b, port: 1, protocol: tcp, %s}",
                 options[i][0]);
        snprintf(message, sizeof message, "%s: needs an inspected protocol", options[i][1]);
        check_rows(&row, 1);
    }
}

TEST(endpoints_that_let_nothing_through)
{
#define RULE_OF(rule, denies)                                                                      \
    "{host: a.b, port: 1, protocol: rest, rules: [{allow: " rule "}], deny_rules: [" denies "]}"
#define PRESET(access, denies)                                                                     \
    "{host: a.b, port: 1, protocol: rest, access: " access ", deny_rules: [" denies "]}"
    static const char *const rows[][2] = {
        { "{host: a.b, port: 443, protocol: rest, access: full}",
          "endpoints[0].ports: nothing can pass on port 443" },
        { "{host: a.b, ports: [80, 443], protocol: rest, access: full, enforcement: audit}",
          "endpoints[0].ports: nothing can pass on port 443" },
        { PRESET("full", "{path: '/**'}"), "deny_rules: deny everything that access allows" },
        { PRESET("full", "{method: '*'}"), "deny_rules: deny everything" },
        { PRESET("read-only", "{method: get}, {method: OPTIONS, path: '**'}"),
          "deny_rules: deny everything" },
        { PRESET("read-write", "{method: GET}, {method: OPTIONS}, {method: POST}, {method: PUT}, "
                               "{method: PATCH}"),
          "deny_rules: deny everything" },
        { "{host: a.b, port: 1, protocol: rest, path: '/v1/**', access: full, deny_rules: "
          "[{path: '/v1/**'}]}",
          "deny_rules: deny everything" },
        { RULE_OF("{method: GET, path: /x}", "{path: /x}"), "rules: allow no request: deny" },
        { RULE_OF("{method: GET, path: /x}", "{path: '/**'}"), "rules: allow no request: deny" },
        { RULE_OF("{method: HEAD, path: /x/y}", "{method: GET, path: '/X/*'}"),
          "rules: allow no request: deny" },
        { RULE_OF("{method: GET, path: '/x/*/y'}", "{path: '/x/**'}"),
          "rules: allow no request: deny" },
        /* Only together: */
        { RULE_OF("{method: GET, path: '/x/**'}", "{path: /x}, {path: '/X/*'}, {path: '/x/*/**'}"),
          "rules: allow no request: deny_rules deny everything" },
        { RULE_OF("{method: GET, path: '/{a,b}/*'}",
                  "{path: '/a/**', method: '*'}, {path: '/[b-c]/*', method: GET}"),
          "rules: allow no request: deny" },
        { RULE_OF("{method: HEAD, path: '/v?'}", "{path: '/v[0-9]'}, {path: '/v[!0-9]'}"),
          "rules: allow no request: deny" },
        { RULE_OF("{method: GET, path: '/*/x'}", "{path: '/a*/x'}, {path: '/[!a]*/x'}, "
                                                 "{path: '//x'}"),
          "rules: allow no request: deny" },
        { PRESET("full", "{path: '/'}, {path: '/*'}, {path: '/*/**'}"),
          "deny_rules: deny everything" },
        { PRESET("read-only",
                 "{method: GET, path: '/a/**'}, {method: OPTIONS}, {path: '/[!a]*/**'}, "
                 "{path: '/a?*/**'}, {path: '/'}, {path: '//**'}"),
          "deny_rules: deny everything" },
        { "{host: a.b, port: 1, protocol: rest, path: /a*, access: full, deny_rules: "
          "[{path: /a*}, {path: '/a*/**'}]}",
          "deny_rules: deny everything" },
        { "{host: a.b, port: 1, protocol: rest, rules: [{allow: {method: TRACE, path: /x}}, "
          "{allow: {method: connect, path: /x}}]}",
          "rules: allow no request: CONNECT and TRACE" },
        { "{host: a.b, port: 1, protocol: rest, path: /a/*, rules: [{allow: {method: GET, path: "
          "/b}}]}",
          "rules: allow no request: its path does not" },
        { "{port: 1, allowed_ips: [10.0.0.0/8, 192.168.1.1, 'fd00::/8']}",
          "allowed_ips: has no public address, and without a host" },
        { "{port: 1, allowed_ips: [10.0.0.5]}", "allowed_ips: has no public address" },
    };
    static const char *const good[] = {
        "{host: a.b, port: 443}",
        "{port: 1, allowed_ips: [10.0.0.0/8, 8.8.8.8]}",
        "{port: 1, allowed_ips: [8.0.0.0/5]}",
        "{host: 10.0.0.5, port: 1, allowed_ips: [10.0.0.5]}",
        "{host: a.b, port: 80, protocol: rest, access: full}",
        PRESET("full", "{path: '/*'}"),
        PRESET("full", "{path: '/**', query: {x: y}}"),
        PRESET("full", "{method: GET}"),
        PRESET("read-only", "{method: GET}"),
        PRESET("read-only", "{path: '/**', method: POST}"),
        PRESET("full", "{path: '/'}, {path: '/*'}, {path: '/*/*'}"),
        PRESET("full", "{path: '/'}, {path: '/*'}, {path: '/*/**', method: GET}"),
        PRESET("full", "{path: '/'}, {path: '/*'}, {path: '/*/**', query: {x: y}}"),
        RULE_OF("{method: GET, path: '/x/**'}", "{path: '/x/*'}, {path: '/x/*/*'}"),
        RULE_OF("{method: GET, path: '/x/**'}", "{path: /x}, {path: '/x/?*'}, {path: '/x/?*/**'}"),
        RULE_OF("{method: GET, path: '/v?'}", "{path: '/v[0-9]'}, {path: '/v[!0-9_]'}"),
        RULE_OF("{method: GET, path: /x}", "{path: /x/y}"),
        RULE_OF("{method: '*', path: /x}", "{path: /x, method: GET}"),
        RULE_OF("{method: GET, path: '/x/**'}", "{path: '/x/y/**'}"),
        "{host: a.b, port: 1, protocol: rest, access: full, enforcement: audit, deny_rules: "
        "[{path: '/**'}]}",
        "{host: a.b, port: 1, protocol: rest, path: /a/*, rules: [{allow: {method: GET, path: "
        "'/*/b'}}]}",
        "{host: a.b, port: 1, protocol: rest, path: /a*, access: full, deny_rules: [{path: /a*}]}",
    };
    struct egress_policy p;
    struct err e;
    char text[512];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text, "    - %s\n", rows[i][0]);
        CHECK_INT(policy_try(with_endpoints(text), &p, &e), -ERR_INVALID);
        if (!strstr(e.msg, rows[i][1]))
            FAIL("%s: %s", rows[i][0], e.msg);
    }
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        snprintf(text, sizeof text, "    - %s\n", good[i]);
        if (policy_try(with_endpoints(text), &p, &e) < 0)
            FAIL("%s: %s", good[i], e.msg);
    }
}

TEST(endpoints_that_deny_all_of_each_other)
{
    static const char *const rows[][2] = {
        /* The second applies wherever the first does, or does not. */
        { "    - {host: a.b, port: 80, protocol: rest, access: read-only}\n"
          "    - {host: a.b, ports: [80, 81], protocol: rest, rules: [{allow: {method: POST, path: "
          "/x}}], deny_rules: [{method: GET}, {method: OPTIONS}]}\n",
          "endpoints[0].deny_rules: deny everything that access allows" },
        { "    - {host: a.b, ports: [80, 82], protocol: rest, access: read-only}\n"
          "    - {host: a.b, ports: [80, 81], protocol: rest, rules: [{allow: {method: POST, path: "
          "/x}}], deny_rules: [{method: GET}, {method: OPTIONS}]}\n",
          NULL },
        { "    - {host: a.b, port: 80, protocol: rest, rules: [{allow: {method: GET, path: "
          "'/x/**'}}], "
          "deny_rules: [{path: '/x/*'}]}\n"
          "    - {host: a.b, ports: [80, 81], protocol: rest, access: read-only, deny_rules: "
          "[{path: "
          "'/x/*/**'}]}\n",
          "endpoints[0].rules: allow no request: deny_rules deny everything that it allows" },
        { "    - {host: a.b, port: 80, protocol: rest, rules: [{allow: {method: GET, path: "
          "'/x/**'}}], "
          "deny_rules: [{path: '/x/*'}]}\n"
          "    - {host: a.b, port: 80, path: '/x/**', protocol: rest, access: read-only, "
          "deny_rules: "
          "[{path: '/x/*/**'}]}\n",
          NULL },
        { "    - {host: c.b, port: 80, protocol: rest, access: read-only}\n"
          "    - {host: '*.b.c', port: 80, protocol: rest, rules: [{allow: {method: POST, path: "
          "/x}}], deny_rules: [{method: GET}, {method: OPTIONS}]}\n",
          NULL },
    };
    struct egress_policy p;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int r = policy_try(with_endpoints(rows[i][0]), &p, &e);

        if (rows[i][1])
            CHECK(r == -ERR_INVALID && strstr(e.msg, rows[i][1]));
        else
            CHECK_OK(r, e);
    }
}

TEST(entries_without_endpoints)
{
    static const char *const rows[] = {
        "version: 1\nnetwork_policies: {a: {binaries: [{path: /**}]}}\n",
        "version: 1\nnetwork_policies: {a: {endpoints: []}}\n",
        ("version: 1\nunlisted: {access: public}\nnetwork_policies:\n"
         "  b: {endpoints: [{host: a.b, port: 1}]}\n  a: {endpoints: []}\n"),
    };
    struct egress_policy p;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(policy_try(rows[i], &p, &e), -ERR_INVALID);
        CHECK(strstr(e.msg, "network_policies.a.endpoints: an entry without endpoints"));
    }
    CHECK_OK(policy_try("version: 1\nnetwork_policies: {}\n", &p, &e), e);
}

/* Deny rules of another entry count if it is for every program, for good, and wherever the first
 * applies. */
TEST(entries_that_deny_all_of_each_other)
{
#define DENYING(more, host)                                                                        \
    "  other:\n" more "    endpoints:\n    - {host: '" host "', ports: [80, 81], protocol: rest, " \
    "rules: [{allow: {method: POST, path: /x}}], deny_rules: [{method: GET}, {method: "            \
    "OPTIONS}]}\n"
    static const char first[] =
        "version: 1\nnetwork_policies:\n  web:\n    binaries: [{path: /usr/bin/curl}]\n"
        "    endpoints:\n    - {host: a.b.c, port: 80, protocol: rest, access: read-only}\n";
    static const struct {
        const char *second;
        bool denies;
    } rows[] = {
        { DENYING("", "a.b.c"), true },
        { DENYING("    binaries: [{path: /bin/sh}, {path: '/**'}]\n", "a.b.c"), true },
        { DENYING("", "*.b.c"), true },
        { DENYING("", "**.b.c"), true },
        { DENYING("", "x.b.c"), false },
        { DENYING("    binaries: [{path: /usr/bin/curl}]\n", "a.b.c"), false },
        { DENYING("    until: 2126-01-02T03:04:05Z\n", "a.b.c"), false },
        { DENYING("    uses: 3\n", "a.b.c"), false },
    };
    struct egress_policy p;
    struct err e;
    char text[1024];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int r;

        snprintf(text, sizeof text, "%s%s", first, rows[i].second);
        r = policy_try(text, &p, &e);
        if (!rows[i].denies)
            CHECK_OK(r, e);
        else if (r != -ERR_INVALID ||
                 !strstr(e.msg, "web.endpoints[0].deny_rules: deny everything that access allows"))
            FAIL("%zu: %d %s", i, r, e.msg);
    }
#undef DENYING
}

TEST(addresses_that_are_all_denied)
{
#define PUBLIC(more) "version: 1\nunlisted: {access: public, " more "}\n"
    static const struct {
        const char *policy;
        bool refused;
    } rows[] = {
        { PUBLIC("denied_ips: [0.0.0.0/0, '::/0']"), true },
        { PUBLIC("denied_ips: ['::/0', 128.0.0.0/1, 0.0.0.0/2, 64.0.0.0/2]"), true },
        { PUBLIC("denied_ips: [0.0.0.0/0, '2000::/3']"), true }, /* no other address is public */
        { PUBLIC("denied_ips: [0.0.0.0/0, '::/0'], allowed_ips: [10.0.0.0/8]"), true },
        { PUBLIC("denied_ips: [0.0.0.0/0, '::/0'], allowed_ips: [10.0.0.1]"), false },
        { PUBLIC("denied_ips: [0.0.0.0/0, '::/0'], allowed_ips: [8.8.8.0/24]"), false },
        { PUBLIC("denied_ips: [0.0.0.0/0]"), false },
        { PUBLIC("denied_ips: ['::/0']"), false },
        { PUBLIC("denied_ips: ['::/0', 128.0.0.0/1, 0.0.0.0/2, 64.0.0.0/3]"), false },
        { "version: 1\nunlisted: {access: deny, denied_ips: [0.0.0.0/0, '::/0']}\n", false },
    };
    struct egress_policy p;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int r = policy_try(rows[i].policy, &p, &e);

        if (!rows[i].refused)
            CHECK_OK(r, e);
        else if (r != -ERR_INVALID ||
                 !strstr(e.msg, "unlisted.denied_ips: deny every address that access: public"))
            FAIL("%s: %d %s", rows[i].policy, r, e.msg);
    }
#undef PUBLIC
}

/* The comparisons of all rules together are bounded. */
TEST(many_rules_that_deny_in_parts_are_checked_soon)
{
    struct buf text = BUF_INIT(1 << 20);
    struct egress_policy p;
    struct err e;

    CHECK(buf_add(&text, STR(HEAD)) == 0);
    for (int i = 0; i < 10; i++) {
        CHECK(buf_addf(&text, "    - {host: a.b, port: 1, protocol: rest, rules: [") == 0);
        for (int k = 0; k < 200; k++)
            CHECK(buf_addf(&text, "%s{allow: {method: GET, path: '/*a*b*c*%d*/**'}}", k ? ", " : "",
                           k) == 0);
        CHECK(buf_addf(&text, "], deny_rules: [") == 0);
        for (int k = 0; k < 200; k++)
            CHECK(buf_addf(&text, "%s{path: '/*b*c*a*?*%d*/**'}", k ? ", " : "", k) == 0);
        CHECK(buf_addf(&text, "]}\n") == 0);
    }
    CHECK_OK(policy_try(text.p, &p, &e), e);
    buf_done(&text);
}

/* Beside others that allow something, it is only worth a note. */
TEST(a_rule_that_lets_nothing_through_is_noted)
{
    struct egress_policy p;
    struct err e;

    CHECK_OK(policy_try(with_endpoints(
                            "    - {host: a.b, port: 1, protocol: rest, rules: [{allow: {method: "
                            "TRACE, path: /x}}, {allow: {method: GET, path: /x}}]}\n"),
                        &p, &e),
             e);
    CHECK_INT(p.notes.n, 1);
    CHECK(strstr(p.notes.p[0], "a rule allows nothing: CONNECT and TRACE"));
}

#define REST "{host: a.b, port: 1, protocol: rest, rules: [{allow: "
#define WS   "{host: a.b, port: 1, protocol: websocket, rules: [{allow: "
#define GQL  "{host: a.b, port: 1, protocol: graphql, rules: [{allow: "
#define RPC  "{host: a.b, port: 1, protocol: json-rpc, rules: [{allow: "
#define MCP  "{host: a.b, port: 1, protocol: mcp, rules: [{allow: "

TEST(rules_of_requests)
{
    static const struct row rows[] = {
        { REST "{}}]}",
          "rules[0].allow: must have at least one field; an empty rule allows nothing" },
        { REST "{method: GET}}]}", "rules[0].allow.path: is required" },
        { REST "{path: /}}]}", "rules[0].allow.method: is required" },
        { REST "{method: 'GET POST', path: /}}]}", "method: must be '*' or the name of a method" },
        { REST "{method: 'G*', path: /}}]}", "method: must be '*' or the name of a method" },
        { REST "{method: GET, path: a}}]}", "rules[0].allow.path: must begin with '/'" },
        { REST "{method: GET, path: '/{a'}}]}", "rules[0].allow.path: a '{' has no '}'" },
        { REST "{method: GET, path: /a+b}}]}", "rules[0].allow.path: contains a character" },
        { REST "{method: GET, path: /, tool: x}}]}", "without a meaning for this protocol" },
        { REST "{method: GET, path: /, command: x}}]}", "without a meaning for this protocol" },
        { REST "{method: GET, path: /, query: x}}]}", "query: must be an object" },
        { REST "{method: GET, path: /, query: {}}}]}", "query: must be an object" },
        { REST "{method: GET, path: /, query: {a: {}}}}]}", "query: must be a glob" },
        { REST "{method: GET, path: /, query: {a: {any: []}}}}]}", "query: any must be a list" },
        { REST "{method: GET, path: /, query: {a: {any: [1]}}}}]}",
          "query: a glob must not contain" },
        { REST "{method: GET, path: /, query: {a: 1}}}]}", "query: a glob must not contain" },
        { REST "{method: GET, path: /, query: {a: {glob: x, any: [x]}}}}]}", "must be a glob" },
        { REST "{method: GET, path: /, query: {a: {regex: x}}}}]}", "query: must be a glob" },
        { REST "{method: GET, path: /, query: {a: '[x'}}}]}", "query: a '[' has no ']'" },
        { REST "{method: GET, path: /}, deny: {}}]}", "rules[0].deny: no such field" },
        { "{host: a.b, port: 1, protocol: rest, rules: [{}]}", "rules[0].allow: is required" },
        { "{host: a.b, port: 1, protocol: rest, access: full, deny_rules: [{}]}",
          "deny_rules[0]: must have at least one field" },
        { "{host: a.b, port: 1, protocol: rest, access: full, deny_rules: [{path: x}]}",
          "deny_rules[0].path: must begin with '/'" },
        { GQL "{operation_name: x}}]}", "operation_type: must be query, mutation or" },
        { GQL "{operation_type: '*'}}]}", "operation_type: must be query, mutation or" },
        { GQL "{operation_type: query, fields: []}}]}", "fields: must not be empty" },
        { GQL "{operation_type: query, fields: ['']}}]}", "fields: has an empty name" },
        { "{host: a.b, port: 1, protocol: graphql, access: full, graphql_persisted_queries: {x: "
          "{}}}",
          "graphql_persisted_queries: an operation needs operation_type" },
        { "{host: a.b, port: 1, protocol: graphql, access: full, graphql_max_body_bytes: 0}",
          "graphql_max_body_bytes: must be a whole number from 1" },
        { WS "{method: GET, operation_type: query}}]}", "rules[0].allow: mixes an operation" },
        { WS "{operation_type: query}}, {allow: {method: WEBSOCKET_TEXT, path: /}}]}",
          "rules[1].allow.method: WEBSOCKET_TEXT would allow" },
        { RPC "{}}]}", "rules[0].allow: must have at least one field" },
        { RPC "{method: 'a*'}}]}", "method: must be '*' or the whole name" },
        { RPC "{method: a, path: /}}]}", "without a meaning for this protocol" },
        { RPC "{method: a, tool: x}}]}", "without a meaning for this protocol" },
        { RPC "{method: a, params: {name: x}}}]}", "without a meaning for this protocol" },
        { MCP "{method: '*'}}]}", "method: wildcards are only for methods below tools/" },
        { MCP "{method: 'prompts/*'}}]}", "method: wildcards are only for methods below tools/" },
        { MCP "{tool: x}}]}", "method: is required" },
        { MCP "{method: tools/list, tool: x}}]}", "tool: needs method: tools/call" },
        { MCP "{method: tools/call, tool: x, params: {name: x}}}]}", "tool: and params.name" },
        { MCP "{method: tools/call, params: {id: x}}}]}", "params: only params.name" },
        { MCP "{method: tools/call, tool: 'x*'}}], mcp: {strict_tool_names: false}}",
          "tool: a wildcard needs mcp.strict_tool_names" },
        { MCP "{method: tools/call, tool: x}}, {allow: {method: tools/call}}]}",
          "rules[1].allow.tool: is required, because" },
        { MCP "{method: tools/call, tool: x}}], deny_rules: [{method: tools/call}]}",
          "deny_rules[0].tool: is required, because" },
    };

    check_rows(rows, COUNT_OF(rows));
}

TEST(credentials)
{
    static const struct row rows[] = {
        { "{host: a.b, port: 1, protocol: rest, access: full, credential_signing: hmac}",
          "credential_signing: expected one of: sigv4" },
        { "{host: a.b, port: 1, protocol: rest, access: full, credential_signing: sigv4}",
          "signing_service: is required" },
        { "{host: a.b, port: 1, protocol: rest, access: full, credential_signing: sigv4, "
          "signing_service: s3, request_body_credential_rewrite: true}",
          "credential_signing: cannot go with" },
        { "{host: a.b, port: 1, protocol: rest, access: full, credential_binding: {}}",
          "credential_binding.provider: is required" },
    };

    check_rows(rows, COUNT_OF(rows));
}

TEST(what_nothing_enforces_is_not_accepted)
{
    static const struct row rows[] = {
        { "{host: a.b, port: 1, protocol: websocket, access: full}", "protocol: websocket is" },
        { "{host: a.b, port: 1, protocol: graphql, access: full}", "protocol: graphql is" },
        { "{host: a.b, port: 1, protocol: sql, access: full, enforcement: audit}", "sql is" },
        { RPC "{method: a}}]}", "protocol: json-rpc is" },
        { MCP "{method: tools/call, tool: x}}]}", "protocol: mcp is" },
        { "{host: a.b, port: 1, protocol: MCP, mcp: {allow_all_known_mcp_methods: true}}",
          "protocol: mcp is" },
        { "{host: a.b, port: 1, protocol: rest, access: full, credential_signing: sigv4:body, "
          "signing_service: s3}",
          "credential_signing: is" },
        { "{host: a.b, port: 1, protocol: rest, access: full, request_body_credential_rewrite: "
          "true}",
          "request_body_credential_rewrite: is" },
        { "{host: a.b, port: 1, protocol: rest, access: full, websocket_credential_rewrite: true}",
          "websocket_credential_rewrite: is" },
        { "{host: a.b, port: 1, protocol: rest, access: full, credential_binding: {provider: x}}",
          "credential_binding: is" },
        { "{host: a.b, port: 1, allow_uninspected_credentials: true}",
          "allow_uninspected_credentials: is" },
    };
    struct egress_policy p;
    struct err e;

    check_rows(rows, COUNT_OF(rows));
    CHECK_INT(policy_try(with_endpoints("    - {host: a.b, port: 1, protocol: graphql, "
                                        "access: full}\n"),
                         &p, &e),
              -ERR_UNSUPPORTED);
    CHECK_STR(str_from(e.msg), "line 6: network_policies.web.endpoints[0].protocol: graphql is not "
                               "enforced by this version, so it is not accepted");
}

TEST(programs)
{
    static const char *const rows[][2] = {
        { "binaries: []", "network_policies.web.binaries: the number of items must be at least" },
        { "binaries:", "network_policies.web.binaries: expected a list of objects, not null" },
        { "binaries: [{path: curl}]", "binaries[0]: the path of a program must be absolute" },
        { "binaries: [{path: /usr/../bin/curl}]", "binaries[0]: must not contain '//'" },
        { "binaries: [{path: /usr/bin/}]", "binaries[0]: must not contain '//'" },
        { "binaries: [{path: '/usr/[a'}]", "binaries[0]: a '[' has no ']'" },
        { "binaries: [{harness: true}]", "binaries[0].path: is required" },
        { "binaries: [/usr/bin/curl]", "binaries[0]: expected an object" },
    };
    char text[512];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text,
                 "version: 1\nnetwork_policies:\n  web:\n    %s\n    endpoints: [{host: a.b, port: "
                 "1}]\n",
                 rows[i][0]);
        check_refused(text, rows[i][1], rows[i][0]);
    }
    check_refused("version: 1\nnetwork_policies:\n  web:\n    endpoints: [{host: a.b, port: 1, "
                  "binaries: [x]}]\n",
                  "endpoints[0].binaries[0]: the path of a program must be absolute", "own");
}

TEST(sections)
{
    static const char *const rows[][2] = {
        { "version: 2\n", "version: must be a whole number from 1 to 1" },
        { "network_policies: {}\n", "version: is required" },
        { "", "is empty" },
        { "# nothing\n", "is empty" },
        { "version: 1\nnetwork: {}\n", "network: no such field" },
        { "version: 1\nversion: 1\n", "line 2" },
        { "version: 1\nfilesystem_policy: {read_only: [etc]}\n",
          "read_only[0]: a path must be absolute" },
        { "version: 1\nfilesystem_policy: {read_only: [/a/../b]}\n",
          "read_only[0]: a path must not" },
        { "version: 1\nfilesystem_policy: {read_write: [//]}\n",
          "read_write[0]: the root directory" },
        { "version: 1\nfilesystem_policy: {write: []}\n",
          "filesystem_policy.write: no such field" },
        { "version: 1\nlandlock: {compatibility: none}\n", "compatibility: expected one of" },
        { "version: 1\nprocess: {run_as_user: root}\n",
          "run_as_user: must be sandbox, or a number" },
        { "version: 1\nprocess: {run_as_user: 0}\n", "run_as_user: must be sandbox, or a number" },
        { "version: 1\nprocess: {run_as_group: '4294967295'}\n", "run_as_group: must be sandbox" },
        { "version: 1\nunlisted: {access: all}\n", "unlisted.access: expected one of" },
        { "version: 1\nunlisted: {allowed_ips: [127.0.0.0/8]}\n",
          "unlisted.allowed_ips[0]: must not" },
        { "version: 1\nunlisted: {denied_ips: [x]}\n", "unlisted.denied_ips: must be addresses" },
        { "version: 1\nnetwork_policies: {web: {endpoint: []}}\n", "web.endpoint: no such field" },
        { "version: 1\nnetwork_policies: {'': {}}\n", "a key must have 1 to 128 bytes" },
        { "version: 1\nnetwork_policies: {\"a\\nb\": {}}\n", "contains a control character" },
        { "version: 1\nnetwork_policies: {a: {name: \"x\\e[1m\"}}\n",
          "a.name: contains a control" },
        { "version: 1\nnetwork_policies: [a]\n",
          "network_policies: expected an object of objects" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_refused(rows[i][0], rows[i][1], rows[i][0]);
}

TEST(middlewares)
{
    static const char *const rows[][2] = {
        { "{a: {endpoints: {include: [a.example.com]}}}", "a: middleware is required" },
        { "{a: {middleware: x, on_error: retry, endpoints: {include: [a.example.com]}}}",
          "a: on_error must be" },
        { "{a: {middleware: x}}", "a: endpoints.include is empty" },
        { "{a: {middleware: x, endpoints: {include: ['*']}}}",
          "a: a host must have two labels without wildcards" },
        { "{a: {middleware: x, endpoints: {include: [b.example.com]}}, b: {middleware: x, "
          "endpoints: "
          "{include: [b.example.com]}}}",
          "a and b have the same order" },
        { "{a: {middleware: x, endpoints: {include: ['*.example.com']}}}",
          "a: must see every request, but an endpoint of *.example.com has tls: skip" },
        { "{a: {middleware: x, on_error: fail_open, endpoints: {include: ['*.example.com']}}}",
          "network_middlewares: is not enforced by this version" },
        { "{a: {middleware: x, endpoints: {include: [b.example.com]}, config: {any: thing}}}",
          "network_middlewares: is not enforced by this version" },
    };
    char text[1024];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text,
                 HEAD
                 "    - {host: a.example.com, port: 443, tls: skip}\nnetwork_middlewares: %s\n",
                 rows[i][0]);
        check_refused(text, rows[i][1], rows[i][0]);
    }
}

TEST(notes)
{
    static const char text[] =
        "version: 1\nfilesystem_policy: {include_workdir: true, read_only: [/usr]}\n"
        "landlock: {compatibility: hard_requirement}\nprocess: {run_as_user: sandbox}\n"
        "network_policies:\n  web:\n    binaries: [{path: /usr/bin/curl, harness: true}]\n"
        "    endpoints:\n    - {port: 1, tls: terminate, allowed_ips: [10.0.0.0/8, 8.8.8.8]}\n"
        "    - {host: a.b, port: 2, allowed_ips: [10.0.0.0/8]}\n";
    static const char *const want[] = {
        "filesystem_policy is ignored",
        "landlock is ignored",
        "process is ignored",
        "network_policies.web: binaries[].harness is ignored",
        "network_policies.web.endpoints[0]: 10.0.0.0/8 is not public: without a host it cannot",
        "network_policies.web.endpoints[0]: tls: terminate and passthrough mean auto",
    };
    struct egress_policy p;
    struct err e;

    CHECK_OK(policy_try(text, &p, &e), e);
    CHECK_INT(p.notes.n, COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++)
        if (!str_starts(str_from(p.notes.p[i]), str_from(want[i])))
            FAIL("note %zu is '%s'", i, p.notes.p[i]);
}

TEST(one_form)
{
    struct egress_policy p;
    const struct egress_entry *entry;
    const struct egress_endpoint *eps;
    struct err e;

    CHECK_OK(policy_try(with_endpoints("    - {host: API.Example.com, ports: [443, 80, 443]}\n"
                                       "    - {host: '2606:2800:0::AB', port: 443, protocol: ''}\n"
                                       "    - {host: b.example.com, port: 80, protocol: ReST, "
                                       "access: Read-Only, enforcement: '', path: ''}\n"),
                        &p, &e),
             e);
    entry = p.network_policies.p;
    eps = entry->endpoints.p;
    CHECK_STR(str_from(eps[0].host), "api.example.com");
    CHECK_INT(eps[0].port_count, 2);
    CHECK_INT(eps[0].ports[0], 80);
    CHECK_STR(str_from(eps[1].host), "2606:2800::ab");
    CHECK(!eps[1].has_protocol);
    CHECK_INT(eps[2].protocol, EGRESS_REST);
    CHECK_INT(eps[2].access, EGRESS_READ_ONLY);
    CHECK_INT(eps[2].enforcement, EGRESS_ENFORCE);
    CHECK(!eps[2].path);
}

TEST(endpoints_that_disagree)
{
    static const struct {
        const char *a, *b;
        const char *what; /* NULL: they agree */
    } rows[] = {
        { "host: a.example.com, port: 443, tls: skip", "host: a.example.com, port: 443", "tls" },
        { "host: a.example.com, port: 443, tls: skip", "host: a.example.com, port: 80", NULL },
        { "host: a.example.com, port: 443, tls: skip", "host: b.example.com, port: 443", NULL },
        { "host: '*.example.com', port: 443, tls: skip", "host: b.example.com, port: 443", "tls" },
        { "host: '**.example.com', port: 443, tls: skip", "host: a.b.example.com, port: 443",
          "tls" },
        { "host: '**.example.com', port: 443, tls: skip", "host: example.com, port: 443", NULL },
        { "host: '**.example.com', port: 443, tls: skip", "host: '*.b.example.com', port: 443",
          "tls" },
        { "host: 'a*.example.com', port: 443, tls: skip", "host: '*b.example.com', port: 443",
          "tls" },
        { "host: 'a.*.example.com', port: 443, tls: skip", "host: '*.b.example.com', port: 443",
          "tls" },
        { "host: a.example.com, port: 443, allowed_ips: [192.0.2.1]",
          "host: a.example.com, port: 443", "allowed_ips" },
        { "host: a.example.com, port: 443, allowed_ips: [192.0.2.1, 192.0.2.2]",
          "host: a.example.com, port: 443, allowed_ips: [192.0.2.2/32, 192.0.2.1]", NULL },
        { "port: 443, allowed_ips: [8.8.8.8]", "host: a.example.com, port: 443", "allowed_ips" },
        { "port: 443, allowed_ips: [8.8.8.8]", "host: 8.8.8.8, port: 443", "allowed_ips" },
        { "port: 80, allowed_ips: [8.8.8.8]", "host: a.example.com, port: 443", NULL },
        { "host: a.example.com, port: 80, protocol: tcp",
          "host: a.example.com, port: 80, protocol: rest, access: full", "protocol" },
        { "host: a.example.com, port: 80",
          "host: a.example.com, port: 80, protocol: rest, access: full", NULL },
        { "host: a.example.com, port: 80", "host: a.example.com, port: 80, protocol: tcp", NULL },
        { "host: a.example.com, port: 80, protocol: rest, access: full",
          "host: a.example.com, port: 80, protocol: rest, access: read-only", NULL },
        { "host: a.example.com, port: 80, protocol: rest, access: full",
          "host: a.example.com, port: 80, protocol: rest, access: full, enforcement: audit",
          "enforcement" },
        { "host: a.example.com, port: 80, protocol: rest, access: full, path: /a",
          "host: a.example.com, port: 80, protocol: rest, access: full, path: /b, enforcement: "
          "audit",
          NULL },
        { "host: a.example.com, port: 80, protocol: rest, access: full, path: '/*a'",
          "host: a.example.com, port: 80, protocol: rest, access: full, path: '/b*', "
          "allow_encoded_slash: true",
          "allow_encoded_slash" },
        { "host: a.example.com, port: 80, protocol: rest, access: full, path: '/api/**'",
          "host: a.example.com, port: 80, protocol: rest, access: full, enforcement: audit", NULL },
    };
    char text[1024], message[256];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct egress_policy p;
        struct err e = { 0 };
        int r;

        snprintf(text, sizeof text, "    - {%s}\n    - {%s}\n", rows[i].a, rows[i].b);
        r = policy_try(with_endpoints(text), &p, &e);
        if (!rows[i].what && r < 0)
            FAIL("%s | %s: %s", rows[i].a, rows[i].b, e.msg);
        if (!rows[i].what)
            continue;
        snprintf(message, sizeof message, "but has a different %s", rows[i].what);
        CHECK_INT(r, -ERR_INVALID);
        if (!str_starts(str_from(e.msg), STR("line 7: network_policies.web.endpoints[1]: can apply "
                                             "to the same connection as "
                                             "network_policies.web.endpoints[0] (")) ||
            !strstr(e.msg, message))
            FAIL("%s | %s: %s", rows[i].a, rows[i].b, e.msg);
    }
}

/* As many endpoints as a policy may have, whose manners differ: names, a wildcard above them all,
 * and one at the end that disagrees with it. It has to be found, and soon. */
TEST(ten_thousand_endpoints)
{
    struct buf text = BUF_INIT(1 << 20);
    struct egress_policy p;
    struct err e;

    CHECK(buf_add(&text, STR(HEAD)) == 0);
    for (int i = 0; i < 9997; i++)
        CHECK(buf_addf(&text, "    - {host: h%d.x%d.example.com, port: 443}\n", i, i % 97) == 0);
    CHECK(buf_addf(&text, "    - {host: '**.example.com', port: 443}\n") == 0);
    CHECK(buf_addf(&text, "    - {host: 'a*.example.com', port: 444, tls: skip}\n") == 0);
    CHECK_OK(policy_try(text.p, &p, &e), e);
    CHECK(buf_addf(&text, "    - {host: h9.x9.example.com, port: 443, tls: skip}\n") == 0);
    CHECK_INT(policy_try(text.p, &p, &e), -ERR_INVALID);
    CHECK(strstr(
        e.msg,
        "endpoints[9999]: can apply to the same connection as network_policies.web.endpoints["));
    CHECK(buf_addf(&text, "    - {host: one.too.many, port: 443}\n") == 0);
    CHECK_INT(policy_try(text.p, &p, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "at most 10000"));
    buf_done(&text);
}

/* Every wildcard can meet every other, and all differ: refused rather than compared for minutes. */
TEST(too_many_overlaps_are_refused)
{
    struct buf text = BUF_INIT(1 << 20);
    struct egress_policy p;
    struct err e;

    CHECK(buf_add(&text, STR(HEAD)) == 0);
    for (int i = 0; i < 4000; i++)
        CHECK(buf_addf(&text,
                       "    - {host: 'a%d*.example.com', port: %d, allowed_ips: [192.0.2.1, "
                       "198.18.%d.%d]}\n",
                       i, 20000 + i, i / 200, i % 200) == 0);
    CHECK_INT(policy_try(text.p, &p, &e), -ERR_TOO_BIG);
    buf_done(&text);
}
