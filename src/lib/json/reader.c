/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/reader.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/hex.h"
#include "base/own.h"
#include "lib/json/build.h"
#include "lib/json/number.h"
#include "lib/json/text.h"

/* The text is copied to the arena once and strings are decoded in place: decoding never makes one
 * longer, and the closing quote leaves room for a NUL. The copy ends in a NUL, which is
 * legal nowhere in JSON, so only strings have to look for the end. */
struct json_reader {
    char *p; /* next byte, in the copy */
    char *start, *end;
    const char *line_start;
    uint32_t line;
    unsigned depth;
    struct json_limits limits;
    struct str text; /* as the caller gave it, for naming places */
    struct json_build build;
    struct err *e;
};

__attribute__((format(printf, 4, 5))) static int fail_at(struct json_reader *r, const char *at,
                                                         enum err_code code, const char *fmt, ...)
{
    size_t offset = (size_t)(at - r->start), line = 1;
    char reason[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < offset; i++)
        line += r->text.p[i] == '\n';
    return err_set(r->e, code, "line %zu, byte %zu: %s", line, offset, reason);
}

static int fail_json_memory(struct json_reader *r)
{
    return err_set(r->e, ERR_TOO_BIG, "the document needs more memory than the allowed %zu bytes",
                   r->build.arena->max);
}

static int fail_unexpected(struct json_reader *r, const char *wanted)
{
    unsigned char c = (unsigned char)*r->p;

    if (r->p == r->end)
        return fail_at(r, r->p, ERR_INVALID, "expected %s, but the text ends here", wanted);
    if (c > 0x20 && c < 0x7F)
        return fail_at(r, r->p, ERR_INVALID, "expected %s, not '%c'", wanted, c);
    return fail_at(r, r->p, ERR_INVALID, "expected %s, not the byte 0x%02x", wanted, c);
}

static inline void skip_json_blanks(struct json_reader *r)
{
    for (;; r->p++) {
        if (*r->p == '\n') {
            r->line++;
            r->line_start = r->p + 1;
        } else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r') {
            return;
        }
    }
}

static inline void record_json_position(struct json_reader *r, struct json *v)
{
    size_t column = (size_t)(r->p - r->line_start) + 1;

    if (!r->limits.places)
        return;
    v->line = r->line;
    v->column = column > UINT16_MAX ? UINT16_MAX : (uint16_t)column;
}

/* The four digits of the \uXXXX at p, or -1. */
static int32_t code_unit(const char *p)
{
    int32_t unit = 0;

    if (p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(p[i]);

        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static char *write_utf8(char *to, int32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xE0 | c >> 12);
        } else {
            *to++ = (char)(0xF0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3F));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
    }
    *to++ = (char)(0x80 | (c & 0x3F));
    return to;
}

/* \uXXXX, or two of them where the first is a high surrogate. */
static int read_code_point(struct json_reader *r, char **to)
{
    int32_t c = code_unit(r->p), low;

    if (c < 0)
        return fail_at(r, r->p, ERR_INVALID, "\\u needs four hexadecimal digits");
    if (c >= 0xDC00 && c <= 0xDFFF)
        return fail_at(r, r->p, ERR_INVALID, "low surrogate without a high one before it");
    r->p += 6;
    if (c >= 0xD800 && c <= 0xDBFF) {
        low = code_unit(r->p);
        if (low < 0xDC00 || low > 0xDFFF)
            return fail_at(r, r->p - 6, ERR_INVALID, "high surrogate without a low one behind it");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        r->p += 6;
    }
    *to = write_utf8(*to, c);
    return 0;
}

static int read_json_escape(struct json_reader *r, char **to)
{
    static const char means[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    char c = means[(unsigned char)r->p[1]];

    if (r->p[1] == 'u')
        return read_code_point(r, to);
    if (!c)
        return fail_at(r, r->p, ERR_INVALID, "unknown escape; write \\\\ for a backslash");
    *(*to)++ = c;
    r->p += 2;
    return 0;
}

/* r->p is on the opening quote. */
static int read_json_string(struct json_reader *r, struct str *ret)
{
    char *from = ++r->p, *to = from;
    bool high = false;

    for (;;) {
        size_t run = json_plain_run_(r->p, (size_t)(r->end - r->p), &high);
        int rc;

        if (to != r->p)
            memmove(to, r->p, run);
        to += run;
        r->p += run;
        if (*r->p != '\\')
            break;
        rc = read_json_escape(r, &to);
        if (rc < 0)
            return rc;
    }
    if (r->p == r->end)
        return fail_at(r, r->p, ERR_INVALID, "the text ends inside a string");
    if (*r->p != '"')
        return fail_at(r, r->p, ERR_INVALID, "control character in a string; write it as \\u%04x",
                       (unsigned char)*r->p);
    *ret = (struct str){ from, (size_t)(to - from) };
    if (high && !str_is_utf8(*ret)) {
        /* Escapes are ASCII, so the first bad byte is found in the text as it was given. */
        struct str raw = { r->text.p + (from - r->start), (size_t)(r->p - from) };

        return fail_at(r, from + str_utf8_prefix(raw), ERR_INVALID, "not valid UTF-8");
    }
    *to = '\0';
    r->p++;
    return 0;
}

static int read_json_word(struct json_reader *r, struct str word, struct json *v, struct json as)
{
    if (!str_starts((struct str){ r->p, (size_t)(r->end - r->p) }, word))
        return fail_unexpected(r, "a value");
    v->type = as.type;
    v->b = as.b;
    r->p += word.n;
    return 0;
}

static int read_json_number(struct json_reader *r, struct json *v)
{
    const char *why, *end;

    if (*r->p != '-' && (*r->p < '0' || *r->p > '9'))
        return fail_unexpected(r, "a value");
    end = json_number(r->p, v, &why);
    if (!end)
        return fail_at(r, r->p, ERR_INVALID, "%s", why);
    r->p += end - r->p;
    return 0;
}

static int read_json_value(struct json_reader *r, struct json *v);

static int read_json_key(struct json_reader *r, struct str *ret)
{
    int rc;

    if (*r->p != '"')
        return fail_unexpected(r, "a key in double quotes");
    rc = read_json_string(r, ret);
    if (rc < 0)
        return rc;
    skip_json_blanks(r);
    if (*r->p != ':')
        return fail_unexpected(r, "':'");
    r->p++;
    skip_json_blanks(r);
    return 0;
}

/* An item of an array, or a member of an object, onto the pile of its list. */
static int read_json_item(struct json_reader *r, bool keyed)
{
    struct json v = { 0 };
    int rc = 0;

    record_json_position(r, &v);
    if (keyed)
        rc = read_json_key(r, &v.key);
    if (rc >= 0)
        rc = read_json_value(r, &v);
    if (rc < 0)
        return rc;
    return json_build_push(&r->build, &v) < 0 ? fail_json_memory(r) : 0;
}

/* r->p is behind the opening bracket; afterwards it is behind the closing one. */
static int read_json_items(struct json_reader *r, bool keyed)
{
    char close = keyed ? '}' : ']';
    int rc;

    skip_json_blanks(r);
    if (*r->p == close) {
        r->p++;
        return 0;
    }
    for (;;) {
        rc = read_json_item(r, keyed);
        if (rc < 0)
            return rc;
        skip_json_blanks(r);
        if (*r->p == close)
            break;
        if (*r->p != ',')
            return fail_unexpected(r, keyed ? "',' or '}'" : "',' or ']'");
        r->p++;
        skip_json_blanks(r);
    }
    r->p++;
    return 0;
}

static int read_json_list(struct json_reader *r, struct json *v, enum json_type type)
{
    size_t mark = json_build_mark(&r->build);
    const struct json *twice;
    int rc;

    if (r->depth == r->limits.depth)
        return fail_at(r, r->p, ERR_TOO_BIG, "lists and objects are more than %u levels deep",
                       r->limits.depth);
    r->depth++;
    r->p++;
    rc = read_json_items(r, type == JSON_OBJECT);
    if (rc < 0)
        return rc;
    r->depth--;
    v->type = type;
    if (json_build_close(&r->build, mark, v) < 0)
        return fail_json_memory(r);
    twice = type == JSON_OBJECT ? json_build_twice(&r->build, v) : NULL;
    return twice ? fail_at(r, twice->key.p - 1, ERR_INVALID, "this key appears twice in the object")
                 : 0;
}

static int read_json_value(struct json_reader *r, struct json *v)
{
    switch (*r->p) {
    case '{':
        return read_json_list(r, v, JSON_OBJECT);
    case '[':
        return read_json_list(r, v, JSON_ARRAY);
    case '"':
        v->type = JSON_STR;
        return read_json_string(r, &v->s);
    case 't':
        return read_json_word(r, STR("true"), v, (struct json){ .type = JSON_BOOL, .b = true });
    case 'f':
        return read_json_word(r, STR("false"), v, (struct json){ .type = JSON_BOOL });
    case 'n':
        return read_json_word(r, STR("null"), v, (struct json){ .type = JSON_NULL });
    default:
        return read_json_number(r, v);
    }
}

static int read_json_document(struct json_reader *r, struct json *v)
{
    int rc;

    if (str_starts(r->text, STR("\xEF\xBB\xBF")))
        return fail_at(r, r->start, ERR_INVALID,
                       "the text starts with a byte order mark; leave it out");
    skip_json_blanks(r);
    record_json_position(r, v);
    rc = read_json_value(r, v);
    if (rc < 0)
        return rc;
    skip_json_blanks(r);
    return r->p == r->end ? 0 : fail_unexpected(r, "nothing behind the value");
}

int json_read(struct str text, struct json_limits limits, struct arena *a, const struct json **ret,
              struct err *e)
{
    struct json_reader r = { .line = 1, .limits = limits, .text = text, .e = e };
    struct json *root;
    int rc;

    if (text.n > limits.bytes)
        return err_set(e, ERR_TOO_BIG, "the document has %zu bytes; %zu are allowed", text.n,
                       limits.bytes);
    if (r.limits.depth > JSON_DEPTH_MAX)
        r.limits.depth = JSON_DEPTH_MAX;
    root = arena_alloc(a, sizeof *root);
    r.start = arena_dup(a, text);
    json_build_init(&r.build, a);
    if (!root || !r.start)
        return fail_json_memory(&r);
    r.line_start = r.p = r.start;
    r.end = r.start + text.n;
    rc = read_json_document(&r, root);
    json_build_done(&r.build);
    if (rc < 0)
        return rc;
    *ret = root;
    return 0;
}
