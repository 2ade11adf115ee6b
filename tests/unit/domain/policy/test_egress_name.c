/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"

static const char policy[] =
    "version: 1\n"
    "network_policies:\n"
    "  web:\n"
    "    endpoints:\n"
    "      - {host: api.example.com, port: 443}\n"
    "      - {host: api.example.com, port: 5432, allowed_ips: [93.184.216.35]}\n"
    "      - {host: '*.example.com', port: 80}\n"
    "    binaries:\n"
    "      - {path: /usr/bin/curl}\n";

/* The remaining ports for these addresses, or the reason for the denial. */
static const char *of(const char *yaml, const char *name, const char *first, const char *second)
{
    static char text[128];
    const struct egress_snapshot *s = policy_compiled(yaml);
    struct address list[2];
    struct egress_ports ports;
    struct egress_reason why;
    size_t n = 0;

    if (first)
        CHECK(address_parse(str_from(first), &list[n++]));
    if (second)
        CHECK(address_parse(str_from(second), &list[n++]));
    if (egress_name_addresses(s, str_from(name), list, n, &ports, &why) == EGRESS_DENIED) {
        CHECK(ports.n == 0 && !ports.any && *why.text && *why.next);
        return why.code;
    }
    if (ports.any)
        return "any";
    n = 0;
    for (size_t i = 0; i < ports.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u", i ? " " : "", ports.p[i]);
    return text;
}

TEST(ports_of_the_endpoints_that_take_all_addresses)
{
    CHECK_STR(str_from(of(policy, "api.example.com", "93.184.216.34", NULL)), "80 443");
    CHECK_STR(str_from(of(policy, "api.example.com", "93.184.216.35", NULL)), "80 443 5432");
    CHECK_STR(str_from(of(policy, "api.example.com", "10.0.0.5", NULL)), "ssrf_denied");
    CHECK_STR(str_from(of(policy, "other.example.com", "93.184.216.34", NULL)), "80");
}

TEST(one_bad_address_refuses)
{
    CHECK_STR(str_from(of(policy, "api.example.com", "10.0.0.5", "93.184.216.34")), "ssrf_denied");
    CHECK_STR(str_from(of(policy, "other.example.com", "93.184.216.34", "127.0.0.1")),
              "ssrf_denied");
    CHECK_STR(str_from(of(policy, "other.example.com", "::ffff:10.0.0.5", NULL)), "ssrf_denied");
    CHECK_STR(str_from(of(policy, "other.example.com", "169.254.169.254", NULL)),
              "metadata_denied");
    CHECK_STR(str_from(of(policy, "other.example.com", NULL, NULL)), "no_address");
    CHECK_STR(str_from(of(policy, "example.org", "93.184.216.34", NULL)), "policy_denied");
}

TEST(what_is_unlisted)
{
    static const char open[] = "version: 1\nunlisted: {access: public}\n";

    CHECK_STR(str_from(of(open, "example.org", "93.184.216.34", NULL)), "any");
    CHECK_STR(str_from(of(open, "example.org", "10.0.0.5", NULL)), "ssrf_denied");
}
