/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/url.h"

#include "base/own.h"
#include "harness/tap.h"

static struct err e;

TEST(a_path_is_its_decoded_segments)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(4096);
    struct url u = url_split(STR("/a/b%20c/%C3%A4?x=/?"));
    struct url_path p;

    CHECK_STR(u.query, "x=/?");
    CHECK_OK(url_path(u.path, &a, &p, &e), e);
    CHECK_INT(p.n, 3);
    CHECK_STR(p.segments[1], "b c");
    CHECK_STR(p.segments[2], "\xc3\xa4");
    CHECK(!p.slash);
    CHECK_OK(url_path(STR("/a/"), &a, &p, &e), e);
    CHECK(p.n == 1 && p.slash);
    CHECK_OK(url_path(STR("/"), &a, &p, &e), e);
    CHECK(p.n == 0 && p.slash);
    CHECK(!url_split(STR("/a")).query.p);
}

TEST(ambiguous_paths_are_refused)
{
    static const char *const bad[] = { "",        "a",         "//",      "/a//b",     "/.",
                                       "/..",     "/a/../b",   "/%2e",    "/%2E%2e/a", "/.%2e",
                                       "/a%2fb",  "/a\\b",     "/a%5cb",  "/a%00",     "/%",
                                       "/%a",     "/%gg",      "/%c0%af", "/%ff",      "/a%0a",
                                       "/a%7f/b", "/%ed%a0%80" };
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 16);

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct url_path p;

        if (url_path(str_from(bad[i]), &a, &p, &e) >= 0)
            FAIL("'%s' was accepted", bad[i]);
    }
}

TEST(deep_paths_are_refused)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 16);
    char deep[2 * URL_SEGMENTS_MAX + 3];
    struct url_path p;

    for (size_t i = 0; i < sizeof(deep); i += 2)
        memcpy(deep + i, "/a", i + 1 < sizeof(deep) ? 2 : 1);
    CHECK_OK(url_path((struct str){ deep, (size_t)2 * URL_SEGMENTS_MAX }, &a, &p, &e), e);
    CHECK_INT(url_path((struct str){ deep, (size_t)2 * URL_SEGMENTS_MAX + 2 }, &a, &p, &e),
              -ERR_TOO_BIG);
}

TEST(queries)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(4096);
    struct str q = STR("a=1&&b+c=x%2By+z&flag&e="), v;

    CHECK_INT(url_query(q, STR("a"), &a, &v, &e), 1);
    CHECK_STR(v, "1");
    CHECK_INT(url_query(q, STR("b c"), &a, &v, &e), 1);
    CHECK_STR(v, "x+y z");
    CHECK_INT(url_query(q, STR("flag"), &a, &v, &e), 1);
    CHECK_INT(v.n, 0);
    CHECK_INT(url_query(q, STR("none"), &a, &v, &e), 0);
    CHECK_INT(url_query(STR("a=1&%61=2"), STR("a"), &a, &v, &e), -ERR_INVALID);
    CHECK_INT(url_query(STR("a=%zz"), STR("a"), &a, &v, &e), -ERR_INVALID);
}

TEST(encoding_goes_back)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(4096);
    AUTO(buf_done) struct buf out = BUF_INIT(64), small = BUF_INIT(4);
    struct str back;

    CHECK_INT(url_encode(&out, STR("a/b c\xc3\xa4+~")), 0);
    CHECK_STR(buf_str(&out), "a%2Fb%20c%C3%A4%2B~");
    CHECK_OK(url_decode(buf_str(&out), true, &a, &back, &e), e);
    CHECK_STR(back, "a/b c\xc3\xa4+~");
    CHECK_INT(url_encode(&small, STR("ab ")), -ERR_TOO_BIG);
    CHECK_INT(small.n, 0);
}
