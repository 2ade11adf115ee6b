/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/cgroup_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "engine/runtime/cgroup_file.h"

static char tag[CGROUP_TAG_MAX], fake[64];
static const struct cgroup_limits limits = { .memory = 64 << 20, .pids = 33, .cpu_milli = 250 };
static const struct cgroup_owner owner = {
    .key = "o-a.1", .memory = 256 << 20, .pids = 100, .cpu_milli = 500
};

/* --- names --- */

TEST(keys_of_owners_are_names_of_directories_and_of_nothing_else)
{
    static const char *const good[] = { "o-uid-1000.0123456789abcdef", "a", "x_y" };
    static const char *const bad[] = {
        "", ".", "..", ".a", "a/b", "A", "a\n", "pool", "sbx_a", "ä"
    };
    char longest[CGROUP_OWNER_MAX];

    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (!cgroup_owner_key_valid(good[i], CGROUP_OWNER_MAX))
            FAIL("%s", good[i]);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (cgroup_owner_key_valid(bad[i], CGROUP_OWNER_MAX))
            FAIL("%s", bad[i]);
    memset(longest, 'a', sizeof longest); /* it does not end */
    CHECK(!cgroup_owner_key_valid(longest, sizeof longest));
    longest[sizeof longest - 1] = '\0';
    CHECK(cgroup_owner_key_valid(longest, sizeof longest));
}

TEST(sandboxes_of_owners_are_below_them_where_there_are_limits)
{
    struct cgroup_host h = { .tag = "t" };
    char path[CGROUP_PATH_MAX];

    cgroup_tree_path(&h, CGROUP_MEMORY, "sbx_1", "o-a", path);
    CHECK_STR(str_from(path), "sandboxer-t/o-a/sbx_1");
    cgroup_tree_path(&h, CGROUP_V2_, "sbx_1", "o-a", path);
    CHECK_STR(str_from(path), "sandboxer-t/sbx_1");
    h.unified_has = 1 << CGROUP_HUGETLB; /* which is no limit of an owner */
    cgroup_tree_path(&h, CGROUP_V2_, "sbx_1", "o-a", path);
    CHECK_STR(str_from(path), "sandboxer-t/sbx_1");
    h.unified_has = 1 << CGROUP_PIDS;
    cgroup_tree_path(&h, CGROUP_V2_, "sbx_1", "o-a", path);
    CHECK_STR(str_from(path), "sandboxer-t/o-a/sbx_1");
    cgroup_tree_path(&h, CGROUP_V2_, "sbx_1", NULL, path);
    CHECK_STR(str_from(path), "sandboxer-t-sbx_1");
    h.tag[0] = '\0';
    cgroup_tree_path(&h, CGROUP_MEMORY, "sbx_1", "o-a", path);
    CHECK_STR(str_from(path), "sandboxer-sbx_1");
}

/* --- directories that stand in for a v1 machine --- */

static void make_fake(const char *const dirs[])
{
    char path[256];

    memcpy(fake, "/tmp/sandboxer-test-XXXXXX", sizeof "/tmp/sandboxer-test-XXXXXX");
    CHECK(mkdtemp(fake));
    for (; *dirs; dirs++) {
        snprintf(path, sizeof path, "%s/%s", fake, *dirs);
        CHECK(mkdir(path, 0755) == 0);
    }
}

static bool there(const char *base, const char *path)
{
    char full[512];

    snprintf(full, sizeof full, "%s/%s", base, path);
    return access(full, F_OK) == 0;
}

static void remove_fake(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", fake);
    CHECK_INT(system(command), 0);
}

TEST(a_sandbox_is_found_and_removed_whichever_owner_it_has)
{
    static const char *const dirs[] = { "pids",
                                        "pids/sandboxer-t",
                                        "pids/sandboxer-t/o-a",
                                        "pids/sandboxer-t/o-a/sbx_1",
                                        "pids/sandboxer-t/o-b",
                                        "pids/sandboxer-t/o-b/sbx_2",
                                        "pids/sandboxer-t/sbx_3",
                                        "pids/sandboxer-t-sbx_4",
                                        "pids/sandboxer-u",
                                        "pids/sandboxer-u/o-a",
                                        "pids/sandboxer-u/o-a/sbx_1",
                                        NULL };
    struct cgroup_host h;

    make_fake(dirs);
    cgroup_host_open(&h, fake, "t");
    for (int i = 1; i <= 4; i++) {
        char id[16];
        int fd;

        snprintf(id, sizeof id, "sbx_%d", i);
        fd = cgroup_tree_open(&h, CGROUP_PIDS, id);
        CHECK(fd >= 0);
        close(fd);
        CHECK_INT(cgroup_remove(&h, id), 0);
        CHECK_INT(cgroup_tree_open(&h, CGROUP_PIDS, id), -1);
    }
    CHECK(there(fake, "pids/sandboxer-u/o-a/sbx_1")); /* of another daemon */
    cgroup_tidy(&h);
    CHECK(!there(fake, "pids/sandboxer-t") && there(fake, "pids/sandboxer-u/o-a"));
    cgroup_host_done(&h);
    remove_fake();
}

TEST(tidying_leaves_what_is_in_use)
{
    static const char *const dirs[] = { "pids",
                                        "pids/sandboxer-t",
                                        "pids/sandboxer-t/o-a",
                                        "pids/sandboxer-t/o-a/sbx_1",
                                        "pids/sandboxer-t/o-b",
                                        "pids/sandboxer-t/pool",
                                        "pids/sandboxer-t/sbx_3",
                                        NULL };
    struct cgroup_host h;

    make_fake(dirs);
    cgroup_host_open(&h, fake, "t");
    cgroup_tidy(&h);
    CHECK(there(fake, "pids/sandboxer-t/o-a/sbx_1") && there(fake, "pids/sandboxer-t/sbx_3"));
    CHECK(!there(fake, "pids/sandboxer-t/o-b") && !there(fake, "pids/sandboxer-t/pool"));
    cgroup_host_done(&h);
    remove_fake();
}

TEST(a_shared_group_stays_while_a_process_is_about_to_join_it)
{
    static const char *const dirs[] = { "pids", NULL };
    static const char *const paths[] = { "sandboxer-t/pool", NULL };
    struct timespec long_ago[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    struct cgroup_host h, other;
    struct err e;

    make_fake(dirs);
    cgroup_host_open(&h, fake, "t");
    cgroup_host_open(&other, fake, "t");
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        AUTO_CLOSE int held = -1;

        CHECK_OK(cgroup_tree_make_shared(&h, CGROUP_PIDS, paths[i], &held, &e), e);
        cgroup_tidy(&other);
        CHECK(futimens(held, long_ago) == 0);
        cgroup_sweep(&other);
        CHECK(there(fake, paths[i] ? "pids/sandboxer-t/pool" : "pids/sandboxer-t"));
        drop_fd(&held);
        cgroup_tidy(&other);
        CHECK(!there(fake, "pids/sandboxer-t"));
    }
    cgroup_host_done(&other);
    cgroup_host_done(&h);
    remove_fake();
}

TEST(a_lock_of_another_user_holds_up_no_group)
{
    static const char *const dirs[] = { "pids", "pids/sandboxer-t", "pids/sandboxer-t/pool", NULL };
    AUTO_CLOSE int lock = -1, fd = -1;
    char path[128];
    struct cgroup_host h;
    struct err e;

    make_fake(dirs);
    snprintf(path, sizeof path, "%s/pids/sandboxer-t/pool", fake);
    lock = cgroup_dir_open(AT_FDCWD, path);
    CHECK(lock >= 0 && flock(lock, LOCK_EX) == 0);
    cgroup_host_open(&h, fake, "t");
    CHECK_OK(cgroup_tree_make_shared(&h, CGROUP_PIDS, "sandboxer-t/pool", &fd, &e), e);
    cgroup_host_done(&h);
    remove_fake();
}

TEST(a_sweep_removes_old_groups_of_owners)
{
    static const char *const dirs[] = { "pids",
                                        "pids/sandboxer-t",
                                        "pids/sandboxer-t/o-a",
                                        "pids/sandboxer-t/o-a/sbx_old",
                                        "pids/sandboxer-t/o-a/sbx_new",
                                        "pids/sandboxer-t/o-b",
                                        "pids/sandboxer-t/o-b/sbx_old",
                                        NULL };
    static const char *const old[] = { "pids/sandboxer-t/o-a/sbx_old",
                                       "pids/sandboxer-t/o-b/sbx_old" };
    struct timespec long_ago[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    struct cgroup_host h;
    char path[256];

    make_fake(dirs);
    for (size_t i = 0; i < COUNT_OF(old); i++) {
        snprintf(path, sizeof path, "%s/%s", fake, old[i]);
        CHECK(utimensat(AT_FDCWD, path, long_ago, 0) == 0);
    }
    cgroup_host_open(&h, fake, "other");
    cgroup_sweep(&h);
    CHECK(!there(fake, old[0]) && !there(fake, old[1]));
    CHECK(there(fake, "pids/sandboxer-t/o-a/sbx_new"));
    CHECK(there(fake, "pids/sandboxer-t/o-b")); /* its removal of sbx_old is news of a moment ago */
    cgroup_host_done(&h);
    remove_fake();
}

TEST(huge_pages_are_forbidden_in_every_size)
{
    static const char *const dirs[] = { "group", NULL };
    static const char *const files[] = { "hugetlb.2MB.max", "hugetlb.1GB.rsvd.max",
                                         "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.current",
                                         "memory.max" };
    AUTO_CLOSE int dir = -1;
    char path[256], text[16];

    make_fake(dirs);
    snprintf(path, sizeof path, "%s/group", fake);
    dir = cgroup_dir_open(AT_FDCWD, path);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO_CLOSE int fd = openat(dir, files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        CHECK(fd >= 0 && write(fd, "7", 1) == 1);
    }
    cgroup_forbid_huge_pages(dir);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        CHECK(cgroup_file_read(dir, files[i], text, sizeof text));
        CHECK_STR(str_from(text), i < 3 ? "0" : "7");
    }
    remove_fake();
}

/* --- for real --- */

static void open_real(struct cgroup_host *h)
{
    if (geteuid() != 0)
        SKIP("control groups of this machine belong to root");
    snprintf(tag, sizeof tag, "test.%d", (int)getpid());
    cgroup_host_open(h, "/sys/fs/cgroup", tag);
    if (h->unified < 0 || h->legacy[CGROUP_MEMORY] < 0 || h->legacy[CGROUP_PIDS] < 0 ||
        h->legacy[CGROUP_CPU] < 0)
        SKIP("this machine is not a hybrid one");
}

/* A file below sandboxer-TAG. */
static struct str get(const char *hierarchy, const char *file)
{
    static char text[256];
    char path[256];

    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/sandboxer-%s/%s", hierarchy, tag, file);
    if (!cgroup_file_read(AT_FDCWD, path, text, sizeof text))
        FAIL("%s cannot be read", path);
    return str_trim(str_from(text));
}

static void expect_nothing_left(void)
{
    static const char *const trees[] = { "unified", "memory", "pids", "cpu" };
    char path[128];

    for (size_t i = 0; i < COUNT_OF(trees); i++) {
        snprintf(path, sizeof path, "%s/sandboxer-%s", trees[i], tag);
        if (there("/sys/fs/cgroup", path))
            FAIL("%s is left", path);
    }
}

static void make_owned(struct cgroup_host *h, const char *id, const struct cgroup_owner *o)
{
    struct cgroup g;
    unsigned missing = 77;
    struct err e;

    CHECK_OK(cgroup_make(h, id, o, &g, &e), e);
    CHECK_OK(cgroup_limit(h, id, o, &limits, &g, &missing, &e), e);
    CHECK_INT(missing, 0);
    cgroup_close(&g);
}

TEST(an_owner_has_limits_above_those_of_its_sandboxes)
{
    struct cgroup_host h;

    open_real(&h);
    make_owned(&h, "sbx_1", &owner);
    make_owned(&h, "sbx_2", &owner);
    CHECK_STR(get("memory", "o-a.1/memory.limit_in_bytes"), "268435456");
    CHECK_STR(get("memory", "o-a.1/sbx_1/memory.limit_in_bytes"), "67108864");
    CHECK_STR(get("pids", "o-a.1/pids.max"), "100");
    CHECK_STR(get("pids", "o-a.1/sbx_2/pids.max"), "33");
    CHECK_STR(get("cpu", "o-a.1/cpu.cfs_quota_us"), "50000");
    CHECK_STR(get("cpu", "o-a.1/sbx_2/cpu.cfs_quota_us"), "25000");
    CHECK_STR(get("cpu", "cpu.shares"), "10240");
    CHECK_INT(cgroup_remove(&h, "sbx_1"), 0);
    cgroup_tidy(&h);
    CHECK_STR(get("pids", "o-a.1/pids.max"), "100"); /* it has another one */
    CHECK_INT(cgroup_remove(&h, "sbx_2"), 0);
    cgroup_tidy(&h);
    expect_nothing_left();
    cgroup_host_done(&h);
}

/* A sandbox may ask for more of a processor than its owner has; v1 refuses such a group. */
TEST(a_sandbox_has_no_more_than_its_owner)
{
    struct cgroup_owner small = { .key = "o-a.1", .cpu_milli = 100 };
    struct cgroup_host h;

    open_real(&h);
    make_owned(&h, "sbx_1", &small);
    CHECK_STR(get("cpu", "o-a.1/sbx_1/cpu.cfs_quota_us"), "10000");
    CHECK_STR(get("memory", "o-a.1/sbx_1/memory.limit_in_bytes"), "67108864");
    CHECK_INT(cgroup_remove(&h, "sbx_1"), 0);
    cgroup_tidy(&h);
    cgroup_host_done(&h);
}

TEST(limits_of_an_owner_change_with_the_next_sandbox)
{
    struct cgroup_owner more = owner, none = { .key = "o-a.1" };
    struct cgroup_host h, next;

    more.memory *= 2;
    more.pids *= 2;
    open_real(&h);
    make_owned(&h, "sbx_1", &owner);
    make_owned(&h, "sbx_2", &more);
    CHECK_STR(get("memory", "o-a.1/memory.limit_in_bytes"), "536870912");
    CHECK_STR(get("pids", "o-a.1/pids.max"), "200");
    cgroup_host_open(&next, "/sys/fs/cgroup", tag); /* another launcher */
    make_owned(&next, "sbx_3", &none);
    CHECK_STR(get("pids", "o-a.1/pids.max"), "max");
    CHECK_STR(get("cpu", "o-a.1/cpu.cfs_quota_us"), "-1");
    CHECK_INT(cgroup_remove(&h, "sbx_1") + cgroup_remove(&h, "sbx_2") + cgroup_remove(&h, "sbx_3"),
              0);
    cgroup_tidy(&next);
    expect_nothing_left();
    cgroup_host_done(&next);
    cgroup_host_done(&h);
}

TEST(groups_that_another_launcher_removed_are_made_again)
{
    struct cgroup_host h, other;

    open_real(&h);
    make_owned(&h, "sbx_1", &owner);
    CHECK_INT(cgroup_remove(&h, "sbx_1"), 0);
    cgroup_host_open(&other, "/sys/fs/cgroup", tag);
    cgroup_tidy(&other);
    expect_nothing_left();
    make_owned(&h, "sbx_2", &owner);
    CHECK_STR(get("pids", "o-a.1/pids.max"), "100");
    CHECK_INT(cgroup_remove(&h, "sbx_2"), 0);
    cgroup_tidy(&h);
    cgroup_host_done(&other);
    cgroup_host_done(&h);
}

static void write_zero(int fd)
{
    if (fd >= 0 && write(fd, "0", 1) != 1)
        _exit(1);
}

TEST(a_prepared_sandbox_moves_itself_into_the_groups_of_its_owner)
{
    struct cgroup pool, own;
    struct cgroup_host h;
    unsigned missing = 77;
    char want[16];
    struct err e;
    int go[2];
    pid_t pid;

    open_real(&h);
    CHECK_OK(cgroup_make_prepared(&h, "sbx_1", &pool, &e), e);
    CHECK_OK(cgroup_limit_prepared(&h, "sbx_1", &limits, &pool, &missing, &e), e);
    CHECK_INT(missing, 0);
    CHECK(!there("/sys/fs/cgroup/memory", "o-a.1"));
    CHECK(pipe(go) == 0);
    CHECK_OK(cgroup_assign(&h, "sbx_1", &owner, &limits, &own, &e), e);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (cgroup_join(&pool, &e) < 0)
            _exit(1);
        for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
            write_zero(own.tasks[i]);
        write_zero(own.procs);
        if (write(go[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(go[0], want, 1) == 1);
    snprintf(want, sizeof want, "%d", (int)pid);
    CHECK_STR(get("memory", "o-a.1/sbx_1/cgroup.procs"), want);
    CHECK_STR(get("pids", "o-a.1/sbx_1/cgroup.procs"), want);
    CHECK_STR(get("cpu", "o-a.1/sbx_1/cgroup.procs"), want);
    CHECK_STR(get("pids", "o-a.1/pids.max"), "100");
    CHECK_STR(get("pids", "pool/cgroup.procs"), "");
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    cgroup_close(&pool);
    cgroup_close(&own);
    close(go[0]);
    close(go[1]);
    CHECK_INT(cgroup_remove(&h, "sbx_1"), 0);
    cgroup_tidy(&h);
    expect_nothing_left();
    cgroup_host_done(&h);
}

TEST(a_prepared_sandbox_joins_a_pool_that_another_launcher_would_tidy)
{
    struct cgroup_host h, other;
    struct cgroup pool;
    unsigned missing;
    struct err e;
    int status;
    pid_t pid;

    open_real(&h);
    cgroup_host_open(&other, "/sys/fs/cgroup", tag);
    CHECK_OK(cgroup_make_prepared(&h, "sbx_1", &pool, &e), e);
    CHECK_OK(cgroup_limit_prepared(&h, "sbx_1", &limits, &pool, &missing, &e), e);
    cgroup_tidy(&other);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(cgroup_join(&pool, &e) < 0 ? 1 : 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
    cgroup_close(&pool);
    CHECK_INT(cgroup_remove(&h, "sbx_1"), 0);
    cgroup_tidy(&other);
    expect_nothing_left();
    cgroup_host_done(&other);
    cgroup_host_done(&h);
}

TEST(no_sandbox_of_a_daemon_has_huge_pages)
{
    struct cgroup_host h;
    char path[128];
    unsigned missing;
    struct cgroup g;
    struct err e;

    open_real(&h);
    if (!(h.unified_has & (1u << CGROUP_HUGETLB)))
        SKIP("this machine has no hugetlb controller");
    CHECK_OK(cgroup_make_prepared(&h, "sbx_1", &g, &e), e);
    CHECK_OK(cgroup_limit_prepared(&h, "sbx_1", &limits, &g, &missing, &e), e);
    snprintf(path, sizeof path, "unified/sandboxer-%s/hugetlb.2MB.max", tag);
    if (there("/sys/fs/cgroup", path)) {
        CHECK_STR(get("unified", "hugetlb.2MB.max"), "0");
        CHECK_STR(get("unified", "hugetlb.2MB.rsvd.max"), "0");
    }
    cgroup_close(&g);
    CHECK_INT(cgroup_remove(&h, "sbx_1"), 0);
    cgroup_tidy(&h);
    cgroup_host_done(&h);
}
