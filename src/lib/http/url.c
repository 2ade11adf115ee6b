/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/url.h"

#include "base/hex.h"
#include "base/own.h"

struct url url_split(struct str path_and_query)
{
    struct url u;

    u.query = str_cut(path_and_query, '?', &u.path);
    return u;
}

/* out has room for s.n bytes; returns how many there are, or an error. */
static int decode_percent(struct str s, bool form, char *out, struct err *e)
{
    int n = 0;

    for (size_t i = 0; i < s.n; i++, n++) {
        char c = s.p[i];

        if (form && c == '+')
            c = ' ';
        if (c == '%') {
            if (s.n - i < 3 || hex_digit(s.p[i + 1]) < 0 || hex_digit(s.p[i + 2]) < 0)
                return err_set(e, ERR_INVALID,
                               "%% must be followed by two hexadecimal digits in an address");
            c = (char)(hex_digit(s.p[i + 1]) << 4 | hex_digit(s.p[i + 2]));
            i += 2;
        }
        if (c == '\0')
            return err_set(e, ERR_INVALID, "an address cannot contain a NUL byte");
        out[n] = c;
    }
    return n;
}

int url_decode(struct str s, bool form, struct arena *a, struct str *ret, struct err *e)
{
    char *out = arena_alloc(a, s.n + 1);
    int n;

    if (!out)
        return err_set(e, ERR_TOO_BIG, "the address has %zu bytes, more than can be decoded", s.n);
    n = decode_percent(s, form, out, e);
    if (n < 0)
        return n;
    if (!str_is_utf8((struct str){ out, (size_t)n }))
        return err_set(e, ERR_INVALID, "an address must decode to UTF-8");
    *ret = (struct str){ out, (size_t)n };
    return 0;
}

static int add_segment(struct str raw, struct arena *a, struct url_path *p, struct err *e)
{
    struct str s;
    int r;

    if (p->n == URL_SEGMENTS_MAX)
        return err_set(e, ERR_TOO_BIG, "the path has more than %d segments", URL_SEGMENTS_MAX);
    r = url_decode(raw, false, a, &p->segments[p->n], e);
    if (r < 0)
        return r;
    s = p->segments[p->n];
    if (s.n == 0)
        return err_set(e, ERR_INVALID, "the path has an empty segment ('//')");
    if (str_eq(s, STR(".")) || str_eq(s, STR("..")))
        return err_set(e, ERR_INVALID, "the path has a '.' or '..' segment");
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '/' || s.p[i] == '\\' || (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return err_set(e, ERR_INVALID,
                           "a segment of the path holds a slash, backslash or control character");
    p->n++;
    return 0;
}

int url_path(struct str path, struct arena *a, struct url_path *ret, struct err *e)
{
    struct url_path p = { 0 };

    if (path.n == 0 || path.p[0] != '/')
        return err_set(e, ERR_INVALID, "the path does not start with '/'");
    for (struct str rest = { path.p + 1, path.n - 1 }; rest.n > 0;) {
        struct str raw, tail = str_cut(rest, '/', &raw);
        int r = add_segment(raw, a, &p, e);

        if (r < 0)
            return r;
        p.slash = tail.p != NULL;
        rest = tail;
    }
    if (p.n == 0)
        p.slash = true;
    *ret = p;
    return 0;
}

bool url_next(struct str *query, struct url_pair *ret)
{
    struct str pair;

    while (query->n > 0) {
        *query = str_cut(*query, '&', &pair);
        if (pair.n == 0)
            continue;
        ret->value = str_cut(pair, '=', &ret->name);
        return true;
    }
    return false;
}

int url_query(struct str query, struct str name, struct arena *a, struct str *ret, struct err *e)
{
    struct url_pair pair;
    struct str key, value = { 0 };
    int found = 0, r;

    while (url_next(&query, &pair)) {
        r = url_decode(pair.name, true, a, &key, e);
        if (r < 0)
            return r;
        if (!str_eq(key, name))
            continue;
        if (found++)
            return err_set(e, ERR_INVALID, "the query has '" STR_FMT "' twice", STR_ARG(name));
        r = url_decode(pair.value, true, a, &value, e);
        if (r < 0)
            return r;
    }
    if (found)
        *ret = value;
    return found;
}

static bool is_unreserved(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int url_encode(struct buf *out, struct str s)
{
    size_t before = out->n;

    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        char code[3] = { '%', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15] };
        int r = is_unreserved(s.p[i]) ? buf_add_c(out, s.p[i])
                                      : buf_add(out, (struct str){ code, sizeof(code) });

        if (r < 0) {
            out->n = before;
            if (out->p)
                out->p[before] = '\0';
            return r;
        }
    }
    return 0;
}
