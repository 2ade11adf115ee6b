/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/route.h"

#include "harness/tap.h"

static void handle_nothing(struct call *c)
{
}

static const struct route first[] = {
    { H1_GET, VERB_READ, "/boxes", 0, .handle = handle_nothing },
    { H1_POST, VERB_CREATE, "/boxes", 0, .handle = handle_nothing },
    { H1_GET, VERB_READ, "/boxes/{id}/processes/new", 0, .handle = handle_nothing },
    { H1_GET, VERB_READ, "/boxes/{id}/processes/{n}", 0, .handle = handle_nothing },
    { H1_DELETE, VERB_READ, "/boxes/{id}/processes/{n}", 0, .handle = handle_nothing },
    { .path = NULL },
};
static const struct route second[] = {
    { H1_GET, VERB_READ, "/boxes", 0, .handle = handle_nothing }, /* hidden by the first one */
    { H1_GET, VERB_READ, "/boxes/aliases/{alias}", 0, .handle = handle_nothing },
    { H1_GET, VERB_READ, "/boxes/{id}/tags", 0, .handle = handle_nothing },
    { .path = NULL },
};
static const struct route *const tables[] = { first, second, NULL };

static struct arena texts = ARENA_INIT(1 << 16); /* of the parameters, until the test ends */

static const struct route *find_route(enum h1_method m, const char *path,
                                      struct str params[ROUTE_PARAMS], unsigned *ret_allowed)
{
    struct route_index x;
    const struct route_entry *found;
    const struct route *r;
    static struct url_path p;

    CHECK(url_path(str_from(path), &texts, &p, NULL) >= 0);
    route_index_init(&x, tables, NULL);
    found = route_index_find(&x, m, &p, params, ret_allowed);
    r = found ? found->route : NULL;
    route_index_done(&x);
    return r;
}

static void check_found(enum h1_method m, const char *path, const char *pattern)
{
    struct str params[ROUTE_PARAMS];
    unsigned allowed;
    const struct route *r = find_route(m, path, params, &allowed);

    if (!r || r->method != (m == H1_HEAD ? H1_GET : m))
        FAIL("%s is not found", path);
    CHECK_STR(str_from(r->path), pattern);
}

TEST(paths_and_their_variables)
{
    struct str params[ROUTE_PARAMS];
    unsigned allowed;
    const struct route *r = find_route(H1_GET, "/boxes/sbx_1/processes/7", params, &allowed);

    CHECK(r);
    CHECK_STR(str_from(r->path), "/boxes/{id}/processes/{n}");
    CHECK_STR(params[0], "sbx_1");
    CHECK_STR(params[1], "7");
}

TEST(a_word_comes_before_a_variable)
{
    check_found(H1_GET, "/boxes/sbx_1/processes/new", "/boxes/{id}/processes/new");
    check_found(H1_GET, "/boxes/aliases/tags", "/boxes/aliases/{alias}");
    check_found(H1_GET, "/boxes/aliases/processes/1", "/boxes/{id}/processes/{n}");
}

TEST(a_variable_is_tried_when_the_word_has_another_method)
{
    check_found(H1_DELETE, "/boxes/sbx_1/processes/new", "/boxes/{id}/processes/{n}");
}

TEST(the_first_of_equal_rows_counts)
{
    struct str params[ROUTE_PARAMS];
    unsigned allowed;

    CHECK(find_route(H1_GET, "/boxes", params, &allowed) == &first[0]);
    CHECK(find_route(H1_HEAD, "/boxes", params, &allowed) == &first[0]);
}

TEST(unknown_paths_and_other_methods)
{
    static const char *const paths[] = { "/", "/box", "/boxes/a", "/boxes/a/b", "/boxes/a/tags/b" };
    struct str params[ROUTE_PARAMS];
    unsigned allowed;

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (find_route(H1_GET, paths[i], params, &allowed) || allowed)
            FAIL("%s has a route", paths[i]);
    CHECK(!find_route(H1_PUT, "/boxes", params, &allowed));
    CHECK_INT(allowed, 1 << H1_GET | 1 << H1_POST);
    CHECK(!find_route(H1_PUT, "/boxes/a/processes/new", params, &allowed));
    CHECK_INT(allowed, 1 << H1_GET | 1 << H1_DELETE);
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
