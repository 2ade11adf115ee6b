/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/scalar.h"

#include "base/hex.h"
#include "base/own.h"
#include "lib/json/number.h"

static const struct {
    const char *text;
    enum json_type type;
    bool b;
} words[] = {
    { "", JSON_NULL, false },      { "~", JSON_NULL, false },     { "null", JSON_NULL, false },
    { "Null", JSON_NULL, false },  { "NULL", JSON_NULL, false },  { "true", JSON_BOOL, true },
    { "True", JSON_BOOL, true },   { "TRUE", JSON_BOOL, true },   { "false", JSON_BOOL, false },
    { "False", JSON_BOOL, false }, { "FALSE", JSON_BOOL, false },
};

static const char *const not_finite[] = { ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN" };

static struct str without_sign(struct str s)
{
    return s.n && (s.p[0] == '-' || s.p[0] == '+') ? (struct str){ s.p + 1, s.n - 1 } : s;
}

static size_t count_leading_digits(struct str s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
        n++;
    return n;
}

static struct str str_behind(struct str s, size_t n)
{
    return (struct str){ s.p + n, s.n - n };
}

/* [0-9]* ( . [0-9]* )? ( [eE] [-+]? [0-9]+ )? with a digit before the exponent. */
static bool looks_decimal(struct str s)
{
    size_t whole = count_leading_digits(s), places = 0;

    s = str_behind(s, whole);
    if (s.n && s.p[0] == '.') {
        places = count_leading_digits(str_behind(s, 1));
        s = str_behind(s, 1 + places);
    }
    if (whole + places == 0)
        return false;
    if (s.n && (s.p[0] | 0x20) == 'e') {
        s = without_sign(str_behind(s, 1));
        whole = count_leading_digits(s);
        return whole > 0 && whole == s.n;
    }
    return s.n == 0;
}

/* 0x1F and 0o755, without a sign. */
static bool looks_based(struct str s, unsigned *ret_bits)
{
    unsigned bits = str_starts(s, STR("0x")) ? 4 : str_starts(s, STR("0o")) ? 3 : 0;

    if (!bits || s.n == 2)
        return false;
    for (size_t i = 2; i < s.n; i++)
        if ((unsigned)hex_digit(s.p[i]) >= 1u << bits)
            return false;
    *ret_bits = bits;
    return true;
}

static bool read_based(struct str s, unsigned bits, struct json *v, const char **why)
{
    uint64_t u = 0;

    for (size_t i = 2; i < s.n; i++) {
        if (u >> (64 - bits)) {
            *why = "the whole number does not fit in 64 bits; quote it if it is a string";
            return false;
        }
        u = u << bits | (uint64_t)hex_digit(s.p[i]);
    }
    v->type = u > INT64_MAX ? JSON_UINT : JSON_INT;
    v->u = u;
    return true;
}

/* YAML lets a number start or end with the point, JSON does not: the digit is put in. */
static bool read_decimal(struct str s, bool negative, struct json *v, const char **why)
{
    char text[512];
    size_t n = 0;

    if (s.n > sizeof text - 4) {
        *why = "the number has too many digits; quote it if it is a string";
        return false;
    }
    if (negative)
        text[n++] = '-';
    if (s.p[0] == '.')
        text[n++] = '0';
    for (size_t i = 0; i < s.n; i++) {
        text[n++] = s.p[i];
        if (s.p[i] == '.' && count_leading_digits(str_behind(s, i + 1)) == 0)
            text[n++] = '0';
    }
    text[n] = '\0';
    return json_number(text, v, why) != NULL;
}

bool yaml_plain(struct str text, struct json *v, const char **why)
{
    struct str s = without_sign(text);
    unsigned bits;

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_eq(text, str_from(words[i].text))) {
            v->type = words[i].type;
            v->b = words[i].b;
            return true;
        }
    for (size_t i = 0; i < COUNT_OF(not_finite); i++)
        if (str_eq(s, str_from(not_finite[i]))) {
            *why = "infinity and NaN are not supported; quote it if it is a string";
            return false;
        }
    if (looks_decimal(s) && s.n > 1 && s.p[0] == '0' && s.p[1] >= '0' && s.p[1] <= '9') {
        *why = "a number must not start with 0: write 0o755 for octal, or quote it";
        return false;
    }
    if (looks_decimal(s))
        return read_decimal(s, text.p[0] == '-', v, why);
    if (looks_based(text, &bits))
        return read_based(text, bits, v, why);
    v->type = JSON_STR;
    v->s = text;
    return true;
}
