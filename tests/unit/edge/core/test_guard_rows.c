/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/dialect.h"

#include <string.h>

#include "harness/tap.h"
#include "trust/bundle.h"

static size_t check_route(const struct dialect *d, const struct route *r,
                          const struct trust_bundle *b)
{
    const struct guard_row *g = guard_row_find(d->guards, r);

    if (!g)
        FAIL("%d %s is in no row of guard_rows.c of %s: which tool is it to the policy?", r->method,
             r->path, d->name);
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
    for (size_t i = 0; dialects[i]; i++)
        for (size_t t = 0; dialects[i]->tables && dialects[i]->tables[t]; t++)
            for (const struct route *r = dialects[i]->tables[t]; r->path; r++)
                n += check_route(dialects[i], r, b);
    CHECK(n > 150);
    trust_bundle_free(b);
}

/* Every request that changes or shows a sandbox is checked, on all interfaces. */
TEST(what_is_about_a_sandbox_is_asked)
{
    for (size_t i = 0; dialects[i]; i++)
        for (size_t t = 0; dialects[i]->tables && dialects[i]->tables[t]; t++)
            for (const struct route *r = dialects[i]->tables[t]; r->path; r++) {
                const struct guard_row *g = guard_row_find(dialects[i]->guards, r);
                bool refused = strstr(r->path, "/lsp/") || strstr(r->path, "/env");

                if ((r->flags & ROUTE_SANDBOX) && !refused && !(g && g->tool))
                    FAIL("%s is about a sandbox, and nothing is asked", r->path);
            }
}

static bool has_route(const struct guard_row *guards, const struct guard_row *g)
{
    for (size_t i = 0; dialects[i]; i++) {
        const struct dialect *d = dialects[i];

        if (d->guards != guards)
            continue;
        if (d->unknown && guard_row_find(g, d->unknown) == g)
            return true;
        for (size_t t = 0; d->tables && d->tables[t]; t++)
            for (const struct route *r = d->tables[t]; r->path; r++)
                if (r->method == g->method && strcmp(r->path, g->path) == 0)
                    return true;
    }
    return false;
}

TEST(no_row_is_for_a_route_that_is_not_there)
{
    for (size_t i = 0; dialects[i]; i++)
        for (const struct guard_row *g = dialects[i]->guards; g->path; g++)
            if (!has_route(dialects[i]->guards, g))
                FAIL("%s has no route %s", dialects[i]->name, g->path);
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

    for (size_t i = 0; dialects[i]; i++)
        for (size_t t = 0; dialects[i]->tables && dialects[i]->tables[t]; t++)
            for (const struct route *r = dialects[i]->tables[t]; r->path; r++) {
                const struct guard_row *g = guard_row_find(dialects[i]->guards, r);
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
