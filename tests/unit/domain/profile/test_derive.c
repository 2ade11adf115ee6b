/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/profile.h"

#include <string.h>

#include "harness/tap.h"

static struct profile *read_base(void)
{
    struct profile *p = NULL;
    struct err e = { 0 };

    CHECK_OK(profile_read(STR("id: profile.b\nversion: 3\ncaps: [KILL]\nworkdir: /a\n"
                              "resources: {cpu: 2, memory_mb: 100, pids: 50, disk_mb: 30}\n"),
                          &p, &e),
             e);
    return p;
}

TEST(a_profile_that_is_equal_is_the_same)
{
    AUTO(profile_unrefp_) struct profile *p = read_base(), *d = NULL;
    const char *const kill[] = { "KILL" };
    const struct json_strs caps = { kill, 1 };

    CHECK_INT(profile_derive(p, &(struct profile_changes){ 0 }, &d, NULL), 0);
    CHECK(d == p);
    profile_unref(d);
    CHECK_INT(profile_derive(p,
                             &(struct profile_changes){ .cpu = 2,
                                                        .memory_mb = 100,
                                                        .pids = 50,
                                                        .disk_mb = 30,
                                                        .user = "root",
                                                        .workdir = "/a",
                                                        .caps = &caps },
                             &d, NULL),
              0);
    CHECK(d == p);
}

TEST(a_derived_one_has_the_changes_and_keeps_the_rest)
{
    AUTO(profile_unrefp_) struct profile *d = NULL;
    struct profile *p = read_base();
    const char *const chown[] = { "CHOWN" };
    const struct json_strs caps = { chown, 1 }, none = { NULL, 0 };

    CHECK_INT(profile_derive(
                  p, &(struct profile_changes){ .memory_mb = 200, .user = "1:2", .caps = &caps },
                  &d, NULL),
              0);
    profile_unref(p); /* the derived one holds it */
    CHECK(d != p);
    CHECK_STR(str_from(d->id), "profile.b");
    CHECK_INT(d->version, 3);
    CHECK_INT(d->resources.memory_mb, 200);
    CHECK_INT(d->resources.pids, 50);
    CHECK_STR(str_from(d->user), "1:2");
    CHECK_STR(str_from(d->workdir), "/a");
    CHECK_INT(d->caps.n, 1);
    CHECK_STR(str_from(d->caps.p[0]), "CHOWN");
    p = d;
    CHECK_INT(profile_derive(p, &(struct profile_changes){ .caps = &none, .user = "0" }, &d, NULL),
              0);
    CHECK_INT(d->caps.n, 0);
    CHECK_STR(str_from(d->user), "0:0");
    CHECK_INT(d->resources.memory_mb, 200);
    profile_unref(p);
}

static void check_refused(const struct profile_changes *c, const char *words)
{
    AUTO(profile_unrefp_) struct profile *p = read_base(), *d = NULL;
    struct err e;

    CHECK_INT(profile_derive(p, c, &d, &e), -(int)ERR_INVALID);
    CHECK(strstr(e.msg, words));
    CHECK(!d);
}

TEST(what_no_profile_can_have_is_refused)
{
    const char *const admin[] = { "SYS_ADMIN" };
    const struct json_strs caps = { admin, 1 };

    check_refused(&(struct profile_changes){ .user = "-x" }, "user: '-x'");
    check_refused(&(struct profile_changes){ .user = "1:" }, "user: '1:'");
    check_refused(&(struct profile_changes){ .user = "1:65536" }, "user");
    check_refused(&(struct profile_changes){ .workdir = "a" }, "workdir: 'a'");
    check_refused(&(struct profile_changes){ .workdir = "/a/.." }, "workdir");
    check_refused(&(struct profile_changes){ .caps = &caps }, "caps[0]: 'SYS_ADMIN'");
}
