/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/wire.h"

enum { LABEL_MAX = 63, POINTER = 0xc0 };

static uint8_t name_byte(struct str m, size_t at)
{
    return (uint8_t)m.p[at];
}

static bool is_canonical(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The caller has checked that there is room. */
static void append_label(struct dns_name *name, struct str label)
{
    if (name->n > 0)
        name->text[name->n++] = '.';
    for (size_t i = 0; i < label.n; i++) {
        char c = label.p[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (!is_canonical(c)) {
            name->odd = true;
            c = '?';
        }
        name->text[name->n++] = c;
    }
}

/* The target of the pointer whose first byte is before *at, or 0 if it is invalid. */
static size_t read_pointer(struct str m, size_t *at, size_t before)
{
    size_t target;

    if (*at >= m.n)
        return 0;
    target = (size_t)(name_byte(m, *at - 1) & ~POINTER) << 8 | name_byte(m, *at);
    ++*at;
    return target >= DNS_HEAD && target < before ? target : 0;
}

bool dns_name_read(struct str m, size_t *at, bool compressed, struct dns_name *ret)
{
    size_t i = *at, began = i, end = 0, wire = 1;

    *ret = (struct dns_name){ 0 };
    for (;;) {
        uint8_t length;

        if (i >= m.n)
            return false;
        length = name_byte(m, i++);
        if (length == 0)
            break;
        if (compressed && length >= POINTER) {
            size_t target = read_pointer(m, &i, began);

            if (target == 0)
                return false;
            end = end ? end : i;
            i = began = target;
            continue;
        }
        wire += length + 1u;
        if (length > LABEL_MAX || m.n - i < length || wire > DNS_NAME_WIRE_MAX)
            return false;
        append_label(ret, (struct str){ m.p + i, length });
        i += length;
    }
    *at = end ? end : i;
    return true;
}

bool dns_name_same(const struct dns_name *a, const struct dns_name *b)
{
    return !a->odd && !b->odd && a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
}

uint64_t dns_name_hash(uint64_t seed, struct str name)
{
    uint64_t h = seed;

    for (size_t i = 0; i < name.n; i++)
        h = (h ^ (uint8_t)name.p[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

size_t dns_name_write(struct str name, uint8_t out[static DNS_NAME_WIRE_MAX])
{
    size_t n = 0;

    if (name.n == 0 || name.n > DNS_NAME_MAX)
        return 0;
    while (name.p) {
        struct str label;

        name = str_cut(name, '.', &label);
        if (label.n == 0 || label.n > LABEL_MAX)
            return 0;
        out[n++] = (uint8_t)label.n;
        for (size_t i = 0; i < label.n; i++) {
            if (!is_canonical(label.p[i]))
                return 0;
            out[n++] = (uint8_t)label.p[i];
        }
    }
    out[n++] = 0;
    return n;
}
