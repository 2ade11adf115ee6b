/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/guard_rows.h"

#include <string.h>

#include "harness/tap.h"
#include "trust/bundle.h"

static const struct route *const *const interfaces[] = { route_tables, e2b_plane_tables,
                                                         e2b_envd_tables, e2b_code_tables,
                                                         daytona_tables };

static size_t check_route(const struct route *r, const struct trust_bundle *b)
{
    const struct guard_row *g = guard_row_of(r);

    if (!g)
        FAIL("%d %s is in no row of guard_rows.c: which tool is it to the policy?", r->method,
             r->path);
    if (g->tool && !trust_bundle_find(b, str_from(g->tool)))
        FAIL("%s: policies/default.yaml has no rule for %s", r->path, g->tool);
    return 1;
}

TEST(every_route_of_every_interface_is_a_tool_or_says_that_it_is_none)
{
    struct trust_bundle *b;
    size_t n = 0;
    struct err e;

    CHECK_OK(trust_bundle_read((struct str){ trust_builtin_yaml, trust_builtin_size }, &b, &e), e);
    for (size_t i = 0; i < sizeof interfaces / sizeof interfaces[0]; i++)
        for (size_t t = 0; interfaces[i][t]; t++)
            for (const struct route *r = interfaces[i][t]; r->path; r++)
                n += check_route(r, b);
    CHECK(n > 150);
    trust_bundle_free(b);
}

/* Every request that changes or shows a sandbox is checked, on all interfaces. */
TEST(what_is_about_a_sandbox_is_asked)
{
    for (size_t i = 0; i < sizeof interfaces / sizeof interfaces[0]; i++)
        for (size_t t = 0; interfaces[i][t]; t++)
            for (const struct route *r = interfaces[i][t]; r->path; r++) {
                const struct guard_row *g = guard_row_of(r);
                bool refused = strstr(r->path, "/lsp/") || strstr(r->path, "/env");

                if ((r->flags & ROUTE_SANDBOX) && !refused && !(g && g->tool))
                    FAIL("%s is about a sandbox, and nothing is asked", r->path);
            }
}

TEST(no_row_is_for_a_route_that_is_not_there)
{
    for (const struct guard_row *g = guard_rows; g->path; g++) {
        bool found = g->path[0] == '(' || strchr(g->path, '('); /* those without a path */

        for (size_t i = 0; !found && i < sizeof interfaces / sizeof interfaces[0]; i++)
            for (size_t t = 0; !found && interfaces[i][t]; t++)
                for (const struct route *r = interfaces[i][t]; !found && r->path; r++)
                    found = r->method == g->method && strcmp(r->path, g->path) == 0;
        if (!found)
            FAIL("there is no route %s", g->path);
    }
}

/* Handlers start programs only for rows that guard_row_starts_programs() knows; the control plane
 * refuses others (tests/unit/control/process/test_processes.c). So these are all routes that run
 * programs in a sandbox, and each needs the verb for it. */
static bool is_launch(const struct route *r)
{
    static const char *const paths[] = { "/sandboxes", "/v2/sandboxes", "/daytona/sandbox" };

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (r->method == H1_POST && strcmp(r->path, paths[i]) == 0)
            return true;
    return false;
}

TEST(what_starts_programs_needs_the_verb_and_the_tool_for_it)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof interfaces / sizeof interfaces[0]; i++)
        for (size_t t = 0; interfaces[i][t]; t++)
            for (const struct route *r = interfaces[i][t]; r->path; r++) {
                const struct guard_row *g = guard_row_of(r);
                bool starts = guard_row_starts_programs(g);
                bool builds = starts && strcmp(g->tool, "image_build") == 0;

                if (starts && (g->flags & GUARD_LAUNCHES) && !is_launch(r))
                    FAIL("%s starts programs that its caller may choose: which tool is it?",
                         r->path);
                if (starts && r->verb != VERB_EXEC && !builds && !is_launch(r))
                    FAIL("%s starts programs, and its verb is not exec", r->path);
                if (starts && strstr(r->path, "/files"))
                    FAIL("%s is about files, and may start programs", r->path);
                n += starts;
            }
    CHECK(n > 40);
    CHECK(!guard_row_starts_programs(NULL));
}
