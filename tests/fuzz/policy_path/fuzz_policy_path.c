/* A path that is canonical is its own canonical form, has nothing left that servers read in two
 * ways, and is what a naive reader makes of it. */
#include <stdlib.h>

#include "base/own.h"
#include "policy/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_form(struct str path, bool slash)
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
        must(part.n > 0 || !rest.p);
        must(!str_eq(part, STR(".")) && !str_eq(part, STR("..")));
    }
}

static void try_target(struct str target, bool slash)
{
    AUTO(buf_done) struct buf one = BUF_INIT(1 << 16), two = BUF_INIT(1 << 16);
    struct str path, query, again, none;
    size_t at = str_find(target, '?');

    if (path_canonical(target, slash, &one, &path, &query, NULL) < 0) {
        must(one.n == 0);
        return;
    }
    check_form(path, slash);
    must((at < target.n) == (query.p != NULL));
    must(!query.p || str_eq(query, (struct str){ target.p + at + 1, target.n - at - 1 }));
    must(path_canonical(path, slash, &two, &again, &none, NULL) >= 0);
    must(str_eq(path, again) && !none.p);
}

static void try_query(struct str query)
{
    char text[PATH_QUERY_MAX];
    struct str key, value;
    size_t n;

    while (path_query_next(&query, &key, &value))
        if (path_query_decode(value, text, sizeof text, &n))
            must(n <= value.n && str_is_utf8((struct str){ text, n }) && !memchr(text, '\0', n));
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
