/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rfc3339.h"

#include <time.h>

#include "base/clock.h"
#include "base/digits.h"

/* n digits, of a number from min to max. */
static bool take_time_digits(struct str *s, size_t n, int min, int max, int *ret)
{
    int v = 0;

    if (s->n < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9')
            return false;
        v = v * 10 + (s->p[i] - '0');
    }
    *s = (struct str){ s->p + n, s->n - n };
    *ret = v;
    return v >= min && v <= max;
}

static bool take_char(struct str *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    *s = (struct str){ s->p + 1, s->n - 1 };
    return true;
}

static bool take_day(struct str *s, struct tm *t)
{
    bool good = take_time_digits(s, 4, 1970, 2261, &t->tm_year) && take_char(s, '-') &&
                take_time_digits(s, 2, 1, 12, &t->tm_mon) && take_char(s, '-') &&
                take_time_digits(s, 2, 1, 31, &t->tm_mday);

    t->tm_year -= 1900;
    t->tm_mon--;
    return good;
}

static bool take_second_fraction(struct str *s, int64_t *ret_ns)
{
    int digit;

    *ret_ns = 0;
    if (!take_char(s, '.'))
        return true;
    if (s->n == 0 || s->p[0] < '0' || s->p[0] > '9')
        return false;
    for (int64_t unit = NS_PER_S / 10; take_time_digits(s, 1, 0, 9, &digit); unit /= 10)
        *ret_ns += unit * digit;
    return true;
}

/* The offset from UTC in seconds. */
static bool take_zone(struct str *s, int *ret)
{
    bool west = s->n && s->p[0] == '-';
    int hours, minutes;

    *ret = 0;
    if (take_char(s, 'Z'))
        return true;
    if (!take_char(s, west ? '-' : '+') || !take_time_digits(s, 2, 0, 23, &hours) ||
        !take_char(s, ':') || !take_time_digits(s, 2, 0, 59, &minutes))
        return false;
    *ret = (west ? -60 : 60) * (60 * hours + minutes);
    return true;
}

bool rfc3339_parse(struct str s, int64_t *ret)
{
    struct str rest = s;
    struct tm t = { 0 };
    int64_t fraction = 0, seconds = -1;
    int day, zone = 0;

    if (take_day(&rest, &t) && take_char(&rest, 'T') &&
        take_time_digits(&rest, 2, 0, 23, &t.tm_hour) && take_char(&rest, ':') &&
        take_time_digits(&rest, 2, 0, 59, &t.tm_min) && take_char(&rest, ':') &&
        take_time_digits(&rest, 2, 0, 59, &t.tm_sec) && take_second_fraction(&rest, &fraction) &&
        take_zone(&rest, &zone) && rest.n == 0) {
        day = t.tm_mday;
        seconds = (int64_t)timegm(&t) - zone;
        if (t.tm_mday != day) /* such as the 31st of June */
            seconds = -1;
    }
    if (seconds < 0)
        return false;
    *ret = seconds * NS_PER_S + fraction;
    return true;
}

void time_text(int64_t wall_ns, char out[static TIME_TEXT])
{
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    char *p = out;
    struct tm t;

    gmtime_r(&seconds, &t);
    p = digits_fill(p, 4, (unsigned)t.tm_year + 1900);
    *p++ = '-';
    p = digits_fill(p, 2, (unsigned)t.tm_mon + 1);
    *p++ = '-';
    p = digits_fill(p, 2, (unsigned)t.tm_mday);
    *p++ = 'T';
    p = digits_fill(p, 2, (unsigned)t.tm_hour);
    *p++ = ':';
    p = digits_fill(p, 2, (unsigned)t.tm_min);
    *p++ = ':';
    p = digits_fill(p, 2, (unsigned)t.tm_sec);
    *p++ = '.';
    p = digits_fill(p, 3, (unsigned)(wall_ns / NS_PER_MS % 1000));
    *p++ = 'Z';
    *p = '\0';
}
