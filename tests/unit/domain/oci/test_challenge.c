/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/challenge.h"

#include "base/own.h"
#include "harness/tap.h"

static struct oci_challenge c;
static struct err e;

TEST(a_bearer_challenge)
{
    CHECK_OK(oci_challenge_parse(STR("Bearer realm=\"https://auth.example/token?x=1,2\", "
                                     "service=\"r.example\",scope=\"repository:a/b:pull\""),
                                 &c, &e),
             e);
    CHECK(c.bearer);
    CHECK_STR(str_from(c.realm), "https://auth.example/token?x=1,2");
    CHECK_STR(str_from(c.service), "r.example");
    CHECK_STR(str_from(c.scope), "repository:a/b:pull");
}

TEST(bearer_wins_over_basic)
{
    CHECK_OK(oci_challenge_parse(STR("Basic realm=\"x\", bearer REALM=y"), &c, &e), e);
    CHECK(c.bearer);
    CHECK_STR(str_from(c.realm), "y");
    CHECK_OK(oci_challenge_parse(STR("Digest realm=\"a\", Basic realm=\"b \\\"c\\\"\""), &c, &e),
             e);
    CHECK(!c.bearer);
    CHECK_STR(str_from(c.realm), "b \"c\"");
}

TEST(a_scheme_without_parameters)
{
    CHECK_OK(oci_challenge_parse(STR("Basic"), &c, &e), e);
    CHECK(!c.bearer);
}

TEST(what_is_no_challenge_is_refused)
{
    static const struct str bad[] = {
        STR(""),
        STR("Bearer"),
        STR("Bearer service=\"x\""),
        STR("Bearer realm=\"x"),
        STR("Bearer realm=\"x\\"),
        STR("Bearer realm=\"x\ny\""),
        STR("\"Bearer\""),
        STR(",,,"),
        STR("Bearer realm=\"x\" \"y\""),
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (oci_challenge_parse(bad[i], &c, &e) != -ERR_INVALID)
            FAIL("'" STR_FMT "' is taken", STR_ARG(bad[i]));
    CHECK(oci_challenge_parse(STR("Negotiate"), &c, &e) == -ERR_UNSUPPORTED);
}

TEST(a_long_value_is_refused)
{
    char text[OCI_CHALLENGE_TEXT_MAX + 64] = "Bearer realm=\"";

    memset(text + 14, 'a', sizeof text - 15);
    text[sizeof text - 1] = '"';
    CHECK(oci_challenge_parse((struct str){ text, sizeof text }, &c, &e) == -ERR_INVALID);
}
