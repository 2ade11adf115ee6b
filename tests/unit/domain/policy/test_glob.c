/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/glob.h"

#include "base/own.h"
#include "harness/tap.h"

/* Lives as long as the test's process. */
static struct arena arena = ARENA_INIT(64 << 20);

static const struct glob *compiled(const char *pattern, enum glob_dialect dialect, char separator)
{
    const struct glob *g;
    struct err e;

    if (glob_compile(str_from(pattern), dialect, separator, &arena, &g, &e) < 0)
        FAIL("'%s': %s", pattern, e.msg);
    return g;
}

struct row {
    const char *pattern, *text;
    bool match;
};

static void check_rows(const struct row *rows, size_t n, enum glob_dialect dialect, char separator)
{
    for (size_t i = 0; i < n; i++) {
        const struct glob *g = compiled(rows[i].pattern, dialect, separator);

        if (glob_match(g, str_from(rows[i].text)) != rows[i].match)
            FAIL("'%s' should %smatch '%s'", rows[i].pattern, rows[i].match ? "" : "not ",
                 rows[i].text);
    }
}

TEST(parts_of_paths)
{
    static const struct row rows[] = {
        { "/a", "/a", true },
        { "/a", "/A", false },
        { "/a", "/ab", false },
        { "/*", "/a", true },
        { "/*", "/a/b", false },
        { "/*", "/", true },
        { "/repos/*/pulls", "/repos/x/pulls", true },
        { "/repos/*/pulls", "/repos/x/y/pulls", false },
        { "/?", "/a", true },
        { "/?", "/é", true },
        { "/?", "//", false },
        { "/a/**", "/a/", true },
        { "/a/**", "/a/b", true },
        { "/a/**", "/a/b/c", true },
        { "/a/**", "/a", false },
        { "/a/**", "/ab", false },
        { "/**", "/", true },
        { "/**", "/a/b", true },
        { "**", "", true },
        { "**", "/a/b", true },
        { "**/x", "x", true },
        { "**/x", "/x", true },
        { "**/x", "/a/b/x", true },
        { "**/x", "/a/bx", false },
        { "/a/**/b", "/a/b", true },
        { "/a/**/b", "/a/x/y/b", true },
        { "/a/**/b", "/ab", false },
        { "/a/**/**/b", "/a/b", true },
        { "/a**b", "/axb", true },
        { "/a**b", "/ax/b", false },
        { "/{a,b}/c", "/a/c", true },
        { "/{a,b}/c", "/b/c", true },
        { "/{a,b}/c", "/d/c", false },
        { "/{a,b/**}", "/b/x/y", true },
        { "/{a,{b,c}d}", "/cd", true },
        { "/{a,}x", "/x", true },
        { "/[a-c]", "/b", true },
        { "/[a-c]", "/d", false },
        { "/[!a-c]", "/d", true },
        { "/[!a-c]", "/a", false },
        { "/[^a]", "/b", true },
        { "[!a]", "/", false },
        { "/[]x]", "/]", true },
        { "/[a-]", "/-", true },
        { "/\\*", "/*", true },
        { "/\\*", "/a", false },
        { "/a,b", "/a,b", true },
    };

    check_rows(rows, COUNT_OF(rows), GLOB_PARTS, '/');
}

TEST(parts_of_values)
{
    static const struct row rows[] = {
        { "1.*", "1.2", true },
        { "1.*", "1.2.3", false },
        { "foo-*", "foo-1.2", false },
        { "foo-*", "foo-a/b", true },
        { "foo-**", "foo-1", true },
        { "v1.**", "v1.2.3", true },
        { "*", "", true },
        { "*", "a.b", false },
        { "**", "a.b", true },
    };

    check_rows(rows, COUNT_OF(rows), GLOB_PARTS, '.');
}

TEST(plain_paths)
{
    static const struct row rows[] = {
        { "/a/*", "/a/b/c", true },   { "/a*b", "/a/x/b", true },    { "/a/**", "/a", true },
        { "/a/**", "/a/b", true },    { "/a/**", "/ab", false },     { "/**", "/x", true },
        { "**", "/x", true },         { "/a?b", "/a/b", true },      { "/{a,b}", "/a", false },
        { "/{a,b}", "/{a,b}", true }, { "/[!a]", "/b", true },       { "/[a]", "/a", true },
        { "/a/**/b", "/a/b", true },  { "/a/**/b", "/a/x/b", true },
    };

    check_rows(rows, COUNT_OF(rows), GLOB_PLAIN, '/');
}

TEST(what_is_no_glob)
{
    static const char *const rows[][2] = {
        { "/[a", "a '[' has no ']'" },
        { "/[]", "a '[' has no ']'" },
        { "/{a,b", "a '{' has no '}'" },
        { "/a}", "a '}' has no '{'" },
        { "/{**,a}", "an alternative begins with '**'; put it in front" },
        { "/[b-a]", "a range in [ ] is reversed" },
        { "/a\\", "ends with an incomplete escape '\\'" },
        { "{{{{{{{{{a}}}}}}}}}", "braces are nested more than 8 deep" },
    };
    const struct glob *g;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(glob_compile(str_from(rows[i][0]), GLOB_PARTS, '/', &arena, &g, &e),
                  -ERR_INVALID);
        CHECK_STR(str_from(e.msg), rows[i][1]);
    }
}

TEST(too_long_and_too_many)
{
    char pattern[GLOB_BYTES_MAX + 2];
    const struct glob *g;
    struct err e;

    memset(pattern, 'a', sizeof pattern);
    CHECK_INT(
        glob_compile((struct str){ pattern, GLOB_BYTES_MAX + 1 }, GLOB_PARTS, '/', &arena, &g, &e),
        -ERR_INVALID);
    CHECK_OK(glob_compile((struct str){ pattern, GLOB_BYTES_MAX }, GLOB_PARTS, '/', &arena, &g, &e),
             e);
    CHECK(glob_is_literal(g));
}

/* With a backtracking matcher this would take too long. */
TEST(many_stars_do_not_take_long)
{
    char pattern[201], text[4001];
    const struct glob *g;

    for (size_t i = 0; i < 100; i++)
        memcpy(pattern + 2 * i, "a*", 2);
    pattern[200] = '\0';
    memset(text, 'a', 4000);
    text[4000] = '\0';
    g = compiled(pattern, GLOB_PARTS, '/');
    CHECK(glob_match(g, str_from(text)));
    text[3999] = '/';
    CHECK(!glob_match(g, str_from(text)));
}

TEST(prefixes)
{
    CHECK_STR(glob_prefix(compiled("/a/*", GLOB_PARTS, '/')), "/a/");
    CHECK_STR(glob_prefix(compiled("/a\\*b/*", GLOB_PARTS, '/')), "/a*b/");
    CHECK_STR(glob_prefix(compiled("/a/**", GLOB_PLAIN, '/')), "/a");
    CHECK_STR(glob_prefix(compiled("**/a", GLOB_PARTS, '/')), "");
    CHECK(glob_is_literal(compiled("/a", GLOB_PARTS, '/')));
    CHECK(!glob_is_literal(compiled("/a?", GLOB_PARTS, '/')));
}

TEST(overlaps)
{
    static const struct {
        const char *a, *b;
        bool overlap;
    } rows[] = {
        { "/a", "/a", true },         { "/a", "/b", false },         { "/a*", "/*b", true },
        { "/a*c", "/b*", false },     { "/api/**", "/api", true },   { "/api/**", "/apis", false },
        { "/[a-c]", "/[c-d]", true }, { "/[a-c]", "/[d-f]", false }, { "/[!a]", "/a", false },
        { "/[!a]", "/[!b]", true },   { "/?", "/ab", false },        { "**", "/x", true },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct glob *a = compiled(rows[i].a, GLOB_PLAIN, '/');
        const struct glob *b = compiled(rows[i].b, GLOB_PLAIN, '/');

        if (glob_overlap(a, b) != rows[i].overlap || glob_overlap(b, a) != rows[i].overlap)
            FAIL("'%s' and '%s' should %soverlap", rows[i].a, rows[i].b,
                 rows[i].overlap ? "" : "not ");
    }
}

static bool is_covered(const struct glob *a, const struct glob *const *by, size_t n)
{
    size_t work = 1 << 20;

    return glob_covered(a, by, n, &work);
}

TEST(patterns_that_others_cover_together)
{
    static const struct {
        const char *a, *by[4];
        bool covered;
    } rows[] = {
        { "/x/**", { "/x", "/x/*", "/x/*/**" }, true },
        { "/x/**", { "/x", "/x/*" }, false },
        { "/x/**", { "/x/?*", "/x/?*/**" }, false }, /* "/x/" */
        { "/x", { "/X" }, true },
        { "/[a-c]", { "/a", "/B", "/c" }, true },
        { "/[a-d]", { "/a", "/b", "/c" }, false },
        { "/[a-e]", { "/[a-c]" }, false },
        { "/[a-z]", { "/[A-Z]" }, true },
        { "/[a-z]", { "/[A-Y]" }, false },
        { "/?", { "/[a-z]", "/[!a-z]" }, true },
        { "/?", { "/[a-z]", "/[!a-zé]" }, false },
        { "/[à-é]", { "/[à-ç]", "/[è-ê]" }, true },
        { "/{a,b,c/**}", { "/[ab]", "/c/**" }, true },
        { "/**", { "/", "/*", "/*/*" }, false },
        { "/*", { "/a*", "/[!a]*" }, false }, /* "/" */
        { "/*", { "/a*", "/[!a]*", "/" }, true },
        { "/a", { 0 }, false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct glob *by[4];
        size_t n = 0;

        for (; n < COUNT_OF(by) && rows[i].by[n]; n++)
            by[n] = compiled(rows[i].by[n], GLOB_PARTS_WIDE, '/');
        if (is_covered(compiled(rows[i].a, GLOB_PARTS, '/'), by, n) != rows[i].covered)
            FAIL("'%s' should %sbe covered", rows[i].a, rows[i].covered ? "" : "not ");
    }
}

/* Whether each short text of a small alphabet that matches `a` matches one of the others. */
static bool covers_short_texts(const struct glob *a, const struct glob *const *by, size_t n,
                               char text[8], size_t length, size_t most)
{
    static const char alphabet[] = "/aAbx";
    bool matched = length == 0 || !glob_match(a, (struct str){ text, length });

    for (size_t i = 0; i < n && !matched; i++)
        matched = glob_match(by[i], (struct str){ text, length });
    for (size_t i = 0; matched && length < most && i + 1 < sizeof alphabet; i++) {
        text[length] = alphabet[i];
        matched = covers_short_texts(a, by, n, text, length + 1, most);
    }
    return matched;
}

static const struct glob *random_glob(uint32_t *seed, enum glob_dialect dialect, char out[40])
{
    static const char *const pieces[] = {
        "a", "b", "A", "*", "?", "[!a]", "[ab]", "/", "/*", "/**"
    };
    size_t n = 0;

    out[n++] = '/';
    for (uint32_t left = (*seed = *seed * 1664525 + 1013904223) >> 30; left > 0; left--) {
        const char *piece;

        *seed = *seed * 1664525 + 1013904223;
        piece = pieces[(*seed >> 16) % COUNT_OF(pieces)];
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
    }
    out[n] = '\0';
    return compiled(out, dialect, '/');
}

TEST(covered_is_what_no_text_refutes)
{
    uint32_t seed = 7;
    unsigned count[2] = { 0 };

    for (int i = 0; i < 6000; i++) {
        char text[8], a_text[40], by_text[3][40];
        const struct glob *by[3], *a;
        bool covered, want;

        a = random_glob(&seed, i % 2 ? GLOB_PARTS : GLOB_PLAIN, a_text);
        for (size_t k = 0; k < COUNT_OF(by); k++)
            by[k] = random_glob(&seed, GLOB_PARTS_WIDE, by_text[k]);
        covered = is_covered(a, by, COUNT_OF(by));
        want = covers_short_texts(a, by, COUNT_OF(by), text, 0, 5);
        if (want && !covered) /* rarely a longer text decides */
            want = covers_short_texts(a, by, COUNT_OF(by), text, 0, sizeof text);
        if (covered != want)
            FAIL("'%s' by '%s', '%s', '%s': should be %d", a_text, by_text[0], by_text[1],
                 by_text[2], want);
        count[covered]++;
    }
    CHECK(count[0] > 500 && count[1] > 500);
}

/* The sets of states would double with every character. */
TEST(covering_is_given_up)
{
    const struct glob *a = compiled("/*a??????????????????", GLOB_PARTS, '/'),
                      *by = compiled("/*b??????????????????", GLOB_PARTS_WIDE, '/');
    const struct glob *parts[] = { by, by };
    size_t work = 1 << 22, little = 100;

    CHECK(!glob_covered(a, parts, 1, &work));
    CHECK(work < 1 << 22);
    CHECK(!glob_covered(a, &a, 1, &little));
    CHECK_INT(little, 0);
}
