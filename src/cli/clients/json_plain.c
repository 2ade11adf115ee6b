/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/json_plain.h"

#include <string.h>

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

struct plain_scan {
    char *p; /* ended by NUL */
    size_t n, at;
    unsigned depth;
    struct json_dialect dialect;
    struct err *e;
};

size_t json_plain_line(struct str text, size_t at)
{
    size_t line = 1;

    for (size_t i = 0; i < at && i < text.n; i++)
        line += text.p[i] == '\n';
    return line;
}

static int fail_plain(const struct plain_scan *s, const char *why)
{
    return err_set(s->e, ERR_INVALID, "line %zu: %s",
                   json_plain_line((struct str){ s->p, s->n }, s->at), why);
}

/* Replaces everything but line ends. */
static void blank_out(struct plain_scan *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (s->p[i] != '\n' && s->p[i] != '\r')
            s->p[i] = ' ';
}

static int skip_plain_comment(struct plain_scan *s)
{
    size_t from = s->at;
    const char *end;

    if (!s->dialect.comments)
        return fail_plain(s, "'/' is neither a value nor a comma (comments are not allowed here)");
    if (s->p[from + 1] == '/')
        end = strpbrk(s->p + from, "\r\n");
    else if (s->p[from + 1] == '*')
        end = strstr(s->p + from + 2, "*/");
    else
        return fail_plain(s, "'/' begins no comment");
    if (!end && s->p[from + 1] == '*')
        return fail_plain(s, "the comment has no end");
    if (end && end[0] == '\r' && end[1] != '\n') /* programs do not agree on its end */
        return fail_plain(s, "a comment has a carriage return without a line feed");
    s->at = end ? (size_t)(end - s->p) + (s->p[from + 1] == '*' ? 2 : 0) : s->n;
    blank_out(s, from, s->at);
    return 0;
}

static int skip_plain_blanks(struct plain_scan *s)
{
    int r;

    for (;;) {
        s->at += strspn(s->p + s->at, " \t\r\n");
        if (s->p[s->at] != '/')
            return 0;
        r = skip_plain_comment(s);
        if (r < 0)
            return r;
    }
}

static int skip_plain_escape(struct plain_scan *s)
{
    char c = s->p[s->at + 1];

    if (c && strchr("\"\\/bfnrt", c)) {
        s->at += 2;
        return 0;
    }
    if (c != 'u' || strspn(s->p + s->at + 2, "0123456789abcdefABCDEF") < 4)
        return fail_plain(s, "an escape in a string is invalid");
    s->at += 6;
    return 0;
}

static int skip_plain_string(struct plain_scan *s)
{
    int r;

    for (s->at++; s->p[s->at] != '"';) {
        if (s->p[s->at] == '\\') {
            r = skip_plain_escape(s);
            if (r < 0)
                return r;
        } else if ((unsigned char)s->p[s->at] < 0x20) {
            return fail_plain(s, "a string has no end in its line, or holds a control character");
        } else {
            s->at++;
        }
    }
    s->at++;
    return 0;
}

/* The number of digits, which must not be 0. */
static size_t skip_digits(struct plain_scan *s)
{
    size_t n = strspn(s->p + s->at, "0123456789");

    s->at += n;
    return n;
}

static int skip_plain_number(struct plain_scan *s)
{
    s->at += s->p[s->at] == '-';
    if (s->p[s->at] == '0')
        s->at++;
    else if (!skip_digits(s))
        return fail_plain(s, "expected a value");
    if (s->p[s->at] == '.') {
        s->at++;
        if (!skip_digits(s))
            return fail_plain(s, "a number is invalid");
    }
    if (s->p[s->at] == 'e' || s->p[s->at] == 'E') {
        s->at++;
        s->at += s->p[s->at] == '+' || s->p[s->at] == '-';
        if (!skip_digits(s))
            return fail_plain(s, "a number is invalid");
    }
    return 0;
}

static int skip_plain_scalar(struct plain_scan *s)
{
    static const char *const words[] = { "true", "false", "null" };

    if (s->p[s->at] == '"')
        return skip_plain_string(s);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncmp(s->p + s->at, words[i], strlen(words[i])) == 0) {
            s->at += strlen(words[i]);
            return 0;
        }
    return skip_plain_number(s);
}

static int skip_plain_value(struct plain_scan *s);

/* "name": of a member. */
static int skip_plain_key(struct plain_scan *s)
{
    int r;

    if (s->p[s->at] != '"')
        return fail_plain(s, "expected a name in double quotes");
    r = skip_plain_string(s);
    if (r < 0)
        return r;
    r = skip_plain_blanks(s);
    if (r < 0)
        return r;
    if (s->p[s->at] != ':')
        return fail_plain(s, "expected ':' behind the name");
    s->at++;
    return 0;
}

/* An item or a member, the blanks around it, and a comma. 1: more follow, 0: the end is next. */
static int skip_plain_item(struct plain_scan *s, char close)
{
    size_t comma;
    int r = close == '}' ? skip_plain_key(s) : 0;

    if (r < 0)
        return r;
    r = skip_plain_value(s);
    if (r < 0 || s->p[s->at] == close)
        return r;
    if (s->p[s->at] != ',')
        return fail_plain(s, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    comma = s->at++;
    r = skip_plain_blanks(s);
    if (r < 0)
        return r;
    if (s->p[s->at] != close)
        return 1;
    if (!s->dialect.trailing_commas)
        return fail_plain(s, "a comma is in front of the end (not allowed here)");
    s->p[comma] = JSON_PLAIN_COMMA;
    return 0;
}

static int skip_plain_list(struct plain_scan *s)
{
    char close = s->p[s->at] == '{' ? '}' : ']';
    int r;

    if (++s->depth > JSON_PLAIN_DEPTH)
        return fail_plain(s, "too many lists and objects inside each other");
    s->at++;
    r = skip_plain_blanks(s);
    if (r >= 0)
        r = s->p[s->at] != close;
    while (r > 0)
        r = skip_plain_item(s, close);
    if (r < 0)
        return r;
    s->at++;
    s->depth--;
    return 0;
}

/* With the blanks around it. */
static int skip_plain_value(struct plain_scan *s)
{
    int r = skip_plain_blanks(s);

    if (r < 0)
        return r;
    r = s->p[s->at] == '{' || s->p[s->at] == '[' ? skip_plain_list(s) : skip_plain_scalar(s);
    return r < 0 ? r : skip_plain_blanks(s);
}

int json_plain(struct str text, struct json_dialect d, struct buf *plain, struct err *e)
{
    struct plain_scan s = { .dialect = d, .e = e };
    size_t good = str_utf8_prefix(text);
    int r;

    buf_clear(plain);
    if (good < text.n)
        return err_set(e, ERR_INVALID, "line %zu: the text is not UTF-8",
                       json_plain_line(text, good));
    if (buf_add(plain, text) < 0)
        return err_set(e, ERR_TOO_BIG, "longer than %zu bytes", plain->max);
    if (!text.n)
        return err_set(e, ERR_INVALID, "line 1: expected a value");
    s.p = plain->p;
    s.n = plain->n;
    if (str_starts(text, STR(BYTE_ORDER_MARK)))
        blank_out(&s, 0, sizeof BYTE_ORDER_MARK - 1);
    r = skip_plain_value(&s);
    if (r < 0)
        return r;
    return s.at == s.n ? 0 : fail_plain(&s, "text follows the value");
}
