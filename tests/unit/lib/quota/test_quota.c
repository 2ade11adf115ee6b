/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/quota.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

static struct quota b;
static struct err e;

static void open_quota(struct quota_limits l)
{
    quota_init(&b, &l, "things", "limits.things", "limits.things_per_owner");
}

static int take(const char *key, const char *part, bool privileged, uint64_t n,
                struct quota_hold *h)
{
    const struct quota_who who = { .key = str_from(key),
                                   .parts = { str_from(part) },
                                   .privileged = privileged };

    return quota_take(&b, &who, n, h, &e);
}

TEST(a_caller_has_its_share_and_no_more)
{
    struct quota_hold h[3] = { 0 };

    open_quota((struct quota_limits){ .total = 10, .share = 4 });
    CHECK_INT(take("a", "", false, 3, &h[0]), 0);
    CHECK_INT(take("a", "", false, 2, &h[1]), -ERR_QUOTA);
    CHECK(strstr(e.msg, "limits.things_per_owner") && strstr(e.msg, "3 of 4 things"));
    CHECK(!h[1].share);
    CHECK_INT(take("a", "", false, 1, &h[1]), 0);
    CHECK_INT(take("b", "", false, 4, &h[2]), 0);
    CHECK_INT(b.used, 8);
    CHECK_INT(b.refused, 1);
    quota_drop(&h[0]);
    CHECK_INT(quota_used(&b, STR("a")), 1);
    CHECK_INT(take("a", "", false, 3, &h[0]), 0);
    for (int i = 0; i < 3; i++)
        quota_drop(&h[i]);
    CHECK_INT(b.used, 0);
    CHECK_INT(b.shares_.n, 0); /* who holds nothing costs nothing */
    quota_done(&b);
}

TEST(all_callers_together_leave_the_reserve_to_the_privileged)
{
    struct quota_hold h[4] = { 0 };

    open_quota((struct quota_limits){ .total = 10, .reserve = 2, .share = 4 });
    CHECK_INT(take("a", "", false, 4, &h[0]), 0);
    CHECK_INT(take("b", "", false, 4, &h[1]), 0);
    CHECK_INT(take("c", "", false, 1, &h[2]), -ERR_BUSY);
    CHECK(strstr(e.msg, "limits.things)"));
    CHECK_INT(take("root", "", true, 2, &h[3]), 0);
    CHECK_INT(quota_grow(&h[3], 1, &e), -ERR_BUSY); /* the total is the total */
    quota_drop(&h[0]);
    CHECK_INT(quota_grow(&h[3], 4, &e), 0); /* no share limits it */
    CHECK_INT(h[3].n, 6);
    for (int i = 0; i < 4; i++)
        quota_drop(&h[i]);
    quota_done(&b);
}

TEST(one_token_leaves_something_to_its_owners_others)
{
    struct quota_hold h[3] = { 0 };

    open_quota((struct quota_limits){ .total = 100, .share = 8, .parts = { { .limit = 6 } } });
    CHECK_INT(take("a", "tok_1", false, 6, &h[0]), 0);
    CHECK_INT(take("a", "tok_1", false, 1, &h[1]), -ERR_QUOTA);
    CHECK(strstr(e.msg, "this token's family has 6 of 6 things (a token's part: seven eighths of "
                        "limits.things_per_owner)"));
    CHECK_INT(take("a", "tok_2", false, 2, &h[1]), 0);
    CHECK_INT(take("a", "", false, 1, &h[2]), -ERR_QUOTA);
    quota_drop(&h[0]);
    quota_drop(&h[1]);
    CHECK_INT(b.shares_.n, 0);
    quota_done(&b);
}

TEST(a_token_has_at_most_seven_eighths_and_at_least_one)
{
    static const struct {
        uint64_t share, part;
    } rows[] = { { 0, 0 },   { 1, 1 },   { 2, 1 },       { 3, 2 },
                 { 8, 7 },   { 9, 7 },   { 16, 14 },     { 1000, 875 },
                 { 17, 14 }, { 64, 56 }, { 2500, 2187 }, { UINT64_MAX, UINT64_MAX / 8 * 7 + 6 } };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_INT(quota_token_part(rows[i].share), rows[i].part);
}

static const struct quota_limits two_parts = {
    .total = 100,
    .share = 16,
    .parts = { { .limit = 14 },
               { .limit = 6, .whose = "this sandbox has", .key = "limits.things_per_sandbox" } }
};

static struct quota_who in_parts(const char *token, const char *sandbox)
{
    return (struct quota_who){ .key = STR("a"), .parts = { str_from(token), str_from(sandbox) } };
}

static void check_used(uint64_t all, uint64_t token, uint64_t sandbox)
{
    CHECK_INT(b.used, all);
    CHECK_INT(quota_used(&b, STR("a")), all);
    CHECK_INT(quota_used(&b, STR("tok_1")), token);
    CHECK_INT(quota_used(&b, STR("sbx_1")), sandbox);
}

TEST(each_part_has_its_own_limit_and_words)
{
    const struct quota_who one = in_parts("tok_1", "sbx_1"), two = in_parts("tok_1", "sbx_2"),
                           three = in_parts("tok_1", "sbx_3"), other = in_parts("tok_2", "sbx_4");
    struct quota_hold h[4] = { 0 };

    open_quota(two_parts);
    CHECK_INT(quota_take(&b, &one, 6, &h[0], &e), 0);
    CHECK_INT(quota_grow(&h[0], 1, &e), -ERR_QUOTA);
    CHECK(strstr(e.msg, "this sandbox has 6 of 6 things (limits.things_per_sandbox)"));
    CHECK_INT(quota_take(&b, &two, 6, &h[1], &e), 0);
    CHECK_INT(quota_room(&b, &three), 2);
    CHECK(quota_part_refuses(&b, &three, 3) && !quota_part_refuses(&b, &three, 2));
    CHECK_INT(quota_take(&b, &three, 3, &h[2], &e), -ERR_QUOTA);
    CHECK(strstr(e.msg, "this token's family has 12 of 14 things (a token's part: seven eighths of "
                        "limits.things_per_owner)"));
    CHECK_INT(quota_take(&b, &three, 2, &h[2], &e), 0);
    CHECK_INT(quota_room(&b, &other), 2); /* of the owner's share */
    CHECK_INT(quota_take(&b, &other, 2, &h[3], &e), 0);
    CHECK_INT(quota_grow(&h[3], 1, &e), -ERR_QUOTA);
    CHECK(strstr(e.msg, "this caller has 16 of 16"));
    for (int i = 0; i < 4; i++)
        quota_drop(&h[i]);
    CHECK_INT(b.shares_.n, 0);
    quota_done(&b);
}

TEST(a_refusal_of_a_part_changes_nothing_else)
{
    const struct quota_who one = in_parts("tok_1", "sbx_1"), two = in_parts("tok_1", "sbx_2");
    struct quota_hold h[2] = { 0 };
    size_t shares;

    open_quota(two_parts);
    CHECK_INT(quota_take(&b, &one, 5, &h[0], &e), 0);
    shares = b.shares_.n;
    CHECK_INT(quota_grow(&h[0], 2, &e), -ERR_QUOTA); /* the second part's */
    CHECK_INT(quota_take(&b, &two, 7, &h[1], &e), -ERR_QUOTA);
    CHECK_INT(quota_grow(&h[0], 200, &e), -ERR_QUOTA);
    CHECK_INT(quota_grow(&h[0], UINT64_MAX, &e), -ERR_QUOTA);
    check_used(5, 5, 5);
    CHECK_INT(h[0].n, 5);
    CHECK(!h[1].share && !h[1].parts[0] && !h[1].parts[1]);
    CHECK_INT(b.shares_.n, shares);
    CHECK_INT(b.refused, 4);
    quota_drop(&h[0]);
    quota_done(&b);
}

TEST(parts_follow_what_a_hold_does)
{
    const struct quota_who one = in_parts("tok_1", "sbx_1"), only = in_parts("", "sbx_1"),
                           admin = { .key = STR("a"),
                                     .parts = { STR("tok_1"), STR("sbx_1") },
                                     .privileged = true };
    struct quota_hold h[2] = { 0 };

    open_quota(two_parts);
    CHECK_INT(quota_take(&b, &one, 1, &h[0], &e), 0);
    CHECK(quota_is_of(&h[0], &b, &one) && !quota_is_of(&h[0], &b, &only));
    CHECK_INT(quota_grow(&h[0], 3, &e), 0);
    check_used(4, 4, 4);
    quota_force(&h[0], 40); /* whatever the limits */
    check_used(44, 44, 44);
    CHECK_INT(quota_room(&b, &one), 0);
    quota_shrink(&h[0], 41);
    check_used(3, 3, 3);
    CHECK_INT(quota_take(&b, &only, 2, &h[1], &e), 0); /* a user's: no token's part */
    check_used(5, 3, 5);
    quota_drop(&h[1]);
    CHECK_INT(quota_take(&b, &admin, 20, &h[1], &e), 0); /* neither share nor part limits it */
    CHECK(!quota_part_refuses(&b, &admin, 1000));
    CHECK(quota_room(&b, &admin) == UINT64_MAX);
    quota_drop(&h[1]);
    quota_drop(&h[0]);
    quota_charge(&b, &one, 50, &h[0]);
    check_used(50, 50, 50);
    quota_drop(&h[0]);
    check_used(0, 0, 0);
    CHECK_INT(b.shares_.n, 0);
    quota_done(&b);
}

TEST(holds_grow_shrink_and_know_whose_they_are)
{
    const struct quota_who a = { .key = STR("a") }, t = { .key = STR("a"), .parts = { STR("t") } };
    struct quota_hold h = { 0 };

    open_quota((struct quota_limits){ .total = 10, .share = 5 });
    CHECK_INT(quota_take(&b, &a, 1, &h, &e), 0);
    CHECK(quota_is_of(&h, &b, &a) && !quota_is_of(&h, &b, &t));
    CHECK_INT(quota_grow(&h, 4, &e), 0);
    CHECK_INT(quota_grow(&h, 1, &e), -ERR_QUOTA);
    CHECK_INT(quota_grow(&h, UINT64_MAX, &e), -ERR_QUOTA);
    quota_shrink(&h, 2);
    CHECK_INT(b.used, 3);
    quota_shrink(&h, 100);
    CHECK_INT(b.used, 0);
    quota_drop(&h);
    quota_drop(&h);
    quota_charge(&b, &t, 50, &h); /* what is there already counts, whatever the limit */
    CHECK_INT(quota_used(&b, STR("a")), 50);
    CHECK_INT(quota_used(&b, STR("t")), 50);
    quota_drop(&h);
    quota_done(&b);
}

TEST(many_callers_are_told_apart)
{
    static struct quota_hold h[1000];
    char key[32];

    open_quota((struct quota_limits){ .share = 1 });
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "uid:%d", i);
        CHECK_INT(take(key, "", false, 1, &h[i]), 0);
        CHECK_INT(take(key, "", false, 1, &(struct quota_hold){ 0 }), -ERR_QUOTA);
    }
    CHECK_INT(b.shares_.n, 1000);
    for (int i = 0; i < 1000; i++)
        quota_drop(&h[i]);
    CHECK_INT(b.shares_.n, 0);
    quota_done(&b);
}

static struct str address(int family, const char *text, char *out)
{
    struct sockaddr_storage a = { .ss_family = (sa_family_t)family };
    void *at = family == AF_INET ? (void *)&((struct sockaddr_in *)&a)->sin_addr
                                 : (void *)&((struct sockaddr_in6 *)&a)->sin6_addr;

    CHECK_INT(inet_pton(family, text, at), 1);
    return quota_address(&a, out);
}

TEST(an_address_is_one_client)
{
    char x[QUOTA_KEY_MAX], y[QUOTA_KEY_MAX];

    CHECK_STR(address(AF_INET, "192.0.2.7", x), "address:192.0.2.7");
    CHECK(str_eq(address(AF_INET, "192.0.2.7", x), address(AF_INET6, "::ffff:192.0.2.7", y)));
    CHECK(str_eq(address(AF_INET6, "2001:db8::1", x), address(AF_INET6, "2001:db8::ff:2", y)));
    CHECK(!str_eq(address(AF_INET6, "2001:db8:0:1::1", x), address(AF_INET6, "2001:db8::1", y)));
    CHECK(!str_eq(address(AF_INET, "127.0.0.1", x), address(AF_INET6, "::1", y)));
}
