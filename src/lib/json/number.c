/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/digits.h"

/* Digits up to here, and powers up to here, are exact doubles: one multiplication or division of
 * two exact values rounds once, which makes the result the nearest double. */
#define EXACT_DIGITS (UINT64_C(1) << 53)

static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

enum { EXACT_POWER = 22, EXPONENT_ENOUGH = 100000 };

struct digits {
    uint64_t value; /* of the digits so far, if they fit */
    bool too_many;
};

static bool is_number_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *take_number_digits(const char *p, struct digits *d)
{
    for (; is_number_digit(*p); p++)
        d->too_many |= __builtin_mul_overflow(d->value, UINT64_C(10), &d->value) ||
                       __builtin_add_overflow(d->value, (uint64_t)(*p - '0'), &d->value);
    return p;
}

/* "e+10" at p; past EXPONENT_ENOUGH every number is 0 or infinite. */
static const char *take_exponent(const char *p, long *ret)
{
    bool negative = p[1] == '-';
    long exponent = 0;

    p += p[1] == '-' || p[1] == '+' ? 2 : 1;
    if (!is_number_digit(*p))
        return NULL;
    for (; is_number_digit(*p); p++)
        if (exponent < EXPONENT_ENOUGH)
            exponent = exponent * 10 + (*p - '0');
    *ret = negative ? -exponent : exponent;
    return p;
}

/* p is behind the whole digits of the number that starts at text. */
static const char *finish_double(const char *text, const char *p, struct digits *d, struct json *v,
                                 const char **why)
{
    long exponent = 0, places = 0;

    if (*p == '.') {
        const char *from = p + 1;

        p = take_number_digits(from, d);
        places = p - from;
        if (places == 0) {
            *why = "a digit has to follow the point";
            return NULL;
        }
    }
    if (*p == 'e' || *p == 'E') {
        p = take_exponent(p, &exponent);
        if (!p) {
            *why = "a digit has to follow the exponent sign";
            return NULL;
        }
    }
    v->type = JSON_DOUBLE;
    v->d = *text == '-' ? -(double)d->value : (double)d->value;
    exponent -= places;
    if (d->too_many || d->value > EXACT_DIGITS || exponent < -EXACT_POWER || exponent > EXACT_POWER)
        v->d = strtod(text, NULL);
    else
        v->d = exponent < 0 ? v->d / powers[-exponent] : v->d * powers[exponent];
    if (isfinite(v->d))
        return p;
    *why = "the number is too large for a double";
    return NULL;
}

const char *json_number(const char *p, struct json *v, const char **why)
{
    const char *text = p;
    bool negative = *p == '-';
    struct digits d = { 0 };

    p += negative ? 1 : 0;
    if (!is_number_digit(*p)) {
        *why = "a digit is missing";
        return NULL;
    }
    if (*p == '0' && is_number_digit(p[1])) {
        *why = "a number must not start with 0";
        return NULL;
    }
    p = take_number_digits(p, &d);
    if (*p == '.' || *p == 'e' || *p == 'E')
        return finish_double(text, p, &d, v, why);
    if (d.too_many || (negative && d.value > (uint64_t)INT64_MAX + 1)) {
        *why = "the whole number does not fit in 64 bits";
        return NULL;
    }
    v->type = !negative && d.value > INT64_MAX ? JSON_UINT : JSON_INT;
    v->u = negative ? 0 - d.value : d.value;
    return p;
}

enum { NANO = 1000000000 };

/* A whole number of billionths below 10^15 has at most 15 digits, so it is the text that %.15g
 * would find: written without printf. Returns false for other numbers. */
static bool write_billionths(double d, char out[static JSON_DOUBLE_TEXT])
{
    char *p = out, *end;
    int64_t n;

    if (!(d >= 1e-4 && d < 1e6))
        return false;
    n = llround(d * NANO);
    if (n >= INT64_C(1000000000000000) || (double)n / NANO != d)
        return false;
    p += digits_text((uint64_t)(n / NANO), p);
    *p++ = '.';
    end = digits_fill(p, 9, (unsigned)(n % NANO));
    while (end > p + 1 && end[-1] == '0')
        end--;
    *end = '\0';
    return true;
}

void json_double_text(double d, char out[static JSON_DOUBLE_TEXT])
{
    /* Any text of up to 15 digits survives the way to a normal double and back, so if a shorter one
     * than 15 digits exists, rounding to 15 finds it. Subnormals hold fewer digits. */
    int digits = d != 0 && d > -DBL_MIN && d < DBL_MIN ? 1 : DBL_DIG;
    size_t n;

    if (write_billionths(d, out))
        return;
    do
        snprintf(out, JSON_DOUBLE_TEXT, "%.*g", digits++, d);
    while (strtod(out, NULL) != d);
    n = strlen(out);
    if (!strpbrk(out, ".e"))
        snprintf(out + n, JSON_DOUBLE_TEXT - n, ".0");
}
