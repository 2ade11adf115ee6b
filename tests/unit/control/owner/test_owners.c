/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/owners.h"

#include <stdio.h>

#include "control/plane/plane.h"
#include "unit/control/fixture.h"

static struct map owners;

TEST(each_owner_is_counted_for_itself)
{
    struct owner *a = owner_join(&owners, "uid:1"), *b = owner_join(&owners, "uid:2");

    CHECK(a != b && owner_join(&owners, "uid:1") == a);
    CHECK_INT(owner_count(&owners, "uid:1"), 2);
    CHECK_INT(owner_count(&owners, "uid:2"), 1);
    CHECK_INT(owner_count(&owners, "uid:3"), 0);
    a->failed++;
    CHECK_INT(owner_count(&owners, "uid:1"), 1);
    a->failed--;
    owner_leave(&owners, b);
    owner_leave(&owners, a);
    CHECK_INT(owner_count(&owners, "uid:2"), 0);
    CHECK_INT(owners.n, 1);
    owner_leave(&owners, a);
    CHECK_INT(owners.n, 0);
    map_done(&owners);
}

static int answered, result;
static struct err why;

static void on_created(struct create_op *op, int r, const struct err *told)
{
    answered++;
    result = r;
    why = told ? *told : (struct err){ 0 };
}

/* instead: only whether it could be created in that one's place is asked. */
static int create_in_place_of(const struct sandbox *instead, const char *owner, const char *family)
{
    struct caller who = fix.caller;
    struct create_request q = { .profile = "profile.fake" };
    struct create_op op = {
        .caller = &who, .request = &q, .instead_of = instead, .done = on_created
    };
    int before = answered;

    snprintf(who.owner, sizeof who.owner, "%s", owner);
    snprintf(who.family, sizeof who.family, "%s", family);
    control_create(fix.control, &op);
    WAIT_FOR(answered > before);
    arena_done(&op.arena);
    return result;
}

static int create_with(const char *owner, const char *family)
{
    return create_in_place_of(NULL, owner, family);
}

static int create_as(const char *owner)
{
    return create_with(owner, "");
}

TEST(one_who_has_enough_is_refused_and_others_are_not)
{
    struct sandbox *s;

    plane_open();
    fix.config.limits.sandboxes_per_owner = 2;
    s = new_sandbox();
    CHECK_INT(create_as("uid:1000"), 0);
    CHECK_INT(create_as("uid:1000"), -ERR_QUOTA);
    CHECK(strstr(why.msg, "uid:1000 has 2 sandboxes"));
    CHECK_INT(create_as("uid:1001"), 0);
    destroy(s);
    sandbox_unref(s);
    CHECK_INT(create_as("uid:1000"), 0);
    CHECK_INT(create_as("uid:1000"), -ERR_QUOTA);
    plane_close();
    plane_open(); /* those of an earlier life count */
    CHECK_INT(create_as("uid:1000"), -ERR_QUOTA);
    CHECK_INT(create_as("uid:1001"), 0);
    CHECK_INT(create_as("uid:1001"), -ERR_QUOTA);
    plane_close();
}

TEST(without_a_limit_for_each_an_owner_has_a_quarter)
{
    plane_open();
    fix.config.limits.sandboxes_max = 8;
    CHECK_INT(create_as("uid:1000"), 0);
    CHECK_INT(create_as("uid:1000"), 0);
    CHECK_INT(create_as("uid:1000"), -ERR_QUOTA);
    CHECK(strstr(why.msg, "uid:1000 has 2 sandboxes"));
    plane_close();
}

TEST(a_sixteenth_is_left_to_administrators_on_the_unix_socket)
{
    plane_open();
    fix.config.limits.sandboxes_max = 16;
    fix.config.limits.sandboxes_per_owner = 16;
    for (int i = 0; i < 15; i++)
        CHECK_INT(create_as("uid:1000"), 0);
    CHECK_INT(create_as("uid:1000"), -ERR_BUSY);
    CHECK_INT(create_with("uid:0", "tok_1"), -ERR_BUSY);
    CHECK(strstr(why.msg, "limits.sandboxes_max"));
    CHECK_INT(create_as("uid:0"), 0);
    CHECK_INT(create_as("uid:0"), -ERR_BUSY);
    plane_close();
}

TEST(a_family_of_an_administrators_tokens_has_the_share_of_an_owner)
{
    plane_open();
    fix.config.limits.sandboxes_per_owner = 2;
    for (int i = 0; i < 2; i++)
        CHECK_INT(create_with("uid:0", "tok_1"), 0);
    for (int round = 0; round < 2; round++) {
        CHECK_INT(create_with("uid:0", "tok_1"), -ERR_QUOTA);
        CHECK(strstr(why.msg, "family:tok_1 has 2 sandboxes"));
        plane_close();
        plane_open(); /* those of an earlier life count */
        fix.config.limits.sandboxes_per_owner = 2;
    }
    CHECK_INT(create_with("uid:0", "tok_2"), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(create_as("uid:0"), 0);
    plane_close();
}

TEST(one_family_of_tokens_leaves_sandboxes_to_another)
{
    plane_open();
    fix.config.limits.sandboxes_per_owner = 4;
    for (int i = 0; i < 3; i++)
        CHECK_INT(create_with("uid:1001", "tok_1"), 0);
    for (int round = 0; round < 2; round++) {
        CHECK_INT(create_with("uid:1001", "tok_1"), -ERR_QUOTA);
        CHECK(strstr(why.msg, "this token's family has 3 of 3 sandboxes"));
        CHECK(strstr(why.msg, "limits.sandboxes_per_owner"));
        plane_close();
        plane_open(); /* those of an earlier life count */
        fix.config.limits.sandboxes_per_owner = 4;
    }
    CHECK_INT(create_with("uid:1001", "tok_2"), 0);
    CHECK_INT(create_with("uid:1001", "tok_2"), -ERR_QUOTA);
    CHECK(strstr(why.msg, "uid:1001 has 4 sandboxes"));
    plane_close();
}

/* A sandbox of another owner makes no place. */
TEST(a_recreate_has_the_place_of_the_one_that_it_replaces)
{
    struct sandbox *s;

    plane_open();
    fix.config.limits.sandboxes_per_owner = 2;
    s = new_sandbox();
    CHECK_INT(create_as("uid:1000"), 0);
    CHECK_INT(create_as("uid:1000"), -ERR_QUOTA);
    CHECK_INT(create_in_place_of(s, "uid:1000", ""), 0);
    for (int i = 0; i < 2; i++)
        CHECK_INT(create_as("uid:1001"), 0);
    CHECK_INT(create_in_place_of(s, "uid:1001", ""), -ERR_QUOTA);
    sandbox_unref(s);

    fix.config.limits.sandboxes_per_owner = 16;
    snprintf(fix.caller.family, sizeof fix.caller.family, "tok_1");
    s = new_sandbox();
    for (int i = 1; i < 14; i++)
        CHECK_INT(create_with("uid:1000", "tok_1"), 0);
    fix.config.limits.sandboxes_per_owner = 17;
    CHECK_INT(create_with("uid:1000", "tok_1"), -ERR_QUOTA);
    CHECK(strstr(why.msg, "this token's family has"));
    CHECK_INT(create_in_place_of(s, "uid:1000", "tok_1"), 0);

    fix.config.limits.sandboxes_max = (uint32_t)fix.control->sandboxes.n + 1; /* less a sixteenth */
    fix.config.limits.sandboxes_per_owner = 1000;
    CHECK_INT(create_with("uid:1000", "tok_1"), -ERR_BUSY);
    CHECK_INT(create_in_place_of(s, "uid:1000", "tok_1"), 0);
    sandbox_unref(s);
    plane_close();
}

/* It is in memory as long as a request shows it. */
TEST(one_that_is_destroyed_takes_no_place)
{
    struct sandbox *s;

    plane_open();
    fix.config.limits.sandboxes_max = 1000;
    fix.config.limits.sandboxes_per_owner = 1;
    s = new_sandbox();
    CHECK_INT(create_as("uid:1000"), -ERR_QUOTA);
    destroy(s);
    CHECK_INT(create_as("uid:1000"), 0);
    sandbox_unref(s);
    CHECK_INT(create_as("uid:1000"), -ERR_QUOTA);
    plane_close();
}
