/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/writer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/digits.h"
#include "lib/json/number.h"
#include "lib/json/text.h"

/* The writer's state of each open list; level 0 is the document. */
enum {
    IS_OBJECT = 1,
    HAS_ITEMS = 2,
    HAS_KEY = 4, /* a key was written, its value was not */
};

void json_writer_init(struct json_writer *w, struct buf *out, enum json_style style)
{
    *w = (struct json_writer){ .out = out, .style = style, .from_ = out->n };
}

void json_writer_fail(struct json_writer *w, enum err_code code, const char *fmt, ...)
{
    va_list ap;

    if (w->err_.code != ERR_OK)
        return;
    w->err_.code = code;
    va_start(ap, fmt);
    vsnprintf(w->err_.msg, sizeof w->err_.msg, fmt, ap);
    va_end(ap);
}

int json_writer_finish(struct json_writer *w, struct err *e)
{
    if (w->depth_ > 0 || !(w->levels_[0] & HAS_ITEMS))
        json_writer_fail(w, ERR_BUG, "the JSON value written is not complete");
    if (w->err_.code == ERR_OK)
        return 0;
    w->out->n = w->from_;
    buf_grew(w->out, 0);
    return err_set(e, w->err_.code, "%s", w->err_.msg);
}

static void write_raw(struct json_writer *w, struct str s)
{
    if (w->err_.code == ERR_OK && buf_add(w->out, s) < 0)
        json_writer_fail(w, ERR_TOO_BIG, "the JSON text needs more than the allowed %zu bytes",
                         w->out->max);
}

static void write_line_break(struct json_writer *w)
{
    write_raw(w, STR("\n"));
    for (unsigned i = 0; i < w->depth_; i++)
        write_raw(w, STR("  "));
}

/* The comma before an item or key that is not the first, and the start of its line. */
static void write_separator(struct json_writer *w, unsigned char *level)
{
    if (*level & HAS_ITEMS)
        write_raw(w, STR(","));
    *level |= HAS_ITEMS;
    if (w->style == JSON_PRETTY && w->depth_ > 0)
        write_line_break(w);
}

/* Every value starts here. */
static void start_value(struct json_writer *w)
{
    unsigned char *level = &w->levels_[w->depth_];

    if (*level & HAS_KEY) {
        *level &= (unsigned char)~HAS_KEY;
        return;
    }
    if (*level & IS_OBJECT)
        json_writer_fail(w, ERR_BUG, "JSON value written without a key");
    if (w->depth_ == 0 && *level & HAS_ITEMS)
        json_writer_fail(w, ERR_BUG, "second JSON value written behind the first");
    write_separator(w, level);
}

static void begin_list(struct json_writer *w, struct str bracket, unsigned char level)
{
    start_value(w);
    if (w->depth_ == JSON_DEPTH_MAX)
        json_writer_fail(w, ERR_TOO_BIG, "JSON value written more than %d levels deep",
                         JSON_DEPTH_MAX);
    if (w->err_.code != ERR_OK)
        return;
    write_raw(w, bracket);
    w->levels_[++w->depth_] = level;
}

static void end_list(struct json_writer *w, struct str bracket, unsigned char kind)
{
    unsigned char level = w->levels_[w->depth_];

    if (w->depth_ == 0 || (level & IS_OBJECT) != kind || level & HAS_KEY)
        json_writer_fail(w, ERR_BUG, "'" STR_FMT "' written where it closes nothing",
                         STR_ARG(bracket));
    if (w->err_.code != ERR_OK)
        return;
    w->depth_--;
    if (w->style == JSON_PRETTY && level & HAS_ITEMS)
        write_line_break(w);
    write_raw(w, bracket);
}

void json_begin_object(struct json_writer *w)
{
    begin_list(w, STR("{"), IS_OBJECT);
}

void json_end_object(struct json_writer *w)
{
    end_list(w, STR("}"), IS_OBJECT);
}

void json_begin_array(struct json_writer *w)
{
    begin_list(w, STR("["), 0);
}

void json_end_array(struct json_writer *w)
{
    end_list(w, STR("]"), 0);
}

/* Those that have a short form. */
static const char letters[256] = {
    ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
};

/* A character that must be escaped in a string. */
static void write_escape(struct json_writer *w, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    const char text[] = { '\\',          letters[c] ? letters[c] : 'u', '0', '0', digits[c >> 4],
                          digits[c & 15] };

    write_raw(w, (struct str){ text, letters[c] ? 2 : sizeof text });
}

/* The text between the quotes. */
static void write_escaped_text(struct json_writer *w, struct str s)
{
    bool high = false;

    for (size_t at = 0; at < s.n; at++) {
        size_t run = json_plain_run_(s.p + at, s.n - at, &high);

        write_raw(w, (struct str){ s.p + at, run });
        at += run;
        if (at < s.n)
            write_escape(w, (unsigned char)s.p[at]);
    }
    if (high && !str_is_utf8(s))
        json_writer_fail(w, ERR_INVALID, "JSON string written that is not UTF-8");
}

size_t json_text_size(struct str s)
{
    size_t size = s.n;
    bool high = false;

    for (size_t at = 0; at < s.n; at++) {
        at += json_plain_run_(s.p + at, s.n - at, &high);
        if (at < s.n)
            size += letters[(unsigned char)s.p[at]] ? 1 : 5;
    }
    return size;
}

void json_key(struct json_writer *w, struct str key)
{
    unsigned char *level = &w->levels_[w->depth_];

    if (!(*level & IS_OBJECT) || *level & HAS_KEY)
        json_writer_fail(w, ERR_BUG, "JSON key written where a value belongs");
    write_separator(w, level);
    *level |= HAS_KEY;
    write_raw(w, STR("\""));
    write_escaped_text(w, key);
    write_raw(w, w->style == JSON_PRETTY ? STR("\": ") : STR("\":"));
}

static void write_scalar(struct json_writer *w, struct str text)
{
    start_value(w);
    write_raw(w, text);
}

void json_put_null(struct json_writer *w)
{
    write_scalar(w, STR("null"));
}

void json_put_bool(struct json_writer *w, bool b)
{
    write_scalar(w, b ? STR("true") : STR("false"));
}

static void write_digits(struct json_writer *w, bool negative, uint64_t value)
{
    char text[1 + DIGITS_TEXT] = "-";
    size_t n = digits_text(value, text + negative);

    write_scalar(w, (struct str){ text, negative + n });
}

void json_put_int(struct json_writer *w, int64_t i)
{
    write_digits(w, i < 0, i < 0 ? -(uint64_t)i : (uint64_t)i);
}

void json_put_uint(struct json_writer *w, uint64_t u)
{
    write_digits(w, false, u);
}

void json_put_double(struct json_writer *w, double d)
{
    char text[JSON_DOUBLE_TEXT] = "";

    if (isfinite(d))
        json_double_text(d, text);
    else
        json_writer_fail(w, ERR_INVALID, "JSON has no number for infinity or NaN");
    write_scalar(w, str_from(text));
}

void json_put_str(struct json_writer *w, struct str s)
{
    start_value(w);
    write_raw(w, STR("\""));
    write_escaped_text(w, s);
    write_raw(w, STR("\""));
}

void json_put_lossy(struct json_writer *w, struct str s)
{
    start_value(w);
    write_raw(w, STR("\""));
    while (s.n) {
        size_t good = str_utf8_prefix(s);

        write_escaped_text(w, (struct str){ s.p, good });
        if (good < s.n) {
            write_raw(w, STR("\xEF\xBF\xBD"));
            good++;
        }
        s = (struct str){ s.p + good, s.n - good };
    }
    write_raw(w, STR("\""));
}

void json_put_written(struct json_writer *w, struct str json)
{
    write_scalar(w, json);
}

void json_put_tree(struct json_writer *w, const struct json *v)
{
    switch (v->type) {
    case JSON_BOOL:
        json_put_bool(w, v->b);
        break;
    case JSON_INT:
        json_put_int(w, v->i);
        break;
    case JSON_UINT:
        json_put_uint(w, v->u);
        break;
    case JSON_DOUBLE:
        json_put_double(w, v->d);
        break;
    case JSON_STR:
        json_put_str(w, v->s);
        break;
    case JSON_ARRAY:
        json_begin_array(w);
        for (const struct json *item = json_first(v); item != json_end(v); item++)
            json_put_tree(w, item);
        json_end_array(w);
        break;
    case JSON_OBJECT:
        json_begin_object(w);
        for (const struct json *member = json_first(v); member != json_end(v); member++) {
            json_key(w, member->key);
            json_put_tree(w, member);
        }
        json_end_object(w);
        break;
    default:
        json_put_null(w);
        break;
    }
}

/* Functions that write a key and its value. */
#define FIELD(function, type, put)                                                                 \
    void function(struct json_writer *w, const char *key, type value)                              \
    {                                                                                              \
        json_key(w, str_from(key));                                                                \
        put(w, value);                                                                             \
    }
FIELD(json_field_bool, bool, json_put_bool)
FIELD(json_field_int, int64_t, json_put_int)
FIELD(json_field_uint, uint64_t, json_put_uint)
FIELD(json_field_double, double, json_put_double)
FIELD(json_field_str, struct str, json_put_str)
FIELD(json_field_lossy, struct str, json_put_lossy)
FIELD(json_field_tree, const struct json *, json_put_tree)
FIELD(json_field_written, struct str, json_put_written)
#undef FIELD

void json_field_null(struct json_writer *w, const char *key)
{
    json_key(w, str_from(key));
    json_put_null(w);
}

void json_field_cstr(struct json_writer *w, const char *key, const char *s)
{
    json_field_str(w, key, str_from(s));
}

void json_field_begin_object(struct json_writer *w, const char *key)
{
    json_key(w, str_from(key));
    json_begin_object(w);
}

void json_field_begin_array(struct json_writer *w, const char *key)
{
    json_key(w, str_from(key));
    json_begin_array(w);
}

void json_field_text(struct json_writer *w, const char *key, const char *s)
{
    json_field_lossy(w, key, str_from(s));
}

void json_field_optional(struct json_writer *w, const char *key, const char *s)
{
    if (s && s[0])
        json_field_text(w, key, s);
}
