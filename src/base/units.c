/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <stdio.h>
#include <strings.h>

#include "base/clock.h"
#include "base/own.h"

struct unit {
    const char *name;
    int64_t scale;
};

#define POWER(n) (INT64_C(1) << (n))
static const struct unit byte_units[] = {
    { "", POWER(0) },     { "B", POWER(0) },    { "K", POWER(10) },   { "KB", POWER(10) },
    { "KiB", POWER(10) }, { "M", POWER(20) },   { "MB", POWER(20) },  { "MiB", POWER(20) },
    { "G", POWER(30) },   { "GB", POWER(30) },  { "GiB", POWER(30) }, { "T", POWER(40) },
    { "TB", POWER(40) },  { "TiB", POWER(40) },
};

static const struct unit time_units[] = {
    { "ms", NS_PER_MS },         { "s", NS_PER_S },         { "m", 60 * NS_PER_S },
    { "h", 60 * 60 * NS_PER_S }, { "d", 86400 * NS_PER_S },
};

static bool is_unit_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const struct unit *find_unit(struct str s, const struct unit *units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (s.n == strlen(units[i].name) && strncasecmp(s.p, units[i].name, s.n) == 0)
            return &units[i];
    return NULL;
}

struct decimal {
    uint64_t whole, millionths;
};

/* Digits behind the point, at most six; advances *s past them. */
static bool take_unit_fraction(struct str *s, uint64_t *ret)
{
    uint64_t scale = 1000000, v = 0;
    size_t n;

    for (n = 0; n < s->n && is_unit_digit(s->p[n]); n++) {
        scale /= 10;
        if (scale == 0)
            return false;
        v += (uint64_t)(s->p[n] - '0') * scale;
    }
    if (n == 0)
        return false;
    *s = (struct str){ s->p + n, s->n - n };
    *ret = v;
    return true;
}

/* "1.5" -> { 1, 500000 }; advances *s past it. */
static bool take_decimal(struct str *s, struct decimal *ret)
{
    struct decimal d = { 0 };
    size_t n = 0;

    while (n < s->n && is_unit_digit(s->p[n]))
        n++;
    if (!str_to_u64((struct str){ s->p, n }, &d.whole))
        return false;
    *s = (struct str){ s->p + n, s->n - n };
    if (s->n && s->p[0] == '.') {
        *s = (struct str){ s->p + 1, s->n - 1 };
        if (!take_unit_fraction(s, &d.millionths))
            return false;
    }
    *ret = d;
    return true;
}

/* One "number unit" pair; advances *s past it. */
static bool take_quantity(struct str *s, const struct unit *units, size_t count, int64_t *ret)
{
    const struct unit *unit;
    struct decimal d;
    __int128 value;
    size_t n = 0;

    if (!take_decimal(s, &d))
        return false;
    while (n < s->n && !is_unit_digit(s->p[n]))
        n++;
    unit = find_unit((struct str){ s->p, n }, units, count);
    if (!unit)
        return false;
    s->p += n;
    s->n -= n;
    value = (__int128)d.whole * unit->scale + (__int128)d.millionths * unit->scale / 1000000;
    if (value > INT64_MAX)
        return false;
    *ret = (int64_t)value;
    return true;
}

int units_bytes(struct str s, const char *what, uint64_t *ret, struct err *e)
{
    struct str rest = s;
    int64_t v;

    if (!take_quantity(&rest, byte_units, COUNT_OF(byte_units), &v) || rest.n || v <= 0)
        return err_set(e, ERR_INVALID,
                       "%s: '" STR_FMT
                       "' is not a size; write a number above 0 with an optional unit "
                       "K, M, G or T, as in 64M",
                       what, STR_ARG(s));
    *ret = (uint64_t)v;
    return 0;
}

int units_duration(struct str s, const char *what, int64_t *ret, struct err *e)
{
    struct str rest = s;
    int64_t total = 0, v;

    do {
        if (!take_quantity(&rest, time_units, COUNT_OF(time_units), &v) ||
            __builtin_add_overflow(total, v, &total))
            goto bad;
    } while (rest.n);
    if (total <= 0)
        goto bad;
    *ret = total;
    return 0;
bad:
    return err_set(e, ERR_INVALID,
                   "%s: '" STR_FMT
                   "' is not a duration; write a number above 0 with a unit ms, s, m, h "
                   "or d, as in 2s or 1h30m",
                   what, STR_ARG(s));
}

int units_milli(struct str s, const char *what, uint32_t *ret, struct err *e)
{
    struct str rest = s;
    struct decimal d;
    uint64_t v = 0;

    if (take_decimal(&rest, &d) && d.whole <= UINT32_MAX)
        v = d.whole * 1000 + d.millionths / 1000;
    if (rest.n || v < 1 || v > UINT32_MAX)
        return err_set(e, ERR_INVALID, "%s: '" STR_FMT "' is not a number above 0, as in 0.5 or 2",
                       what, STR_ARG(s));
    *ret = (uint32_t)v;
    return 0;
}

int units_count(struct str s, const char *what, uint64_t min, uint64_t max, uint64_t *ret,
                struct err *e)
{
    uint64_t v;

    if (!str_to_u64(s, &v) || v < min || v > max)
        return err_set(e, ERR_INVALID, "%s: '" STR_FMT "' is not a whole number from %llu to %llu",
                       what, STR_ARG(s), (unsigned long long)min, (unsigned long long)max);
    *ret = v;
    return 0;
}

void units_show_bytes(uint64_t bytes, char out[static 24])
{
    static const char names[] = "KMGT";

    for (int at = 3; at >= 0; at--) {
        uint64_t unit = UINT64_C(1) << (10 * (at + 1));

        if (bytes < unit || bytes % (unit / 2) != 0)
            continue;
        snprintf(out, 24, "%llu%s%c", (unsigned long long)(bytes / unit), bytes % unit ? ".5" : "",
                 names[at]);
        return;
    }
    snprintf(out, 24, "%llu", (unsigned long long)bytes);
}

void units_show_duration(int64_t ns, char out[static 48])
{
    static const struct {
        int64_t seconds;
        char letter;
    } units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
    int64_t rest = ns / 1000000000;
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        int64_t n = rest / units[i].seconds;

        rest %= units[i].seconds;
        if (n || (!at && units[i].seconds == 1))
            at += (size_t)snprintf(out + at, 48 - at, "%lld%c", (long long)n, units[i].letter);
    }
}
