/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/built.h"

#include <stdio.h>

#include "unit/control/fixture.h"
#include "edge/e2b/internal.h"
#include "base/clock.h"

#define SNAPSHOT_OF(uid) "snap_000000000000000000" #uid

static struct api api;
static int answer;

static void store_snapshot_of(const char *id, const char *owner, const char *family)
{
    struct snapshot_record r = { .created_ns = clock_wall() };
    struct store_txn x;

    snprintf(r.id, sizeof r.id, "%s", id);
    snprintf(r.owner, sizeof r.owner, "%s", owner);
    snprintf(r.family, sizeof r.family, "%s", family);
    r.layers = STR("lay_00000000000000000000");
    r.image = r.base = r.digest = r.config = STR("");
    store_txn_begin(&x, control_store(fix.control));
    store_put_snapshot(&x, &r);
    CHECK_OK(store_commit_now(&x, &e), e);
}

static void store_snapshot(const char *id, const char *owner)
{
    store_snapshot_of(id, owner, "");
}

static void on_put(void *user, int r, const struct err *why)
{
    answer = r;
}

static int put_template_of(const char *owner, const char *family, const char *snapshot, int n,
                           const char *instead)
{
    char id[ID_MAX];
    struct built new = {
        .id = id, .build = id, .name = id, .snapshot = snapshot, .user = "", .workdir = ""
    };

    new.start = new.ready = "";
    snprintf(id, sizeof id, "template-%d", n);
    answer = 1;
    built_put(&api, owner, family, &new, instead, on_put, NULL);
    WAIT_FOR(answer <= 0);
    return answer;
}

static int put_template(const char *owner, const char *snapshot, int n, const char *instead)
{
    return put_template_of(owner, "", snapshot, n, instead);
}

TEST(an_owner_has_a_share_of_all_templates)
{
    plane_open();
    store_snapshot(SNAPSHOT_OF(77), "uid:77777");
    store_snapshot(SNAPSHOT_OF(88), "uid:88888");
    plane_close();
    plane_open();
    api.control = fix.control;
    CHECK_OK(built_open(&api, &e), e);
    for (int i = 0; i < BUILT_PER_OWNER; i++)
        CHECK_INT(put_template("uid:77777", SNAPSHOT_OF(77), i, NULL), 0);
    CHECK_INT(put_template("uid:77777", SNAPSHOT_OF(77), 1000, NULL), -ERR_QUOTA);
    CHECK_INT(put_template("uid:77777", SNAPSHOT_OF(77), 1, "template-1"), 0);
    CHECK_INT(put_template("uid:88888", SNAPSHOT_OF(88), 1001, NULL), 0);
    built_close(&api);
    plane_close();
}

TEST(a_family_of_tokens_leaves_templates_to_others)
{
    int part = (int)quota_token_part(BUILT_PER_OWNER);

    plane_open();
    store_snapshot_of(SNAPSHOT_OF(77), "uid:77777", "tok_a");
    store_snapshot_of(SNAPSHOT_OF(78), "uid:77777", "tok_b");
    plane_close();
    plane_open();
    api.control = fix.control;
    CHECK_OK(built_open(&api, &e), e);
    for (int i = 0; i < part; i++)
        CHECK_INT(put_template_of("uid:77777", "tok_a", SNAPSHOT_OF(77), i, NULL), 0);
    CHECK_INT(put_template_of("uid:77777", "tok_a", SNAPSHOT_OF(77), 1000, NULL), -ERR_QUOTA);
    CHECK_INT(put_template_of("uid:77777", "tok_b", SNAPSHOT_OF(78), 1001, NULL), 0);
    built_close(&api);
    plane_close();
}

TEST(a_family_of_an_administrators_tokens_has_an_owners_share_of_templates)
{
    plane_open();
    store_snapshot_of(SNAPSHOT_OF(77), "uid:0", "tok_a");
    store_snapshot_of(SNAPSHOT_OF(78), "uid:0", "tok_b");
    store_snapshot_of(SNAPSHOT_OF(79), "uid:0", "");
    plane_close();
    plane_open();
    api.control = fix.control;
    CHECK_OK(built_open(&api, &e), e);
    for (int i = 0; i < BUILT_PER_OWNER; i++)
        CHECK_INT(put_template_of("uid:0", "tok_a", SNAPSHOT_OF(77), i, NULL), 0);
    CHECK_INT(put_template_of("uid:0", "tok_a", SNAPSHOT_OF(77), 1000, NULL), -ERR_QUOTA);
    CHECK_INT(put_template_of("uid:0", "tok_b", SNAPSHOT_OF(78), 1001, NULL), 0);
    CHECK_INT(put_template_of("uid:0", "", SNAPSHOT_OF(79), 1002, NULL), 0);
    built_close(&api);
    plane_close();
}
