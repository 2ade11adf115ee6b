/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/kernel.h"
#include "lib/proc/caps.h"

static struct plan good_plan(void)
{
    struct plan p;
    struct err e;

    CHECK_OK(plan_init(&p, &e), e);
    return p;
}

TEST(a_new_plan_is_good_and_has_its_own_id)
{
    struct plan a = good_plan(), b = good_plan();

    CHECK_INT(plan_check(&a, sizeof a, NULL), 0);
    CHECK(strcmp(a.id, b.id) != 0);
    CHECK_STR(str_from(a.hostname), "sandbox");
}

#define CHANGE(name, statement)                                                                    \
    static void set_##name(struct plan *p)                                                         \
    {                                                                                              \
        statement;                                                                                 \
    }
CHANGE(magic, p->magic = 0)
CHANGE(version, p->version++)
CHANGE(size, p->size++)
CHANGE(flags, p->flags = PLAN_FLAGS_ALL_ + 1)
CHANGE(all_flags, p->flags = PLAN_FLAGS_ALL_ & ~(uint32_t)(PLAN_PREPARED | PLAN_GRANTED))
CHANGE(granted_nothing, p->flags = PLAN_GRANTED)
CHANGE(prepared, p->flags = PLAN_PREPARED | PLAN_LISTENER)
CHANGE(prepared_ephemeral, p->flags = PLAN_PREPARED | PLAN_EPHEMERAL)
CHANGE(prepared_owned, p->flags = PLAN_PREPARED; memcpy(p->owner.key, "o-a", 4))
CHANGE(owner, memcpy(p->owner.key, "o-uid-1000.3f", 14))
CHANGE(owner_open, memset(p->owner.key, 'a', sizeof p->owner.key))
CHANGE(owner_slash, memcpy(p->owner.key, "a/b", 4))
CHANGE(owner_dots, memcpy(p->owner.key, "..", 3))
CHANGE(owner_pool, memcpy(p->owner.key, "pool", 5))
CHANGE(owner_sandbox, memcpy(p->owner.key, "sbx_a", 6))
CHANGE(taken, p->taken.v4[0] = 5432; p->taken.v6[7] = 5432)
CHANGE(taken_dns, p->taken.v4[7] = LISTENERS_DNS_PORT)
CHANGE(taken_capture, p->taken.v6[0] = LISTENERS_CAPTURE_PORT)
CHANGE(layers, p->n_layers = PLAN_LAYERS_MAX + 1)
CHANGE(all_layers, p->n_layers = PLAN_LAYERS_MAX)
CHANGE(mounts, p->n_mounts = PLAN_MOUNTS_MAX + 1)
CHANGE(mount_without_target, p->n_mounts = 1)
CHANGE(id_open, memset(p->id, 'a', sizeof p->id))
CHANGE(id_empty, p->id[0] = '\0')
CHANGE(id_prefix, p->id[0] = 'x')
CHANGE(id_letter, p->id[6] = 'U')
CHANGE(id_long, snprintf(p->id + strlen(p->id), 2, "0"))
CHANGE(host_open, memset(p->hostname, 'a', sizeof p->hostname))
CHANGE(host_longest, memset(p->hostname, 'a', sizeof p->hostname - 1))
CHANGE(host_empty, p->hostname[0] = '\0')
CHANGE(host_dash, snprintf(p->hostname, sizeof p->hostname, "-a"))
CHANGE(host_dot_end, snprintf(p->hostname, sizeof p->hostname, "a."))
CHANGE(host_blank, snprintf(p->hostname, sizeof p->hostname, "a b"))
CHANGE(host_line, snprintf(p->hostname, sizeof p->hostname, "a\nb"))
CHANGE(host_high, snprintf(p->hostname, sizeof p->hostname, "\xc3\xa4"))
CHANGE(host_good, snprintf(p->hostname, sizeof p->hostname, "A-1.example"))
CHANGE(memory_low, p->memory = (1 << 20) - 1)
CHANGE(memory_least, p->memory = 1 << 20)
CHANGE(memory_most, p->memory = INT64_MAX)
CHANGE(memory_high, p->memory = (uint64_t)INT64_MAX + 1)
CHANGE(disk_low, p->disk = (64 << 10) - 1)
CHANGE(disk_least, p->disk = 64 << 10)
CHANGE(disk_high, p->disk = UINT64_MAX)
CHANGE(pids_low, p->pids = 1)
CHANGE(pids_least, p->pids = 2)
CHANGE(pids_most, p->pids = PLAN_PIDS_MAX)
CHANGE(pids_high, p->pids = PLAN_PIDS_MAX + 1)
CHANGE(cpu_low, p->cpu_milli = 9)
CHANGE(cpu_least, p->cpu_milli = 10)
CHANGE(cpu_high, p->cpu_milli = 1024001)
CHANGE(caps_admin, p->caps = CAP_BIT(CAP_SYS_ADMIN))
CHANGE(caps_one_more, p->caps = plan_grantable_caps() | CAP_BIT(CAP_NET_ADMIN))
CHANGE(caps_unknown, p->caps = UINT64_C(1) << 63)
CHANGE(caps_all, p->caps = plan_grantable_caps())
CHANGE(kernel_all, p->kernel = KERNEL_PLAN_ALL_)
CHANGE(kernel_set_ids, p->kernel = KERNEL_SET_IDS)
CHANGE(kernel_unknown, p->kernel = UINT32_C(1) << 31)
CHANGE(terminals_none, p->terminals = 0)
CHANGE(terminals_one, p->terminals = 1)
CHANGE(terminals_most, p->terminals = PLAN_TERMINALS_MAX)
CHANGE(terminals_more, p->terminals = PLAN_TERMINALS_MAX + 1)
CHANGE(uid, p->uid = PLAN_IDS)
CHANGE(gid, p->gid = UINT32_MAX)
CHANGE(last_ids, p->uid = p->gid = PLAN_IDS - 1)

TEST(each_field_at_its_bounds)
{
    static const struct {
        const char *name;
        void (*change)(struct plan *p);
        int want;
    } cases[] = {
#define CASE(name, want) { #name, set_##name, want }
        CASE(magic, -ERR_INVALID),
        CASE(version, -ERR_UNSUPPORTED),
        CASE(size, -ERR_INVALID),
        CASE(flags, -ERR_INVALID),
        CASE(all_flags, 0),
        CASE(prepared, 0),
        CASE(prepared_ephemeral, -ERR_INVALID),
        CASE(prepared_owned, -ERR_INVALID),
        CASE(owner, 0),
        CASE(owner_open, -ERR_INVALID),
        CASE(owner_slash, -ERR_INVALID),
        CASE(owner_dots, -ERR_INVALID),
        CASE(owner_pool, -ERR_INVALID),
        CASE(owner_sandbox, -ERR_INVALID),
        CASE(taken, 0),
        CASE(taken_dns, -ERR_INVALID),
        CASE(taken_capture, -ERR_INVALID),
        CASE(layers, -ERR_INVALID),
        CASE(all_layers, 0),
        CASE(granted_nothing, -ERR_INVALID),
        CASE(mounts, -ERR_INVALID),
        CASE(mount_without_target, -ERR_INVALID),
        CASE(id_open, -ERR_INVALID),
        CASE(id_empty, -ERR_INVALID),
        CASE(id_prefix, -ERR_INVALID),
        CASE(id_letter, -ERR_INVALID),
        CASE(id_long, -ERR_INVALID),
        CASE(host_open, -ERR_INVALID),
        CASE(host_longest, 0),
        CASE(host_empty, -ERR_INVALID),
        CASE(host_dash, -ERR_INVALID),
        CASE(host_dot_end, -ERR_INVALID),
        CASE(host_blank, -ERR_INVALID),
        CASE(host_line, -ERR_INVALID),
        CASE(host_high, -ERR_INVALID),
        CASE(host_good, 0),
        CASE(memory_low, -ERR_INVALID),
        CASE(memory_least, 0),
        CASE(memory_most, 0),
        CASE(memory_high, -ERR_INVALID),
        CASE(disk_low, -ERR_INVALID),
        CASE(disk_least, 0),
        CASE(disk_high, -ERR_INVALID),
        CASE(pids_low, -ERR_INVALID),
        CASE(pids_least, 0),
        CASE(pids_most, 0),
        CASE(pids_high, -ERR_INVALID),
        CASE(cpu_low, -ERR_INVALID),
        CASE(cpu_least, 0),
        CASE(cpu_high, -ERR_INVALID),
        CASE(caps_admin, -ERR_DENIED),
        CASE(caps_one_more, -ERR_DENIED),
        CASE(caps_unknown, -ERR_DENIED),
        CASE(caps_all, 0),
        CASE(kernel_all, 0),
        CASE(kernel_set_ids, -ERR_DENIED),
        CASE(kernel_unknown, -ERR_DENIED),
        CASE(terminals_none, -ERR_INVALID),
        CASE(terminals_one, 0),
        CASE(terminals_most, 0),
        CASE(terminals_more, -ERR_INVALID),
        CASE(uid, -ERR_INVALID),
        CASE(gid, -ERR_INVALID),
        CASE(last_ids, 0),
#undef CASE
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct plan p = good_plan();
        int r;

        cases[i].change(&p);
        r = plan_check(&p, sizeof p, NULL);
        if (r != cases[i].want)
            FAIL("%s gives %d, not %d", cases[i].name, r, cases[i].want);
    }
}

TEST(a_plan_of_another_length)
{
    struct plan p = good_plan();

    for (size_t n = 0; n < plan_size(&p); n++)
        if (plan_check(&p, n, NULL) != -ERR_INVALID)
            FAIL("%zu bytes of a plan pass", n);
    CHECK_INT(plan_check(&p, plan_size(&p), NULL), 0);
    CHECK_INT(plan_check(&p, sizeof p + 1, NULL), -ERR_INVALID);
    p.n_mounts = 2; /* more than came */
    CHECK_INT(plan_check(&p, plan_size(&p) - 1, NULL), -ERR_INVALID);
    p.n_mounts = UINT32_MAX;
    CHECK(plan_size(&p) == sizeof p);
}

TEST(sources_below_roots)
{
    static const struct {
        uint32_t root;
        const char *source;
        int want;
    } cases[] = {
        { 1, "a", 0 },
        { PLAN_ROOTS_MAX, "a/b.c/..d", 0 },
        { 1, ".", 0 },
        { 0, "", 0 },
        { 0, "a", -ERR_INVALID },
        { 1, "", -ERR_INVALID },
        { 1, "/", -ERR_INVALID },
        { 1, "/etc", -ERR_INVALID },
        { 1, "..", -ERR_INVALID },
        { 1, "../etc", -ERR_INVALID },
        { 1, "a/../../etc", -ERR_INVALID },
        { 1, "a/..", -ERR_INVALID },
        { 1, "./a", -ERR_INVALID },
        { 1, "a//b", -ERR_INVALID },
        { 1, "a/", -ERR_INVALID },
        { PLAN_STORE + 1, "a", -ERR_INVALID },
        { UINT32_MAX, "a", -ERR_INVALID },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct plan mounts = good_plan(), layers = mounts;

        CHECK_INT(plan_add_mount(&mounts, cases[i].root, cases[i].source, "/x", 0, NULL), 0);
        CHECK_INT(plan_add_layer(&layers, cases[i].root, cases[i].source, NULL), 0);
        if (plan_check(&mounts, sizeof mounts, NULL) != cases[i].want ||
            plan_check(&layers, sizeof layers, NULL) != cases[i].want)
            FAIL("'%s' below root %u", cases[i].source, cases[i].root);
    }
}

TEST(the_store_has_layers_and_nothing_else)
{
    struct plan mounts = good_plan(), layers = mounts;

    CHECK_INT(plan_add_mount(&mounts, PLAN_STORE, "a", "/x", 0, NULL), 0);
    CHECK_INT(plan_check(&mounts, sizeof mounts, NULL), -ERR_INVALID);
    CHECK_INT(plan_add_layer(&layers, PLAN_STORE, "layers/a/fs", NULL), 0);
    CHECK_INT(plan_check(&layers, sizeof layers, NULL), 0);
    CHECK_INT(plan_check_sources(&layers, 0, true, false, NULL), 0);
    CHECK_INT(plan_check_sources(&layers, 0, false, true, NULL), -ERR_DENIED);
}

TEST(sources_that_do_not_end)
{
    struct plan p = good_plan(), q = p;

    CHECK_INT(plan_add_mount(&p, 1, "a", "/x", 0, NULL), 0);
    memset(p.mounts[0].source, 'a', PLAN_SOURCE_MAX);
    CHECK_INT(plan_check(&p, sizeof p, NULL), -ERR_INVALID);
    CHECK_INT(plan_add_layer(&q, 1, "a", NULL), 0);
    memset(q.layers[0].path, 'a', PLAN_LAYER_MAX);
    CHECK_INT(plan_check(&q, sizeof q, NULL), -ERR_INVALID);
}

TEST(more_parts_than_there_is_room_for)
{
    static char path[PLAN_SOURCE_MAX + 1];
    struct plan p = good_plan();

    memset(path, 'a', PLAN_SOURCE_MAX);
    CHECK_INT(plan_add_mount(&p, 1, path, "/x", 0, NULL), -ERR_TOO_BIG);
    CHECK_INT(plan_add_layer(&p, 1, path, NULL), -ERR_TOO_BIG);
    for (int i = 0; i < PLAN_MOUNTS_MAX; i++)
        CHECK_INT(plan_add_mount(&p, 1, "a", "/x", 0, NULL), 0);
    CHECK_INT(plan_add_mount(&p, 1, "a", "/x", 0, NULL), -ERR_TOO_BIG);
    CHECK_INT(plan_add_mount(&p, 1, "a", "/proc", 0, NULL), -ERR_DENIED);
}

TEST(who_may_give_what)
{
    struct plan by_fd = good_plan(), below = by_fd;

    CHECK_INT(plan_add_mount(&by_fd, 0, "", "/x", 0, NULL), 0);
    CHECK_INT(plan_add_layer(&below, 2, "a", NULL), 0);
    CHECK_INT(plan_check_sources(&by_fd, 0, false, true, NULL), 0);
    CHECK_INT(plan_check_sources(&by_fd, 2, false, false, NULL), -ERR_DENIED);
    CHECK_INT(plan_check_sources(&below, 2, false, false, NULL), 0);
    CHECK_INT(plan_check_sources(&below, 2, false, true, NULL), 0);
    CHECK_INT(plan_check_sources(&below, 1, false, true, NULL), -ERR_DENIED);
    below.flags |= PLAN_CHANGES;
    CHECK_INT(plan_check_sources(&below, 2, false, true, NULL), 0);
    CHECK_INT(plan_check_sources(&below, 2, false, false, NULL), -ERR_DENIED);
}

TEST(a_granted_mount_is_a_descriptor_of_the_supervisor)
{
    struct plan p = good_plan();
    struct err e;
    int pair[2], dir = open("/", O_PATH | O_CLOEXEC), fds[2];

    CHECK_INT(plan_add_mount(&p, PLAN_GRANT, "", "/x", 0, NULL), 0);
    CHECK_INT(plan_check(&p, sizeof p, NULL), -ERR_INVALID); /* without its socket */
    p.flags |= PLAN_GRANTED;
    CHECK_OK(plan_check(&p, sizeof p, &e), e);
    CHECK_OK(plan_check_sources(&p, 0, false, false, &e), e); /* from an untrusted caller, too */
    CHECK_OK(ipc_pair(pair, &e), e);
    fds[0] = pair[0];
    fds[1] = dir;
    CHECK_INT(plan_check_fds(&p, fds, 2, NULL), -ERR_INVALID);
    CHECK_INT(plan_check_fds(&p, fds, 1, NULL), -ERR_INVALID);
    fds[1] = pair[1];
    CHECK_OK(plan_check_fds(&p, fds, 2, &e), e);
    snprintf(p.mounts[0].source, PLAN_SOURCE_MAX, "etc");
    CHECK_INT(plan_check(&p, sizeof p, NULL), -ERR_INVALID);
}

TEST(mount_targets)
{
    static char longest[PLAN_TARGET_MAX + 1], part[300];
    static const struct {
        const char *target;
        int want;
    } cases[] = {
        { "/work", 0 },
        { "/a/b/c", 0 },
        { "/procs", 0 }, /* only begins like a reserved name */
        { "/system/proc", 0 },
        { "/...", 0 },
        { "/a b/ä", 0 },
        { "", -ERR_INVALID },
        { "/", -ERR_INVALID },
        { "work", -ERR_INVALID },
        { "./work", -ERR_INVALID },
        { "//work", -ERR_INVALID },
        { "/work/", -ERR_INVALID },
        { "/a//b", -ERR_INVALID },
        { "/a/./b", -ERR_INVALID },
        { "/a/../b", -ERR_INVALID },
        { "/..", -ERR_INVALID },
        { "/.", -ERR_INVALID },
        { "/proc", -ERR_DENIED },
        { "/proc/self", -ERR_DENIED },
        { "/sys/fs/cgroup", -ERR_DENIED },
        { "/dev", -ERR_DENIED },
        { "/dev/shm/x", -ERR_DENIED },
        { longest, -ERR_INVALID },
        { part, -ERR_INVALID },
    };

    memset(longest, 'a', sizeof longest - 1);
    longest[0] = '/';
    snprintf(part, sizeof part, "/%0256d", 0); /* a name longer than any file system's */
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = { 0 };
        int r = plan_check_target(cases[i].target, &e);

        if (r != cases[i].want)
            FAIL("'%s' gives %d, not %d", cases[i].target, r, cases[i].want);
        if (r < 0 && !strstr(e.msg, "cannot mount at"))
            FAIL("'%s' gives '%s'", cases[i].target, e.msg);
    }
    longest[PLAN_TARGET_MAX - 1] = '\0';
    CHECK_INT(plan_check_target(longest, NULL), 0);
}

TEST(mounts_of_a_plan_are_checked_one_by_one)
{
    struct plan p = good_plan();

    p.n_mounts = 2;
    snprintf(p.mounts[0].target, PLAN_TARGET_MAX, "/a");
    snprintf(p.mounts[1].target, PLAN_TARGET_MAX, "/b");
    CHECK_INT(plan_check(&p, sizeof p, NULL), 0);
    p.mounts[1].flags = PLAN_MOUNT_FLAGS_ALL_ + 1;
    CHECK_INT(plan_check(&p, sizeof p, NULL), -ERR_INVALID);
    p.mounts[1].flags = PLAN_MOUNT_RW;
    CHECK_INT(plan_check(&p, sizeof p, NULL), 0);
    memset(p.mounts[1].target, '/', PLAN_TARGET_MAX); /* does not end */
    CHECK_INT(plan_check(&p, sizeof p, NULL), -ERR_INVALID);
    snprintf(p.mounts[1].target, PLAN_TARGET_MAX, "/dev/x");
    CHECK_INT(plan_check(&p, sizeof p, NULL), -ERR_DENIED);
}

enum kind {
    SEQPACKET,
    BOUND,
    UNBOUND,
    STREAM,
    INTERNET,
    DIRECTORY,
    REGULAR,
    DEVICE,
    PIPE,
    CLOSED,
    KINDS
};

static int open_kind(enum kind k)
{
    int ends[2];
    struct err e;

    switch (k) {
    case SEQPACKET:
        CHECK_OK(ipc_pair(ends, &e), e);
        return ends[0];
    case BOUND:
    case UNBOUND:
        ends[0] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CHECK(ends[0] >= 0); /* a name of the kernel's choice, in no file system */
        CHECK(k == UNBOUND || bind(ends[0], (const struct sockaddr *)&(sa_family_t){ AF_UNIX },
                                   sizeof(sa_family_t)) == 0);
        return ends[0];
    case STREAM:
        return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    case INTERNET:
        return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    case DIRECTORY:
        return open("/tmp", O_PATH | O_CLOEXEC);
    case REGULAR:
        return open("/proc/self/exe", O_PATH | O_CLOEXEC);
    case DEVICE:
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    case PIPE:
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        return ends[0];
    default:
        return -1;
    }
}

/* Each place takes the kinds it is for, and no other. */
TEST(kinds_of_descriptors)
{
    struct plan p = good_plan();
    int fds[4], good[4] = { open_kind(SEQPACKET), open_kind(BOUND), open_kind(DIRECTORY),
                            open_kind(REGULAR) };

    p.flags = PLAN_LISTENER;
    p.n_layers = p.n_mounts = 1;
    snprintf(p.mounts[0].target, PLAN_TARGET_MAX, "/x");
    CHECK_INT(plan_check_fds(&p, good, 4, NULL), 0);
    for (size_t place = 0; place < 4; place++)
        for (enum kind k = 0; k < KINDS; k++) {
            bool want = place == 0   ? k == SEQPACKET || k == BOUND || k == UNBOUND
                        : place == 1 ? k == BOUND
                        : place == 2 ? k == DIRECTORY
                                     : k == DIRECTORY || k == REGULAR;

            memcpy(fds, good, sizeof fds);
            fds[place] = open_kind(k);
            if ((plan_check_fds(&p, fds, 4, NULL) == 0) != want)
                FAIL("place %zu and kind %d", place, k);
        }
}

TEST(numbers_of_descriptors)
{
    struct plan p = good_plan();
    int fds[3] = { open_kind(SEQPACKET), open_kind(BOUND), open_kind(DIRECTORY) };

    CHECK_INT(plan_check_fds(&p, fds, 1, NULL), 0);
    CHECK_INT(plan_check_fds(&p, fds, 0, NULL), -ERR_INVALID);
    CHECK_INT(plan_check_fds(&p, fds, 2, NULL), -ERR_INVALID);
    p.flags = PLAN_LISTENER;
    CHECK_INT(plan_check_fds(&p, fds, 1, NULL), -ERR_INVALID);
    CHECK_INT(plan_check_fds(&p, fds, 2, NULL), 0);
    p.n_layers = 1;
    CHECK_INT(plan_check_fds(&p, fds, 2, NULL), -ERR_INVALID);
    CHECK_INT(plan_check_fds(&p, fds, 3, NULL), 0);
}
