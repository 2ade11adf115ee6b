#include "profile/egress.h"

#include "harness/tap.h"
#include "profile/profile.h"

TEST(hosts)
{
    static const struct {
        const char *host;
        bool good;
    } rows[] = {
        { "example.com", true },
        { "API.Example.com", true },
        { "localhost", true },
        { "*.example.com", true },
        { "**.example.com", true },
        { "*-api.example.com", true },
        { "192.0.2.7", true },
        { "2001:db8::1", true },
        { "", false },
        { "*", false },
        { "**", false },
        { "*.com", false },
        { "**.com", false },
        { "***.example.com", false },
        { "a**.example.com", false },
        { "api.*.example.com", false },
        { "example.com.", false },
        { ".example.com", false },
        { "a..b", false },
        { "-a.example.com", false },
        { "a b.example.com", false },
        { "[::1]", false },
        { "127.1", false },
        { "2130706433", false },
        { "0x7f.1", false },
        { "0177.0.0.1", false },
        { "example.com:443", false },
        { "https://example.com", false },
        { "user@example.com", false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (egress_host_valid(str_from(rows[i].host)) != rows[i].good)
            FAIL("'%s' should be %s", rows[i].host, rows[i].good ? "good" : "bad");
}

TEST(prefixes)
{
    CHECK(egress_prefix_valid(STR("10.1.0.0/16")));
    CHECK(egress_prefix_valid(STR("192.0.2.7")));
    CHECK(egress_prefix_valid(STR("2001:db8::/32")));
    CHECK(egress_prefix_valid(STR("::/128")));
    CHECK(!egress_prefix_valid(STR("10.1.0.0/33")));
    CHECK(!egress_prefix_valid(STR("2001:db8::/129")));
    CHECK(!egress_prefix_valid(STR("10.1.0.0/")));
    CHECK(!egress_prefix_valid(STR("10.1/16")));
    CHECK(!egress_prefix_valid(STR("example.com")));
}

TEST(endpoints_are_read)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const struct egress_endpoint *ep;
    struct err e;

    CHECK_OK(profile_read(STR("id: profile.x\nversion: 1\nnetwork:\n  egress:\n"
                              "  - host: packages.example.org\n    ports: [80, 443]\n"
                              "    protocol: rest\n    access: read-only\n"
                              "    binaries: [/usr/bin/apt]\n    allowed_ips: [192.0.2.0/24]\n"
                              "  - {host: example.com, ports: [22]}\n"),
                          &p, &e),
             e);
    CHECK_INT(p->network.egress.n, 2);
    ep = p->network.egress.p;
    CHECK_STR(str_from(ep[0].host), "packages.example.org");
    CHECK_INT(ep[0].port_count, 2);
    CHECK_INT(ep[0].ports[1], 443);
    CHECK_INT(ep[0].protocol, EGRESS_REST);
    CHECK_INT(ep[0].access, EGRESS_READ_ONLY);
    CHECK_INT(ep[0].enforcement, EGRESS_ENFORCE);
    CHECK_INT(ep[1].protocol, EGRESS_TCP);
    CHECK_INT(ep[1].ports[0], 22);
}
