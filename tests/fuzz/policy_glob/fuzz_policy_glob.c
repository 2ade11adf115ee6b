/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled glob matches what a naive matcher does, which goes through the pattern itself and
 * tries everything. The first byte chooses the dialect; pattern and text have a newline between. */
#include <stdlib.h>

#include "base/own.h"
#include "domain/policy/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATTERN_MAX = 20, TEXT_MAX = 20, TRIES_MAX = 1000000 };

struct naive {
    enum glob_dialect dialect;
    char separator;
    const char *start;
    size_t tries;
};

/* What comes behind an alternative. */
struct later {
    const char *p, *end;
    const struct later *next;
};

static bool naive_match(struct naive *n, const char *p, const char *end, struct str t,
                        const struct later *k);

static struct str from(struct str t, size_t i)
{
    return i ? (struct str){ t.p + i, t.n - i } : t;
}

/* Everything behind some separator of t, or t itself. */
static bool naive_parts(struct naive *n, const char *p, const char *end, struct str t,
                        const struct later *k, bool keep)
{
    if (naive_match(n, p, end, t, k))
        return true;
    for (size_t i = keep ? 1 : 0; i < t.n; i++)
        if (t.p[i] == n->separator && naive_match(n, p, end, from(t, keep ? i : i + 1), k))
            return true;
    return false;
}

static bool naive_run(struct naive *n, const char *p, const char *end, struct str t,
                      const struct later *k, bool cross)
{
    for (size_t i = 0; i <= t.n; i++) {
        if (naive_match(n, p, end, from(t, i), k))
            return true;
        if (i < t.n && t.p[i] == n->separator && !cross)
            break;
    }
    return false;
}

static bool is_stars(const struct naive *n, const char *p, const char *end)
{
    return end - p >= 2 && p[0] == '*' && p[1] == '*' && (p + 2 == end || p[2] == n->separator);
}

static const char *class_end(const struct naive *n, const char *p)
{
    p++;
    if (*p == '!' || (n->dialect == GLOB_PARTS && *p == '^'))
        p++;
    for (bool first = true; first || *p != ']'; first = false) {
        p++;
        if (p[0] == '-' && p[1] != ']')
            p += 2;
    }
    return p + 1;
}

static bool naive_class(const struct naive *n, const char *p, const char *end, char c)
{
    bool negated, in = false;

    if (n->dialect == GLOB_PARTS && c == n->separator)
        return false;
    p++;
    negated = *p == '!' || (n->dialect == GLOB_PARTS && *p == '^');
    p += negated;
    while (p < end - 1) {
        bool range = p[1] == '-' && p + 2 < end - 1;

        in |= c >= p[0] && c <= (range ? p[2] : p[0]);
        p += range ? 3 : 1;
    }
    return in != negated;
}

/* The end of the alternative that begins at p: its ',' or '}'. */
static const char *alternative_end(const struct naive *n, const char *p)
{
    unsigned depth = 0;

    while (depth || (*p != ',' && *p != '}')) {
        if (*p == '[') {
            p = class_end(n, p);
            continue;
        }
        depth += *p == '{';
        depth -= *p == '}';
        p += *p == '\\' ? 2 : 1;
    }
    return p;
}

static bool naive_braces(struct naive *n, const char *p, const char *end, struct str t,
                         const struct later *k)
{
    const char *close = p;
    struct later behind = { .end = end, .next = k };

    do
        close = alternative_end(n, close + 1);
    while (*close != '}');
    behind.p = close + 1;
    for (const char *at = p; at != close;) {
        const char *last = alternative_end(n, at + 1);

        if (naive_match(n, at + 1, last, t, &behind))
            return true;
        at = last;
    }
    return false;
}

static bool naive_separator(struct naive *n, const char *p, const char *end, struct str t,
                            const struct later *k)
{
    bool there = t.n && t.p[0] == n->separator;

    if (!is_stars(n, p + 1, end))
        return there && naive_match(n, p + 1, end, from(t, 1), k);
    if (p + 3 == end) {
        if (n->dialect == GLOB_PLAIN && naive_match(n, end, end, t, k))
            return true;
        return there && naive_run(n, end, end, from(t, 1), k, true);
    }
    if (!there) /* then only what takes nothing at all can help: another "**" behind it */
        return naive_match(n, p + 3, end, t, k);
    return naive_parts(n, p + 3, end, t, k, true);
}

static bool naive_one(struct naive *n, const char *p, const char *end, struct str t,
                      const struct later *k)
{
    bool parts = n->dialect == GLOB_PARTS;
    const char *next = *p == '[' ? class_end(n, p) : parts && *p == '\\' ? p + 2 : p + 1;
    bool good;

    if (t.n == 0)
        return false;
    if (*p == '[')
        good = naive_class(n, p, next, t.p[0]);
    else if (*p == '?')
        good = !parts || t.p[0] != n->separator;
    else
        good = next[-1] == t.p[0];
    return good && naive_match(n, next, end, from(t, 1), k);
}

static bool naive_match(struct naive *n, const char *p, const char *end, struct str t,
                        const struct later *k)
{
    if (++n->tries > TRIES_MAX)
        return false;
    if (p == end)
        return k ? naive_match(n, k->p, k->end, t, k->next) : t.n == 0;
    if (p == n->start && is_stars(n, p, end)) {
        if (p + 2 == end)
            return true;
        n->start = p + 3; /* the next part is at the start, too */
        return naive_parts(n, p + 3, end, t, k, false);
    }
    if (*p == n->separator)
        return naive_separator(n, p, end, t, k);
    if (*p == '*') {
        while (p < end && *p == '*')
            p++;
        return naive_run(n, p, end, t, k, n->dialect == GLOB_PLAIN);
    }
    if (*p == '{' && n->dialect == GLOB_PARTS)
        return naive_braces(n, p, end, t, k);
    return naive_one(n, p, end, t, k);
}

static void must(bool good)
{
    if (!good)
        abort();
}

static bool is_ascii(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= 0)
            return false;
    return true;
}

static void compare(const struct glob *g, struct str pattern, struct str text,
                    enum glob_dialect dialect, char separator)
{
    char copy[PATTERN_MAX + 1];
    struct naive n = { .dialect = dialect, .separator = separator, .start = copy };
    bool naive;

    if (!is_ascii(pattern) || !is_ascii(text) || text.n > TEXT_MAX ||
        !str_copy(pattern, copy, sizeof copy))
        return;
    naive = naive_match(&n, copy, copy + pattern.n, text, NULL);
    must(n.tries > TRIES_MAX || naive == glob_match(g, text));
}

/* Covered by the same pattern in another dialect: then the text cannot refute it. */
static void check_covering(const struct glob *g, struct str pattern, struct str text,
                           char separator)
{
    static const enum glob_dialect dialects[] = { GLOB_PARTS, GLOB_PLAIN, GLOB_PARTS_WIDE,
                                                  GLOB_PLAIN_WIDE };
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);

    for (size_t i = 0; i < COUNT_OF(dialects); i++) {
        const struct glob *other;
        size_t work = 1 << 14;

        if (glob_compile(pattern, dialects[i], separator, &a, &other, NULL) >= 0 &&
            glob_covered(g, &other, 1, &work))
            must(!glob_match(g, text) || glob_match(other, text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    struct str text, pattern, all = { (const char *)data, size };
    enum glob_dialect dialect;
    const struct glob *g;
    char separator;

    if (size == 0 || size > 4096)
        return 0;
    dialect = data[0] & 1 ? GLOB_PLAIN : GLOB_PARTS;
    separator = data[0] & 2 ? '.' : '/';
    text = str_cut((struct str){ all.p + 1, all.n - 1 }, '\n', &pattern);
    if (glob_compile(pattern, dialect, separator, &a, &g, NULL) < 0)
        return 0;
    if (glob_match(g, text)) {
        must(str_starts(text, glob_prefix(g)));
        must(!glob_is_literal(g) || str_eq(text, glob_prefix(g)));
        must(glob_overlap(g, g));
    }
    compare(g, pattern, text, dialect, separator);
    check_covering(g, pattern, text, separator);
    return 0;
}
