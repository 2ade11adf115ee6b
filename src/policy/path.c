#include "policy/path.h"

#include <stdint.h>

static const char hex[] = "0123456789ABCDEF";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that the escape at i stands for, or -1. */
static int escape_at(struct str s, size_t i)
{
    int high, low;

    if (i + 2 >= s.n || s.p[i] != '%')
        return -1;
    high = hex_value(s.p[i + 1]);
    low = hex_value(s.p[i + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static bool is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

/* What may stand in a part as it is. Not ';', which begins parameters, and not '+', which is a
 * blank to some: both are always escaped. */
static bool stays(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           (c && strchr("-._~!$&'()*,=:@", c));
}

static const char *byte_flaw(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (is_control(c) || c == ' ')
            return "holds a control character or blank";
        if (c > 0x7f)
            return "holds a byte that is not ASCII";
        if (c == '#')
            return "holds a '#'";
    }
    return NULL;
}

struct decoded {
    char bytes[PATH_BYTES_MAX];
    size_t n;
};

/* A server that resolves escapes twice would see another path. */
static bool hides_escape(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        int c = escape_at(s, i);

        if (c == '.' || c == '/' || c == '\\' || c == '%')
            return true;
    }
    return false;
}

static const char *decode_part(struct str part, bool slash, struct decoded *ret)
{
    ret->n = 0;
    for (size_t i = 0; i < part.n; i++) {
        int c = (unsigned char)part.p[i];

        if (c == '%') {
            c = escape_at(part, i);
            i += 2;
            if (c < 0)
                return "holds a broken escape";
            if (is_control((unsigned char)c))
                return "holds the escape of a control character";
            if (c == '/' && !slash)
                return "holds %2F, which this endpoint does not allow";
        }
        if (c == '\\')
            return "holds a '\\'";
        ret->bytes[ret->n++] = (char)c;
    }
    if (!str_is_utf8((struct str){ ret->bytes, ret->n }))
        return "holds escapes that are not UTF-8";
    return hides_escape((struct str){ ret->bytes, ret->n }) ? "is escaped twice" : NULL;
}

static bool is_dots(struct str s)
{
    return str_eq(s, STR(".")) || str_eq(s, STR(".."));
}

/* A dot part of a part that holds encoded slashes. */
static bool has_inner_dots(struct str s)
{
    struct str piece;
    bool inner = str_find(s, '/') < s.n;

    while (inner && s.p) {
        s = str_cut(s, '/', &piece);
        if (is_dots(piece))
            return true;
    }
    return false;
}

/* Where the canonical path stands while it is written: always behind a '/'. */
struct canonical {
    struct buf *out;
    size_t from;
};

static void cut_back(struct buf *b, size_t n)
{
    b->n = n;
    if (b->p)
        b->p[n] = '\0';
}

static bool climb(struct canonical *c)
{
    size_t n = c->out->n - 1;

    if (n == c->from)
        return false;
    while (c->out->p[n - 1] != '/')
        n--;
    cut_back(c->out, n);
    return true;
}

static int write_part(struct buf *out, struct str part)
{
    int r = 0;

    for (size_t i = 0; i < part.n && r >= 0; i++) {
        unsigned char b = (unsigned char)part.p[i];
        char escaped[3] = { '%', hex[b >> 4], hex[b & 15] };

        r = stays(b) ? buf_add_c(out, (char)b) : buf_add(out, (struct str){ escaped, 3 });
    }
    return r;
}

static const char *add_part(struct canonical *c, struct str part, bool last, bool slash)
{
    struct decoded d;
    struct str text, parameters = str_cut(part, ';', &part);
    const char *flaw = decode_part(parameters, slash, &d);

    if (!flaw)
        flaw = decode_part(part, slash, &d);
    if (flaw)
        return flaw;
    text = (struct str){ d.bytes, d.n };
    if (has_inner_dots(text))
        return "has '.' or '..' behind an escaped slash";
    if (str_eq(text, STR("..")))
        return climb(c) ? NULL : "leaves the root with '..'";
    if (text.n == 0 || str_eq(text, STR(".")))
        return NULL;
    if (write_part(c->out, text) < 0 || (!last && buf_add_c(c->out, '/') < 0))
        return "does not fit";
    return NULL;
}

static const char *canonical_path(struct str path, bool slash, struct buf *out)
{
    struct canonical c = { .out = out, .from = out->n };
    const char *flaw = NULL;
    struct str part;

    if (path.n > PATH_BYTES_MAX)
        return "is too long";
    if (path.n == 0 || path.p[0] != '/')
        return "does not begin with '/'";
    if (buf_add_c(out, '/') < 0)
        return "does not fit";
    for (struct str rest = { path.p + 1, path.n - 1 }; rest.p && !flaw;) {
        rest = str_cut(rest, '/', &part);
        flaw = add_part(&c, part, !rest.p, slash);
    }
    return !flaw && out->n - c.from > PATH_BYTES_MAX ? "is too long" : flaw;
}

int path_canonical(struct str target, bool allow_encoded_slash, struct buf *out,
                   struct str *ret_path, struct str *ret_query, struct err *e)
{
    struct str path, query = str_cut(target, '?', &path);
    size_t from = out->n, path_n;
    const char *flaw = byte_flaw(target);

    if (!flaw)
        flaw = canonical_path(path, allow_encoded_slash, out);
    path_n = out->n - from;
    if (!flaw && query.n > PATH_QUERY_MAX)
        flaw = "has a query that is too long";
    if (!flaw && query.n && buf_add(out, query) < 0)
        flaw = "does not fit";
    if (flaw) {
        cut_back(out, from);
        return err_set(e, ERR_INVALID, "the path %s", flaw);
    }
    *ret_path = (struct str){ out->p + from, path_n };
    *ret_query = (struct str){ query.p ? out->p + from + path_n : NULL, query.n };
    return 0;
}

const char *path_pattern_flaw(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (!stays(c) && !strchr("/%?[]{}^\\", c))
            return "holds a character that is escaped in a path: write %2B for '+', %20 for ' '";
        if (c == '%' && (escape_at(s, i) < 0 || s.p[i + 1] >= 'a' || s.p[i + 2] >= 'a'))
            return "an escape is '%' and two digits or upper-case letters, as in %2F";
        if (c == '%' && stays((unsigned char)escape_at(s, i)))
            return "escapes a character that is not escaped in a path";
    }
    return NULL;
}

bool path_query_next(struct str *rest, struct str *ret_key, struct str *ret_value)
{
    struct str pair;

    do {
        if (rest->n == 0)
            return false;
        *rest = str_cut(*rest, '&', &pair);
    } while (pair.n == 0);
    *ret_value = str_cut(pair, '=', ret_key);
    return true;
}

bool path_query_decode(struct str s, char *out, size_t cap, size_t *ret_n)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        int c = s.p[i] == '+' ? ' ' : (unsigned char)s.p[i];

        if (c == '%') {
            c = escape_at(s, i);
            i += 2;
        }
        if (c <= 0 || n == cap)
            return false;
        out[n++] = (char)c;
    }
    if (!str_is_utf8((struct str){ out, n }))
        return false;
    *ret_n = n;
    return true;
}
