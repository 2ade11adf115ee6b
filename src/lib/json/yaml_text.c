/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/yaml_text.h"

#include <inttypes.h>
#include <strings.h>

#include "base/own.h"
#include "lib/json/number.h"

enum {
    INDENT = 2,
    IMPLICIT_KEY_MAX = 1024, /* characters of a key in front of ':', by YAML's rules */
    ESCAPE_MAX = 6,          /* characters that one byte of a quoted string becomes: \\u0085 */
};

/* Words that a YAML 1.1 or 1.2 reader takes for a boolean, a null or a number, in any case. */
static const char *const words[] = { "true", "false", "yes", "no",   "on",   "off", "y",
                                     "n",    "null",  "~",   ".nan", ".inf", "none" };

static bool is_yaml_keyword(struct str s)
{
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (s.n == strlen(words[i]) && strncasecmp(s.p, words[i], s.n) == 0)
            return true;
    return false;
}

static bool is_ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Plain: begins with a letter or '/', contains only letters, digits and punctuation without a
 * meaning inside a scalar (a blank or ':' may have one with its neighbour), and is not a keyword.
 * Numbers, dates, versions and sexagesimals begin with a digit, sign or point. */
static bool is_plain_scalar(struct str s)
{
    if (s.n == 0 || !(is_ascii_letter(s.p[0]) || s.p[0] == '/') || is_yaml_keyword(s))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_ascii_letter(s.p[i]) && !(s.p[i] >= '0' && s.p[i] <= '9') &&
            !(s.p[i] && strchr("_-./+@", s.p[i])))
            return false;
    return true;
}

static int add_escape(struct buf *out, unsigned char c)
{
    static const char *const names[128] = {
        ['"'] = "\\\"", ['\\'] = "\\\\", ['\n'] = "\\n", ['\t'] = "\\t", ['\r'] = "\\r"
    };

    return names[c] ? buf_add(out, str_from(names[c])) : buf_addf(out, "\\x%02x", c);
}

/* Length of the character at p if it must be escaped: controls in UTF-8 (C2 80 … C2 9F, NEL among
 * them), the line separators U+2028 and U+2029, the byte order mark, the two non-characters, and
 * bidirectional controls, because people read the text too. */
static size_t odd_character(struct str s, unsigned *ret)
{
    const unsigned char *p = (const unsigned char *)s.p;

    if (s.n >= 2 && p[0] == 0xC2 && p[1] < 0xA0) {
        *ret = p[1];
        return 2;
    }
    if (s.n < 3 || p[0] < 0xE0 || p[0] > 0xEF)
        return 0;
    *ret = (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    return (*ret >= 0x2028 && *ret <= 0x202E) || (*ret >= 0x2066 && *ret <= 0x2069) ||
                   *ret == 0xFEFF || *ret >= 0xFFFE
               ? 3
               : 0;
}

static int add_quoted_scalar(struct buf *out, struct str s)
{
    int r = buf_add_c(out, '"');

    while (s.n && r >= 0) {
        unsigned char c = (unsigned char)s.p[0];
        unsigned odd;
        size_t n = odd_character(s, &odd);

        if (n)
            r = buf_addf(out, "\\u%04x", odd);
        else if (c < 0x20 || c == 0x7F || c == '"' || c == '\\')
            r = add_escape(out, c);
        else
            r = buf_add_c(out, (char)c);
        n = n ? n : 1;
        s = (struct str){ s.p + n, s.n - n };
    }
    return r < 0 ? r : buf_add_c(out, '"');
}

static int add_text_scalar(struct buf *out, struct str s)
{
    return is_plain_scalar(s) ? buf_add(out, s) : add_quoted_scalar(out, s);
}

/* YAML 1.1 takes an exponent for one only behind a point and with a sign: 1.0e+300. */
static int add_double(struct buf *out, double d)
{
    char text[JSON_DOUBLE_TEXT];
    struct str mantissa, exponent;

    json_double_text(d, text);
    exponent = str_cut(str_from(text), 'e', &mantissa);
    if (!exponent.p)
        return buf_add(out, mantissa);
    return buf_addf(out, STR_FMT "%se%s" STR_FMT, STR_ARG(mantissa),
                    str_find(mantissa, '.') == mantissa.n ? ".0" : "",
                    exponent.p[0] == '-' || exponent.p[0] == '+' ? "" : "+", STR_ARG(exponent));
}

static int add_scalar(struct buf *out, const struct json *v)
{
    switch (v->type) {
    case JSON_BOOL:
        return buf_add(out, v->b ? STR("true") : STR("false"));
    case JSON_INT:
        return buf_addf(out, "%" PRId64, v->i);
    case JSON_UINT:
        return buf_addf(out, "%" PRIu64, v->u);
    case JSON_DOUBLE:
        return add_double(out, v->d);
    case JSON_STR:
        return add_text_scalar(out, v->s);
    case JSON_ARRAY:
        return buf_add(out, STR("[]"));
    case JSON_OBJECT:
        return buf_add(out, STR("{}"));
    default:
        return buf_add(out, STR("null"));
    }
}

static bool is_block(const struct json *v)
{
    return json_first(v) != json_end(v);
}

static int add_yaml_block(struct buf *out, const struct json *v, int indent);

/* A value behind "key:" or "-": on the same line, or as a block below. A block in a list begins on
 * the line of its dash. */
static int add_yaml_value(struct buf *out, const struct json *v, int indent, bool in_list)
{
    bool below = is_block(v) && !in_list;
    int r = below ? buf_addf(out, "\n%*s", indent, "") : buf_add_c(out, ' ');

    if (r < 0 || is_block(v))
        return r < 0 ? r : add_yaml_block(out, v, indent);
    r = add_scalar(out, v);
    return r < 0 ? r : buf_add_c(out, '\n');
}

/* Up to the ':' in front of the value. A key that is too long for "key: value" takes a line of its own,
 * as "? key". */
static int add_yaml_key(struct buf *out, struct str key, int indent)
{
    bool implicit =
        key.n <= (is_plain_scalar(key) ? IMPLICIT_KEY_MAX : IMPLICIT_KEY_MAX / ESCAPE_MAX - 1);
    int r = implicit ? 0 : buf_add(out, STR("? "));

    if (r >= 0)
        r = add_text_scalar(out, key);
    if (r >= 0 && !implicit)
        r = buf_addf(out, "\n%*s", indent, "");
    return r < 0 ? r : buf_add_c(out, ':');
}

/* The block begins at the current column, which is `indent`. */
static int add_yaml_block(struct buf *out, const struct json *v, int indent)
{
    int r = 0;

    for (const struct json *item = json_first(v); item != json_end(v) && r >= 0; item++) {
        if (item != json_first(v))
            r = buf_addf(out, "%*s", indent, "");
        if (r >= 0)
            r = v->type == JSON_OBJECT ? add_yaml_key(out, item->key, indent) : buf_add_c(out, '-');
        if (r >= 0)
            r = add_yaml_value(out, item, indent + INDENT, v->type == JSON_ARRAY);
    }
    return r;
}

int yaml_text(struct buf *out, const struct json *v)
{
    int r = is_block(v) ? add_yaml_block(out, v, 0) : add_scalar(out, v);

    return r < 0 || is_block(v) ? r : buf_add_c(out, '\n');
}
