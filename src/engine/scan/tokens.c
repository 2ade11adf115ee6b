/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scan/tokens.h"

#include <string.h>

#include "base/hex.h"

enum { STRING_MAX = 64 << 10 };

void tokens_init(struct scan_tokens *k, enum scan_language language, struct str text)
{
    *k = (struct scan_tokens){ .t = text, .language = language, .line = 1 };
    buf_init(&k->string_, STRING_MAX);
}

void tokens_done(struct scan_tokens *k)
{
    buf_done(&k->string_);
}

static char peek_char(const struct scan_tokens *k, size_t ahead)
{
    return k->at + ahead < k->t.n ? k->t.p[k->at + ahead] : '\0';
}

static bool at_text_end(const struct scan_tokens *k)
{
    return k->at >= k->t.n;
}

static void advance_char(struct scan_tokens *k)
{
    if (k->t.p[k->at++] == '\n') {
        k->line++;
        k->line_from = k->at;
    }
}

char tokens_peek(const struct scan_tokens *k)
{
    size_t i = k->at;

    while (i < k->t.n && i < k->at + 256 && strchr(" \t\r\n", k->t.p[i]))
        i++;
    return i < k->t.n ? k->t.p[i] : '\0';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (c & 0x80);
}

static bool is_name_char(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9');
}

/* --- Blanks and comments --- */

static void skip_line(struct scan_tokens *k)
{
    while (!at_text_end(k) && peek_char(k, 0) != '\n')
        advance_char(k);
}

static bool line_comment_begins(const struct scan_tokens *k)
{
    if (peek_char(k, 0) == '#')
        return k->language == SCAN_PYTHON || (k->at == 0 && peek_char(k, 1) == '!');
    return k->language != SCAN_PYTHON && peek_char(k, 0) == '/' && peek_char(k, 1) == '/';
}

static bool skip_blank_or_comment(struct scan_tokens *k)
{
    if (peek_char(k, 0) == '\\' && peek_char(k, 1) == '\n') {
        advance_char(k);
        advance_char(k);
    } else if (peek_char(k, 0) == ' ' || peek_char(k, 0) == '\t' || peek_char(k, 0) == '\r') {
        advance_char(k);
    } else if (line_comment_begins(k)) {
        skip_line(k);
    } else if (k->language != SCAN_PYTHON && peek_char(k, 0) == '/' && peek_char(k, 1) == '*') {
        k->at += 2;
        while (!at_text_end(k) && !(peek_char(k, 0) == '*' && peek_char(k, 1) == '/'))
            advance_char(k);
        k->at = k->at + 2 < k->t.n ? k->at + 2 : k->t.n;
    } else {
        return false;
    }
    return true;
}

/* --- Strings --- */

static void add_string_char(struct scan_tokens *k, char c)
{
    (void)buf_add_c(&k->string_, c); /* the end of a huge string is not compared */
}

static void add_escaped_number(struct scan_tokens *k, unsigned base, unsigned most)
{
    unsigned value = 0;

    for (unsigned i = 0; i < most && (unsigned)hex_digit(peek_char(k, 0)) < base; i++) {
        value = value * base + (unsigned)hex_digit(peek_char(k, 0));
        advance_char(k);
    }
    add_string_char(k, value < 128 ? (char)value : '?');
}

static void read_string_escape(struct scan_tokens *k)
{
    static const char plain[] = "nrtabfv0", means[] = "\n\r\t\a\b\f\v";
    const char *at;

    advance_char(k);
    if (at_text_end(k))
        return;
    if ((unsigned)hex_digit(peek_char(k, 0)) < 8) {
        add_escaped_number(k, 8, 3);
    } else if (peek_char(k, 0) == 'x' || peek_char(k, 0) == 'u' || peek_char(k, 0) == 'U') {
        unsigned most = peek_char(k, 0) == 'x' ? 2 : peek_char(k, 0) == 'u' ? 4 : 8;

        advance_char(k);
        if (peek_char(k, 0) == '{')
            advance_char(k);
        add_escaped_number(k, 16, most);
        if (peek_char(k, 0) == '}')
            advance_char(k);
    } else {
        at = strchr(plain, peek_char(k, 0));
        if (peek_char(k, 0) != '\n')
            add_string_char(k, at && *at ? means[at - plain] : peek_char(k, 0));
        advance_char(k);
    }
}

static bool is_closing_quote(const struct scan_tokens *k, char quote, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (peek_char(k, i) != quote)
            return false;
    return true;
}

static void lex_string(struct scan_tokens *k, bool raw)
{
    char quote = peek_char(k, 0);
    unsigned n =
        k->language == SCAN_PYTHON && peek_char(k, 1) == quote && peek_char(k, 2) == quote ? 3 : 1;

    k->at += n;
    while (!at_text_end(k) && !is_closing_quote(k, quote, n)) {
        if (peek_char(k, 0) == '\n' && n == 1 && quote != '`')
            return; /* not closed: the line ends it */
        if (peek_char(k, 0) == '\\' && !raw) {
            read_string_escape(k);
            continue;
        }
        add_string_char(k, peek_char(k, 0));
        if (peek_char(k, 0) == '\\' && k->at + 1 < k->t.n) {
            advance_char(k);
            add_string_char(k, peek_char(k, 0));
        }
        advance_char(k);
    }
    k->at = k->at + n < k->t.n ? k->at + n : k->t.n;
}

/* rb'…', f"…", L"…": the number of letters before the quote. False if it is not a string. */
static bool string_begins(const struct scan_tokens *k, size_t *ret_prefix, bool *ret_raw,
                          bool *ret_holds)
{
    const char *letters = k->language == SCAN_PYTHON ? "rRbBuUfF"
                          : k->language == SCAN_C    ? "LuU8"
                                                     : "";
    size_t n = 0;

    *ret_raw = *ret_holds = false;
    while (n < 2 && peek_char(k, n) && strchr(letters, peek_char(k, n))) {
        *ret_raw |= k->language == SCAN_PYTHON && (peek_char(k, n) | 32) == 'r';
        *ret_holds |= k->language == SCAN_PYTHON && (peek_char(k, n) | 32) == 'f';
        n++;
    }
    *ret_prefix = n;
    *ret_holds |= peek_char(k, n) == '`';
    return peek_char(k, n) == '"' || peek_char(k, n) == '\'' ||
           (peek_char(k, n) == '`' && k->language == SCAN_JAVASCRIPT);
}

/* --- Tokens --- */

/* A name, or a number, which may contain dots. */
static void lex_word(struct scan_tokens *k, struct scan_token *t, enum token_kind kind)
{
    size_t from = k->at;

    while (is_name_char(peek_char(k, 0)) || (kind == TOKEN_NUMBER && peek_char(k, 0) == '.'))
        k->at++;
    t->kind = kind;
    t->text = (struct str){ k->t.p + from, k->at - from };
    k->value_ = !str_eq(t->text, STR("return")) && !str_eq(t->text, STR("typeof"));
}

static void lex_sign(struct scan_tokens *k, struct scan_token *t)
{
    static const char *const longer[] = { "===", "!==", "**=", "==", "!=", "<=", ">=", "=>",
                                          "+=",  "-=",  "->",  "::", "&&", "||", "**", "?.",
                                          "<<",  ">>",  "++",  "--", ":=", "|=", "&=" };
    struct str rest = { k->t.p + k->at, k->t.n - k->at };
    size_t n = 1;

    for (size_t i = 0; i < sizeof longer / sizeof longer[0] && n == 1; i++)
        if (str_starts(rest, str_from(longer[i])))
            n = strlen(longer[i]);
    t->kind = TOKEN_SIGN;
    t->text = (struct str){ rest.p, n };
    k->value_ = rest.p[0] == ')' || rest.p[0] == ']' || rest.p[0] == '}';
    k->at += n;
}

/* A regular expression of JavaScript, to its end on this line. */
static void skip_regex(struct scan_tokens *k)
{
    bool class = false;

    advance_char(k);
    while (!at_text_end(k) && peek_char(k, 0) != '\n' && (class || peek_char(k, 0) != '/')) {
        class = peek_char(k, 0) == '[' || (class && peek_char(k, 0) != ']');
        if (peek_char(k, 0) == '\\' && peek_char(k, 1) != '\n' && k->at + 1 < k->t.n)
            k->at++;
        advance_char(k);
    }
    if (peek_char(k, 0) == '/')
        advance_char(k);
}

static void lex_token(struct scan_tokens *k, struct scan_token *t)
{
    size_t prefix;
    bool raw;

    if (string_begins(k, &prefix, &raw, &t->holds)) {
        k->at += prefix;
        buf_clear(&k->string_);
        lex_string(k, raw);
        t->kind = TOKEN_STRING;
        t->text = k->string_.p ? buf_str(&k->string_) : STR("");
        k->value_ = true;
    } else if (is_name_start(peek_char(k, 0))) {
        lex_word(k, t, TOKEN_NAME);
    } else if ((unsigned)hex_digit(peek_char(k, 0)) < 10) {
        lex_word(k, t, TOKEN_NUMBER);
    } else if (peek_char(k, 0) == '/' && !k->value_ && k->language == SCAN_JAVASCRIPT) {
        skip_regex(k);
        k->value_ = true;
        *t = (struct scan_token){
            .kind = TOKEN_NUMBER, .text = STR("0"), .indent = t->indent, .at = t->at
        };
    } else {
        lex_sign(k, t);
    }
}

/* The '#' of a directive in C; the rest of its line may be code, except after #include. */
static bool skip_directive_mark(struct scan_tokens *k)
{
    if (k->language != SCAN_C || peek_char(k, 0) != '#')
        return false;
    advance_char(k);
    while (peek_char(k, 0) == ' ')
        advance_char(k);
    if (str_starts((struct str){ k->t.p + k->at, k->t.n - k->at }, STR("include")))
        skip_line(k);
    return true;
}

void tokens_next(struct scan_tokens *k, struct scan_token *ret)
{
    while (!at_text_end(k) && (skip_blank_or_comment(k) || skip_directive_mark(k)))
        ;
    if (k->at >= k->line_from && k->at - k->line_from < UINT32_MAX)
        ret->at = (struct scan_place){ k->line, (uint32_t)(k->at - k->line_from + 1) };
    *ret = (struct scan_token){
        .kind = TOKEN_END, .at = ret->at, .indent = k->indent_, .text = STR("")
    };
    if (at_text_end(k))
        return;
    if (peek_char(k, 0) == '\n') {
        advance_char(k);
        for (k->indent_ = 0; peek_char(k, k->indent_) == ' ' || peek_char(k, k->indent_) == '\t';)
            k->indent_++;
        ret->kind = TOKEN_LINE;
        return;
    }
    lex_token(k, ret);
}
