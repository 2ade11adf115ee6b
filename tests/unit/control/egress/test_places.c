/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/places.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

static struct err e;

/* The policy under a ceiling, and how many places it has. */
static size_t find_places(const char *policy, enum egress_reach reach, struct json_strs ceiling,
                          struct policy_text **ret, const struct gate_place **list)
{
    static struct arena a = ARENA_INIT(8 << 20);
    struct policy_bounds local = { .author = { .admin = true } }, bounds;
    struct policy_text *t;
    size_t n;

    CHECK_OK(egress_ceiling_make(EGRESS_REACH_LOCAL, "test", (struct json_strs){ 0 }, &a,
                                 &local.ceiling, &e),
             e);
    CHECK_OK(policy_text_read(str_from(policy), &local, &t, &e), e);
    CHECK_OK(egress_ceiling_make(reach, "test", ceiling, &a, &bounds.ceiling, &e), e);
    CHECK_OK(policy_text_stored(t->json, t->endpoints, &bounds, ret, &e), e);
    policy_text_unref(t);
    CHECK_OK(policy_places(*ret, list, &n, &e), e);
    return n;
}

static bool has(const struct gate_place *list, size_t n, const char *address, uint16_t port)
{
    struct gate_place want;
    struct address a;

    CHECK(address_parse(str_from(address), &a));
    want = gate_place_of(&a, port);
    for (size_t i = 0; i < n; i++)
        if (gate_place_compare(&list[i], &want) == 0)
            return true;
    return false;
}

static const char mixed[] =
    "{\"allow\": [\"127.0.0.1:80,81\", \"10.1.2.3:443\", \"api.example.com:443\", "
    "\"8.8.8.8:53\", \"[fd00::1]:443\"], \"allow_out\": [\"10.9.9.9\", \"10.8.0.0/16\"]}";

TEST(places_are_what_is_declared_exactly_and_not_public)
{
    struct policy_text *t;
    const struct gate_place *list;
    size_t n = find_places(mixed, EGRESS_REACH_LOCAL, (struct json_strs){ 0 }, &t, &list);

    CHECK_INT(n, 5);
    CHECK(has(list, n, "127.0.0.1", 80) && has(list, n, "127.0.0.1", 81));
    CHECK(has(list, n, "10.1.2.3", 443) && has(list, n, "fd00::1", 443));
    CHECK(has(list, n, "10.9.9.9", 0));
    CHECK_OK(gate_places_check(list, n, &e), e);
    policy_text_unref(t);
}

TEST(names_have_places_where_they_are)
{
    static const char policy[] =
        "{\"allow\": [\"a.example.com:443=10.0.0.5,8.8.8.8\", \"b.example.com:80=10.7.0.0/30\", "
        "\"c.example.com:80=8.0.0.0/5\", \"d.example.com:80=100.100.100.200/31\"]}";
    static const char *const ceiling[] = { "10.7.0.2:80" };
    struct policy_text *t;
    const struct gate_place *list;
    size_t n = find_places(policy, EGRESS_REACH_LOCAL, (struct json_strs){ 0 }, &t, &list);

    CHECK_INT(n, 6);
    CHECK(has(list, n, "10.0.0.5", 443) && has(list, n, "10.7.0.0", 80));
    CHECK(has(list, n, "10.7.0.3", 80) && has(list, n, "100.100.100.201", 80));
    CHECK_OK(gate_places_check(list, n, &e), e);
    policy_text_unref(t);
    n = find_places(policy, EGRESS_REACH_PUBLIC, (struct json_strs){ ceiling, 1 }, &t, &list);
    CHECK_INT(n, 1);
    CHECK(has(list, n, "10.7.0.2", 80));
    policy_text_unref(t);
}

TEST(a_place_beyond_the_ceiling_is_none)
{
    static const char *const ceiling[] = { "127.0.0.1:81", "10.9.9.9:22", "10.1.0.0/16:*" };
    struct policy_text *t;
    const struct gate_place *list;
    size_t n = find_places(mixed, EGRESS_REACH_PUBLIC,
                           (struct json_strs){ ceiling, COUNT_OF(ceiling) }, &t, &list);

    CHECK_INT(n, 3);
    CHECK(has(list, n, "127.0.0.1", 81) && has(list, n, "10.1.2.3", 443));
    CHECK(has(list, n, "10.9.9.9", 22));
    policy_text_unref(t);
}

TEST(a_policy_with_too_many_places_is_told)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);
    static struct arena a = ARENA_INIT(8 << 20);
    struct policy_bounds local = { .author = { .admin = true } };
    struct policy_text *t;
    const struct gate_place *list;
    size_t n;

    buf_add(&text,
            STR("version: 1\nnetwork_policies: {a: {binaries: [{path: '/**'}], endpoints: ["));
    for (unsigned i = 0; i <= GATE_PLACES_MAX / 16; i++) {
        char item[160];

        snprintf(item, sizeof item,
                 "{host: 10.2.%u.%u, ports: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16], allowed_ips: "
                 "[10.2.%u.%u]}, ",
                 i / 256, i % 256, i / 256, i % 256);
        buf_add(&text, str_from(item));
    }
    buf_add(&text, STR("]}}\n"));
    CHECK_OK(egress_ceiling_make(EGRESS_REACH_LOCAL, "test", (struct json_strs){ 0 }, &a,
                                 &local.ceiling, &e),
             e);
    CHECK_OK(policy_text_read(buf_str(&text), &local, &t, &e), e);
    CHECK_INT(policy_places(t, &list, &n, &e), -ERR_TOO_BIG);
    policy_text_unref(t);
}
