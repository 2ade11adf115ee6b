/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/mask.h"

#include "domain/model/mask_words.h"

enum mask_next {
    NEXT_ANY,
    NEXT_SECRET, /* the next word is a secret … */
    NEXT_SCHEME, /* … or the scheme in front of one … */
    NEXT_BEHIND, /* … or has one behind a colon */
};

struct mask_scan {
    struct masked *out;
    enum mask_next next;
    struct str program; /* the last one seen that has options with secrets */
    struct str text;    /* the argument */
    size_t at;
    char quote; /* just before `at`; 0: none */
};

/* --- output --- */

static bool is_mask_full(const struct masked *m)
{
    return m->truncated;
}

/* At most so many bytes of valid UTF-8, whole characters. */
static size_t cut_to_characters(struct str s, size_t room)
{
    if (s.n <= room)
        return s.n;
    while (room > 0 && ((unsigned char)s.p[room] & 0xc0) == 0x80)
        room--;
    return room;
}

static void put_valid(struct masked *m, struct str s)
{
    size_t room = MASK_OUT_MAX - m->text.n, n = cut_to_characters(s, room);

    m->truncated |= n < s.n;
    (void)buf_add(&m->text, (struct str){ s.p, n });
}

static void put_as_is(struct masked *m, struct str s)
{
    static const char digits[] = "0123456789abcdef";

    while (s.n && !is_mask_full(m)) {
        size_t n = str_utf8_prefix(s);

        put_valid(m, (struct str){ s.p, n });
        s = (struct str){ s.p + n, s.n - n };
        if (!s.n)
            return;
        put_valid(m, (struct str){ (char[]){ '\\', 'x', digits[(unsigned char)s.p[0] >> 4],
                                             digits[s.p[0] & 15] },
                                   4 });
        s = (struct str){ s.p + 1, s.n - 1 };
    }
}

static void put_mask(struct masked *m)
{
    m->values++;
    put_valid(m, STR(MASK_TEXT));
}

/* --- words --- */

static struct str bytes_until(struct str s, size_t n)
{
    return (struct str){ s.p, n };
}

static struct str bytes_from(struct str s, size_t from)
{
    return (struct str){ s.p + from, s.n - from };
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_end_of_command(char c)
{
    return c == ';' || c == '|' || c == '&' || c == '\n';
}

static bool is_gap(char c)
{
    return is_quote(c) || is_blank(c) || is_end_of_command(c) || (c && strchr("()<>,{}[]", c));
}

/* Characters of which secrets are made. */
static bool is_of_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+';
}

static bool is_digest(struct str before)
{
    return str_ends(before, STR("sha256:")) || str_ends(before, STR("sha512:"));
}

static void mask_run(struct masked *m, struct str run, struct str before)
{
    size_t shown = is_digest(before) ? SIZE_MAX : mask_secret_word(run);

    if (shown == SIZE_MAX) {
        put_as_is(m, run);
        return;
    }
    put_as_is(m, bytes_until(run, shown));
    put_mask(m);
}

static void mask_runs(struct masked *m, struct str s)
{
    size_t at = 0, end;

    while (at < s.n && !is_mask_full(m)) {
        for (end = at; end < s.n && is_of_word(s.p[end]);)
            end++;
        if (end > at)
            mask_run(m, (struct str){ s.p + at, end - at }, bytes_until(s, at));
        for (at = end; end < s.n && !is_of_word(s.p[end]);)
            end++;
        put_as_is(m, (struct str){ s.p + at, end - at });
        at = end;
    }
}

static size_t find_text(struct str s, struct str what)
{
    const char *p = s.n ? memmem(s.p, s.n, what.p, what.n) : NULL;

    return p ? (size_t)(p - s.p) : s.n;
}

static void mask_behind_colon(struct masked *m, struct str s)
{
    size_t colon = str_find(s, ':');

    put_as_is(m, bytes_until(s, colon));
    if (colon == s.n)
        return;
    put_valid(m, STR(":"));
    put_mask(m);
}

/* A word without a name: a URL, a path, an argument. */
static void mask_value(struct masked *m, struct str s)
{
    size_t scheme = find_text(s, STR("://")), from = scheme + 3, end, at;

    if (scheme == s.n) {
        mask_runs(m, s);
        return;
    }
    for (end = from; end < s.n && !strchr("/?#", s.p[end]);)
        end++;
    for (at = end; at > from && s.p[at - 1] != '@';)
        at--;
    put_as_is(m, bytes_until(s, from));
    if (at > from) { /* USER:PASSWORD@ */
        mask_behind_colon(m, (struct str){ s.p + from, at - 1 - from });
        put_valid(m, STR("@"));
    }
    mask_runs(m, bytes_from(s, at > from ? at : from));
}

static bool is_scheme_or_nothing(struct str s)
{
    return !s.n || mask_is_scheme(s);
}

/* NAME=VALUE or NAME:VALUE. False: the word is neither. */
static bool mask_named(struct mask_scan *k, struct str word)
{
    size_t sign = str_find(word, '='), colon = str_find(word, ':');
    struct str value;

    if (sign == word.n || !mask_is_secret_name(bytes_until(word, sign)))
        sign = colon;
    if (sign == word.n || str_starts(bytes_from(word, sign), STR("://")) ||
        !mask_is_secret_name(bytes_until(word, sign)))
        return false;
    value = bytes_from(word, sign + 1);
    mask_value(k->out,
               bytes_until(word, sign + 1)); /* perhaps a URL, and the name of a parameter */
    if (is_scheme_or_nothing(value)) {
        put_as_is(k->out, value);
        k->next = word.p[sign] == ':' && !value.n ? NEXT_SCHEME : NEXT_SECRET;
    } else {
        put_mask(k->out);
    }
    return true;
}

/* An option of a program, or one whose name says what its value is. */
static bool mask_option_word(struct mask_scan *k, struct str word)
{
    const struct mask_option *o = k->program.n ? mask_find_option(k->program, word) : NULL;
    size_t n = o ? strlen(o->option) : word.n;

    if (!o && (word.p[0] != '-' || !mask_is_secret_name(word)))
        return false;
    put_as_is(k->out, bytes_until(word, n));
    if (n == word.n)
        k->next = o && o->behind ? NEXT_BEHIND : NEXT_SECRET;
    else if (o->behind)
        mask_behind_colon(k->out, bytes_from(word, n));
    else
        put_mask(k->out);
    return true;
}

/* A name in front of ':' or '=', with blanks or quotes between. */
static bool is_name_ahead(const struct mask_scan *k, struct str word)
{
    size_t i = k->at;

    while (i < k->text.n && (is_quote(k->text.p[i]) || is_blank(k->text.p[i])))
        i++;
    return i < k->text.n && (k->text.p[i] == ':' || k->text.p[i] == '=') &&
           mask_is_secret_name(word);
}

static void mask_other_word(struct mask_scan *k, struct str word)
{
    size_t sign = str_find(word, '=');

    if (mask_is_program(word))
        k->program = word;
    if (mask_option_word(k, word) || mask_named(k, word))
        return;
    if (is_name_ahead(k, word) || (mask_is_scheme(word) && str_starts(word, STR("Bearer"))))
        k->next = NEXT_SECRET;
    if (sign < word.n && sign < find_text(word, STR("://"))) {
        mask_runs(k->out, bytes_until(word, sign + 1));
        mask_value(k->out, bytes_from(word, sign + 1));
    } else {
        mask_value(k->out, word);
    }
}

static bool is_sign(struct str word)
{
    return str_eq(word, STR(":")) || str_eq(word, STR("="));
}

/* The word after one that says what it is. False: it is not what was expected. */
static bool mask_expected(struct mask_scan *k, struct str word)
{
    enum mask_next next = k->next;

    if (next == NEXT_ANY)
        return false;
    if (is_sign(word)) {
        put_as_is(k->out, word);
        return true;
    }
    k->next = NEXT_ANY;
    if (str_starts(word, STR("--")))
        return false;
    if (next == NEXT_SCHEME && mask_is_scheme(word)) {
        put_as_is(k->out, word);
        k->next = NEXT_SECRET;
    } else if (next == NEXT_BEHIND) {
        mask_behind_colon(k->out, word);
    } else {
        put_mask(k->out);
    }
    return true;
}

/* --- arguments --- */

static void take_gap(struct mask_scan *k)
{
    char c = k->text.p[k->at++];

    put_as_is(k->out, (struct str){ &c, 1 });
    k->quote = (char)(is_quote(c) ? c : 0);
    if (is_end_of_command(c))
        k->program = STR("");
}

static void take_word(struct mask_scan *k)
{
    struct str rest = bytes_from(k->text, k->at);
    bool quoted = k->quote && k->next == NEXT_SECRET && !strchr(":=", rest.p[0]);
    size_t n = quoted ? str_find(rest, k->quote) : 0;

    while (!quoted && n < rest.n && !is_gap(rest.p[n]))
        n++;
    k->at += n;
    k->quote = 0;
    if (!mask_expected(k, bytes_until(rest, n)))
        mask_other_word(k, bytes_until(rest, n));
}

static void mask_words(struct mask_scan *k, struct str text)
{
    k->text = text;
    k->at = 0;
    k->quote = 0;
    while (k->at < text.n && !is_mask_full(k->out))
        if (is_gap(text.p[k->at]))
            take_gap(k);
        else
            take_word(k);
}

/* The length of "NAME=" if the whole argument is NAME=VALUE with a secret; else 0. */
static size_t find_secret_assignment(struct str text)
{
    size_t sign = str_find(text, '=');

    for (size_t i = 0; i < sign; i++)
        if (is_gap(text.p[i]))
            return 0;
    return sign < text.n && mask_is_secret_name(bytes_until(text, sign)) ? sign + 1 : 0;
}

static void mask_argument(struct mask_scan *k, struct str text, bool script)
{
    size_t name = script ? 0 : find_secret_assignment(text);

    if (k->next == NEXT_SECRET && !str_starts(text, STR("--"))) {
        k->next = NEXT_ANY;
        put_mask(k->out);
    } else if (name) {
        k->next = NEXT_ANY;
        mask_value(k->out, bytes_until(text, name));
        put_mask(k->out);
    } else {
        mask_words(k, text);
    }
}

/* An option such as -c or -lc, which a script of a shell follows. */
static bool is_script_next(const char *arg)
{
    size_t n = strlen(arg);

    return n > 1 && n < 8 && arg[0] == '-' && arg[1] != '-' && arg[n - 1] == 'c';
}

void mask_arguments(const char *const *argv, bool mask, struct masked *ret)
{
    struct mask_scan k = { .out = ret };

    *ret = (struct masked){ .text = BUF_INIT(MASK_OUT_MAX + MASK_ARGS_MAX) };
    for (size_t i = 0; argv[i] && !ret->truncated; i++) {
        struct str text = { argv[i], strnlen(argv[i], MASK_IN_MAX) };
        bool cut = argv[i][text.n] != '\0';

        if (i == MASK_ARGS_MAX || ret->text.n >= MASK_OUT_MAX) {
            ret->truncated = true;
            return;
        }
        if (mask)
            mask_argument(&k, text, i && is_script_next(argv[i - 1]));
        else
            put_as_is(ret, text);
        ret->truncated |= cut;
        (void)buf_add_c(&ret->text, '\0');
        ret->args++;
    }
}

void masked_done(struct masked *m)
{
    buf_done(&m->text);
}
