/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/caller.h"

#include <stdio.h>

#include "harness/tap.h"

static struct json_pair team_a[] = { { "team", "a" } };
static struct json_pair team_b[] = { { "team", "b" }, { "env", "ci" } };
static const struct json_map none = { NULL, 0 }, a = { team_a, 1 }, b = { team_b, 2 };

static bool sees(const char *owner, struct json_map labels, bool admin, const char *of,
                 const struct json_map *has)
{
    struct caller who = { .admin = admin, .labels = labels };

    snprintf(who.owner, sizeof who.owner, "%s", owner);
    return caller_sees(&who, of, has);
}

TEST(a_record_is_seen_by_its_owner_and_by_administrators)
{
    CHECK(sees("uid:7", none, false, "uid:7", &a));
    CHECK(!sees("uid:8", none, false, "uid:7", &a));
    CHECK(sees("uid:0", none, true, "uid:7", &none));
}

TEST(labels_bind_whoever_has_them)
{
    CHECK(sees("uid:7", a, false, "uid:7", &a));
    CHECK(!sees("uid:7", a, false, "uid:7", &b));
    CHECK(!sees("uid:7", a, false, "uid:7", &none));
    CHECK(!sees("uid:7", b, false, "uid:7", &a));
    CHECK(!sees("uid:0", a, true, "uid:7", &b));
    CHECK(sees("uid:0", b, true, "uid:7", &b));
}
