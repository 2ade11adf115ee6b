/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/owner_share.h"

#include <string.h>

#include "control/plane/plane.h"
#include "harness/tap.h"
#include "engine/runtime/cgroup.h"

TEST(every_owner_has_a_key_that_control_groups_take)
{
    static const char *const owners[] = { "uid:1000",
                                          "uid-1000",
                                          "UID:1000",
                                          "",
                                          "..",
                                          "a/b",
                                          "tok_1",
                                          "uid:10000000000000000000000000000000000000001",
                                          "uid:10000000000000000000000000000000000000002",
                                          "ä\n" };
    char keys[COUNT_OF(owners)][BACKEND_OWNER_MAX];

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        owner_share_key(owners[i], keys[i]);
        if (!cgroup_owner_key_valid(keys[i], BACKEND_OWNER_MAX))
            FAIL("%s", keys[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(keys[i], keys[k]) == 0)
                FAIL("'%s' and '%s' have one key", owners[i], owners[k]);
    }
    CHECK(str_starts(str_from(keys[0]), STR("o-uid-1000.")));
}

TEST(an_owner_has_a_part_of_the_machine_unless_it_is_said_otherwise)
{
    struct config config = { 0 };
    struct control c = { .config = &config, .owner = 7 };
    struct backend_owner o;

    owner_share_open(&c);
    CHECK(c.share.memory > 0 && c.share.pids > 0);
    owner_share_of(&c, "uid:1000", &o);
    CHECK(o.memory == c.share.memory && o.pids == c.share.pids);
    CHECK(o.cpu_milli == 0 && o.io == 0);
    config.limits.owner.memory = 1 << 30;
    config.limits.owner.pids = 50;
    config.limits.owner.cpu = 1.5;
    config.limits.owner.io = 9;
    owner_share_of(&c, "uid:1000", &o);
    CHECK(o.memory == 1 << 30 && o.pids == 50 && o.cpu_milli == 1500 && o.io == 9);
}

TEST(administrators_have_no_limits_as_owners)
{
    struct config config = { .limits.owner = { .memory = 1 << 20, .pids = 5, .cpu = 1, .io = 1 } };
    struct control c = { .config = &config, .owner = 7 };
    static const char *const owners[] = { "uid:0", "uid:7" };
    struct backend_owner o;

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        owner_share_of(&c, owners[i], &o);
        CHECK(o.key[0] && o.memory == 0 && o.pids == 0 && o.cpu_milli == 0 && o.io == 0);
    }
}

TEST(a_family_of_an_administrators_tokens_is_an_account_like_an_owner)
{
    struct config config = { .limits.owner = { .memory = 1 << 20, .pids = 5, .cpu = 1, .io = 1 } };
    struct control c = { .config = &config, .owner = 7 };
    static const struct {
        const char *owner, *family, *name, *part;
        bool exempt;
    } rows[] = {
        { "uid:0", "", "uid:0", "", true },
        { "uid:7", "", "uid:7", "", true },
        { "uid:0", "tok_1", "family:tok_1", "", false },
        { "uid:7", "tok_2", "family:tok_2", "", false },
        { "uid:1000", "", "uid:1000", "", false },
        { "uid:1000", "tok_3", "uid:1000", "tok_3", false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct account a = account_of(&c, rows[i].owner, rows[i].family);
        struct backend_owner o;

        CHECK_STR(str_from(a.name), rows[i].name);
        CHECK(str_eq(a.part, str_from(rows[i].part)));
        CHECK_INT(a.exempt, rows[i].exempt);
        owner_share_of(&c, a.name, &o);
        CHECK_INT(o.pids, rows[i].exempt ? 0 : 5);
    }
}
