/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/path.h"

#include "base/own.h"
#include "harness/tap.h"

static struct path_text out;

static int canonical(const char *target, bool slash, struct str *path, struct str *query)
{
    struct str written;
    const char *flaw;

    *query = str_cut(str_from(target), '?', &written);
    flaw = path_read(written, 0, slash, &out);
    *path = (struct str){ out.bytes, out.n };
    return flaw || path_query_flaw(*query) ? -1 : 0;
}

TEST(one_spelling)
{
    static const char *const rows[][2] = {
        { "/", "/" },
        { "/a", "/a" },
        { "/a/", "/a/" },
        { "//a///b//", "/a/b/" },
        { "/./a/./b/.", "/a/b/" },
        { "/a/../b", "/b" },
        { "/a/b/..", "/a/" },
        { "/a/..", "/" },
        { "/%61%62", "/ab" },
        { "/%7euser", "/~user" },
        { "/%2e%2e", NULL },
        { "/a/%2e%2e/b", "/b" },
        { "/a/.%2E/b", "/b" },
        { "/a;v=1/b;x", "/a/b" },
        { "/a/..;/b", "/b" },
        { "/a/..;x=1/b", "/b" },
        { "/;x/a", "/a" },
        { "/a%3bb", "/a%3Bb" },
        { "/a%3fb", "/a%3Fb" },
        { "/a%23b", "/a%23b" },
        { "/a+b", "/a%2Bb" },
        { "/a%2bb", "/a%2Bb" },
        { "/%c3%a9", "/%C3%A9" },
        { "/a%20b", "/a%20b" },
        { "/a|b^c", "/a%7Cb%5Ec" },
        { "/@scope:x", "/@scope:x" },
        { "/a...b/...", "/a...b/..." },
        { "/%25", "/%25" },
        { "/100%25x", "/100%25x" },
    };
    struct str path, query;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int r = canonical(rows[i][0], false, &path, &query);

        if (!rows[i][1] && r >= 0)
            FAIL("'%s' should be refused", rows[i][0]);
        if (rows[i][1] && (r < 0 || !str_eq(path, str_from(rows[i][1]))))
            FAIL("'%s' should be '%s', not '" STR_FMT "' (%d)", rows[i][0], rows[i][1],
                 r < 0 ? 0 : (int)path.n, path.p, r);
    }
}

TEST(what_is_ambiguous_is_refused)
{
    static const char *const rows[] = {
        "",
        "*",
        "a",
        "http://x/",
        "/..",
        "/../a",
        "/a/../../b",
        "/a\\b",
        "/a%5cb",
        "/a%5Cb",
        "/a%2fb",
        "/a%2F../b",
        "/%2e%2e%2fx",
        "/%252e%252e/x",
        "/%252fx",
        "/%255cx",
        "/%25252e",
        "/a#b",
        "/a b",
        "/a\tb",
        "/a\x01",
        "/\xc3\xa9",
        "/%c0%ae%c0%ae/",
        "/%c0%af",
        "/%ff",
        "/%00",
        "/%0a",
        "/%7f",
        "/%",
        "/%a",
        "/%zz",
        "/a;%00",
        "/a;%zz/b",
        "/a;x=%5c",
        "/a?b c",
        "/a?b#c",
        "/a?\xff",
    };
    struct str path, query;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (canonical(rows[i], false, &path, &query) >= 0)
            FAIL("'%s' should be refused, not '" STR_FMT "'", rows[i], STR_ARG(path));
}

TEST(encoded_slashes_where_they_are_allowed)
{
    struct str path, query;

    CHECK(canonical("/@a%2fb/c", true, &path, &query) >= 0);
    CHECK_STR(path, "/@a%2Fb/c");
    CHECK(canonical("/a%2F..%2Fb", true, &path, &query) < 0);
    CHECK(canonical("/a%2F../b", true, &path, &query) < 0);
    CHECK(canonical("/a%2F.", true, &path, &query) < 0);
    CHECK(canonical("/..%2Fa", true, &path, &query) < 0);
    CHECK(canonical("/a%252Fb", true, &path, &query) < 0);
}

TEST(queries_stay_as_they_are)
{
    struct str path, query;

    CHECK(canonical("/a/../b?x=%2e%2E/../;&y=?#", false, &path, &query) < 0);
    CHECK(canonical("/a/../b?x=%2e%2E/../;&y=?", false, &path, &query) >= 0);
    CHECK_STR(path, "/b");
    CHECK_STR(query, "x=%2e%2E/../;&y=?");
    CHECK(canonical("/a?", false, &path, &query) >= 0);
    CHECK(query.p && query.n == 0);
    CHECK(canonical("/a", false, &path, &query) >= 0);
    CHECK(!query.p);
}

TEST(lengths)
{
    static char text[PATH_BYTES_MAX + PATH_QUERY_MAX + 8];
    struct str path, query;

    memset(text, 'a', sizeof text - 1);
    text[0] = '/';
    text[PATH_BYTES_MAX] = '\0';
    CHECK(canonical(text, false, &path, &query) >= 0);
    text[PATH_BYTES_MAX] = 'a';
    text[PATH_BYTES_MAX + 1] = '\0';
    CHECK(canonical(text, false, &path, &query) < 0);
    memset(text, '|', PATH_BYTES_MAX); /* three times as long when it is escaped */
    text[0] = '/';
    text[PATH_BYTES_MAX] = '\0';
    CHECK(canonical(text, false, &path, &query) < 0);
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "/?", 2);
    text[PATH_QUERY_MAX + 2] = '\0';
    CHECK(canonical(text, false, &path, &query) >= 0);
    text[PATH_QUERY_MAX + 2] = 'a';
    text[PATH_QUERY_MAX + 3] = '\0';
    CHECK(canonical(text, false, &path, &query) < 0);
}

TEST(what_servers_read_in_two_ways_has_two_readings)
{
    static const struct {
        const char *path;
        unsigned reading;
        const char *text;
    } rows[] = {
        { "/items;id=5", 0, "/items" },
        { "/items;id=5", PATH_KEEPS_PARAMETERS, "/items%3Bid=5" },
        { "/b//k", 0, "/b/k" },
        { "/b//k", PATH_KEEPS_SLASHES, "/b//k" },
        { "/b/k//", PATH_KEEPS_SLASHES, "/b/k//" },
        { "/a/../b", 0, "/b" },
        { "/a/../b", PATH_KEEPS_DOTS, "/a/../b" },
        { "/a/%2e%2E/b", PATH_KEEPS_DOTS, "/a/../b" },
        { "/a//../b", 0, "/b" },
        { "/a//../b", PATH_KEEPS_SLASHES, "/a/b" },
        { "/a/..;x/b", 0, "/b" },
        { "/a/..;x/b", PATH_KEEPS_PARAMETERS, "/a/..%3Bx/b" },
        { "/a/;x/b", PATH_KEEPS_SLASHES, "/a//b" },
        { "/a/;x/b", PATH_KEEPS_SLASHES | PATH_KEEPS_PARAMETERS, "/a/%3Bx/b" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str path = str_from(rows[i].path);

        CHECK((rows[i].reading & ~path_ways(path)) == 0);
        CHECK(!path_read(path, rows[i].reading, false, &out));
        CHECK_STR(((struct str){ out.bytes, out.n }), rows[i].text);
    }
    CHECK_INT(path_ways(STR("/a/b.c/%61?;")), PATH_KEEPS_PARAMETERS);
    CHECK_INT(path_ways(STR("/a/b.c/%61/")), 0);
}

/* Ways that are not in the set make no difference. */
TEST(other_ways_change_nothing)
{
    static const char *const rows[] = { "/",      "/a/b",       "/a;x/b",         "/a//b",
                                        "/a/./b", "/%3b/+/%2B", "/a/..;x//b/;y/", "/%2e/a" };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str path = str_from(rows[i]);
        unsigned ways = path_ways(path);

        for (unsigned reading = 0; reading < PATH_READINGS; reading++) {
            struct path_text same;

            CHECK(!path_read(path, reading, false, &out));
            CHECK(!path_read(path, reading & ways, false, &same));
            CHECK(str_eq((struct str){ out.bytes, out.n }, (struct str){ same.bytes, same.n }));
        }
    }
}

TEST(folded_paths)
{
    static const char *const rows[][2] = {
        { "/", "/" },
        { "/Admin", "/admin" },
        { "/admin/", "/admin" },
        { "/admin.", "/admin" },
        { "/admin%20", "/admin" },
        { "/admin%2B.%20/x", "/admin/x" },
        { "/admin%3Bx=y/z", "/admin/z" },
        { "/a%2FB", "/a/b" },
        { "//a///b", "/a/b" },
        { "/a%2Bb", "/a%20b" },
        { "/a.b/.c", "/a.b/.c" },
        { "/%C3%84", "/%c3%84" },
        { "/...", "/" },
    };
    struct path_text folded;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        path_fold(str_from(rows[i][0]), &folded);
        CHECK_STR(((struct str){ folded.bytes, folded.n }), rows[i][1]);
    }
}

TEST(folded_keys)
{
    static const char *const rows[][2] = {
        { "x", "x" },   { "X", "x" },     { "x[]", "x" },           { "x[a][b]", "x" },
        { " x ", "x" }, { "a.b", "a_b" }, { "a b", "a_b" },         { "[x]", "[x]" },
        { "", "" },     { "x [", "x" },   { ".method", "_method" },
    };
    char folded[16];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n = path_query_fold(str_from(rows[i][0]), folded);

        CHECK_STR(((struct str){ folded, n }), rows[i][1]);
    }
}

TEST(canonical_paths_are_their_own_canonical_form)
{
    static const char *const rows[] = { "/a%2fb;x/../c%41|", "/a/b//..//c", "/%25/%3b+" };
    struct str path, query;
    char first[256];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(canonical(rows[i], true, &path, &query) >= 0);
        CHECK(str_copy(path, first, sizeof first));
        CHECK(canonical(first, true, &path, &query) >= 0);
        CHECK_STR(path, first);
    }
}

TEST(patterns_that_can_never_match)
{
    CHECK(!path_pattern_flaw(STR("/a/*/{b,c}/[!d]?%2F\\*")));
    CHECK(path_pattern_flaw(STR("/a+b")));
    CHECK(path_pattern_flaw(STR("/a b")));
    CHECK(path_pattern_flaw(STR("/a;b")));
    CHECK(path_pattern_flaw(STR("/a%2fb")));
    CHECK(path_pattern_flaw(STR("/a%41")));
    CHECK(path_pattern_flaw(STR("/a%")));
    CHECK(path_pattern_flaw(STR("/é")));
    CHECK(path_pattern_flaw(STR("/a|b")));
}

TEST(pairs_of_a_query)
{
    struct str rest = STR("a=1&&b&=x&c=2=3"), key, value;

    CHECK(path_query_next(&rest, "&", &key, &value));
    CHECK_STR(key, "a");
    CHECK_STR(value, "1");
    CHECK(path_query_next(&rest, "&", &key, &value));
    CHECK_STR(key, "b");
    CHECK_INT(value.n, 0);
    CHECK(path_query_next(&rest, "&", &key, &value));
    CHECK_STR(key, "");
    CHECK_STR(value, "x");
    CHECK(path_query_next(&rest, "&", &key, &value));
    CHECK_STR(value, "2=3");
    CHECK(!path_query_next(&rest, "&", &key, &value));
}

TEST(semicolons_separate_pairs_for_some)
{
    struct str rest = STR(";a=1;b=2&c;"), key, value;

    CHECK(path_query_next(&rest, "&;", &key, &value));
    CHECK_STR(key, "a");
    CHECK(path_query_next(&rest, "&;", &key, &value));
    CHECK_STR(value, "2");
    CHECK(path_query_next(&rest, "&;", &key, &value));
    CHECK_STR(key, "c");
    CHECK(!path_query_next(&rest, "&;", &key, &value));
}

TEST(decoding)
{
    char text[8];
    size_t n;

    CHECK(path_query_decode(STR("a+b%20%2b"), text, sizeof text, &n));
    CHECK_STR(((struct str){ text, n }), "a b +");
    CHECK(!path_query_decode(STR("%zz"), text, sizeof text, &n));
    CHECK(!path_query_decode(STR("%4"), text, sizeof text, &n));
    CHECK(!path_query_decode(STR("%00"), text, sizeof text, &n));
    CHECK(!path_query_decode(STR("%ff"), text, sizeof text, &n));
    CHECK(!path_query_decode(STR("123456789"), text, sizeof text, &n));
}
