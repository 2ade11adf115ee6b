/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/names.h"

#include "harness/tap.h"

#define LABELS "aa.bb.cc.dd.ee.ff.gg.hh.ii.jj.kk.ll.mm"
#define FIFTY  "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee"

TEST(names_of_services_are_not_suspicious)
{
    static const char *const good[] = {
        "registry.npmjs.org",
        "objects.githubusercontent.com",
        "d111111abcdef8.cloudfront.net",
        "productionresultssa0.blob.core.windows.net",
        "ec2-203-0-113-25.compute-1.amazonaws.com",
        "my-bucket-with-a-long-name-2024.s3.dualstack.us-east-1.amazonaws.com",
        "localhost",
    };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (learn_name_suspicion(str_from(good[i])))
            FAIL("%s: %s", good[i], learn_name_suspicion(str_from(good[i])));
}

TEST(names_that_carry_data_are_suspicious)
{
    static const char *const bad[] = {
        "0123456789abcdef0123456789abcdef.evil.example",
        "a.nbswy3dpeb3w64tmmqqho2lunb2gk43u.evil.example",
        FIFTY ".evil.example",
        LABELS LABELS LABELS ".evil.example",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!learn_name_suspicion(str_from(bad[i])))
            FAIL("%s is not suspicious", bad[i]);
}

TEST(a_parent_has_two_labels_at_least)
{
    CHECK_STR(learn_name_parent(STR("a.example.com")), "example.com");
    CHECK_STR(learn_name_parent(STR("a.b.example.com")), "b.example.com");
    CHECK(learn_name_parent(STR("example.com")).n == 0);
    CHECK(learn_name_parent(STR("localhost")).n == 0);
}
