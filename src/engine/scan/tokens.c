#include "scan/tokens.h"

#include <string.h>

enum { STRING_MAX = 64 << 10 };

void tokens_init(struct tokens *k, enum scan_language language, struct str text)
{
    *k = (struct tokens){ .t = text, .language = language, .line = 1 };
    buf_init(&k->string_, STRING_MAX);
}

void tokens_done(struct tokens *k)
{
    buf_done(&k->string_);
}

static char look(const struct tokens *k, size_t ahead)
{
    return k->at + ahead < k->t.n ? k->t.p[k->at + ahead] : '\0';
}

static bool ended(const struct tokens *k)
{
    return k->at >= k->t.n;
}

static void take(struct tokens *k)
{
    if (k->t.p[k->at++] == '\n') {
        k->line++;
        k->line_from = k->at;
    }
}

char tokens_peek(const struct tokens *k)
{
    size_t i = k->at;

    while (i < k->t.n && i < k->at + 256 && strchr(" \t\r\n", k->t.p[i]))
        i++;
    return i < k->t.n ? k->t.p[i] : '\0';
}

static bool name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (c & 0x80);
}

static bool name_char(char c)
{
    return name_start(c) || (c >= '0' && c <= '9');
}

/* --- Blanks and comments --- */

static void skip_line(struct tokens *k)
{
    while (!ended(k) && look(k, 0) != '\n')
        take(k);
}

static void skip_block(struct tokens *k)
{
    k->at += 2;
    while (!ended(k) && !(look(k, 0) == '*' && look(k, 1) == '/'))
        take(k);
    k->at = k->at + 2 < k->t.n ? k->at + 2 : k->t.n;
}

static bool line_comment_begins(const struct tokens *k)
{
    if (look(k, 0) == '#')
        return k->language == SCAN_PYTHON || (k->at == 0 && look(k, 1) == '!');
    return k->language != SCAN_PYTHON && look(k, 0) == '/' && look(k, 1) == '/';
}

static bool skip_one(struct tokens *k)
{
    if (look(k, 0) == '\\' && look(k, 1) == '\n') {
        take(k);
        take(k);
    } else if (look(k, 0) == ' ' || look(k, 0) == '\t' || look(k, 0) == '\r') {
        take(k);
    } else if (line_comment_begins(k)) {
        skip_line(k);
    } else if (k->language != SCAN_PYTHON && look(k, 0) == '/' && look(k, 1) == '*') {
        skip_block(k);
    } else {
        return false;
    }
    return true;
}

/* --- Strings --- */

static unsigned value_of(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    c |= 32;
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 99;
}

static void put(struct tokens *k, char c)
{
    (void)buf_add_c(&k->string_, c); /* the end of a huge string is not compared */
}

static void put_number(struct tokens *k, unsigned base, unsigned most)
{
    unsigned value = 0;

    for (unsigned i = 0; i < most && value_of(look(k, 0)) < base; i++) {
        value = value * base + value_of(look(k, 0));
        take(k);
    }
    put(k, value < 128 ? (char)value : '?');
}

static void read_escape(struct tokens *k)
{
    static const char plain[] = "nrtabfv0", means[] = "\n\r\t\a\b\f\v";
    const char *at;

    take(k);
    if (ended(k))
        return;
    if (value_of(look(k, 0)) < 8) {
        put_number(k, 8, 3);
    } else if (look(k, 0) == 'x' || look(k, 0) == 'u' || look(k, 0) == 'U') {
        unsigned most = look(k, 0) == 'x' ? 2 : look(k, 0) == 'u' ? 4 : 8;

        take(k);
        if (look(k, 0) == '{')
            take(k);
        put_number(k, 16, most);
        if (look(k, 0) == '}')
            take(k);
    } else {
        at = strchr(plain, look(k, 0));
        if (look(k, 0) != '\n')
            put(k, at && *at ? means[at - plain] : look(k, 0));
        take(k);
    }
}

static bool closes(const struct tokens *k, char quote, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (look(k, i) != quote)
            return false;
    return true;
}

static void read_string(struct tokens *k, bool raw)
{
    char quote = look(k, 0);
    unsigned n = k->language == SCAN_PYTHON && look(k, 1) == quote && look(k, 2) == quote ? 3 : 1;

    k->at += n;
    while (!ended(k) && !closes(k, quote, n)) {
        if (look(k, 0) == '\n' && n == 1 && quote != '`')
            return; /* not closed: the line ends it */
        if (look(k, 0) == '\\' && !raw) {
            read_escape(k);
            continue;
        }
        put(k, look(k, 0));
        if (look(k, 0) == '\\' && k->at + 1 < k->t.n) {
            take(k);
            put(k, look(k, 0));
        }
        take(k);
    }
    k->at = k->at + n < k->t.n ? k->at + n : k->t.n;
}

/* rb'…', f"…", L"…": how many letters stand before a quote; 0 with *ret false if it is no string.
 */
static bool string_begins(const struct tokens *k, size_t *ret_prefix, bool *ret_raw,
                          bool *ret_holds)
{
    const char *letters = k->language == SCAN_PYTHON ? "rRbBuUfF"
                          : k->language == SCAN_C    ? "LuU8"
                                                     : "";
    size_t n = 0;

    *ret_raw = *ret_holds = false;
    while (n < 2 && look(k, n) && strchr(letters, look(k, n))) {
        *ret_raw |= k->language == SCAN_PYTHON && (look(k, n) | 32) == 'r';
        *ret_holds |= k->language == SCAN_PYTHON && (look(k, n) | 32) == 'f';
        n++;
    }
    *ret_prefix = n;
    *ret_holds |= look(k, n) == '`';
    return look(k, n) == '"' || look(k, n) == '\'' ||
           (look(k, n) == '`' && k->language == SCAN_JAVASCRIPT);
}

/* --- Tokens --- */

static void read_name(struct tokens *k, struct token *t)
{
    size_t from = k->at;

    while (name_char(look(k, 0)))
        k->at++;
    t->kind = TOKEN_NAME;
    t->text = (struct str){ k->t.p + from, k->at - from };
    k->value_ = !str_eq(t->text, STR("return")) && !str_eq(t->text, STR("typeof"));
}

static void read_number(struct tokens *k, struct token *t)
{
    size_t from = k->at;

    while (name_char(look(k, 0)) || look(k, 0) == '.')
        k->at++;
    t->kind = TOKEN_NUMBER;
    t->text = (struct str){ k->t.p + from, k->at - from };
    k->value_ = true;
}

static void read_sign(struct tokens *k, struct token *t)
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
static void skip_regex(struct tokens *k)
{
    bool class = false;

    take(k);
    while (!ended(k) && look(k, 0) != '\n' && (class || look(k, 0) != '/')) {
        class = look(k, 0) == '[' || (class && look(k, 0) != ']');
        if (look(k, 0) == '\\' && look(k, 1) != '\n' && k->at + 1 < k->t.n)
            k->at++;
        take(k);
    }
    if (look(k, 0) == '/')
        take(k);
}

static void read_any(struct tokens *k, struct token *t)
{
    size_t prefix;
    bool raw;

    if (string_begins(k, &prefix, &raw, &t->holds)) {
        k->at += prefix;
        buf_clear(&k->string_);
        read_string(k, raw);
        t->kind = TOKEN_STRING;
        t->text = k->string_.p ? buf_str(&k->string_) : STR("");
        k->value_ = true;
    } else if (name_start(look(k, 0))) {
        read_name(k, t);
    } else if (value_of(look(k, 0)) < 10) {
        read_number(k, t);
    } else if (look(k, 0) == '/' && !k->value_ && k->language == SCAN_JAVASCRIPT) {
        skip_regex(k);
        k->value_ = true;
        *t = (struct token){
            .kind = TOKEN_NUMBER, .text = STR("0"), .indent = t->indent, .at = t->at
        };
    } else {
        read_sign(k, t);
    }
}

void tokens_next(struct tokens *k, struct token *ret)
{
    while (!ended(k) && skip_one(k))
        ;
    if (k->at >= k->line_from && k->at - k->line_from < UINT32_MAX)
        ret->at = (struct place){ k->line, (uint32_t)(k->at - k->line_from + 1) };
    *ret =
        (struct token){ .kind = TOKEN_END, .at = ret->at, .indent = k->indent_, .text = STR("") };
    if (ended(k))
        return;
    if (look(k, 0) == '\n') {
        take(k);
        for (k->indent_ = 0; look(k, k->indent_) == ' ' || look(k, k->indent_) == '\t';)
            k->indent_++;
        ret->kind = TOKEN_LINE;
        return;
    }
    if (k->language == SCAN_C &&
        look(k, 0) == '#') { /* #include <x>: the rest of a line may be code */
        take(k);
        while (look(k, 0) == ' ')
            take(k);
        if (str_starts((struct str){ k->t.p + k->at, k->t.n - k->at }, STR("include")))
            skip_line(k);
        tokens_next(k, ret);
        return;
    }
    read_any(k, ret);
}
