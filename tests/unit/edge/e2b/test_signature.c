/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/signature.h"
#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

/* As the SDK's getSignature() makes them. */
TEST(signatures_are_those_of_the_sdk)
{
    const struct signed_link plain = { .path = STR("/a"),
                                       .user = STR("user"),
                                       .operation = "read" };
    const struct signed_link until = {
        .path = STR("x"), .user = STR(""), .operation = "write", .expires = STR("1700000000")
    };
    char text[SIGNATURE_TEXT];

    CHECK(signature_make(&plain, STR("secret"), text));
    CHECK_STR(str_from(text), "v1_/8nsfhagrrysjWi5ctOoRYzl/ELsT7BUR7ryFIPSIwY");
    CHECK(signature_make(&until, STR("secret"), text));
    CHECK_STR(str_from(text), "v1_8vAt0S4klSZRR+cplBQNfidK9yA0Cby+D7qR8Bk/DTo");
    CHECK(signature_good(&until, STR("secret"), str_from(text)));
    CHECK(!signature_good(&plain, STR("secret"), str_from(text)));
    CHECK(!signature_good(&until, STR("Secret"), str_from(text)));
    CHECK(!signature_good(&until, STR("secret"), STR("")));
}

TEST(time_runs_out)
{
    const struct signed_link never = { .expires = { NULL, 0 } };
    const struct signed_link until = { .expires = STR("100") };
    const struct signed_link odd = { .expires = STR("1e9") };

    CHECK(!signature_expired(&never, INT64_MAX));
    CHECK(!signature_expired(&until, 100 * NS_PER_S));
    CHECK(signature_expired(&until, 101 * NS_PER_S));
    CHECK(signature_expired(&odd, 0));
}

TEST(a_malformed_signature_is_compared_with_none)
{
    static const char *const bad[] = {
        "",
        "v1_",
        "v2_/8nsfhagrrysjWi5ctOoRYzl/ELsT7BUR7ryFIPSIwY",
        "v1_/8nsfhagrrysjWi5ctOoRYzl/ELsT7BUR7ryFIPSIw",
        "v1_/8nsfhagrrysjWi5ctOoRYzl/ELsT7BUR7ryFIPSIwYY",
        "v1_/8nsfhagrrysjWi5ctOoRYzl/ELsT7BUR7ryFIPSIw=",
        "v1_/8nsfhagrrysjWi5ctOoRYzl-ELsT7BUR7ryFIPSIwY",
    };

    CHECK(signature_well_formed(STR("v1_/8nsfhagrrysjWi5ctOoRYzl/ELsT7BUR7ryFIPSIwY")));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!signature_well_formed(str_from(bad[i])));
}
