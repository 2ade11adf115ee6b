/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/toml_scan.h"

#include <string.h>

#include "base/own.h"
#include "cli/clients/json_plain.h"
#include "lib/json/reader.h"

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"
#define BARE            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

enum { PART_MEMORY = 4096 };

static int fail_toml(const struct toml_scan *s, struct err *e, const char *why)
{
    return err_set(e, ERR_INVALID, "line %zu: %s", json_plain_line(s->text, s->at), why);
}

static char char_at(const struct toml_scan *s, size_t ahead)
{
    return s->at + ahead < s->text.n ? s->text.p[s->at + ahead] : '\0';
}

static void skip_spaces(struct toml_scan *s)
{
    s->at += strspn(s->text.p + s->at, " \t");
}

static bool at_newline(const struct toml_scan *s)
{
    return char_at(s, 0) == '\n' || (char_at(s, 0) == '\r' && char_at(s, 1) == '\n');
}

static void skip_toml_comment(struct toml_scan *s)
{
    while (s->at < s->text.n && !at_newline(s))
        s->at++;
}

/* Blanks, comments and line ends. */
static void skip_toml_blanks(struct toml_scan *s)
{
    for (;;) {
        s->at += strspn(s->text.p + s->at, " \t\n");
        if (char_at(s, 0) == '#')
            skip_toml_comment(s);
        else if (at_newline(s))
            s->at += 2; /* \r\n */
        else
            return;
    }
}

/* A string on one line: "…" or '…'. */
static int skip_line_string(struct toml_scan *s, struct err *e)
{
    char quote = char_at(s, 0), c;

    for (s->at++; (c = char_at(s, 0)) != quote; s->at++) {
        if ((unsigned char)c < 0x20 && c != '\t')
            return fail_toml(s, e, "a string has no end in its line, or a control character");
        if (c == '\\' && quote == '"' && (unsigned char)char_at(s, 1) >= 0x20)
            s->at++;
    }
    s->at++;
    return 0;
}

/* """ or ''' */
static int skip_long_string(struct toml_scan *s, struct err *e)
{
    char quote = char_at(s, 0);

    for (s->at += 3; s->at < s->text.n; s->at++) {
        if (char_at(s, 0) == '\\' && quote == '"') {
            s->at++;
        } else if (char_at(s, 0) == quote && char_at(s, 1) == quote && char_at(s, 2) == quote) {
            s->at += 3;
            for (int more = 0; more < 2 && char_at(s, 0) == quote; more++)
                s->at++;
            return 0;
        }
    }
    s->at = s->text.n;
    return fail_toml(s, e, "a string has no end");
}

static int skip_toml_string(struct toml_scan *s, struct err *e)
{
    char quote = char_at(s, 0);

    return char_at(s, 1) == quote && char_at(s, 2) == quote ? skip_long_string(s, e)
                                                            : skip_line_string(s, e);
}

/* A number, a date, a word. */
static int skip_toml_scalar(struct toml_scan *s, struct err *e)
{
    size_t n = strspn(s->text.p + s->at, BARE "+.:");

    if (!n)
        return fail_toml(s, e, "expected a value");
    if (n == sizeof "1979-05-27" - 1 && memchr(s->text.p + s->at, '-', n) && char_at(s, n) == ' ' &&
        char_at(s, n + 1) >= '0' && char_at(s, n + 1) <= '9')
        n += 1 + strspn(s->text.p + s->at + n + 1, BARE "+.:");
    s->at += n;
    return 0;
}

/* Dotted parts of a key, and the blanks behind it. */
static int read_toml_key(struct toml_scan *s, struct toml_item *item, struct err *e)
{
    size_t from;
    int r = 0;

    for (item->n = 0;; s->at++) {
        skip_spaces(s);
        from = s->at;
        if (item->n == TOML_PARTS_MAX)
            return fail_toml(s, e, "a key has too many parts");
        if (char_at(s, 0) == '"' || char_at(s, 0) == '\'')
            r = skip_line_string(s, e);
        else
            s->at += strspn(s->text.p + s->at, BARE);
        if (r < 0)
            return r;
        if (s->at == from)
            return fail_toml(s, e, "expected a key");
        item->parts[item->n++] = (struct str){ s->text.p + from, s->at - from };
        skip_spaces(s);
        if (char_at(s, 0) != '.')
            return 0;
    }
}

static int skip_toml_value(struct toml_scan *s, unsigned depth, struct err *e);

/* An item of an array or inline table. */
static int skip_toml_item(struct toml_scan *s, char close, unsigned depth, struct err *e)
{
    struct toml_item key;
    int r = close == '}' ? read_toml_key(s, &key, e) : 0;

    if (r < 0)
        return r;
    if (close == '}' && char_at(s, 0) != '=')
        return fail_toml(s, e, "expected '=' behind the key");
    if (close == '}') {
        s->at++;
        skip_toml_blanks(s);
    }
    return skip_toml_value(s, depth, e);
}

static int skip_toml_list(struct toml_scan *s, unsigned depth, struct err *e)
{
    char close = char_at(s, 0) == '{' ? '}' : ']';
    int r;

    if (depth == TOML_DEPTH_MAX)
        return fail_toml(s, e, "too many lists inside each other");
    for (s->at++;; s->at++) {
        skip_toml_blanks(s);
        if (char_at(s, 0) == close)
            break;
        r = skip_toml_item(s, close, depth + 1, e);
        if (r < 0)
            return r;
        skip_toml_blanks(s);
        if (char_at(s, 0) == close)
            break;
        if (char_at(s, 0) != ',')
            return fail_toml(s, e, "expected ',' or the end of a list");
    }
    s->at++;
    return 0;
}

static int skip_toml_value(struct toml_scan *s, unsigned depth, struct err *e)
{
    char c = char_at(s, 0);

    if (c == '[' || c == '{')
        return skip_toml_list(s, depth, e);
    return c == '"' || c == '\'' ? skip_toml_string(s, e) : skip_toml_scalar(s, e);
}

static int read_toml_table(struct toml_scan *s, struct toml_item *item, struct err *e)
{
    size_t n = char_at(s, 1) == '[' ? 2 : 1;
    int r;

    item->kind = n == 2 ? TOML_TABLES : TOML_TABLE;
    s->at += n;
    r = read_toml_key(s, item, e);
    if (r < 0)
        return r;
    if (char_at(s, 0) != ']' || (n == 2 && char_at(s, 1) != ']'))
        return fail_toml(s, e, "expected ']' behind the name of a table");
    s->at += n;
    return 0;
}

static int read_toml_pair(struct toml_scan *s, struct toml_item *item, struct err *e)
{
    int r = read_toml_key(s, item, e);

    if (r < 0)
        return r;
    item->kind = TOML_PAIR;
    if (char_at(s, 0) != '=')
        return fail_toml(s, e, "expected '=' behind the key");
    s->at++;
    skip_spaces(s);
    item->value_at = s->at;
    r = skip_toml_value(s, 0, e);
    item->value_end = s->at;
    return r;
}

int toml_scan_begin(struct toml_scan *s, struct str text, struct err *e)
{
    size_t good = str_utf8_prefix(text);
    const char *nul = text.n ? memchr(text.p, '\0', text.n) : NULL;

    if (nul && (size_t)(nul - text.p) < good)
        good = (size_t)(nul - text.p);
    *s = (struct toml_scan){ text, good };
    if (good < text.n)
        return fail_toml(s, e, "the text is not UTF-8");
    s->at = str_starts(text, STR(BYTE_ORDER_MARK)) ? sizeof BYTE_ORDER_MARK - 1 : 0;
    return 0;
}

int toml_scan_next(struct toml_scan *s, struct toml_item *ret, struct err *e)
{
    int r;

    skip_toml_blanks(s);
    *ret = (struct toml_item){ .at = s->at, .end = s->at, .next = s->at };
    if (s->at == s->text.n)
        return 0;
    r = char_at(s, 0) == '[' ? read_toml_table(s, ret, e) : read_toml_pair(s, ret, e);
    if (r < 0)
        return r;
    ret->end = s->at;
    skip_spaces(s);
    if (char_at(s, 0) == '#')
        skip_toml_comment(s);
    if (s->at < s->text.n && !at_newline(s))
        return fail_toml(s, e, "text follows the value");
    s->at += s->at < s->text.n ? strspn(s->text.p + s->at, "\r") + 1 : 0;
    ret->next = s->at;
    return 0;
}

bool toml_part_is(struct str part, const char *name)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(PART_MEMORY);
    const struct json *v;

    if (part.p[0] != '"' && part.p[0] != '\'')
        return str_eq(part, str_from(name));
    if (part.p[0] == '\'' || str_find(part, '\\') == part.n)
        return str_eq((struct str){ part.p + 1, part.n - 2 }, str_from(name));
    return json_read(part, (struct json_limits){ .bytes = PART_MEMORY, .depth = 1 }, &a, &v,
                     NULL) >= 0 &&
           str_eq(v->s, str_from(name));
}
