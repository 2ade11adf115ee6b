/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/spelling.h"

#include <stdint.h>
#include <string.h>

#include "base/own.h"

/* Code points that HFS+ and ext4 ignore when they compare names. */
static const struct {
    uint32_t first, last;
} ignored[] = {
    { 0x00AD, 0x00AD },   { 0x034F, 0x034F }, { 0x061C, 0x061C },   { 0x115F, 0x1160 },
    { 0x17B4, 0x17B5 },   { 0x180B, 0x180F }, { 0x200B, 0x200F },   { 0x202A, 0x202E },
    { 0x2060, 0x206F },   { 0x3164, 0x3164 }, { 0xFE00, 0xFE0F },   { 0xFEFF, 0xFEFF },
    { 0xFFA0, 0xFFA0 },   { 0xFFF0, 0xFFF8 }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A },
    { 0xE0000, 0xE0FFF },
};

enum { LONG_S = 0x017F, KELVIN = 0x212A };

enum { NO_CHARACTER = 0x110000 };

/* The first character of s, which is not empty, and its length; NO_CHARACTER for a byte that begins
 * none. */
static uint32_t first_character(struct str s, size_t *ret_n)
{
    unsigned char lead = (unsigned char)s.p[0];
    size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    uint32_t c = n == 1 ? lead : lead & (0x7Fu >> n);

    *ret_n = 1;
    if (n > s.n || (n == 1 && lead >= 0x80))
        return NO_CHARACTER;
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)s.p[i] & 0xC0) != 0x80)
            return NO_CHARACTER;
        c = c << 6 | ((unsigned char)s.p[i] & 0x3F);
    }
    *ret_n = n;
    return c;
}

static bool is_ignored(uint32_t c)
{
    for (size_t i = 0; i < COUNT_OF(ignored); i++)
        if (c >= ignored[i].first && c <= ignored[i].last)
            return true;
    return false;
}

static size_t fold_component(struct str name, char *out)
{
    struct str rest = name;
    size_t n = 0;

    while (rest.n > 0 && rest.p[0] != ':') {
        size_t step;
        uint32_t c = first_character(rest, &step);

        if (c == LONG_S || c == KELVIN) {
            out[n++] = c == KELVIN ? 'k' : 's';
        } else if (!is_ignored(c)) {
            memmove(out + n, rest.p, step);
            n += step;
        }
        rest = (struct str){ rest.p + step, rest.n - step };
    }
    while (n > 0 && (out[n - 1] == '.' || out[n - 1] == ' '))
        n--;
    if (n == 0 && name.n > 0)
        out[n++] = name.p[0];
    return n;
}

size_t spelling_fold(struct str path, char *out)
{
    size_t n = 0;

    while (path.n > 0) {
        struct str name;

        path = str_cut(path, '/', &name);
        n += fold_component(name, out + n);
        if (path.n > 0)
            out[n++] = '/';
    }
    return n;
}

/* At most eight bytes that end with a tilde and a number, and at most three after a dot. */
bool spelling_is_short(struct str name)
{
    struct str base, extension = str_cut(name, '.', &base), digits, start;

    digits = str_cut(base, '~', &start);
    if (base.n > 8 || extension.n > 3 || start.n == 0 || digits.n == 0)
        return false;
    for (size_t i = 0; i < digits.n; i++)
        if (digits.p[i] < '0' || digits.p[i] > '9')
            return false;
    return memchr(name.p, '/', name.n) == NULL;
}
