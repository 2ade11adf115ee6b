/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/pattern.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

/* Lives as long as the test's process. */
static struct arena arena = ARENA_INIT(64 << 20);

static int match(const char *expression, const char *text)
{
    const struct pattern *p;
    struct err e;

    if (pattern_compile(str_from(expression), &arena, &p, &e) < 0)
        FAIL("'%s': %s", expression, e.msg);
    return pattern_match(p, str_from(text));
}

TEST(whole_texts)
{
    static const struct {
        const char *expression, *text;
        int match;
    } rows[] = {
        { "", "", 1 },
        { "", "a", 0 },
        { "abc", "abc", 1 },
        { "abc", "abcd", 0 },
        { "abc", "xabc", 0 },
        { "^abc$", "abc", 1 },
        { "abc\\$", "abc$", 1 },
        { "abc\\\\$", "abc\\", 1 },
        { "a.c", "a\nc", 1 },
        { "a\\.c", "abc", 0 },
        { "a|bc", "a", 1 },
        { "a|bc", "bc", 1 },
        { "a|bc", "ac", 0 },
        { "(a|b)c", "bc", 1 },
        { "(a|)c", "c", 1 },
        { "()", "", 1 },
        { "a*", "", 1 },
        { "a*", "aaaa", 1 },
        { "a*", "aab", 0 },
        { "a+", "", 0 },
        { "a+b?", "aab", 1 },
        { "(ab)+", "abab", 1 },
        { "(ab)+", "aba", 0 },
        { "(a*)*", "aaa", 1 },
        { "(a|b*)+c", "abbac", 1 },
        { "a{3}", "aaa", 1 },
        { "a{3}", "aa", 0 },
        { "a{2,3}", "aaaa", 0 },
        { "a{2,}", "aaaaaaa", 1 },
        { "a{2,}", "a", 0 },
        { "a{0}", "", 1 },
        { "a{0}b", "ab", 0 },
        { "(ab|c){2}", "cab", 1 },
        { "(a{1,2}b){2,}", "aababb", 0 },
        { "(a{1,2}b){2,}", "aabab", 1 },
        { "[a-c]", "b", 1 },
        { "[a-c]", "d", 0 },
        { "[^a-c]", "d", 1 },
        { "[^a-c]", "a", 0 },
        { "[]]", "]", 1 },
        { "[^]]", "]", 0 },
        { "[a-]", "-", 1 },
        { "[-a]", "-", 1 },
        { "[[:digit:]x]+", "1x2", 1 },
        { "[[:digit:]]+", "1x2", 0 },
        { "[^[:cntrl:]]+", "a\nb", 0 },
        { "[^[:cntrl:]]+", "ünï", 1 },
        { "(sbx_)?[0-9a-z]{1,20}", "sbx_4k7", 1 },
        { "(sbx_)?[0-9a-z]{1,20}", "sbx_4k7/..", 0 },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (match(rows[i].expression, rows[i].text) != rows[i].match)
            FAIL("'%s' should %smatch '%s'", rows[i].expression, rows[i].match ? "" : "not ",
                 rows[i].text);
}

TEST(a_nul_is_a_byte_like_others)
{
    const struct pattern *p;
    struct err e;

    CHECK_OK(pattern_compile(STR("[^[:cntrl:]]*"), &arena, &p, &e), e);
    CHECK_INT(pattern_match(p, (struct str){ "a\0b", 3 }), 0);
    CHECK_OK(pattern_compile(STR("a.b"), &arena, &p, &e), e);
    CHECK_INT(pattern_match(p, (struct str){ "a\0b", 3 }), 1);
    CHECK(pattern_compile((struct str){ "a\0b", 3 }, &arena, &p, &e) == -ERR_INVALID);
}

TEST(refuses_what_readers_disagree_on)
{
    static const char *const rows[] = {
        "a**",       "a+?", "*a",   "(*a)",  "a|*",    "(",       ")",       "a)",
        "[a",        "[]",  "[^]",  "[z-a]", "[a\\]]", "[a-c-e]", "[[.a.]]", "[[=a=]]",
        "[[:foo:]]", "\\d", "\\1",  "\\",    "a{",     "a{,3}",   "a{3,2}",  "a{256}",
        "a{x}",      "a^b", "a$b",  "a]",    "a}",     "^a|b$",   "^a|b",    "[a-[:digit:]]",
        "^[a:]|b$",  "\\<", "a\\>", "\\`",   "\\'",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct pattern *p = NULL;
        struct err e = { 0 };

        if (pattern_compile(str_from(rows[i]), &arena, &p, &e) != -ERR_INVALID)
            FAIL("'%s' should be refused", rows[i]);
        CHECK(e.msg[0] && !p);
    }
}

TEST(is_bounded)
{
    static const char *const rows[] = {
        "a{255}{2}",
        "(a{255}){3}",
        "((((a{9}){9}){9}){9}){9}",
        "((){255}){255}",
        "(((((((((((((((((a)))))))))))))))))",
    };
    char text[PATTERN_BYTES_MAX + 2];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct pattern *p;

        if (pattern_compile(str_from(rows[i]), &arena, &p, NULL) >= 0)
            FAIL("'%s' should be refused", rows[i]);
    }
    memset(text, 'a', sizeof text);
    CHECK(pattern_compile((struct str){ text, sizeof text - 1 }, &arena,
                          &(const struct pattern *){ 0 }, NULL) == -ERR_TOO_BIG);
}

/* The classic that takes others years: every way through is followed at once here, and what is long
 * and wide ends with an error instead of a wait. */
TEST(nothing_takes_long)
{
    struct buf text AUTO(buf_done) = BUF_INIT(1 << 20);
    const struct pattern *p;
    struct err e;

    for (int i = 0; i < 30000; i++)
        CHECK(buf_add_c(&text, 'a') >= 0);
    CHECK_OK(pattern_compile(STR("(a|aa)+b"), &arena, &p, &e), e);
    CHECK_INT(pattern_match(p, buf_str(&text)), 0);
    CHECK_OK(pattern_compile(STR("(a?){200}(a*){200}b"), &arena, &p, &e), e);
    CHECK_INT(pattern_match(p, buf_str(&text)), -ERR_TOO_BIG);
}
