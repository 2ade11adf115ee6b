/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"
#include "engine/scan/rules.h"

TEST(alternatives_and_stars)
{
    CHECK(scan_like("rm|shred", STR("rm")));
    CHECK(scan_like("rm|shred", STR("shred")));
    CHECK(!scan_like("rm|shred", STR("rmdir")));
    CHECK(scan_like("mkfs*", STR("mkfs.ext4")));
    CHECK(scan_like("*.ssh/*", STR("/root/.ssh/id_rsa")));
    CHECK(scan_like("a*b*c", STR("a..b.b..c")));
    CHECK(!scan_like("a*b*c", STR("a..b.b..")));
    CHECK(scan_like("*", STR("")));
}

TEST(a_level_of_a_path_and_a_star_itself)
{
    CHECK(scan_like("/home/^", STR("/home/ann")));
    CHECK(!scan_like("/home/^", STR("/home/ann/build")));
    CHECK(scan_like("/var/%", STR("/var/*")));
    CHECK(!scan_like("/var/%", STR("/var/x")));
}

/* A table that grew wrong shows here, not in a scan. */
TEST(rules_are_complete)
{
    size_t flows = 0;

    for (size_t i = 0; i < scan_rule_count; i++) {
        const struct scan_rule *r = &scan_rules[i];

        CHECK(r->id && r->languages && r->message && r->advice);
        CHECK((r->match == MATCH_CODE) == (r->special != SPECIAL_NONE));
        CHECK(r->match == MATCH_CODE || r->name);
        CHECK((r->match == MATCH_INTO || r->match == MATCH_BOTH) == (r->into != NULL));
        flows += r->match == MATCH_INTO;
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(r->id, scan_rules[k].id) != 0);
    }
    CHECK(flows <= SCAN_FLOWS_MAX);
}
