/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/wire.h"
#include "harness/tap.h"

static int check(const void *m, size_t n)
{
    return wire_check(m, n, NULL);
}

TEST(a_message_is_what_it_says)
{
    struct wire_box m = { .id = "sbx_a1", .generation = 1 };

    wire_fill(&m.head, WIRE_POLICY, 0, sizeof m);
    CHECK_INT(check(&m, sizeof m), 0);
    for (size_t n = 0; n < sizeof m; n++)
        CHECK(check(&m, n) < 0);
    m.head.magic++;
    CHECK(check(&m, sizeof m) == -ERR_INVALID);
    wire_fill(&m.head, WIRE_POLICY, 0, sizeof m);
    m.head.version++;
    CHECK(check(&m, sizeof m) == -ERR_UNSUPPORTED);
    for (uint32_t type = 0; type < 70000; type++) {
        wire_fill(&m.head, (enum wire_type)type, 0, sizeof m);
        CHECK((check(&m, sizeof m) == 0) ==
              ((uint16_t)type == WIRE_POLICY || (uint16_t)type == WIRE_REMOVE ||
               (uint16_t)type == WIRE_ADDED || (uint16_t)type == WIRE_APPLIED ||
               (uint16_t)type == WIRE_REMOVED || (uint16_t)type == WIRE_FULL));
    }
}

TEST(a_reason_for_no_room_is_one)
{
    struct wire_audit m = { .id = "sbx_a1", .room = 1 };
    struct wire_add add = { .id = "sbx_a1" };

    wire_fill(&m.head, WIRE_AUDIT, 0, sizeof m);
    wire_fill(&add.head, WIRE_ADD, 0, sizeof add);
    for (uint32_t lack = 0; lack < 10; lack++) {
        m.lack = add.audit_lack = lack;
        CHECK((check(&m, sizeof m) == 0) == (lack < WIRE_LACKS_));
        CHECK((check(&add, sizeof add) == 0) == (lack < WIRE_LACKS_));
    }
}

TEST(an_id_is_one)
{
    static const char *const bad[] = { "", "a/b", "..", "A", "a b", "a\n" };
    struct wire_box m = { .generation = 1 };

    wire_fill(&m.head, WIRE_REMOVE, 0, sizeof m);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(m.id, sizeof m.id, "%s", bad[i]);
        CHECK(check(&m, sizeof m) < 0);
    }
    memset(m.id, 'a', sizeof m.id); /* without an end */
    CHECK(check(&m, sizeof m) < 0);
}

TEST(an_identity_is_one)
{
    struct wire_who_is m = { .known = 1, .binary = "/bin/x", .n_ancestors = 1 };

    wire_fill(&m.head, WIRE_WHO_IS, 1, sizeof m);
    snprintf(m.ancestors[0], sizeof m.ancestors[0], "/bin/sh");
    CHECK_INT(check(&m, sizeof m), 0);
    m.n_ancestors = WIRE_ANCESTORS_MAX + 1;
    CHECK(check(&m, sizeof m) < 0);
    m.n_ancestors = 2; /* the second is empty */
    CHECK(check(&m, sizeof m) < 0);
    m.n_ancestors = 1;
    memset(m.ancestors[0], '/', sizeof m.ancestors[0]);
    CHECK(check(&m, sizeof m) < 0);
    m.n_ancestors = 0;
    snprintf(m.hash, sizeof m.hash, "abc");
    CHECK(check(&m, sizeof m) < 0);
    memset(m.hash, 'a', 64);
    m.hash[64] = '\0';
    CHECK_INT(check(&m, sizeof m), 0);
    snprintf(m.binary, sizeof m.binary, "x");
    CHECK(check(&m, sizeof m) < 0);
    m.known = 0;
    CHECK_INT(check(&m, sizeof m), 0);
}

TEST(texts_end_within_their_message)
{
    struct wire_texts m = { .id = "sbx_a1", .generation = 1, .has_file = 1, .name = "p.yaml" };
    struct wire_failed f = { .id = "sbx_a1", .msg = "no" };

    wire_fill(&m.head, WIRE_TEXTS, 0, sizeof m);
    CHECK_INT(check(&m, sizeof m), 0);
    for (size_t n = 0; n < sizeof m; n++)
        CHECK(check(&m, n) < 0);
    m.name[0] = '\0'; /* a message without a file has none */
    CHECK_INT(check(&m, sizeof m), 0);
    memset(m.name, 'a', sizeof m.name);
    CHECK_INT(check(&m, sizeof m), -ERR_INVALID);
    m.name[sizeof m.name - 1] = '\0';
    CHECK_INT(check(&m, sizeof m), 0);
    m.id[0] = '/';
    CHECK_INT(check(&m, sizeof m), -ERR_INVALID);
    wire_fill(&f.head, WIRE_FAILED, 0, sizeof f);
    CHECK_INT(check(&f, sizeof f), 0);
    memset(f.msg, 'a', sizeof f.msg);
    CHECK_INT(check(&f, sizeof f), -ERR_INVALID);
}

TEST(a_message_is_as_long_as_its_type_and_as_it_says)
{
    struct {
        struct wire_texts m;
        char more[8];
    } longer = { .m = { .id = "sbx_a1", .generation = 1, .name = "p" } };

    wire_fill(&longer.m.head, WIRE_TEXTS, 0, sizeof longer.m);
    CHECK(check(&longer, sizeof longer) < 0);
    longer.m.head.size = sizeof longer;
    CHECK(check(&longer, sizeof longer) < 0);
    longer.m.head.size = UINT32_MAX;
    CHECK(check(&longer, sizeof longer.m) < 0);
    longer.m.head.size = 0;
    CHECK(check(&longer, sizeof longer.m) < 0);
}
