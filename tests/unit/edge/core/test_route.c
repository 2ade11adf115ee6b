/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/route.h"

#include "harness/tap.h"

static const struct route *find(enum h1_method m, const char *path, struct str params[ROUTE_PARAMS],
                                unsigned *ret_allowed)
{
    static struct arena a;
    struct url_path p;

    arena_done(&a);
    arena_init(&a, 1 << 16);
    CHECK(url_path(str_from(path), &a, &p, NULL) >= 0);
    return route_find(m, &p, params, ret_allowed);
}

TEST(paths_and_their_variables)
{
    struct str params[ROUTE_PARAMS];
    unsigned allowed;
    const struct route *r = find(H1_GET, "/v1/sandboxes/sbx_1/processes/7", params, &allowed);

    CHECK(r);
    CHECK_STR(str_from(r->path), "/v1/sandboxes/{id}/processes/{n}");
    CHECK_STR(params[0], "sbx_1");
    CHECK_STR(params[1], "7");
}

TEST(a_word_comes_before_a_variable)
{
    struct str params[ROUTE_PARAMS];
    unsigned allowed;
    const struct route *r = find(H1_GET, "/v1/sandboxes/sbx_1/processes/new", params, &allowed);

    CHECK(r);
    CHECK_STR(str_from(r->path), "/v1/sandboxes/{id}/processes/new");
}

TEST(what_is_no_route)
{
    static const char *const paths[] = {
        "/", "/v1", "/v1/", "/v1/sandboxes/", "/v1/sandboxes/a/b", "/v2/sandboxes", "/healthz/x",
    };
    struct str params[ROUTE_PARAMS];
    unsigned allowed;

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (find(H1_GET, paths[i], params, &allowed) || allowed)
            FAIL("%s has a route", paths[i]);
    CHECK(!find(H1_PUT, "/healthz", params, &allowed));
    CHECK_INT(allowed, 1 << H1_GET);
    CHECK(find(H1_HEAD, "/healthz", params, &allowed));
}

TEST(parameters)
{
    const struct route r = { .query = "path! limit state*" };

    CHECK(route_takes(&r, STR("path")));
    CHECK(route_takes(&r, STR("limit")));
    CHECK(route_takes(&r, STR("state")));
    CHECK(!route_takes(&r, STR("path!")));
    CHECK(!route_takes(&r, STR("stat")));
    CHECK(!route_takes(&r, STR("")));
    CHECK(!route_takes(&(struct route){ 0 }, STR("path")));
}

/* Routes with ROUTE_ADMIN also require the verb admin. */
TEST(every_row_is_complete)
{
    for (size_t t = 0; route_tables[t]; t++)
        for (const struct route *r = route_tables[t]; r->path; r++) {
            if (!r->handle || !r->summary)
                FAIL("%s has no handler or summary", r->path);
            if ((r->flags & ROUTE_JSON) && r->fields && !r->field_count)
                FAIL("%s does not say how many fields", r->path);
            if ((r->flags & ROUTE_SANDBOX) && !strstr(r->path, "{id}"))
                FAIL("%s has no sandbox", r->path);
            if ((r->flags & ROUTE_LIVE) && !(r->flags & ROUTE_SANDBOX))
                FAIL("%s has no sandbox that could be live", r->path);
            if ((r->flags & ROUTE_ADMIN) && r->verb != VERB_ADMIN)
                FAIL("%s is for administrators, but of another verb", r->path);
        }
}
