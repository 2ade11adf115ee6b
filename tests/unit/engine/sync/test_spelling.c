/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/spelling.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(folded_names)
{
    static const struct {
        const char *path, *folded;
    } rows[] = {
        { "a/b", "a/b" },
        { "Case", "Case" },
        { "a. ./b . ", "a/b" },
        { "a:b/c:", "a/c" },
        { "...", "." },
        { " / ", " / " },
        { ":x", ":" },
        { ".git\xe2\x80\x8d", ".git" },
        { "\xef\xbb\xbf.git", ".git" },
        { "\xf3\xa0\x80\x81x", "x" },
        { "hoo\xe2\x84\xaa\xc5\xbf", "hooks" },
        { "\xc3\xbc", "\xc3\xbc" },
        /* No UTF-8: bytes stay as they are. */
        { "\xe2\x80", "\xe2\x80" },
        { "\xc2", "\xc2" },
        { "\xff\xad", "\xff\xad" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char out[64];
        size_t n = spelling_fold(str_from(rows[i].path), out);

        if (!str_eq((struct str){ out, n }, str_from(rows[i].folded)))
            FAIL("row %zu: " STR_FMT, i, (int)n, out);
    }
}

TEST(short_names)
{
    static const char *const yes[] = { "GIT~1", "git~1", "GI7EB0~1", "MCP~1.JSO", "A~123456" };
    static const char *const no[] = { "~1",         "GIT~",     "GIT~1x", "GIT~1~",
                                      "ABCDEFGH~1", "A~1.JSON", "a.b~1",  "plain" };

    for (size_t i = 0; i < COUNT_OF(yes); i++)
        if (!spelling_is_short(str_from(yes[i])))
            FAIL("%s", yes[i]);
    for (size_t i = 0; i < COUNT_OF(no); i++)
        if (spelling_is_short(str_from(no[i])))
            FAIL("%s", no[i]);
}
