#include "cli/when.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"

enum { FRACTION_DIGITS = 9, FIRST_YEAR = 1970, LAST_YEAR = 2261 };

/* Takes `digits` digits and the character behind them off the front. */
static bool number(struct str *s, size_t digits, char behind, int64_t min, int64_t max,
                   int64_t *ret)
{
    uint64_t value;

    if (s->n < digits + 1 || s->p[digits] != behind ||
        !str_to_u64((struct str){ s->p, digits }, &value))
        return false;
    *s = (struct str){ s->p + digits + 1, s->n - digits - 1 };
    *ret = (int64_t)value;
    return *ret >= min && *ret <= max;
}

/* Nanoseconds of "678Z". */
static bool fraction(struct str s, int64_t *ret)
{
    uint64_t value;

    if (s.n < 2 || s.n > FRACTION_DIGITS + 1 || s.p[s.n - 1] != 'Z' ||
        !str_to_u64((struct str){ s.p, s.n - 1 }, &value))
        return false;
    for (size_t digits = s.n - 1; digits < FRACTION_DIGITS; digits++)
        value *= 10;
    *ret = (int64_t)value;
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_in(int64_t year, int64_t month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

    return days[month - 1] + (month == 2 && is_leap(year));
}

static int64_t days_since_epoch(int64_t year, int64_t month, int64_t day)
{
    int64_t days = day - 1;

    for (int64_t y = FIRST_YEAR; y < year; y++)
        days += is_leap(y) ? 366 : 365;
    for (int64_t m = 1; m < month; m++)
        days += days_in(year, m);
    return days;
}

bool when_parse(struct str s, int64_t *ret_ns)
{
    int64_t year, month, day, hour, minute, second, ns = 0;
    bool whole = s.n && s.p[s.n - 1] == 'Z' && str_find(s, '.') == s.n;

    if (!number(&s, 4, '-', FIRST_YEAR, LAST_YEAR, &year) || !number(&s, 2, '-', 1, 12, &month) ||
        !number(&s, 2, 'T', 1, days_in(year, month), &day) || !number(&s, 2, ':', 0, 23, &hour) ||
        !number(&s, 2, ':', 0, 59, &minute) || !number(&s, 2, whole ? 'Z' : '.', 0, 60, &second) ||
        (whole ? s.n != 0 : !fraction(s, &ns)))
        return false;
    *ret_ns = ((days_since_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 * NS_PER_S +
              second * NS_PER_S + ns;
    return true;
}

void when_span(int64_t ns, char out[static WHEN_TEXT])
{
    static const struct {
        char name;
        long long seconds;
    } units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
    long long left = (ns < 0 ? 0 : ns) / NS_PER_S;
    size_t at = 0;

    while (at + 1 < COUNT_OF(units) && left < units[at].seconds)
        at++;
    if (at + 1 < COUNT_OF(units) && left % units[at].seconds >= units[at + 1].seconds)
        snprintf(out, WHEN_TEXT, "%lld%c%lld%c", left / units[at].seconds, units[at].name,
                 left % units[at].seconds / units[at + 1].seconds, units[at + 1].name);
    else
        snprintf(out, WHEN_TEXT, "%lld%c", left / units[at].seconds, units[at].name);
}

void when_ago(int64_t then, int64_t now, char out[static WHEN_TEXT])
{
    char span[WHEN_TEXT];

    when_span(now - then, span);
    snprintf(out, WHEN_TEXT, now - then < NS_PER_S ? "now" : "%.19s ago", span);
}

void when_until(int64_t then, int64_t now, char out[static WHEN_TEXT])
{
    char span[WHEN_TEXT];

    when_span(then - now, span);
    snprintf(out, WHEN_TEXT, then <= now ? "due" : "in %.20s", span);
}
