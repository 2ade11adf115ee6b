/* SPDX-License-Identifier: Apache-2.0 */
/* A reading of a path is its own reading, has nothing left that servers read in two ways but what
 * it keeps on purpose, and a folded one is its own folding. */
#include <stdlib.h>

#include "base/own.h"
#include "domain/policy/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_form(struct str path, unsigned reading, bool slash)
{
    struct str rest = path, part;

    must(path.n > 0 && path.n <= PATH_BYTES_MAX && path.p[0] == '/');
    for (size_t i = 0; i < path.n; i++) {
        unsigned char c = (unsigned char)path.p[i];

        must(c > ' ' && c < 0x7f && !strchr("\\#?;+", c));
        must(c != '%' || (i + 2 < path.n && strchr("0123456789ABCDEF", path.p[i + 1]) &&
                          strchr("0123456789ABCDEF", path.p[i + 2])));
        must(slash || c != '%' || memcmp(path.p + i, "%2F", 3) != 0);
    }
    for (rest = str_cut(rest, '/', &part); rest.p;) {
        rest = str_cut(rest, '/', &part);
        must(part.n > 0 || !rest.p || reading & PATH_KEEPS_SLASHES);
        must((!str_eq(part, STR(".")) && !str_eq(part, STR(".."))) || reading & PATH_KEEPS_DOTS);
    }
}

static void check_folded(struct str reading)
{
    struct path_text once, twice;

    path_fold(reading, &once);
    must(once.n > 0 && once.n <= reading.n && once.bytes[0] == '/');
    path_fold((struct str){ once.bytes, once.n }, &twice);
    must(once.n == twice.n && memcmp(once.bytes, twice.bytes, once.n) == 0);
}

/* Whether the path has this reading; all that are not in its ways are the same as another. */
static void try_reading(struct str path, unsigned reading, bool slash)
{
    struct path_text one, two, same;
    const char *flaw = path_read(path, reading, slash, &one);
    const char *other = path_read(path, reading & path_ways(path), slash, &same);
    struct str text = { one.bytes, one.n };

    must(!flaw == !other);
    if (flaw)
        return;
    must(one.n == same.n && memcmp(one.bytes, same.bytes, one.n) == 0);
    check_form(text, reading, slash);
    must(!path_read(text, reading, slash, &two));
    must(one.n == two.n && memcmp(one.bytes, two.bytes, one.n) == 0);
    check_folded(text);
}

static void try_target(struct str target, bool slash)
{
    struct str path;

    (void)path_query_flaw(str_cut(target, '?', &path));
    for (unsigned reading = 0; reading < PATH_READINGS; reading++)
        try_reading(path, reading, slash);
}

static void try_query(struct str query)
{
    char text[PATH_QUERY_MAX], folded[PATH_QUERY_MAX];
    struct str key, value;
    size_t n;

    while (path_query_next(&query, "&;", &key, &value)) {
        if (path_query_decode(value, text, sizeof text, &n))
            must(n <= value.n && str_is_utf8((struct str){ text, n }) && !memchr(text, '\0', n));
        if (path_query_decode(key, text, sizeof text, &n))
            must(path_query_fold((struct str){ text, n }, folded) <= n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str target = { (const char *)data, size };

    if (size > 3 * PATH_QUERY_MAX)
        return 0;
    try_target(target, false);
    try_target(target, true);
    try_query(target);
    (void)path_pattern_flaw(target);
    return 0;
}
