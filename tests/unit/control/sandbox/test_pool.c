/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "control/plane/plane.h"
#include "control/sandbox/pool.h"
#include "unit/control/fixture.h"

static const char pooled[] = "id: profile.pooled\n"
                             "version: 1\n"
                             "description: For tests.\n"
                             "extension: ext.fake\n"
                             "isolation:\n  level: container\n"
                             "ttl:\n  default: 1h\n  max: 2h\n"
                             "pool:\n  min: 2\n  max: 2\n";

static int done;

static void on_created(struct create_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("creating: %s", why->msg);
    done++;
}

static void open_with_pool(void)
{
    plane_open();
    plane_close();
    make_file(fix.scratch.dir, "profiles/pooled.yaml", pooled);
    fix.config.pool.enabled = true;
    fix.config.pool.total_max = 4;
    plane_open();
    WAIT_FOR(fix.control->pool->ready == 2);
}

static struct sandbox *create_pooled(void)
{
    struct create_request q = { .profile = "profile.pooled" };
    struct create_op op = { .caller = &fix.caller, .request = &q, .done = on_created };
    struct sandbox *s;
    int before = done;

    control_create(fix.control, &op);
    WAIT_FOR(done > before);
    CHECK(op.record && op.record->state == SANDBOX_READY);
    s = find_sandbox(op.record->id);
    CHECK(s);
    arena_done(&op.arena);
    return s;
}

TEST(a_create_takes_a_box_and_the_next_one_is_assigned_ahead)
{
    struct sandbox *s;

    open_with_pool();
    s = create_pooled();
    CHECK(strncmp(fake_plan.assigned, "o-uid-1000.", 11) == 0);
    CHECK_INT(fix.control->pool->hits, 1);
    WAIT_FOR(fix.control->pool->ready == 2);
    destroy(s);
    sandbox_unref(s);
    fake_plan.fail_assign = fake_plan.fail_provision = "only a box that was assigned ahead works";
    s = create_pooled();
    CHECK_INT(fix.control->pool->hits, 2);
    CHECK_INT(count_events("sandbox.requested"), 2);
    fake_plan.fail_assign = fake_plan.fail_provision = NULL;
    destroy(s);
    sandbox_unref(s);
    plane_close();
    CHECK_INT(fake_box_count(), 0);
}

/* Nothing of the box that could not be handed over is on record, and nothing of it is left. */
TEST(a_create_whose_box_is_not_assigned_builds_one)
{
    struct sandbox *s;

    open_with_pool();
    fake_plan.fail_assign = "there is no room for groups";
    s = create_pooled();
    CHECK_INT(count_events("sandbox.requested"), 1);
    CHECK_INT(count_events("sandbox.failed"), 0);
    CHECK_INT(fix.control->pool->hits, 1);
    fake_plan.fail_assign = NULL;
    destroy(s);
    sandbox_unref(s);
    plane_close();
    CHECK_INT(fake_box_count(), 0);
}
