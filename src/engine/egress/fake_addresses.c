/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/fake_addresses.h"

#include <stdlib.h>

#include "base/own.h"
#include "lib/crypto/random.h"

enum {
    V4_COUNT = 1 << 17, /* of 198.18.0.0/15 */
    SLOTS = 256,        /* most boxes use few names */
    EPOCH = 6,          /* offset of the bytes between the IPv6 prefix and the number */
};

static const struct prefix range4 = { { .bytes = { 198, 18 } }, 15 };
static const struct prefix range6 = {
    { .v6 = true, .bytes = { 0xfd, 0x73, 0x62, 0x78, 0x65, 0x67 } }, 48
};

struct fake_address_entry {
    struct fake_mapping what;
    uint32_t number; /* number within the address ranges */
    struct fake_address_entry *same_name, *same_number;
};

struct fake_addresses {
    uint32_t first, used; /* numbers are assigned from `first` on, and wrap around */
    uint64_t seed;
    uint8_t epoch[EPOCH];
    size_t n;
    struct fake_address_entry *names[SLOTS], *numbers[SLOTS];
};

/* Begins at a random number: a worker that takes over a box does not know the addresses that the
 * last worker handed out, so addresses that programs have cached should not be reused. */
struct fake_addresses *fake_addresses_new(void)
{
    struct fake_addresses *m = new0(sizeof *m);
    struct err e;

    if (crypto_random(&m->first, sizeof m->first, &e) < 0 ||
        crypto_random(&m->seed, sizeof m->seed, &e) < 0 ||
        crypto_random(m->epoch, sizeof m->epoch, &e) < 0)
        abort();
    m->first %= V4_COUNT;
    return m;
}

void fake_addresses_free(struct fake_addresses *m)
{
    for (size_t i = 0; m && i < SLOTS; i++)
        for (struct fake_address_entry *x; (x = m->names[i]);) {
            m->names[i] = x->same_name;
            free(x);
        }
    free(m);
}

static struct fake_address_entry **fake_name_slot(struct fake_addresses *m, struct str name)
{
    uint64_t h = m->seed;

    for (size_t i = 0; i < name.n; i++)
        h = (h ^ (uint8_t)name.p[i]) * UINT64_C(0x100000001b3);
    return &m->names[(h ^ h >> 32) % SLOTS];
}

static struct fake_address_entry *find_fake_name(const struct fake_addresses *m, struct str name)
{
    struct fake_address_entry *x = *fake_name_slot((struct fake_addresses *)(uintptr_t)m, name);

    while (x && !str_eq(str_from(x->what.name), name))
        x = x->same_name;
    return x;
}

static void remove_fake_entry(struct fake_addresses *m, struct fake_address_entry *x)
{
    struct fake_address_entry **at = fake_name_slot(m, str_from(x->what.name));

    while (*at != x)
        at = &(*at)->same_name;
    *at = x->same_name;
    at = &m->numbers[x->number % SLOTS];
    while (*at != x)
        at = &(*at)->same_number;
    *at = x->same_number;
    m->n--;
    free(x);
}

/* The entry that expired first; NULL if none has expired. */
static struct fake_address_entry *oldest_expired(struct fake_addresses *m, int64_t now)
{
    struct fake_address_entry *oldest = NULL;

    for (size_t i = 0; i < SLOTS; i++)
        for (struct fake_address_entry *x = m->names[i]; x; x = x->same_name)
            if (x->what.expires <= now && (!oldest || x->what.expires < oldest->what.expires))
                oldest = x;
    return oldest;
}

static int evict_fake_entry(struct fake_addresses *m, int64_t now, struct err *e)
{
    struct fake_address_entry *x = m->n < EGRESS_MAPPINGS_MAX ? NULL : oldest_expired(m, now);

    if (m->used == V4_COUNT)
        return err_set(e, ERR_TOO_BIG, "all %d synthetic addresses are assigned", V4_COUNT);
    if (x)
        remove_fake_entry(m, x);
    if (m->n >= EGRESS_MAPPINGS_MAX)
        return err_set(e, ERR_BUSY, "%d names are mapped, and none has expired",
                       EGRESS_MAPPINGS_MAX);
    return 0;
}

static struct synthetic addresses_of(const struct fake_addresses *m, uint32_t number)
{
    struct synthetic s = { range4.base, range6.base };

    s.v4.bytes[1] |= (uint8_t)(number >> 16);
    s.v4.bytes[2] = s.v6.bytes[14] = (uint8_t)(number >> 8);
    s.v4.bytes[3] = s.v6.bytes[15] = (uint8_t)number;
    memcpy(&s.v6.bytes[6], m->epoch, EPOCH);
    s.v6.bytes[13] = (uint8_t)(number >> 16);
    return s;
}

int fake_addresses_put(struct fake_addresses *m, const struct fake_mapping *what, int64_t now,
                       struct synthetic *ret, struct err *e)
{
    struct fake_address_entry *x = find_fake_name(m, str_from(what->name));
    struct fake_address_entry **name = fake_name_slot(m, str_from(what->name)), **number;
    int r;

    if (!x) {
        r = evict_fake_entry(m, now, e);
        if (r < 0)
            return r;
        x = new0(sizeof *x);
        x->number = (m->first + m->used++) % V4_COUNT;
        number = &m->numbers[x->number % SLOTS];
        x->same_name = *name;
        *name = x;
        x->same_number = *number;
        *number = x;
        m->n++;
    }
    x->what = *what;
    *ret = addresses_of(m, x->number);
    return 0;
}

bool fake_addresses_is_synthetic(const struct address *a)
{
    return prefix_has(a->v6 ? &range6 : &range4, a);
}

const struct fake_mapping *fake_addresses_find(const struct fake_addresses *m,
                                               const struct address *synthetic)
{
    const uint8_t *last = synthetic->bytes + (synthetic->v6 ? 13 : 1);
    uint32_t number = (uint32_t)((last[0] & 1) << 16 | last[1] << 8 | last[2]);
    const struct fake_address_entry *x = m->numbers[number % SLOTS];
    struct synthetic its;

    if (!fake_addresses_is_synthetic(synthetic))
        return NULL;
    while (x && x->number != number)
        x = x->same_number;
    if (!x)
        return NULL;
    its = addresses_of(m, x->number);
    return address_equal(synthetic->v6 ? &its.v6 : &its.v4, synthetic) ? &x->what : NULL;
}

const struct fake_mapping *fake_addresses_find_name(const struct fake_addresses *m, struct str name,
                                                    struct synthetic *ret)
{
    struct fake_address_entry *x = find_fake_name(m, name);

    if (!x)
        return NULL;
    *ret = addresses_of(m, x->number);
    return &x->what;
}
