/* SPDX-License-Identifier: Apache-2.0 */
/* An expression that compiles here is one of POSIX's, and matches what the C library says it does.
 * The expression and the text have a newline between. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "trust/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The library goes through its own expressions with back-tracking memory: kept small. */
enum { EXPRESSION_MAX = 32, TEXT_MAX = 48 };

static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= 0)
            return false;
    return true;
}

static bool has_braces(struct str s)
{
    return memchr(s.p, '{', s.n) != NULL;
}

static void must(bool good)
{
    if (!good)
        abort();
}

static void compare(const struct pattern *p, struct str inner, struct str text)
{
    char anchored[EXPRESSION_MAX + 8], copy[TEXT_MAX + 1];
    regex_t library;
    int r;

    if (inner.n > EXPRESSION_MAX || !is_plain(inner) || !is_plain(text) ||
        !str_copy(text, copy, sizeof copy))
        return;
    if (has_braces(inner) && memchr(inner.p, '(', inner.n))
        return; /* groups that repeat so often need gigabytes there */
    snprintf(anchored, sizeof anchored, "^(" STR_FMT ")$", STR_ARG(inner));
    must(regcomp(&library, anchored, REG_EXTENDED | REG_NOSUB) == 0);
    r = regexec(&library, copy, 0, NULL, 0);
    regfree(&library);
    must((r == 0) == (pattern_match(p, text) == 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    struct str text, expression, inner, all = { (const char *)data, size };
    const struct pattern *p;

    if (size > 4096)
        return 0;
    text = str_cut(all, '\n', &expression);
    if (pattern_compile(expression, &a, &p, NULL) < 0)
        return 0;
    must(pattern_match(p, text) <= 1);
    inner = expression;
    if (inner.n && inner.p[0] != '^' && inner.p[inner.n - 1] != '$')
        compare(p, inner, text);
    return 0;
}
