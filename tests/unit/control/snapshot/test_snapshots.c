#include "control/snapshots.h"

#include <stdio.h>

#include "base/clock.h"
#include "fixture.h"

#define HOG "uid:77777"

static const struct caller hog = { .owner = HOG }, other = { .owner = "uid:88888" };

static int check_room_of(const struct caller *who, uint64_t bytes)
{
    return snapshot_check_quota(fix.control, who->owner, who, bytes, &e);
}

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
    CHECK_OK(check_room_of(&hog, 1), e);
    store_snapshots(1);
    plane_close();
    plane_open();
    CHECK_INT(check_room_of(&hog, 1), -ERR_QUOTA);
    CHECK_OK(check_room_of(&other, 1), e);
    plane_close();
}

TEST(an_owner_has_so_many_bytes_of_snapshots)
{
    fix.config.limits.snapshot_bytes_per_owner = 10;
    plane_open();
    store_snapshots(8);
    plane_close();
    plane_open();
    CHECK_INT(snapshot_room(fix.control, &hog), 2);
    CHECK_OK(check_room_of(&hog, 2), e);
    CHECK_INT(check_room_of(&hog, 3), -ERR_QUOTA);
    CHECK_OK(check_room_of(&other, 10), e);
    plane_close();
}
