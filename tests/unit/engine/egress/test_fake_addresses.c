/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/fake_addresses.h"

#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"

static struct err e;
static const struct address real = { .bytes = { 93, 184, 216, 34 } };

static struct fake_mapping what(const char *name, int64_t expires)
{
    struct fake_mapping m = { .ports = { .p = { 443 }, .n = 1 },
                              .pinned = { real },
                              .n_pinned = 1,
                              .generation = 1,
                              .expires = expires };

    snprintf(m.name, sizeof m.name, "%s", name);
    return m;
}

static struct synthetic put(struct fake_addresses *m, const char *name, int64_t expires,
                            int64_t now)
{
    struct fake_mapping w = what(name, expires);
    struct synthetic s;

    CHECK_OK(fake_addresses_put(m, &w, now, &s, &e), e);
    return s;
}

TEST(a_name_is_found_by_both_addresses_and_itself)
{
    struct fake_addresses *m = fake_addresses_new();
    struct synthetic s = put(m, "a.example.com", 10, 0), again;
    const struct fake_mapping *found = fake_addresses_find(m, &s.v4);

    CHECK(fake_addresses_is_synthetic(&s.v4) && fake_addresses_is_synthetic(&s.v6));
    CHECK(!s.v4.v6 && s.v6.v6);
    CHECK(found && found == fake_addresses_find(m, &s.v6));
    CHECK_STR(str_from(found->name), "a.example.com");
    CHECK(found == fake_addresses_find_name(m, STR("a.example.com"), &again));
    CHECK(address_equal(&again.v4, &s.v4) && address_equal(&again.v6, &s.v6));
    CHECK(!fake_addresses_find_name(m, STR("b.example.com"), &again));
    fake_addresses_free(m);
    fake_addresses_free(NULL);
}

TEST(a_known_name_keeps_its_addresses)
{
    struct fake_addresses *m = fake_addresses_new();
    struct synthetic one = put(m, "a.example.com", 10, 0), two;
    struct fake_mapping w = what("a.example.com", 20);

    w.generation = 2;
    w.ports.p[0] = 80;
    CHECK_OK(fake_addresses_put(m, &w, 15, &two, &e), e);
    CHECK(address_equal(&one.v4, &two.v4) && address_equal(&one.v6, &two.v6));
    CHECK_INT(fake_addresses_find(m, &one.v4)->generation, 2);
    CHECK_INT(fake_addresses_find(m, &one.v4)->ports.p[0], 80);
    CHECK_INT(fake_addresses_find(m, &one.v4)->expires, 20);
    fake_addresses_free(m);
}

TEST(neighbours_are_nobody)
{
    struct fake_addresses *m = fake_addresses_new(), *other = fake_addresses_new();
    struct synthetic s = put(m, "a.example.com", 10, 0), there = put(other, "b.example.com", 10, 0);
    struct address a = s.v4, b = s.v6;
    static const struct address far[] = {
        { .bytes = { 198, 17, 255, 255 } },
        { .bytes = { 198, 20, 0, 0 } },
        { .bytes = { 93, 184, 216, 34 } },
        { .v6 = true, .bytes = { 0xfd, 0x73, 0x62, 0x78, 0x65 } },
        { .v6 = true, .bytes = { 0 } },
    };

    a.bytes[3] ^= 1;
    CHECK(!fake_addresses_find(m, &a) && fake_addresses_is_synthetic(&a));
    b.bytes[15] ^= 1;
    CHECK(!fake_addresses_find(m, &b) && fake_addresses_is_synthetic(&b));
    b = s.v6;
    b.bytes[12] ^= 2; /* the same number behind another box's bytes */
    CHECK(!fake_addresses_find(m, &b) && fake_addresses_is_synthetic(&b));
    CHECK(!fake_addresses_find(m, &there.v6));
    for (size_t i = 0; i < COUNT_OF(far); i++)
        CHECK(!fake_addresses_is_synthetic(&far[i]) && !fake_addresses_find(m, &far[i]));
    fake_addresses_free(m);
    fake_addresses_free(other);
}

TEST(names_are_bounded_and_expired_ones_make_room)
{
    struct fake_addresses *m = fake_addresses_new();
    struct synthetic first, s;
    struct fake_mapping more = what("more.example.com", 1000);
    char name[64];

    first = put(m, "n0.example.com", 50, 0);
    for (int i = 1; i < EGRESS_MAPPINGS_MAX; i++) {
        snprintf(name, sizeof name, "n%d.example.com", i);
        put(m, name, 100 + i, 0);
    }
    CHECK_INT(fake_addresses_put(m, &more, 49, &s, &e), -ERR_BUSY);
    put(m, "n5.example.com", 500, 49); /* known ones are renewed */
    CHECK_OK(fake_addresses_put(m, &more, 50, &s, &e), e);
    CHECK(!fake_addresses_find(m, &first.v4) && !fake_addresses_find(m, &first.v6));
    CHECK(!fake_addresses_find_name(m, STR("n0.example.com"), &s));
    CHECK(fake_addresses_find_name(m, STR("n1.example.com"), &s));
    fake_addresses_free(m);
}

/* Uses the whole range, with names that expire: every address is assigned once, then new names are
 * refused. */
TEST(an_address_is_never_given_to_another_name)
{
    static bool given[1 << 17];
    struct fake_addresses *m = fake_addresses_new();
    struct fake_mapping w;
    struct synthetic s, old = { 0 };
    char name[64];

    for (int i = 0; i < 1 << 17; i++) {
        size_t at;

        snprintf(name, sizeof name, "n%d.example.com", i);
        s = put(m, name, i + 1, i + 1);
        at = (size_t)(s.v4.bytes[1] - 18) << 16 | (size_t)s.v4.bytes[2] << 8 | s.v4.bytes[3];
        CHECK(at < COUNT_OF(given) && !given[at]);
        given[at] = true;
        if (i == 0)
            old = s;
    }
    CHECK(!fake_addresses_find(m, &old.v4));
    w = what("one.more.example.com", 1 << 18);
    CHECK_INT(fake_addresses_put(m, &w, 1 << 18, &s, &e), -ERR_TOO_BIG);
    w = what("n131071.example.com", 1 << 18);
    CHECK_OK(fake_addresses_put(m, &w, 1 << 18, &s, &e), e); /* known */
    fake_addresses_free(m);
}
