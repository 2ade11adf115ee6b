#include "control/snapshots.h"

#include <stdio.h>

#include "base/clock.h"
#include "fixture.h"

#define HOG "uid:77777"

/* Snapshots of HOG, in the store. */
static void store_snapshots(int n)
{
    struct store_txn x;

    store_txn_begin(&x, control_store(fix.control));
    for (int i = 0; i < n; i++) {
        struct snapshot_record r = { .owner = HOG, .created_ns = clock_wall(), .bytes = 1 };

        CHECK_OK(id_make("snap_", r.id, &e), e);
        r.image = r.base = r.digest = r.config = STR("");
        r.layers = STR("lay_00000000000000000000");
        store_put_snapshot(&x, &r);
    }
    CHECK_OK(store_commit_now(&x, &e), e);
}

TEST(an_owner_has_so_many_snapshots)
{
    plane_open();
    store_snapshots(SNAPSHOTS_PER_OWNER - 1);
    plane_close();
    plane_open();
    CHECK_OK(snapshot_check_quota(fix.control, HOG, 1, &e), e);
    store_snapshots(1);
    plane_close();
    plane_open();
    CHECK_INT(snapshot_check_quota(fix.control, HOG, 1, &e), -ERR_QUOTA);
    CHECK_OK(snapshot_check_quota(fix.control, "uid:88888", 1, &e), e);
    plane_close();
}

TEST(an_owner_has_so_many_bytes_of_snapshots)
{
    fix.config.limits.snapshot_bytes_per_owner = 10;
    plane_open();
    store_snapshots(8);
    plane_close();
    plane_open();
    CHECK_INT(snapshot_room(fix.control, HOG), 2);
    CHECK_OK(snapshot_check_quota(fix.control, HOG, 2, &e), e);
    CHECK_INT(snapshot_check_quota(fix.control, HOG, 3, &e), -ERR_QUOTA);
    CHECK_OK(snapshot_check_quota(fix.control, "uid:88888", 10, &e), e);
    plane_close();
}
