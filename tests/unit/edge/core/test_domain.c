/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/domain.h"

#include "base/own.h"
#include "harness/tap.h"

#define DOMAIN STR("sandboxes.test")
#define RANDOM "0123456789abcdefghjk"

TEST(names_of_the_domain)
{
    static const struct {
        const char *host, *id; /* NULL: ours */
        unsigned port;
    } good[] = {
        { "sandboxes.test", NULL, 0 },
        { "api.sandboxes.test", NULL, 0 },
        { "API.Sandboxes.TEST", NULL, 0 },
        { "8080-sbx_4k7.sandboxes.test", "sbx_4k7", 8080 },
        { "1-x.sandboxes.test", "x", 1 },
        { "65535-sbx-4k7.sandboxes.test", "sbx-4k7", 65535 },
        { "80-sbx" RANDOM ".sandboxes.test", "sbx" RANDOM, 80 },
        { "80-sbx_" RANDOM "-client.sandboxes.test", "sbx_" RANDOM, 80 },
        { "80-sbx" RANDOM "-client.sandboxes.test", "sbx" RANDOM, 80 },
        { "80-sbx-" RANDOM "-client.sandboxes.test", "sbx-" RANDOM, 80 },
        { "80-sbx-4k7-client.sandboxes.test", "sbx-4k7-client", 80 },
    };

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct domain_port p;

        CHECK(domain_read(str_from(good[i].host), DOMAIN, &p));
        CHECK_INT(p.port, good[i].port);
        CHECK((p.id.p == NULL) == (good[i].id == NULL));
        CHECK_STR(p.id, good[i].id ? good[i].id : "");
    }
}

TEST(names_that_are_none)
{
    static const char *const bad[] = {
        "",
        ".",
        "test",
        "andboxes.test",
        ".sandboxes.test",
        "xsandboxes.test",
        "sandboxes.test.",
        "x.sandboxes.test",
        "sandboxes.test.evil.test",
        "8080-a.evil.test",
        "0-a.sandboxes.test",
        "65536-a.sandboxes.test",
        "+1-a.sandboxes.test",
        "8080-.sandboxes.test",
        "-a.sandboxes.test",
        "x-a.sandboxes.test",
        "99999999999999999999-a.sandboxes.test",
        "127.0.0.1",
        "localhost",
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct domain_port p;

        CHECK(!domain_read(str_from(bad[i]), DOMAIN, &p));
    }
}
