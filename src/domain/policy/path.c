/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/path.h"

#include "base/hex.h"

static const char hex[] = "0123456789ABCDEF";

/* The byte of the escape at i, or -1. */
static int escape_at(struct str s, size_t i)
{
    int high, low;

    if (i + 2 >= s.n || s.p[i] != '%')
        return -1;
    high = hex_digit(s.p[i + 1]);
    low = hex_digit(s.p[i + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static bool is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

/* Characters that are written unescaped in a part. Not ';', which begins parameters, and not '+',
 * which some servers read as a blank: both are always escaped. */
static bool is_unescaped_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           (c && strchr("-._~!$&'()*,=:@", c));
}

static const char *byte_flaw(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (is_control(c) || c == ' ')
            return "contains a control character or blank";
        if (c > 0x7f)
            return "contains a byte that is not ASCII";
        if (c == '#')
            return "contains a '#'";
    }
    return NULL;
}

/* A server that decodes escapes twice would read another path. */
static bool hides_escape(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        int c = escape_at(s, i);

        if (c == '.' || c == '/' || c == '\\' || c == '%')
            return true;
    }
    return false;
}

static const char *decode_part(struct str part, bool slash, struct path_text *ret)
{
    ret->n = 0;
    for (size_t i = 0; i < part.n; i++) {
        int c = (unsigned char)part.p[i];

        if (c == '%') {
            c = escape_at(part, i);
            i += 2;
            if (c < 0)
                return "contains a broken escape";
            if (is_control((unsigned char)c))
                return "contains the escape of a control character";
            if (c == '/' && !slash)
                return "contains %2F, which this endpoint does not allow";
        }
        if (c == '\\')
            return "contains a '\\'";
        ret->bytes[ret->n++] = (char)c;
    }
    if (!str_is_utf8((struct str){ ret->bytes, ret->n }))
        return "contains escapes that are not UTF-8";
    return hides_escape((struct str){ ret->bytes, ret->n }) ? "is escaped twice" : NULL;
}

/* Whether a part with encoded slashes contains "." or "..". */
static bool has_inner_dots(struct str s)
{
    struct str piece;
    bool inner = str_find(s, '/') < s.n;

    while (inner && s.p) {
        s = str_cut(s, '/', &piece);
        if (str_eq(piece, STR(".")) || str_eq(piece, STR("..")))
            return true;
    }
    return false;
}

/* A reading that is being written: it always ends with '/'. */
struct path_writer {
    struct path_text *out;
    unsigned reading;
    bool slash;
};

static bool append_path_byte(struct path_text *out, char c)
{
    if (out->n == sizeof out->bytes)
        return false;
    out->bytes[out->n++] = c;
    return true;
}

static bool drop_last_part(struct path_text *out)
{
    size_t n = out->n - 1;

    if (n == 0)
        return false;
    while (out->bytes[n - 1] != '/')
        n--;
    out->n = n;
    return true;
}

static bool append_path_part(struct path_text *out, struct str part)
{
    bool fits = true;

    for (size_t i = 0; i < part.n && fits; i++) {
        unsigned char b = (unsigned char)part.p[i];

        if (is_unescaped_char(b))
            fits = append_path_byte(out, (char)b);
        else
            fits = append_path_byte(out, '%') && append_path_byte(out, hex[b >> 4]) &&
                   append_path_byte(out, hex[b & 15]);
    }
    return fits;
}

static const char *add_part(const struct path_writer *w, struct str part, bool last)
{
    struct path_text d;
    struct str text, parameters = { 0 };
    const char *flaw;
    bool resolves = !(w->reading & PATH_KEEPS_DOTS);

    if (!(w->reading & PATH_KEEPS_PARAMETERS))
        parameters = str_cut(part, ';', &part);
    flaw = decode_part(parameters, w->slash, &d); /* checked even though they are dropped */
    if (!flaw)
        flaw = decode_part(part, w->slash, &d);
    if (flaw)
        return flaw;
    text = (struct str){ d.bytes, d.n };
    if (has_inner_dots(text))
        return "has '.' or '..' behind an escaped slash";
    if (resolves && str_eq(text, STR("..")))
        return drop_last_part(w->out) ? NULL : "leaves the root with '..'";
    if (resolves && str_eq(text, STR(".")))
        return NULL;
    if (text.n == 0 && !(w->reading & PATH_KEEPS_SLASHES))
        return NULL;
    return append_path_part(w->out, text) && (last || append_path_byte(w->out, '/'))
               ? NULL
               : "is too long";
}

unsigned path_ways(struct str path)
{
    unsigned ways = 0;

    for (size_t i = 0; i < path.n; i++) {
        struct str rest = { path.p + i, path.n - i };

        if (path.p[i] == ';')
            ways |= PATH_KEEPS_PARAMETERS;
        else if (path.p[i] != '/')
            continue;
        else if (str_starts(rest, STR("//")) || str_starts(rest, STR("/;")))
            ways |= PATH_KEEPS_SLASHES;
        else if (str_starts(rest, STR("/.")) || escape_at(rest, 1) == '.')
            ways |= PATH_KEEPS_DOTS;
    }
    return ways;
}

const char *path_read(struct str path, unsigned reading, bool encoded_slash, struct path_text *ret)
{
    struct path_writer w = { .out = ret, .reading = reading, .slash = encoded_slash };
    const char *flaw = byte_flaw(path);
    struct str part;

    if (flaw)
        return flaw;
    if (path.n > PATH_BYTES_MAX)
        return "is too long";
    if (path.n == 0 || path.p[0] != '/')
        return "does not begin with '/'";
    ret->n = 0;
    append_path_byte(ret, '/');
    for (struct str rest = { path.p + 1, path.n - 1 }; rest.p && !flaw;) {
        rest = str_cut(rest, '/', &part);
        flaw = add_part(&w, part, !rest.p);
    }
    return flaw;
}

static char to_lower_ascii(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whether a reading, in which escapes are in upper case, has the escape of c at i. */
static bool has_escape(struct str s, size_t i, char c)
{
    return escape_at(s, i) == (unsigned char)c;
}

/* Where a part ends: before ';', and before trailing dots and blanks. */
static size_t folded_end(struct str part)
{
    size_t n = 0;

    while (n < part.n && part.p[n] != ';' && !has_escape(part, n, ';'))
        n++;
    for (;;) {
        if (n > 0 && part.p[n - 1] == '.')
            n--;
        else if (n > 2 && (has_escape(part, n - 3, ' ') || has_escape(part, n - 3, '+')))
            n -= 3;
        else
            return n;
    }
}

static void fold_part(struct str part, struct path_text *ret)
{
    size_t end = folded_end(part);

    if (end == 0)
        return;
    append_path_byte(ret, '/');
    for (size_t i = 0; i < end; i++) {
        bool plus = has_escape(part, i, '+');

        append_path_byte(ret, to_lower_ascii(part.p[i]));
        if (plus) {
            append_path_byte(ret, '2');
            append_path_byte(ret, '0');
            i += 2;
        }
    }
}

void path_fold(struct str reading, struct path_text *ret)
{
    size_t from = 0;

    ret->n = 0;
    for (size_t i = 0; i <= reading.n; i++) {
        bool escaped = i < reading.n && has_escape(reading, i, '/');

        if (i < reading.n && !escaped && reading.p[i] != '/')
            continue;
        fold_part((struct str){ reading.p + from, i - from }, ret);
        i += escaped ? 2 : 0;
        from = i + 1;
    }
    if (ret->n == 0)
        append_path_byte(ret, '/');
}

const char *path_pattern_flaw(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (!is_unescaped_char(c) && !strchr("/%?[]{}^\\", c))
            return "contains a character that must be escaped in a path: write %2B for '+', %20 "
                   "for ' '";
        if (c == '%' && (escape_at(s, i) < 0 || s.p[i + 1] >= 'a' || s.p[i + 2] >= 'a'))
            return "an escape must be '%' and two digits or upper-case letters, such as %2F";
        if (c == '%' && is_unescaped_char((unsigned char)escape_at(s, i)))
            return "escapes a character that must not be escaped in a path";
    }
    return NULL;
}

bool path_query_next(struct str *rest, const char *separators, struct str *ret_key,
                     struct str *ret_value)
{
    struct str pair;

    do {
        size_t n = 0;

        if (rest->n == 0)
            return false;
        while (n < rest->n && !strchr(separators, rest->p[n]))
            n++;
        pair = (struct str){ rest->p, n };
        n += n < rest->n;
        *rest = (struct str){ rest->p + n, rest->n - n };
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

const char *path_query_flaw(struct str query)
{
    char scratch[PATH_QUERY_MAX];
    struct str key, value;
    size_t n;

    if (query.n > PATH_QUERY_MAX)
        return "has a query that is too long";
    if (byte_flaw(query))
        return byte_flaw(query);
    while (path_query_next(&query, "&", &key, &value))
        if (!path_query_decode(key, scratch, sizeof scratch, &n) ||
            !path_query_decode(value, scratch, sizeof scratch, &n))
            return "has a query that cannot be decoded";
    return NULL;
}

size_t path_query_fold(struct str key, char *out)
{
    struct str name = str_trim(key);
    size_t bracket =
        name.n > 1 ? 1 + str_find((struct str){ name.p + 1, name.n - 1 }, '[') : name.n;

    name = str_trim((struct str){ name.p, bracket });
    for (size_t i = 0; i < name.n; i++)
        out[i] = name.p[i] == '.' || name.p[i] == ' ' ? '_' : to_lower_ascii(name.p[i]);
    return name.n;
}
