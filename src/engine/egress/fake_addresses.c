#include "egress/mapping.h"

#include <stdlib.h>

#include "base/own.h"
#include "crypto/random.h"

enum {
    V4_COUNT = 1 << 17, /* of 198.18.0.0/15 */
    SLOTS = 256,        /* names are few in most boxes */
    EPOCH = 6,          /* bytes between the IPv6 prefix and the number */
};

static const struct prefix range4 = { { .bytes = { 198, 18 } }, 15 };
static const struct prefix range6 = {
    { .v6 = true, .bytes = { 0xfd, 0x73, 0x62, 0x78, 0x65, 0x67 } }, 48
};

struct entry {
    struct mapped what;
    uint32_t number; /* of its addresses */
    struct entry *same_name, *same_number;
};

struct mapping {
    uint32_t first, used; /* numbers go from first on, all the way round */
    uint64_t seed;
    uint8_t epoch[EPOCH];
    size_t n;
    struct entry *names[SLOTS], *numbers[SLOTS];
};

/* Begins anywhere: a worker that takes over a box does not know what the last one handed out, so
 * what programs still remember of it should be nothing. */
struct mapping *mapping_new(void)
{
    struct mapping *m = calloc(1, sizeof *m);
    struct err e;

    if (!m || crypto_random(&m->first, sizeof m->first, &e) < 0 ||
        crypto_random(&m->seed, sizeof m->seed, &e) < 0 ||
        crypto_random(m->epoch, sizeof m->epoch, &e) < 0)
        abort();
    m->first %= V4_COUNT;
    return m;
}

void mapping_free(struct mapping *m)
{
    for (size_t i = 0; m && i < SLOTS; i++)
        for (struct entry *x; (x = m->names[i]);) {
            m->names[i] = x->same_name;
            free(x);
        }
    free(m);
}

static struct entry **name_slot(struct mapping *m, struct str name)
{
    uint64_t h = m->seed;

    for (size_t i = 0; i < name.n; i++)
        h = (h ^ (uint8_t)name.p[i]) * UINT64_C(0x100000001b3);
    return &m->names[(h ^ h >> 32) % SLOTS];
}

static struct entry *find_name(const struct mapping *m, struct str name)
{
    struct entry *x = *name_slot((struct mapping *)(uintptr_t)m, name);

    while (x && !str_eq(str_from(x->what.name), name))
        x = x->same_name;
    return x;
}

static struct entry *find_number(const struct mapping *m, uint32_t number)
{
    struct entry *x = m->numbers[number % SLOTS];

    while (x && x->number != number)
        x = x->same_number;
    return x;
}

static void join(struct mapping *m, struct entry *x)
{
    struct entry **name = name_slot(m, str_from(x->what.name));
    struct entry **number = &m->numbers[x->number % SLOTS];

    x->same_name = *name;
    *name = x;
    x->same_number = *number;
    *number = x;
    m->n++;
}

static void forget(struct mapping *m, struct entry *x)
{
    struct entry **at = name_slot(m, str_from(x->what.name));

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

/* The one that has been expired for the longest time; NULL: all are alive. */
static struct entry *oldest_expired(struct mapping *m, int64_t now)
{
    struct entry *oldest = NULL;

    for (size_t i = 0; i < SLOTS; i++)
        for (struct entry *x = m->names[i]; x; x = x->same_name)
            if (x->what.expires <= now && (!oldest || x->what.expires < oldest->what.expires))
                oldest = x;
    return oldest;
}

static int make_room(struct mapping *m, int64_t now, struct err *e)
{
    struct entry *x = m->n < EGRESS_MAPPINGS_MAX ? NULL : oldest_expired(m, now);

    if (m->used == V4_COUNT)
        return err_set(e, ERR_TOO_BIG, "all %d synthetic addresses were handed out", V4_COUNT);
    if (x)
        forget(m, x);
    if (m->n >= EGRESS_MAPPINGS_MAX)
        return err_set(e, ERR_BUSY, "%d names are mapped already", EGRESS_MAPPINGS_MAX);
    return 0;
}

static struct synthetic addresses_of(const struct mapping *m, uint32_t number)
{
    struct synthetic s = { range4.base, range6.base };

    s.v4.bytes[1] |= (uint8_t)(number >> 16);
    s.v4.bytes[2] = s.v6.bytes[14] = (uint8_t)(number >> 8);
    s.v4.bytes[3] = s.v6.bytes[15] = (uint8_t)number;
    memcpy(&s.v6.bytes[6], m->epoch, EPOCH);
    s.v6.bytes[13] = (uint8_t)(number >> 16);
    return s;
}

static uint32_t number_of(const struct address *a)
{
    const uint8_t *last = a->bytes + (a->v6 ? 13 : 1);

    return (uint32_t)((last[0] & 1) << 16 | last[1] << 8 | last[2]);
}

int mapping_put(struct mapping *m, const struct mapped *what, int64_t now, struct synthetic *ret,
                struct err *e)
{
    struct entry *x = find_name(m, str_from(what->name));
    int r;

    if (x) {
        x->what = *what;
    } else {
        r = make_room(m, now, e);
        if (r < 0)
            return r;
        x = calloc(1, sizeof *x);
        if (!x)
            abort();
        x->what = *what;
        x->number = (m->first + m->used++) % V4_COUNT;
        join(m, x);
    }
    *ret = addresses_of(m, x->number);
    return 0;
}

bool mapping_is_synthetic(const struct address *a)
{
    return prefix_has(a->v6 ? &range6 : &range4, a);
}

const struct mapped *mapping_find(const struct mapping *m, const struct address *synthetic)
{
    struct synthetic its;
    struct entry *x;

    if (!mapping_is_synthetic(synthetic))
        return NULL;
    x = find_number(m, number_of(synthetic));
    if (!x)
        return NULL;
    its = addresses_of(m, x->number);
    return address_equal(synthetic->v6 ? &its.v6 : &its.v4, synthetic) ? &x->what : NULL;
}

const struct mapped *mapping_find_name(const struct mapping *m, struct str name,
                                       struct synthetic *ret)
{
    struct entry *x = find_name(m, name);

    if (!x)
        return NULL;
    *ret = addresses_of(m, x->number);
    return &x->what;
}
