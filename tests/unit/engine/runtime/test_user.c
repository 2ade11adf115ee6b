/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/user.h"

#include "base/own.h"
#include "base/str.h"
#include "harness/tap.h"

TEST(users_by_name_and_number)
{
    struct user u;
    struct err e;

    CHECK_OK(user_parse("agent", &u, &e), e);
    CHECK_STR(str_from(u.name), "agent");
    CHECK_OK(user_parse("1000", &u, &e), e);
    CHECK(!u.name && u.uid == 1000 && u.gid == 1000);
    CHECK_OK(user_parse("1:0", &u, &e), e);
    CHECK(!u.name && u.uid == 1 && u.gid == 0);
}

TEST(what_is_no_user_is_refused)
{
    static const char *const bad[] = { "",
                                       ":",
                                       "1:",
                                       "a:b",
                                       "65536",
                                       "1:65536",
                                       "1:2:3",
                                       "-1",
                                       "12x",
                                       "99999999999999999999",
                                       "a-name-that-is-longer-than-thirty-two-bytes" };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct user u;
        struct err e = { 0 };
        int r = user_parse(bad[i], &u, &e);

        if (i == 7) /* a name, as far as we know; the sandbox will not know it */
            CHECK_INT(r, 0);
        else if (r != -ERR_INVALID)
            FAIL("'%s' is taken for a user", bad[i]);
    }
}

TEST(names_of_ours_have_numbers)
{
    struct user user = { .name = "user" }, nobody = { .name = "nobody" };
    struct user other = { .name = "agent" }, number = { .uid = 7, .gid = 8 };

    user_number(&user);
    CHECK(user.uid == 1000 && user.gid == 1000);
    user_number(&nobody);
    CHECK(nobody.uid == 65534 && nobody.gid == 65534);
    user_number(&other);
    CHECK(other.uid == 0 && other.gid == 0);
    user_number(&number);
    CHECK(number.uid == 7 && number.gid == 8);
}
