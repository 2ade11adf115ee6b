/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"

#define CURL "/usr/bin/curl"

static const char web[] = "version: 1\n"
                          "network_policies:\n"
                          "  web:\n"
                          "    binaries: [{path: /**}]\n"
                          "    endpoints:\n"
                          "    - {host: api.example.com, port: 443}\n"
                          "    - {host: '*.one.example.com', ports: [80, 443]}\n"
                          "    - {host: '**.deep.example.com', port: 443}\n"
                          "    - {host: '*-cdn.example.com', port: 443}\n"
                          "    - {host: 'a.*.mid.example.com', port: 443}\n"
                          "    - {host: 192.0.2.7, port: 5432, allowed_ips: [192.0.2.7]}\n"
                          "    - {host: '2001:db8::7', port: 5432, allowed_ips: ['2001:db8::7']}\n";

struct row {
    const char *destination, *verdict;
};

static void check_rows(const struct egress_snapshot *s, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = connect_text(s, rows[i].destination, CURL);

        if (strcmp(got, rows[i].verdict) != 0)
            FAIL("%s: %s, not %s", rows[i].destination, got, rows[i].verdict);
    }
}

TEST(hosts_and_ports)
{
    static const struct row rows[] = {
        { "api.example.com:443", "allowed" },
        { "API.example.com.:443", "allowed" }, /* one spelling when it gets here */
        { "api.example.com:80", "denied port_not_allowed" },
        { "api.example.com:9999", "denied port_not_allowed" },
        { "example.com:443", "denied policy_denied" },
        { "x.api.example.com:443", "denied policy_denied" },
        { "x.one.example.com:443", "allowed" },
        { "x.one.example.com:80", "allowed" },
        { "y.x.one.example.com:443", "denied policy_denied" },
        { "one.example.com:443", "denied policy_denied" },
        { "x.deep.example.com:443", "allowed" },
        { "y.x.deep.example.com:443", "allowed" },
        { "deep.example.com:443", "denied policy_denied" },
        { "x-cdn.example.com:443", "allowed" },
        { "cdn.example.com:443", "denied policy_denied" },
        { "y.x-cdn.example.com:443", "denied policy_denied" },
        { "a.b.mid.example.com:443", "allowed" },
        { "c.b.mid.example.com:443", "denied policy_denied" },
        { "192.0.2.7:5432", "allowed" },
        { "192.0.2.7:443", "denied port_not_allowed" },
        { "192.0.2.8:5432", "denied policy_denied" },
        { "[2001:db8::7]:5432", "allowed" },
        { "[2001:db8::8]:5432", "denied policy_denied" },
        { "api.example.com:6443", "denied control_plane_port" },
        { "169.254.169.254:80", "denied metadata_denied" },
        { "metadata.google.internal:80", "denied metadata_denied" },
    };

    check_rows(policy_compiled(web), rows, COUNT_OF(rows));
}

TEST(nothing_is_allowed_by_nothing)
{
    static const struct row rows[] = { { "api.example.com:443", "denied policy_denied" } };

    check_rows(policy_compiled("version: 1\n"), rows, 1);
    check_rows(policy_compiled("version: 1\nnetwork_policies: {}\n"), rows, 1);
}

TEST(names_that_are_none)
{
    const struct egress_snapshot *s = policy_compiled(web);
    static const char *const rows[] = {
        "API.example.com", "*.one.example.com", "a..b", "", "x\x01y", "127.1"
    };
    struct egress_match m;
    struct egress_reason why;
    struct egress_ports ports;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct egress_connect_query ask = { .host = str_from(rows[i]), .port = 443 };

        CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_DENIED);
        CHECK_STR(str_from(why.code), "name_invalid");
        CHECK_INT(egress_name(s, ask.host, &ports, &why), EGRESS_DENIED);
    }
}

TEST(an_entry_without_programs_is_for_all_of_them)
{
    static const struct row rows[] = { { "a.example.com:443", "allowed" },
                                       { "b.example.com:443", "denied binary_not_allowed" } };

    check_rows(
        policy_compiled("version: 1\n"
                        "network_policies:\n"
                        "  all:\n"
                        "    endpoints:\n"
                        "    - {host: a.example.com, port: 443}\n"
                        "    - {host: b.example.com, port: 443, binaries: [/usr/bin/git]}\n"),
        rows, COUNT_OF(rows));
}

static const char programs[] = "version: 1\n"
                               "network_policies:\n"
                               "  b-git:\n"
                               "    name: git\n"
                               "    binaries: [{path: /usr/bin/git}, {path: '/opt/*/bin/git'}]\n"
                               "    endpoints: [{host: git.example.com, port: 443}]\n"
                               "  c-tools:\n"
                               "    binaries: [{path: '/usr/lib/**'}]\n"
                               "    endpoints:\n"
                               "    - {host: git.example.com, port: 443}\n"
                               "    - {host: own.example.com, port: 443, binaries: [/bin/own]}\n"
                               "  a-open:\n"
                               "    binaries: [{path: /**}]\n"
                               "    endpoints: [{host: open.example.com, port: 443}]\n";

TEST(programs_and_their_ancestors)
{
    const struct egress_snapshot *s = policy_compiled(programs);
    struct str ancestors[] = { STR("/bin/sh"), STR("/usr/bin/git") };
    struct egress_connect_query ask = ask_for("git.example.com:443", "/bin/ssh");
    struct egress_match m;
    struct egress_reason why;

    CHECK_STR(str_from(connect_text(s, "git.example.com:443", "/usr/bin/git")), "allowed");
    CHECK_STR(str_from(connect_text(s, "git.example.com:443", "/opt/x/bin/git")), "allowed");
    CHECK_STR(str_from(connect_text(s, "git.example.com:443", "/opt/x/y/bin/git")),
              "denied binary_not_allowed");
    CHECK_STR(str_from(connect_text(s, "git.example.com:443", "/usr/lib/a/b")), "allowed");
    CHECK_STR(str_from(connect_text(s, "git.example.com:443", CURL)), "denied binary_not_allowed");
    CHECK_STR(str_from(connect_text(s, "own.example.com:443", "/usr/lib/a/b")),
              "denied binary_not_allowed");
    CHECK_STR(str_from(connect_text(s, "own.example.com:443", "/bin/own")), "allowed");
    ask.ancestors = ancestors;
    ask.n_ancestors = 2;
    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_STR(m.policy, "git");
    ask.n_ancestors = 1;
    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_DENIED);
    CHECK(strstr(why.text, "/bin/ssh may not connect to git.example.com:443"));
    CHECK_STR(why.rule, "network_policies.b-git.endpoints[0]");
}

TEST(who_asks_matters_only_where_programs_are_named)
{
    const struct egress_snapshot *s = policy_compiled(programs);
    struct egress_connect_query ask = ask_for("git.example.com:443", NULL);
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_DENIED);
    CHECK(m.needs_identity);
    CHECK_STR(str_from(why.code), "identity_unknown");
    ask = ask_for("open.example.com:443", NULL);
    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK(!m.needs_identity);
}

TEST(the_winner_has_the_smallest_name)
{
    const struct egress_snapshot *s =
        policy_compiled("version: 1\nnetwork_policies:\n"
                        "  z: {name: b, binaries: [{path: /**}], endpoints: [{host: "
                        "'*.example.com', port: 443}]}\n"
                        "  y: {name: a, binaries: [{path: /usr/bin/git}], endpoints: [{host: "
                        "x.example.com, port: 443}]}\n"
                        "  x: {name: c, binaries: [{path: /**}], endpoints: [{name: first, host: "
                        "x.example.com, port: 443}]}\n");
    struct egress_connect_query ask = ask_for("x.example.com:443", CURL);
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_STR(m.policy, "b");
    CHECK_STR(m.endpoint_name, "network_policies.z.endpoints[0]");
    CHECK(!m.exact_host && m.protocol == EGRESS_TCP && m.tls == EGRESS_TLS_AUTO);
    CHECK_INT(m.generation, 7);
    ask = ask_for("x.example.com:443", "/usr/bin/git");
    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_STR(m.policy, "a");
    CHECK(m.exact_host);
    CHECK_STR(why.rule, "network_policies.y.endpoints[0]");
}

TEST(one_inspected_endpoint_is_enough)
{
    const struct egress_snapshot *s =
        policy_compiled("version: 1\nnetwork_policies:\n  a:\n    binaries: [{path: /**}]\n"
                        "    endpoints:\n    - {host: x.example.com, port: 80}\n"
                        "    - {host: x.example.com, port: 80, protocol: rest, access: full}\n");
    struct egress_connect_query ask = ask_for("x.example.com:80", CURL);
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_INT(m.protocol, EGRESS_REST);
    CHECK(!m.audit_only);
}

TEST(more_endpoints_than_a_match_holds)
{
    struct buf text AUTO(buf_done) = BUF_INIT(1 << 20);
    const struct egress_snapshot *s;

    CHECK(buf_addf(&text, "version: 1\nnetwork_policies:\n  a:\n    binaries: [{path: /**}]\n"
                          "    endpoints:\n") == 0);
    for (int i = 0; i < EGRESS_MATCH_MAX; i++)
        CHECK(buf_addf(&text, "    - {host: x.example.com, port: 443}\n") == 0);
    s = policy_compiled(text.p);
    CHECK_STR(str_from(connect_text(s, "x.example.com:443", CURL)), "allowed");
    CHECK(buf_addf(&text, "    - {host: '*.example.com', port: 443}\n") == 0);
    s = policy_compiled(text.p);
    CHECK_STR(str_from(connect_text(s, "x.example.com:443", CURL)), "denied policy_too_complex");
}

static void check_name(const struct egress_snapshot *s, const char *name, const char *want)
{
    struct egress_ports ports;
    struct egress_reason why;
    char got[128] = "denied";
    size_t n = 0;

    if (egress_name(s, str_from(name), &ports, &why) == EGRESS_ALLOWED)
        n = (size_t)snprintf(got, sizeof got, ports.any ? "any" : "");
    for (size_t i = 0; i < ports.n && strcmp(got, "denied") != 0; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, "%u ", ports.p[i]);
    if (strcmp(got, want) != 0)
        FAIL("%s: '%s', not '%s'", name, got, want);
}

TEST(names_that_may_be_looked_up)
{
    const struct egress_snapshot *s = policy_compiled(web);

    check_name(s, "api.example.com", "443 ");
    check_name(s, "x.one.example.com", "80 443 ");
    check_name(s, "secret.attacker.test", "denied");
    check_name(s, "metadata.google.internal", "denied");
    check_name(policy_compiled(programs), "git.example.com", "443 ");
    check_name(policy_compiled("version: 1\nnetwork_policies:\n  a:\n    binaries: [{path: /**}]\n"
                               "    endpoints: [{port: 443, allowed_ips: [8.8.8.8]}]\n"),
               "x.example.com", "denied");
    check_name(policy_compiled("version: 1\nunlisted: {access: public}\n"), "x.example.com", "any");
}

/* A connection to a name through the proxy would cause a lookup. */
TEST(an_endpoint_without_a_host_is_for_addresses)
{
    static const char hostless[] = "version: 1\n%s"
                                   "network_policies:\n"
                                   "  a:\n"
                                   "    binaries: [{path: /**}]\n"
                                   "    endpoints: [{port: 443, allowed_ips: [8.8.8.0/24]}%s]\n";
    static const struct {
        const char *before, *also, *name, *address;
    } rows[] = {
        { "", "", "denied policy_denied", "allowed" },
        { "", ", {host: y.example.com, port: 443, allowed_ips: [8.8.8.0/24]}",
          "denied policy_denied", "allowed" },
        { "", ", {host: x.example.com, port: 443, allowed_ips: [8.8.8.0/24]}", "allowed",
          "allowed" },
        { "unlisted: {access: public}\n", "", "allowed", "allowed" },
    };
    char text[512];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct egress_snapshot *s;

        snprintf(text, sizeof text, hostless, rows[i].before, rows[i].also);
        s = policy_compiled(text);
        CHECK_STR(str_from(connect_text(s, "x.example.com:443", CURL)), rows[i].name);
        CHECK_STR(str_from(connect_text(s, "8.8.8.8:443", CURL)), rows[i].address);
    }
}

static const char addresses[] =
    "version: 1\n"
    "network_policies:\n"
    "  a:\n"
    "    binaries: [{path: /**}]\n"
    "    endpoints:\n"
    "    - {host: open.example.com, port: 443}\n"
    "    - {host: pinned.example.com, port: 443, allowed_ips: "
    "[93.184.216.0/24, 10.1.0.0/16, 10.2.0.1, 'fd00::5']}\n"
    "    - {host: 10.9.9.9, port: 443, allowed_ips: [10.9.9.9]}\n"
    "    - {host: 127.0.0.1, port: 8080, allowed_ips: [127.0.0.1]}\n"
    "    - {host: '::1', port: 81, allowed_ips: ['::1']}\n"
    "    - {host: wide.example.com, port: 443, allowed_ips: [8.0.0.0/5]}\n"
    "    - {host: shared.example.com, port: 443, allowed_ips: "
    "[100.100.100.0/24]}\n"
    "    - {port: 22, allowed_ips: [8.8.8.0/24]}\n";

static const char *addresses_text(const struct egress_snapshot *s, const char *destination,
                                  const char *list)
{
    struct egress_connect_query ask = ask_for(destination, CURL);
    struct str rest = str_from(list), one;
    struct address all[8];
    struct egress_match m;
    struct egress_reason why;
    size_t n = 0;

    if (egress_connect(s, &ask, &m, &why) != EGRESS_ALLOWED)
        FAIL("%s: %s", destination, why.text);
    while (rest.n) {
        rest = str_cut(rest, ' ', &one);
        CHECK(address_parse(one, &all[n++]));
    }
    return verdict_text(egress_addresses(&m, all, n, &why), &why);
}

TEST(addresses_that_may_be_dialled)
{
    static const char *const rows[][3] = {
        { "open.example.com:443", "93.184.216.34", "allowed" },
        { "open.example.com:443", "93.184.216.34 2606:2800:220:1::1", "allowed" },
        { "open.example.com:443", "", "denied no_address" },
        { "open.example.com:443", "93.184.216.34 10.0.0.1", "denied ssrf_denied" },
        { "open.example.com:443", "127.0.0.1", "denied ssrf_denied" },
        { "open.example.com:443", "::1", "denied ssrf_denied" },
        { "open.example.com:443", "::ffff:127.0.0.1", "denied ssrf_denied" },
        { "open.example.com:443", "::ffff:93.184.216.34", "denied ssrf_denied" },
        { "open.example.com:443", "64:ff9b::7f00:1", "denied ssrf_denied" },
        { "open.example.com:443", "0.0.0.0", "denied ssrf_denied" },
        { "open.example.com:443", "224.0.0.1", "denied ssrf_denied" },
        { "open.example.com:443", "100.64.0.1", "denied ssrf_denied" },
        { "open.example.com:443", "169.254.169.254", "denied metadata_denied" },
        { "open.example.com:443", "100.100.100.200", "denied metadata_denied" },
        { "open.example.com:443", "fd00:ec2::254", "denied metadata_denied" },
        { "pinned.example.com:443", "93.184.216.34", "allowed" },
        { "pinned.example.com:443", "10.2.0.1", "allowed" },
        { "pinned.example.com:443", "fd00::5", "allowed" },
        { "pinned.example.com:443", "10.1.0.1", "allowed" },
        { "pinned.example.com:443", "10.1.0.1 10.3.0.1", "denied address_not_allowed" },
        { "wide.example.com:443", "9.9.9.9", "allowed" },
        { "wide.example.com:443", "10.0.0.1", "denied ssrf_denied" },
        { "shared.example.com:443", "100.100.100.199", "allowed" },
        { "shared.example.com:443", "100.100.100.200", "denied metadata_denied" },
        { "pinned.example.com:443", "1.1.1.1", "denied address_not_allowed" },
        { "pinned.example.com:443", "10.2.0.2", "denied address_not_allowed" },
        { "10.9.9.9:443", "10.9.9.9", "allowed" },
        { "10.9.9.9:443", "10.9.9.8", "denied address_not_allowed" },
        { "127.0.0.1:8080", "127.0.0.1", "allowed" },
        { "[::1]:81", "::1", "allowed" },
        { "8.8.8.8:22", "8.8.8.8", "allowed" },
        { "8.8.8.8:22", "1.1.1.1", "denied address_not_allowed" },
        { "8.8.8.8:22", "8.8.8.8", "allowed" },
    };
    const struct egress_snapshot *s = policy_compiled(addresses);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *got = addresses_text(s, rows[i][0], rows[i][1]);

        if (strcmp(got, rows[i][2]) != 0)
            FAIL("%s at '%s': %s, not %s", rows[i][0], rows[i][1], got, rows[i][2]);
    }
}

static const char names_at_addresses[] =
    "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n"
    "    - {host: mirror.corp.example, port: 443, allowed_ips: [10.0.0.5, 'fd00::5']}\n"
    "    - {host: mirror.corp.example, port: 80}\n"
    "    - {host: range.corp.example, port: 443, allowed_ips: [10.0.0.0/8]}\n"
    "    - {host: mixed.corp.example, port: 443, allowed_ips: [10.0.0.5, 8.8.8.8]}\n"
    "    - {host: 127.0.0.1, port: 8080, allowed_ips: [127.0.0.1]}\n"
    "    - {host: '::1', ports: [8080, 8081], allowed_ips: ['::1']}\n";

/* The addresses that need no lookup. */
static const char *known_text(const struct egress_snapshot *s, const char *destination)
{
    static char out[128];
    struct egress_connect_query ask = ask_for(destination, CURL);
    char text[ADDRESS_TEXT_MAX];
    struct address list[4];
    struct egress_match m;
    struct egress_reason why;
    size_t n, at = 0;

    if (egress_connect(s, &ask, &m, &why) != EGRESS_ALLOWED)
        return verdict_text(EGRESS_DENIED, &why);
    n = egress_match_addresses(&m, list, COUNT_OF(list));
    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        address_text(&list[i], text);
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%s", i ? " " : "", text);
    }
    if (n && egress_addresses(&m, list, n, &why) != EGRESS_ALLOWED)
        FAIL("%s: %s", destination, why.text);
    return out;
}

TEST(names_are_where_the_policy_has_them)
{
    static const char *const rows[][2] = {
        { "mirror.corp.example:443", "10.0.0.5 fd00::5" },
        { "mirror.corp.example:80", "" },
        { "range.corp.example:443", "" },
        { "mixed.corp.example:443", "" },
        { "127.0.0.1:8080", "" },
        { "localhost:8080", "127.0.0.1" },
        { "host.sandboxer.internal:8080", "127.0.0.1" },
        { "host.sandboxer.internal:8081", "::1" },
        { "host.sandboxer.internal:8082", "denied port_not_allowed" },
        { "localhost:443", "denied port_not_allowed" },
        { "other.localhost:8080", "denied policy_denied" },
    };
    const struct egress_snapshot *s = policy_compiled(names_at_addresses);
    struct egress_ports ports;
    struct egress_reason why;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *got = known_text(s, rows[i][0]);

        if (strcmp(got, rows[i][1]) != 0)
            FAIL("%s: '%s', not '%s'", rows[i][0], got, rows[i][1]);
    }
    CHECK(egress_name_declared(s, STR("mirror.corp.example")));
    CHECK(egress_name_declared(s, STR("host.sandboxer.internal")));
    CHECK(!egress_name_declared(s, STR("range.corp.example")));
    CHECK_INT(egress_name(s, STR("host.sandboxer.internal"), &ports, &why), EGRESS_ALLOWED);
    CHECK_INT(ports.n, 2);
}

/* Loopback is granted by its address alone, not by what lets out to all the rest. */
TEST(loopback_has_to_be_granted)
{
    const struct egress_snapshot *s =
        policy_compiled("version: 1\nunlisted: {access: public}\nnetwork_policies:\n  a:\n"
                        "    endpoints: [{port: 443, allowed_ips: [8.8.8.0/24]}]\n");
    struct egress_ports ports;
    struct egress_reason why;

    CHECK_STR(str_from(known_text(s, "localhost:443")), "denied policy_denied");
    CHECK_STR(str_from(known_text(s, "host.sandboxer.internal:80")), "denied policy_denied");
    CHECK_INT(egress_name(s, STR("host.sandboxer.internal"), &ports, &why), EGRESS_DENIED);
    CHECK(strstr(why.next, "--allow 127.0.0.1:PORT"));
}

TEST(a_match_that_was_never_made_allows_nothing)
{
    struct egress_match m = { 0 };
    struct egress_reason why;
    struct address a = { .bytes = { 8, 8, 8, 8 } };

    CHECK_INT(egress_addresses(&m, &a, 1, &why), EGRESS_DENIED);
    CHECK_INT(egress_judge(&m, &(struct egress_action){ .kind = EGRESS_ACTION_NONE }, &why),
              EGRESS_DENIED);
}

TEST(what_is_unlisted)
{
    static const char policy[] =
        "version: 1\n"
        "unlisted: {access: public, denied_ips: [1.1.1.0/24, 8.8.8.0/24], allowed_ips: [8.8.8.8]}\n"
        "network_policies:\n  a:\n    binaries: [{path: /usr/bin/git}]\n"
        "    endpoints: [{host: git.example.com, port: 443}]\n";
    const struct egress_snapshot *s = policy_compiled(policy);

    CHECK_STR(str_from(addresses_text(s, "x.example.com:1234", "93.184.216.34")), "allowed");
    CHECK_STR(str_from(addresses_text(s, "x.example.com:443", "1.1.1.1")),
              "denied address_not_allowed");
    CHECK_STR(str_from(addresses_text(s, "x.example.com:443", "8.8.8.8")), "allowed");
    CHECK_STR(str_from(addresses_text(s, "x.example.com:443", "8.8.8.9")),
              "denied address_not_allowed");
    CHECK_STR(str_from(addresses_text(s, "x.example.com:443", "10.0.0.1")), "denied ssrf_denied");
    CHECK_STR(str_from(addresses_text(s, "1.2.3.4:53", "1.2.3.4")), "allowed");
    CHECK_STR(str_from(connect_text(s, "x.example.com:6443", CURL)), "denied control_plane_port");
    /* a host with an endpoint is listed, for every program */
    CHECK_STR(str_from(connect_text(s, "git.example.com:443", CURL)), "denied binary_not_allowed");
    CHECK_STR(str_from(connect_text(s, "git.example.com:80", CURL)), "allowed");
}

TEST(only_these_addresses)
{
    const struct egress_snapshot *s = policy_compiled(
        "version: 1\nunlisted: {allowed_ips: [8.8.8.0/24, 10.0.0.0/8, 10.1.1.1]}\n");

    CHECK_STR(str_from(addresses_text(s, "8.8.8.8:53", "8.8.8.8")), "allowed");
    CHECK_STR(str_from(addresses_text(s, "1.1.1.1:53", "1.1.1.1")), "denied policy_denied");
    CHECK_STR(str_from(addresses_text(s, "10.1.1.1:53", "10.1.1.1")), "allowed");
    CHECK_STR(str_from(connect_text(s, "dns.example.com:53", CURL)), "denied policy_denied");
    check_name(s, "dns.example.com", "denied");
    CHECK_STR(str_from(addresses_text(s, "10.1.1.2:53", "10.1.1.2")), "denied ssrf_denied");
}

/* Steps of the index for the same questions, with ten and with ten thousand endpoints that do not
 * match: names beside, below and above, wildcards, other ports, other paths. */
static size_t steps_with(int others, const char *destination)
{
    struct buf text = BUF_INIT(4 << 20);
    struct egress_match m;
    struct egress_reason why;
    struct egress_connect_query ask = ask_for(destination, CURL);

    CHECK(buf_addf(&text, "version: 1\nnetwork_policies:\n  a:\n    binaries: [{path: /**}]\n"
                          "    endpoints:\n    - {host: api.example.com, port: 443}\n"
                          "    - {host: '*.wild.example.com', port: 443}\n") == 0);
    for (int i = 0; i < others; i += 5) {
        CHECK(buf_addf(&text, "    - {host: h%d.example.com, port: 443}\n", i) == 0);
        CHECK(buf_addf(&text, "    - {host: '**.h%d.example.com', port: 443}\n", i) == 0);
        CHECK(buf_addf(&text, "    - {host: 'h%d-*.example.com', port: 443}\n", i) == 0);
        CHECK(buf_addf(&text, "    - {host: api.example.com, port: %d}\n", 20000 + i) == 0);
        CHECK(buf_addf(&text, "    - {host: '*.h%d.test.org', port: 443}\n", i) == 0);
    }
    (void)egress_connect(policy_compiled(text.p), &ask, &m, &why);
    buf_done(&text);
    return m.steps_;
}

TEST(cost_does_not_depend_on_what_does_not_match)
{
    static const char *const asked[] = { "api.example.com:443", "x.wild.example.com:443",
                                         "no.such.name.anywhere.test:443", "a.b.c.example.com:80" };

    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        size_t few = steps_with(10, asked[i]), many = steps_with(9990, asked[i]);

        /* a hash table has neighbours in the way now and then; 5 shapes of h1- … h9990- */
        if (many > 3 * few + 24)
            FAIL("%s takes %zu steps beside 10 endpoints and %zu beside 9990", asked[i], few, many);
    }
}
