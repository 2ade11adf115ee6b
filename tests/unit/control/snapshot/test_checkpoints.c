/* SPDX-License-Identifier: Apache-2.0 */
#include "control/snapshot/checkpoints.h"

#include <stdio.h>

#include "base/clock.h"
#include "unit/control/fixture.h"

#define OWNER "uid:77777"

static const struct caller owner = { .owner = OWNER };

/* A checkpoint of one byte, in the store. */
static void store_checkpoint(struct store_txn *x, const char *sandbox, const char *of,
                             int64_t number)
{
    struct snapshot_record r = { .created_ns = clock_wall(),
                                 .bytes = 1,
                                 .checkpoint = number,
                                 .parent = number - 1,
                                 .changed = 2,
                                 .cause = "test" };

    snprintf(r.owner, sizeof r.owner, "%s", of);
    snprintf(r.sandbox, sizeof r.sandbox, "%s", sandbox);
    CHECK_OK(id_make("snap_", r.id, &e), e);
    r.image = r.base = r.digest = r.config = r.settings = STR("");
    r.layers = STR("lay_00000000000000000000");
    store_put_snapshot(x, &r);
}

static void store_checkpoints(const char *sandbox, const char *of, const int64_t *numbers, size_t n)
{
    struct store_txn x;

    store_txn_begin(&x, control_store(fix.control));
    for (size_t i = 0; i < n; i++)
        store_checkpoint(&x, sandbox, of, numbers[i]);
    CHECK_OK(store_commit_now(&x, &e), e);
}

static int64_t number_of(const struct snapshot *x)
{
    return x ? x->record.checkpoint : 0;
}

struct walk {
    int64_t last;
    int n;
};

static void on_checkpoint(const struct snapshot *x, void *user)
{
    struct walk *w = user;

    CHECK(x->record.checkpoint > w->last);
    CHECK_STR(str_from(x->record.cause), "test");
    CHECK_INT(x->record.parent, x->record.checkpoint - 1);
    CHECK_INT(x->record.changed, 2);
    w->last = x->record.checkpoint;
    w->n++;
}

static void on_snapshot(const struct snapshot *x, void *user)
{
    FAIL("%s is a checkpoint, and in the list of snapshots", x->record.id);
}

TEST(checkpoints_are_in_the_order_of_their_numbers)
{
    static const int64_t numbers[] = { 7, 2, 19, 3 };
    const struct caller admin = { .owner = OWNER, .admin = true };
    char id[ID_MAX];
    struct sandbox *s;
    struct walk w = { 0 };

    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    CHECK(!checkpoint_at_most(s, INT64_MAX));
    store_checkpoints(id, OWNER, numbers, COUNT_OF(numbers));
    sandbox_unref(s);
    plane_close();
    plane_open();
    s = find_sandbox(id);
    CHECK(s);
    checkpoints_each(s, on_checkpoint, &w);
    CHECK_INT(w.n, COUNT_OF(numbers));
    CHECK_INT(number_of(checkpoint_find(s, 3)), 3);
    CHECK_INT(number_of(checkpoint_find(s, 4)), 0);
    CHECK_INT(number_of(checkpoint_at_most(s, 18)), 7);
    CHECK_INT(number_of(checkpoint_at_most(s, 1)), 0);
    snapshots_each(fix.control, &admin, on_snapshot, NULL);
    destroy(s);
    WAIT_FOR(!checkpoint_at_most(s, INT64_MAX));
    sandbox_unref(s);
    plane_close();
}

TEST(checkpoints_of_unknown_sandboxes_are_removed_at_a_start)
{
    static const int64_t one = 1;
    struct store_query q = { .kind = STORE_SNAPSHOTS };

    plane_open();
    store_checkpoints("sbx_00000000000000000000", OWNER, &one, 1);
    plane_close();
    plane_open();
    do {
        turn();
        arena_done(&q.arena);
        arena_init(&q.arena, PTRDIFF_MAX);
        CHECK_OK(store_ask_now(control_store(fix.control), &q, &e), e);
    } while (q.n);
    arena_done(&q.arena);
    plane_close();
}

TEST(an_owner_has_so_many_checkpoints_and_as_many_snapshots_besides)
{
    static int64_t numbers[CHECKPOINTS_PER_OWNER];
    struct sandbox *s;
    char id[ID_MAX];

    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        numbers[i] = (int64_t)i + 1;
    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    sandbox_unref(s);
    store_checkpoints(id, OWNER, numbers, COUNT_OF(numbers));
    plane_close();
    plane_open();
    CHECK_INT(snapshot_check_checkpoint(fix.control, OWNER, &owner, 1, false, &e), -ERR_QUOTA);
    CHECK_OK(snapshot_check_quota(fix.control, OWNER, &owner, 1, &e), e);
    CHECK_OK(snapshot_check_checkpoint(fix.control, "uid:88888", &owner, 1, false, &e), e);
    plane_close();
}

TEST(automatic_checkpoints_leave_half_of_the_bytes)
{
    static const int64_t numbers[] = { 1, 2, 3, 4 };
    struct sandbox *s;
    char id[ID_MAX];

    fix.config.limits.snapshot_bytes_per_owner = 12;
    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    sandbox_unref(s);
    store_checkpoints(id, OWNER, numbers, COUNT_OF(numbers));
    plane_close();
    plane_open();
    CHECK_OK(snapshot_check_checkpoint(fix.control, OWNER, &owner, 2, true, &e), e);
    CHECK_INT(snapshot_check_checkpoint(fix.control, OWNER, &owner, 3, true, &e), -ERR_QUOTA);
    CHECK_OK(snapshot_check_checkpoint(fix.control, OWNER, &owner, 8, false, &e), e);
    CHECK_INT(snapshot_check_checkpoint(fix.control, OWNER, &owner, 9, false, &e), -ERR_QUOTA);
    CHECK_INT(checkpoint_room(fix.control, &owner, true), 2);
    CHECK_INT(checkpoint_room(fix.control, &owner, false), 8);
    plane_close();
}

TEST(a_cause_is_one_line)
{
    CHECK_OK(checkpoint_cause_check(STR("before the upgrade ✓"), &e), e);
    CHECK_INT(checkpoint_cause_check(STR("a\nb"), &e), -ERR_INVALID);
    CHECK_INT(checkpoint_cause_check(STR("\x1b[2J"), &e), -ERR_INVALID);
}
