/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rfc3339.h"

enum {
    LINE_MAX_BYTES = 4096,
    TAIL_BYTES = 64, /* kept free for the end of the line */
    VALUE_MAX_BYTES = 1024,
    SHOWN_MAX = 8, /* one character, escaped, and NUL */
};

static enum log_level most_ = LOG_WARN;
static enum log_format format_ = LOG_PLAIN;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void log_setup(enum log_level most, enum log_format format)
{
    most_ = most;
    format_ = format;
}

/* The code of a character of more than one byte that acts on how others are shown, else 0: C1
 * controls, and those that turn the direction of writing, with which a name can pose as another. */
static uint16_t formatting_code(struct str s, size_t *ret_n)
{
    unsigned char a = s.n > 0 ? (unsigned char)s.p[0] : 0, b = s.n > 1 ? (unsigned char)s.p[1] : 0;
    unsigned char c = s.n > 2 ? (unsigned char)s.p[2] : 0;

    *ret_n = a == 0xC2 ? 2 : 3;
    if (a == 0xC2 && b >= 0x80 && b < 0xA0)
        return b;
    if (a == 0xE2 &&
        ((b == 0x80 && c >= 0xAA && c <= 0xAE) || (b == 0x81 && c >= 0xA6 && c <= 0xA9)))
        return (uint16_t)(0x2000 | (b & 0x3F) << 6 | (c & 0x3F));
    return 0;
}

/* Length of the character s starts with if it may be shown as it is, else 0. Bytes that are not
 * UTF-8 may not: 80 to 9F are controls (C1) to a terminal that reads Latin-1. Nor may characters
 * that act on others. */
static size_t printable_length(struct str s)
{
    unsigned char c = (unsigned char)s.p[0];
    size_t n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4, ignored;

    if (c < 0x80)
        return c >= 0x20 && c != 0x7F;
    return n <= s.n && str_is_utf8((struct str){ s.p, n }) && !formatting_code(s, &ignored) ? n : 0;
}

/* Writes the character s starts with in a form that is safe to show, and returns its length in
 * s. */
typedef size_t show_fn(struct str s, char out[static SHOWN_MAX]);

static size_t show_as_it_is(struct str s, size_t n, char *out)
{
    memcpy(out, s.p, n);
    out[n] = '\0';
    return n;
}

static size_t show_plain(struct str s, char out[static SHOWN_MAX])
{
    size_t n = printable_length(s);

    if (n && s.p[0] != '\\')
        return show_as_it_is(s, n, out);
    snprintf(out, SHOWN_MAX, "\\x%02x", (unsigned char)s.p[0]);
    return 1;
}

static size_t show_json(struct str s, char out[static SHOWN_MAX])
{
    unsigned char c = (unsigned char)s.p[0];
    size_t n = printable_length(s);
    uint16_t code;

    if (c == '"' || c == '\\')
        *out++ = '\\';
    if (n)
        return show_as_it_is(s, n, out);
    code = formatting_code(s, &n);
    if (code) {
        snprintf(out, SHOWN_MAX, "\\u%04x", code);
        return n;
    }
    snprintf(out, SHOWN_MAX, "\\u%04x", c < 0x80 ? c : 0xFFFDU);
    return 1;
}

/* As many whole characters as fit. */
static void escape_text(struct str s, show_fn *show, char *out, size_t cap)
{
    char shown[SHOWN_MAX];
    size_t at = 0;

    for (size_t i = 0; i < s.n;) {
        size_t n;

        i += show((struct str){ s.p + i, s.n - i }, shown);
        n = strlen(shown);
        if (at + n >= cap)
            break;
        memcpy(out + at, shown, n);
        at += n;
    }
    if (cap)
        out[at] = '\0';
}

void log_printable(struct str s, char *out, size_t cap)
{
    escape_text(s, show_plain, out, cap);
}

/* The whole field or, past the ceiling, nothing. */
static int add_log_field(struct buf *b, const struct log_field *f, bool json)
{
    char value[VALUE_MAX_BYTES];

    if (f->is_number)
        return buf_addf(b, json ? ",\"%s\":%lld" : " %s=%lld", f->key, (long long)f->number);
    escape_text(f->text, json ? show_json : show_plain, value, sizeof value);
    return buf_addf(b, json ? ",\"%s\":\"%s\"" : " %s=%s", f->key, value);
}

void log_write_(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    struct buf b = BUF_INIT(LINE_MAX_BYTES - TAIL_BYTES);
    bool json = format_ == LOG_JSON;
    char time[TIME_TEXT];
    int64_t lost = 0;

    if (level > most_)
        return;
    time_text(clock_wall(), time);
    buf_addf(&b, json ? "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\"" : "%s %s %s", time,
             level_names[level], event);
    for (size_t i = 0; i < n; i++)
        if (fields[i].key && add_log_field(&b, &fields[i], json) < 0)
            lost++;
    b.max += TAIL_BYTES;
    if (lost)
        add_log_field(&b, &LOG_I("lost_fields", lost), json);
    buf_addf(&b, json ? "}\n" : "\n");
    if (write(STDERR_FILENO, b.p, b.n) < 0) {
        /* The log itself failed: there is no other place to report it. */
    }
    buf_done(&b);
}
