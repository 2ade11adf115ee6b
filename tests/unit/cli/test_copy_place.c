/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/copy_place.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(ends_of_a_copy)
{
    struct copy_end end;
    struct err e;

    CHECK_OK(copy_end("sbx_4k7:/work/x", &end, &e), e);
    CHECK_STR(str_from(end.sandbox), "sbx_4k7");
    CHECK_STR(str_from(end.path), "/work/x");
    CHECK_OK(copy_end("./a:b", &end, &e), e);
    CHECK_STR(str_from(end.sandbox), "");
    CHECK_STR(str_from(end.path), "./a:b");
    CHECK_OK(copy_end("/x/y:/z", &end, &e), e);
    CHECK_STR(str_from(end.sandbox), "");
    CHECK_OK(copy_end("dir", &end, &e), e);
    CHECK(!end.stream);
    CHECK_OK(copy_end("-", &end, &e), e);
    CHECK(end.stream);
    CHECK_OK(copy_end("a:/x:y", &end, &e), e);
    CHECK_STR(str_from(end.path), "/x:y");
    CHECK(copy_end("", &end, &e) == -ERR_INVALID);
    CHECK(copy_end("sbx:relative", &end, &e) == -ERR_INVALID);
    CHECK(copy_end("sbx:", &end, &e) == -ERR_INVALID);
}

static const struct {
    const char *source;
    bool is_dir;
    const char *target;
    enum copy_kind kind;
    bool several;
    const char *dir, *top; /* NULL: refused */
} rules[] = {
    { "src", true, "/work", COPY_DIR, false, "/work", "src" },
    { "src/", true, "/work/", COPY_DIR, false, "/work/", "src" },
    { "a/b/src", true, "/work", COPY_DIR, true, "/work", "src" },
    { "src/.", true, "/work", COPY_DIR, false, "/work", "" },
    { ".", true, "/work", COPY_DIR, false, "/work", "" },
    { "/", true, "out", COPY_DIR, false, "out", "" },
    { "src", true, "/new", COPY_MISSING, false, "/", "new" },
    { "src/.", true, "/a/new/", COPY_MISSING, false, "/a", "new" },
    { "src", true, "new", COPY_MISSING, false, ".", "new" },
    { "f", false, "g", COPY_MISSING, false, ".", "g" },
    { "f", false, "d/g", COPY_FILE, false, "d", "g" },
    { "f", false, "d//g", COPY_FILE, false, "d", "g" },
    { "f", false, ".", COPY_DIR, false, ".", "f" },
    { "f", false, "g/", COPY_MISSING, false, NULL, NULL },
    { "f", false, "g", COPY_MISSING, true, NULL, NULL },
    { "f", false, "g", COPY_FILE, true, NULL, NULL },
    { "src", true, "g", COPY_FILE, false, NULL, NULL },
    { "f", false, "a/..", COPY_MISSING, false, NULL, NULL },
};

TEST(places_of_a_copy)
{
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct copy_source s = { rules[i].source, rules[i].is_dir };
        struct copy_target t = { rules[i].target, rules[i].kind, rules[i].several };
        struct copy_place place;
        struct err e;
        int r = copy_place(&s, &t, &place, &e);

        if ((r >= 0) != (rules[i].dir != NULL))
            FAIL("%s to %s: %d", rules[i].source, rules[i].target, r);
        if (r < 0)
            continue;
        CHECK_STR(str_from(place.dir), rules[i].dir);
        CHECK_STR(str_from(place.top), rules[i].top);
    }
}

TEST(names_that_are_too_long)
{
    char name[400];
    struct copy_source s = { name, false };
    struct copy_target t = { "/d", COPY_DIR, false };
    struct copy_place place;
    struct err e;

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK(copy_place(&s, &t, &place, &e) == -ERR_TOO_BIG);
}
