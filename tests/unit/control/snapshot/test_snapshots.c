/* SPDX-License-Identifier: Apache-2.0 */
#include "control/snapshot/snapshots.h"

#include <stdio.h>

#include "base/clock.h"
#include "control/owner/event_share.h"
#include "unit/control/fixture.h"

#define HOG "uid:77777"

static const struct caller hog = { .owner = HOG }, other = { .owner = "uid:88888" };

static int check_room_of(const struct caller *who, uint64_t bytes)
{
    return snapshot_check_quota(fix.control, who->owner, who, bytes, &e);
}

/* Snapshots of one byte, in the store; each is newer than the one before. */
static void store_snapshots_called(const char *name, const char *owner, const char *family, int n)
{
    static int64_t later;
    struct store_txn x;

    store_txn_begin(&x, control_store(fix.control));
    for (int i = 0; i < n; i++) {
        struct snapshot_record r = { .created_ns = clock_wall() + ++later, .bytes = 1 };

        snprintf(r.owner, sizeof r.owner, "%s", owner);
        snprintf(r.family, sizeof r.family, "%s", family);
        snprintf(r.name, sizeof r.name, "%s", name);
        CHECK_OK(id_make("snap_", r.id, &e), e);
        r.image = r.base = r.digest = r.config = STR("");
        r.layers = STR("lay_00000000000000000000");
        store_put_snapshot(&x, &r);
    }
    CHECK_OK(store_commit_now(&x, &e), e);
}

static void store_snapshots_of(const char *owner, const char *family, int n)
{
    store_snapshots_called("", owner, family, n);
}

static void store_snapshots(int n)
{
    store_snapshots_of(HOG, "", n);
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

TEST(a_family_of_tokens_leaves_snapshots_to_others)
{
    const struct caller family = { .owner = HOG, .family = "tok_a" },
                        sibling = { .owner = HOG, .family = "tok_b" };
    int part = (int)quota_token_part(SNAPSHOTS_PER_OWNER);

    plane_open();
    store_snapshots_of(HOG, "tok_a", part - 1);
    plane_close();
    plane_open();
    CHECK_OK(check_room_of(&family, 1), e);
    store_snapshots_of(HOG, "tok_a", 1);
    plane_close();
    plane_open();
    CHECK_INT(check_room_of(&family, 1), -ERR_QUOTA);
    CHECK_OK(check_room_of(&sibling, 1), e);
    CHECK_OK(check_room_of(&hog, 1), e);
    plane_close();
}

TEST(a_family_of_tokens_leaves_bytes_of_snapshots_to_others)
{
    const struct caller family = { .owner = HOG, .family = "tok_a" },
                        sibling = { .owner = HOG, .family = "tok_b" };

    fix.config.limits.snapshot_bytes_per_owner = 16;
    plane_open();
    store_snapshots_of(HOG, "tok_a", 12);
    plane_close();
    plane_open();
    CHECK_INT(snapshot_room(fix.control, &family), 2);
    CHECK_INT(snapshot_room(fix.control, &sibling), 4);
    CHECK_OK(check_room_of(&family, 2), e);
    CHECK_INT(check_room_of(&family, 3), -ERR_QUOTA);
    CHECK_OK(check_room_of(&sibling, 4), e);
    plane_close();
}

TEST(a_family_of_an_administrators_tokens_has_an_owners_share_of_snapshots)
{
    const struct caller family = { .owner = "uid:0", .family = "tok_a" },
                        sibling = { .owner = "uid:0", .family = "tok_b" };

    fix.config.limits.snapshot_bytes_per_owner = 16;
    plane_open();
    store_snapshots_of("uid:0", "tok_a", 12);
    plane_close();
    plane_open();
    CHECK_INT(snapshot_room(fix.control, &family), 4);
    CHECK_INT(check_room_of(&family, 5), -ERR_QUOTA);
    CHECK_OK(check_room_of(&family, 4), e);
    CHECK_OK(check_room_of(&sibling, 16), e);
    CHECK_INT(check_room_of(&sibling, 17), -ERR_QUOTA);
    plane_close();
}

static void check_named(const struct caller *who, const char *owner)
{
    const struct snapshot *s = snapshot_find(fix.control, who, STR("tool"));

    CHECK_INT(s != NULL, owner != NULL);
    if (s)
        CHECK_STR(str_from(s->record.owner), owner);
}

/* Else root would begin a sandbox with the files of anybody who chose the right name. */
TEST(a_name_means_a_snapshot_of_the_callers_owner)
{
    const struct caller admin = { .owner = "uid:0", .admin = true },
                        another = { .owner = "uid:5", .admin = true };
    const struct snapshot *s;

    plane_open();
    store_snapshots_called("tool", "uid:0", "", 1);
    store_snapshots_called("tool", HOG, "", 2);
    plane_close();
    plane_open();
    check_named(&admin, "uid:0");
    check_named(&hog, HOG);
    check_named(&other, NULL);
    check_named(&another, NULL);
    s = snapshot_find(fix.control, &hog, STR("tool"));
    CHECK(snapshot_find(fix.control, &admin, str_from(s->record.id)) == s); /* by its id */
    CHECK(!snapshot_find(fix.control, &other, str_from(s->record.id)));
    plane_close();
}

/* The daemon takes checkpoints at an interval, for the family of the sandbox's token. */
TEST(snapshots_that_the_daemon_takes_for_a_family_count_for_its_events)
{
    const struct caller of_family = { .owner = "uid:0", .family = "tok_a", .actor = ACTOR_DAEMON },
                        of_admin = { .owner = "uid:0", .actor = ACTOR_DAEMON };
    struct event_record v = { .actor = { .kind = ACTOR_AGT, .id = "tok_a" }, .owner = "uid:0" };

    fix.config.limits.events_per_owner = 6; /* three at once */
    plane_open();
    CHECK_OK(check_room_of(&of_family, 1), e);
    for (int i = 0; i < 3; i++)
        event_share_count(fix.control, &v);
    CHECK_INT(check_room_of(&of_family, 1), -ERR_QUOTA);
    CHECK_OK(check_room_of(&of_admin, 1), e);
    plane_close();
}
