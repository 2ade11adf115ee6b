/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/time.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"

void time_text(int64_t wall_ns, char out[static TIME_TEXT])
{
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm t;
    char day[24] = "";

    gmtime_r(&seconds, &t);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out, TIME_TEXT, "%s.%03dZ", day, (int)(wall_ns / NS_PER_MS % 1000));
}

/* Cuts n digits off the start of s; -1 if it does not begin with n digits. */
static int cut_digits(struct str *s, size_t n)
{
    int v = 0;

    for (size_t i = 0; i < n; i++) {
        if (i >= s->n || s->p[i] < '0' || s->p[i] > '9')
            return -1;
        v = v * 10 + (s->p[i] - '0');
    }
    *s = (struct str){ s->p + n, s->n - n };
    return v;
}

static bool skip_time_char(struct str *s, char c)
{
    if (!s->n || s->p[0] != c)
        return false;
    *s = (struct str){ s->p + 1, s->n - 1 };
    return true;
}

static bool read_fraction(struct str *s, int64_t *ret)
{
    int64_t unit = NS_PER_S / 10;

    *ret = 0;
    if (!skip_time_char(s, '.'))
        return true;
    for (; s->n && s->p[0] >= '0' && s->p[0] <= '9' && unit; unit /= 10) {
        *ret += unit * (s->p[0] - '0');
        (void)skip_time_char(s, s->p[0]);
    }
    return unit < NS_PER_S / 10;
}

bool time_read(struct str text, int64_t *ret_wall_ns)
{
    static const struct {
        size_t digits;
        char after;
        int least, most;
    } parts[] = {
        { 4, '-', 1970, 2200 }, { 2, '-', 1, 12 }, { 2, 'T', 1, 31 },
        { 2, ':', 0, 23 },      { 2, ':', 0, 59 }, { 2, '\0', 0, 60 },
    };
    int v[6];
    struct tm t;
    int64_t fraction;

    for (size_t i = 0; i < 6; i++) {
        v[i] = cut_digits(&text, parts[i].digits);
        if (v[i] < parts[i].least || v[i] > parts[i].most ||
            (parts[i].after && !skip_time_char(&text, parts[i].after)))
            return false;
    }
    if (!read_fraction(&text, &fraction) || !skip_time_char(&text, 'Z') || text.n)
        return false;
    t = (struct tm){ .tm_year = v[0] - 1900,
                     .tm_mon = v[1] - 1,
                     .tm_mday = v[2],
                     .tm_hour = v[3],
                     .tm_min = v[4],
                     .tm_sec = v[5] };
    *ret_wall_ns = (int64_t)timegm(&t) * NS_PER_S + fraction;
    return true;
}
