/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/dialect.h"

#include <stdio.h>
#include <string.h>

#include "edge/daytona/daytona.h"
#include "edge/e2b/e2b.h"
#include "edge/rest/routes.h"
#include "harness/tap.h"

/* A request as a client sends it. */
struct sent {
    enum h1_method method;
    const char *path;
    const char *box, *port; /* E2b-Sandbox-Id and E2b-Sandbox-Port; NULL: none */
    uint16_t of_host;       /* the port that Host names; 0: none */
};

static struct dialect_set set;
static struct arena arena;

static int match_sent(const struct sent *s, struct dialect_match *ret)
{
    static struct h1_request head;
    struct dialect_request q = { .head = &head, .path = str_from(s->path) };
    struct err e;

    arena_done(&arena);
    arena_init(&arena, 1 << 20);
    head.method = s->method;
    head.head.n = 0;
    if (s->box)
        head.head.fields[head.head.n++] =
            (struct h1_field){ STR("e2b-sandbox-id"), str_from(s->box) };
    if (s->port)
        head.head.fields[head.head.n++] =
            (struct h1_field){ STR("E2B-Sandbox-Port"), str_from(s->port) };
    if (s->of_host)
        q.port = (struct domain_port){ STR("sbx_1"), s->of_host };
    return dialect_match(&set, &q, &arena, ret, &e);
}

/* --- the rules, written once more and without an index --- */

static bool fits_pattern(const char *pattern, const struct url_path *p)
{
    struct str rest = str_from(pattern + 1), part;

    for (size_t i = 0; i < p->n; i++) {
        if (!rest.p)
            return false;
        rest = str_cut(rest, '/', &part);
        if (part.p[0] != '{' && !str_eq(part, p->segments[i]))
            return false;
    }
    return !rest.p && p->n;
}

/* The first row of these dialects that fits. */
static const struct route *scan_tables(const struct dialect *const *all, enum h1_method m,
                                       const struct url_path *p, unsigned *ret_allowed)
{
    *ret_allowed = 0;
    for (; *all; all++)
        for (size_t t = 0; (*all)->tables && (*all)->tables[t]; t++)
            for (const struct route *r = (*all)->tables[t]; r->path; r++) {
                if (!fits_pattern(r->path, p))
                    continue;
                if (r->method == (m == H1_HEAD ? H1_GET : m))
                    return r;
                *ret_allowed |= 1u << r->method;
            }
    return NULL;
}

static const struct dialect *const envd[] = { &envd_files_dialect, &envd_rpc_dialect, &envd_dialect,
                                              NULL },
                                   *const code[] = { &e2b_code_dialect, NULL },
                                   *const daytona[] = { &toolbox_files_dialect, &toolbox_dialect,
                                                        &daytona_dialect, NULL },
                                   *const e2b[] = { &e2b_files_dialect, &e2b_upload_dialect,
                                                    &e2b_dialect, NULL },
                                   *const rest_api[] = { &rest_dialect, NULL };

static bool begins_with_word(const struct url_path *p, const char *word)
{
    return p->n && str_eq(p->segments[0], str_from(word));
}

static bool begins_with_v1(const char *path)
{
    return strncmp(path, "/v1", 3) == 0 && (path[3] == '/' || !path[3]);
}

static bool is_plane_path(const struct url_path *p)
{
    static const char *const words[] = {
        "v2",        "v3",      "sandboxes",     "templates", "teams",         "secrets",
        "snapshots", "volumes", "volumecontent", "api-keys",  "access-tokens", "admin",
        "nodes",     "health"
    };

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (begins_with_word(p, words[i]))
            return true;
    return false;
}

static const struct route *find_inside(const struct sent *s, const struct url_path *p)
{
    unsigned port = s->of_host ? s->of_host
                    : s->port  ? (unsigned)strtoul(s->port, NULL, 10)
                               : 49983;
    const struct route *r;
    unsigned allowed;

    if (port != 49983 && port != 49999)
        return e2b_port_dialect.unknown;
    r = p->slash ? NULL : scan_tables(port == 49983 ? envd : code, s->method, p, &allowed);
    return r ? r : e2b_service_dialect.unknown;
}

/* -1: the path is malformed. */
static int find_slowly(const struct sent *s, const struct route **ret, unsigned *ret_allowed)
{
    struct url_path p = { .n = 0 };
    int r = url_path(str_from(s->path), &arena, &p, NULL);

    *ret_allowed = 0;
    *ret = NULL;
    if (s->of_host || (s->box && !begins_with_v1(s->path)))
        *ret = find_inside(s, &p);
    else if (strncmp(s->path, "/daytona/preview/", 17) == 0 && p.n >= 4)
        *ret = daytona_preview_dialect.unknown;
    else if (r < 0)
        return -1;
    else if (begins_with_word(&p, "daytona"))
        *ret = scan_tables(daytona, s->method, &p, ret_allowed);
    else if (!p.slash)
        *ret = scan_tables(e2b, s->method, &p, ret_allowed);
    if (!*ret && begins_with_word(&p, "daytona"))
        *ret = daytona_dialect.unknown;
    else if (!*ret && is_plane_path(&p))
        *ret = e2b_dialect.unknown;
    else if (!*ret && p.slash)
        *ret_allowed = 0;
    else if (!*ret)
        *ret = scan_tables(rest_api, s->method, &p, ret_allowed);
    return 0;
}

static void compare_match(const struct sent *s)
{
    const struct route *wanted;
    struct dialect_match found;
    unsigned allowed;
    int r = match_sent(s, &found), slow = find_slowly(s, &wanted, &allowed);

    if ((r < 0) != (slow < 0))
        FAIL("%s: %d instead of %d", s->path, r, slow);
    if (found.route != wanted)
        FAIL("%d %s: %s instead of %s", s->method, s->path,
             found.route ? found.route->path : "no route", wanted ? wanted->path : "none");
    if (!wanted && r >= 0 && found.allowed != allowed)
        FAIL("%d %s: methods %x instead of %x", s->method, s->path, found.allowed, allowed);
    if (wanted && !found.guard)
        FAIL("%s has no row of the tool policy", wanted->path);
}

/* The same path by all methods and addresses. */
static void compare_everywhere(const char *path)
{
    for (enum h1_method m = H1_OTHER; m <= H1_TRACE; m++) {
        compare_match(&(struct sent){ .method = m, .path = path });
        compare_match(&(struct sent){ .method = m, .path = path, .box = "sbx_1" });
        compare_match(&(struct sent){ .method = m, .path = path, .box = "sbx_1", .port = "49999" });
        compare_match(&(struct sent){ .method = m, .path = path, .box = "sbx_1", .port = "80" });
        compare_match(&(struct sent){ .method = m, .path = path, .port = "80" });
        compare_match(&(struct sent){ .method = m, .path = path, .of_host = 49983 });
        compare_match(&(struct sent){ .method = m, .path = path, .of_host = 49999, .box = "x" });
        compare_match(&(struct sent){ .method = m, .path = path, .of_host = 8080 });
    }
}

/* --- paths --- */

enum { PATH = 512 };

/* A path of the pattern: its variables are `value`. */
static void fill_pattern(const char *pattern, const char *value, char ret[static PATH])
{
    struct str rest = str_from(pattern + 1), part;
    size_t n = 0;

    while (rest.p) {
        rest = str_cut(rest, '/', &part);
        if (part.p[0] == '{')
            part = str_from(value);
        n += (size_t)snprintf(ret + n, PATH - n, "/" STR_FMT, STR_ARG(part));
    }
}

static void compare_variants(const char *pattern)
{
    static const char *const values[] = { "sbx_1",   "new",     "tags", "aliases", "import",
                                          "inspect", "execute", "1",    "{id}",    "v1" };
    char path[PATH], longer[PATH + 8];

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        fill_pattern(pattern, values[i], path);
        compare_everywhere(path);
    }
    snprintf(longer, sizeof longer, "%s/", path);
    compare_everywhere(longer);
    snprintf(longer, sizeof longer, "%s/more", path);
    compare_everywhere(longer);
    snprintf(longer, sizeof longer, "%s//x", path);
    compare_everywhere(longer);
    *strrchr(path, '/') = 0;
    compare_everywhere(path[0] ? path : "/");
}

TEST(every_route_and_its_neighbours_match_as_without_an_index)
{
    dialect_set_init(&set);
    for (size_t i = 0; dialects[i]; i++)
        for (size_t t = 0; dialects[i]->tables && dialects[i]->tables[t]; t++)
            for (const struct route *r = dialects[i]->tables[t]; r->path; r++)
                compare_variants(r->path);
    dialect_set_done(&set);
}

TEST(every_route_is_found_by_its_method_and_path)
{
    struct dialect_match found;
    char path[PATH];

    dialect_set_init(&set);
    for (size_t i = 0; dialects[i]; i++)
        for (size_t t = 0; dialects[i]->tables && dialects[i]->tables[t]; t++)
            for (const struct route *r = dialects[i]->tables[t]; r->path; r++) {
                bool inside = dialects[i]->claims;
                struct sent s = { .method = r->method, .path = path };

                fill_pattern(r->path, "x_1", path);
                s.of_host = !inside ? 0 : dialects[i] == &e2b_code_dialect ? 49999 : 49983;
                CHECK(match_sent(&s, &found) >= 0);
                if (found.route != r || found.dialect != dialects[i])
                    FAIL("%s of %s is not found", r->path, dialects[i]->name);
            }
    dialect_set_done(&set);
}

TEST(paths_without_a_route)
{
    static const struct {
        enum h1_method method;
        const char *path;
        const struct dialect *dialect; /* which answers */
        unsigned allowed;
    } rows[] = {
        { H1_GET, "/", &rest_dialect, 0 },
        { H1_GET, "/v1", &rest_dialect, 0 },
        { H1_GET, "/v1/sandboxes/", &rest_dialect, 0 },
        { H1_GET, "/v1/sandboxes/a/b", &rest_dialect, 0 },
        { H1_GET, "/healthz/x", &rest_dialect, 0 },
        { H1_PUT, "/healthz", &rest_dialect, 1 << H1_GET },
        { H1_DELETE, "/files", &rest_dialect, 0 },
        { H1_GET, "/v2/nowhere", &e2b_dialect, 0 },
        { H1_PUT, "/sandboxes", &e2b_dialect, 0 },
        { H1_GET, "/teams/", &e2b_dialect, 0 },
        { H1_GET, "/daytona", &daytona_dialect, 0 },
        { H1_PUT, "/daytona/sandbox", &daytona_dialect, 0 },
        { H1_GET, "/daytona/preview/x", &daytona_dialect, 0 },
        { H1_GET, "/daytona/preview/x/80", &daytona_preview_dialect, 0 },
        { H1_GET, "/daytona/preview/x/80//../%00", &daytona_preview_dialect, 0 },
    };
    struct dialect_match found;

    dialect_set_init(&set);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(match_sent(&(struct sent){ .method = rows[i].method, .path = rows[i].path },
                         &found) >= 0);
        if (found.dialect != rows[i].dialect || found.route != rows[i].dialect->unknown)
            FAIL("%s: answered by %s", rows[i].path, found.dialect->name);
        if (!found.route)
            CHECK_INT(found.allowed, rows[i].allowed);
    }
    CHECK(match_sent(&(struct sent){ .method = H1_GET, .path = "/v1//x" }, &found) < 0);
    CHECK(match_sent(&(struct sent){ .method = H1_GET, .path = "/daytona/%00" }, &found) < 0);
    CHECK(match_sent(&(struct sent){ .method = H1_GET, .path = "/a//b", .of_host = 80 }, &found) >=
          0);
    CHECK(found.dialect == &e2b_port_dialect);
    CHECK(match_sent(&(struct sent){ .method = H1_GET, .path = "/a//b", .of_host = 49983 },
                     &found) >= 0);
    CHECK(found.dialect == &e2b_service_dialect);
    dialect_set_done(&set);
}

/* Routes with ROUTE_ADMIN also require the verb admin. */
static void check_route_row(const struct dialect *d, const struct route *r)
{
    if (!r->handle || (d->native && !r->summary))
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

TEST(every_row_is_complete)
{
    size_t n = 0;

    for (; dialects[n]; n++) {
        CHECK(dialects[n]->guards);
        CHECK(dialects[n]->tables || dialects[n]->unknown);
        for (size_t t = 0; dialects[n]->tables && dialects[n]->tables[t]; t++)
            for (const struct route *r = dialects[n]->tables[t]; r->path; r++)
                check_route_row(dialects[n], r);
    }
    CHECK(n <= DIALECTS_MAX);
}
