/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/owner.h"

#include "harness/tap.h"

TEST(root_and_the_daemons_user_are_administrators)
{
    CHECK(owner_is_administrator("uid:0", 1000));
    CHECK(owner_is_administrator("uid:1000", 1000));
    CHECK(owner_is_administrator("uid:0", 0));
    CHECK(owner_is_administrator("uid:4294967295", (uid_t)-1));
}

TEST(nobody_else_is)
{
    static const char *const others[] = { "uid:1001", "uid:100", "uid:10000", "uid:00", "uid:01000",
                                          "uid: 0",   "uid:",    "0",         "root",   "tok_0",
                                          "UID:0",    "uid:0 ",  "uid:-0",    "" };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!owner_is_administrator(others[i], 1000));
}
