/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/launch.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

static union {
    struct launch_head head;
    struct launch_named destroy;
    char room[sizeof(struct launch_create) + 1];
} m;

static const struct {
    enum launch_type type;
    size_t size;
} types[] = {
    { LAUNCH_CREATE, sizeof(struct launch_create) },
    { LAUNCH_DESTROY, sizeof(struct launch_named) },
    { LAUNCH_FREEZE, sizeof(struct launch_named) },
    { LAUNCH_THAW, sizeof(struct launch_named) },
    { LAUNCH_HELD, sizeof(struct launch_named) },
    { LAUNCH_ASSIGN, sizeof(struct launch_assign) },
    { LAUNCH_ASSIGNED, sizeof(struct launch_named) },
    { LAUNCH_RELEASE, sizeof(struct launch_release) },
    { LAUNCH_RELEASED, sizeof(struct launch_release) },
    { LAUNCH_CREATED, sizeof(struct launch_created) },
    { LAUNCH_FAILED, sizeof(struct launch_failed) },
    { LAUNCH_DESTROYED, sizeof(struct launch_destroyed) },
};

/* A plan may come with any number of mounts. */
static bool may_have(enum launch_type type, size_t size, size_t n)
{
    return type == LAUNCH_CREATE ? n >= offsetof(struct launch_create, plan.mounts) && n <= size
                                 : n == size;
}

static int check(size_t n)
{
    AUTO_FREE char *copy = malloc(n ? n : 1);

    CHECK(copy);
    memcpy(copy, &m, n);
    return launch_check(copy, n, NULL);
}

TEST(every_message_has_its_size)
{
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        memset(&m, 0, sizeof m);
        launch_fill(&m.head, types[i].type, types[i].size);
        CHECK_INT(check(types[i].size), 0);
        for (size_t n = 0; n < sizeof m.room; n++) {
            if (may_have(types[i].type, types[i].size, n))
                continue;
            m.head.size = (uint32_t)n;
            if (check(n) != -ERR_INVALID)
                FAIL("type %d with %zu bytes passes", types[i].type, n);
        }
        m.head.size = (uint32_t)types[i].size + 1;
        CHECK_INT(check(types[i].size), -ERR_INVALID);
    }
}

TEST(heads_that_are_not_ours)
{
    launch_fill(&m.head, LAUNCH_DESTROY, sizeof m.destroy);
    m.head.magic++;
    CHECK_INT(check(sizeof m.destroy), -ERR_INVALID);
    launch_fill(&m.head, LAUNCH_DESTROY, sizeof m.destroy);
    m.head.version++;
    CHECK_INT(check(sizeof m.destroy), -ERR_UNSUPPORTED);
}

TEST(types_there_are_not)
{
    for (unsigned type = 0; type < 65536; type++) {
        bool known = false;

        for (size_t i = 0; i < COUNT_OF(types); i++)
            known |= types[i].type == type;
        launch_fill(&m.head, (enum launch_type)type, sizeof m.destroy);
        if (!known && check(sizeof m.destroy) != -ERR_INVALID)
            FAIL("type %u passes", type);
    }
}

TEST(an_id_ends)
{
    launch_fill(&m.head, LAUNCH_DESTROY, sizeof m.destroy);
    memset(m.destroy.id, 'x', sizeof m.destroy.id);
    CHECK_INT(check(sizeof m.destroy), -ERR_INVALID);
    m.destroy.id[ID_MAX - 1] = '\0';
    CHECK_INT(check(sizeof m.destroy), 0);
}
