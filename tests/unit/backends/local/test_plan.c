/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "backends/local/local.h"
#include "harness/tap.h"
#include "lib/ipc/kernel.h"
#include "domain/profile/words.h"
#include "domain/profile/profile.h"

static const char id[] = "sbx_00000000000000000000";

/* Of a daemon that only its own user can reach. */
enum { ALONE = PLAN_SYSTEM_APART | PLAN_SYSTEM_EITHER };

static struct profile *read_profile(const char *more)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct profile *p = NULL;
    struct err e;

    CHECK(buf_addf(&text, "id: profile.x\nversion: 1\n%s", more) >= 0);
    CHECK_OK(profile_read(buf_str(&text), &p, &e), e);
    return p;
}

TEST(profile_and_spec_become_a_plan)
{
    AUTO(profile_unrefp_)
    struct profile *p =
        read_profile("user: \"1000\"\ncaps: [CHOWN, KILL]\nwritable_system: true\n");
    const struct backend_owner owner = {
        .key = "o-a", .memory = 1 << 30, .io = 5, .pids = 99, .cpu_milli = 1500
    };
    struct backend_spec s = {
        .profile = p, .owner = &owner, .memory = 64 << 20, .disk = 1 << 20, .pids = 33
    };
    AUTO(local_plan_freep_) struct local_plan *plan = NULL;
    struct err e = { 0 };

    CHECK_OK(local_plan_new(&(struct backend_context){ 0 }, id, &s, &plan, &e), e);
    CHECK_STR(str_from(plan->plan.id), id);
    CHECK_INT(plan->plan.flags, PLAN_LISTENER | PLAN_WRITABLE_SYSTEM | ALONE);
    CHECK_INT(plan->plan.memory, 64 << 20);
    CHECK_INT(plan->plan.pids, 33);
    CHECK_STR(str_from(plan->plan.owner.key), "o-a");
    CHECK_INT(plan->plan.owner.memory, 1 << 30);
    CHECK_INT(plan->plan.owner.io, 5);
    CHECK_INT(plan->plan.owner.pids, 99);
    CHECK_INT(plan->plan.owner.cpu_milli, 1500);
    CHECK_INT(plan->plan.uid, 1000);
    CHECK_INT(__builtin_popcountll(plan->plan.caps), 2);
    CHECK_INT(plan->n, 2);
}

/* Every word that a profile may use is known to the launcher, and the other way round. */
TEST(what_the_kernel_allows_becomes_bits)
{
    AUTO(profile_unrefp_)
    struct profile *p =
        read_profile("kernel: {calls: strict, allow: [nested-seccomp, page-cache]}\n"
                     "resources: {terminals: 3}\n");
    struct backend_spec s = { .profile = p };
    AUTO(local_plan_freep_) struct local_plan *plan = NULL;
    struct err e = { 0 };

    CHECK_OK(local_plan_new(&(struct backend_context){ 0 }, id, &s, &plan, &e), e);
    CHECK_INT(plan->plan.kernel, KERNEL_STRICT | KERNEL_NESTED_SECCOMP | KERNEL_PAGE_CACHE);
    CHECK_INT(plan->plan.terminals, 3);
    for (const struct kernel_name *k = kernel_names; k->name; k++)
        CHECK(word_kernel(str_from(k->name)));
}

TEST(egress_becomes_a_network_boundary)
{
    AUTO(profile_unrefp_) struct profile *p = read_profile("");
    struct backend_spec s = { .profile = p, .egress = true };
    AUTO(local_plan_freep_) struct local_plan *plan = NULL;
    struct err e = { 0 };

    CHECK_OK(local_plan_new(&(struct backend_context){ 0 }, id, &s, &plan, &e), e);
    CHECK_INT(plan->plan.flags,
              PLAN_LISTENER | PLAN_EGRESS | ALONE | PLAN_PREPARED); /* no owner yet */
}

TEST(what_the_profile_leaves_open_depends_on_who_reaches_the_daemon)
{
    static const struct {
        const char *profile;
        bool tenants;
        uint32_t flags;
    } cases[] = {
        { "", false, ALONE },
        { "", true, PLAN_SYSTEM_APART | PLAN_GUARDED },
        { "isolation: {system: shared}\n", false, 0 },
        { "isolation: {system: shared, side_channels: open}\n", true, 0 },
        { "isolation: {system: apart}\n", false, PLAN_SYSTEM_APART },
        { "isolation: {side_channels: guarded}\n", false, ALONE | PLAN_GUARDED },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct backend_context c = { .tenants = cases[i].tenants };
        AUTO(profile_unrefp_) struct profile *p = read_profile(cases[i].profile);
        AUTO(local_plan_freep_) struct local_plan *plan = NULL;
        struct backend_spec s = { .profile = p,
                                  .owner = &(const struct backend_owner){ .key = "o-a" } };
        struct err e = { 0 };

        CHECK_OK(local_plan_new(&c, id, &s, &plan, &e), e);
        CHECK_INT(plan->plan.flags, PLAN_LISTENER | cases[i].flags);
    }
}

/* One mount in a context with these roots: how it is named to the launcher. */
static int plan_mount(const char *source, struct plan_mount *ret, struct err *e)
{
    static const char *const roots[] = { "/srv", "/home/", "/srv/deep", NULL };
    static const struct backend_context c = { .roots = roots, .roots_only = true };
    AUTO(profile_unrefp_) struct profile *p = read_profile("");
    AUTO(local_plan_freep_) struct local_plan *plan = NULL;
    struct backend_mount m = { source, "/mnt/x", true };
    struct backend_spec s = { .profile = p, .mounts = &m, .n_mounts = 1 };
    int r = local_plan_new(&c, id, &s, &plan, e);

    if (r < 0)
        return r;
    *ret = plan->plan.mounts[0];
    CHECK_INT(plan->n, 2); /* no descriptor */
    return 0;
}

TEST(mounts_are_named_below_roots)
{
    static const struct {
        const char *source;
        unsigned root;
        const char *below;
    } cases[] = {
        { "/srv", 1, "." },
        { "/srv/a/b", 1, "a/b" },
        { "/home/me", 2, "me" },
        { "/home", 2, "." },
        { "/srv/deep", 3, "." },
        { "/srv/deep/x", 3, "x" },
        { "/srv/deeper", 1, "deeper" },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct plan_mount m;
        struct err e = { 0 };

        CHECK_OK(plan_mount(cases[i].source, &m, &e), e);
        CHECK_INT(m.root, cases[i].root);
        CHECK_STR(str_from(m.source), cases[i].below);
        CHECK_INT(m.flags, PLAN_MOUNT_RW);
    }
}

TEST(mounts_from_elsewhere_are_refused)
{
    static const char *const bad[] = { "/", "/etc",        "/srvx",   "/homes/x", "srv/a",
                                       "",  "/srv/../etc", "/srv//a", "/srv/./a", "/srv/a/" };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct plan_mount m;
        struct err e = { 0 };

        if (plan_mount(bad[i], &m, &e) >= 0)
            FAIL("'%s' is taken as root %u, '%s'", bad[i], m.root, m.source);
        CHECK(e.msg[0]);
    }
}

TEST(names_of_users_have_their_numbers)
{
    static const struct {
        const char *text;
        unsigned uid;
    } cases[] = { { "user: root\n", 0 }, { "user: nobody\n", 65534 }, { "user: user\n", 1000 } };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(profile_unrefp_) struct profile *p = read_profile(cases[i].text);
        AUTO(local_plan_freep_) struct local_plan *plan = NULL;
        struct backend_spec s = { .profile = p };
        struct err e = { 0 };

        CHECK_OK(local_plan_new(&(struct backend_context){ 0 }, id, &s, &plan, &e), e);
        CHECK_INT(plan->plan.uid, cases[i].uid);
    }
}
