/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/cgroup.h"
#include "engine/runtime/cgroup_limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

/* Both halves of making a group, as the launcher does them. */
static int make_limited(struct cgroup_host *h, const char *id, const struct cgroup_limits *limits,
                        struct cgroup *ret, unsigned *missing, struct err *e)
{
    int r = cgroup_make(h, id, NULL, ret, e);

    if (r >= 0)
        r = cgroup_limit(h, id, NULL, limits, ret, missing, e);
    if (r < 0) {
        cgroup_close(ret);
        cgroup_remove(h, id);
    }
    return r;
}

static const char real[] = "/sys/fs/cgroup";
static const struct cgroup_limits limits = { .memory = 64 << 20, .pids = 33, .cpu_milli = 250 };

/* Directories standing in for a v1 machine. */
static char fake[64];

static void make_fake(void)
{
    memcpy(fake, "/tmp/sandboxer-test-XXXXXX", sizeof "/tmp/sandboxer-test-XXXXXX");
    CHECK(mkdtemp(fake));
}

static const char *under(const char *base, const char *a, const char *b, const char *c)
{
    static char path[4][300];
    static unsigned turn;
    char *out = path[turn++ % 4];

    CHECK(snprintf(out, sizeof path[0], "%s/%s%s%s%s%s", base, a, b[0] ? "/" : "", b,
                   c[0] ? "/" : "", c) < (int)sizeof path[0]);
    return out;
}

static void remove_fake(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", fake);
    CHECK_INT(system(command), 0);
}

static void put(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static struct str get(const char *path)
{
    static char text[4096];
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);

    if (n < 0)
        FAIL("%s: %s", path, strerror(errno));
    return str_trim((struct str){ text, (size_t)n });
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static int count_open(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(a_machine_without_control_groups)
{
    struct cgroup_usage usage = { 5, 5 };
    struct cgroup_host h;
    unsigned missing = 0;
    struct cgroup g;
    struct err e;

    cgroup_host_open(&h, "/no/such/place", NULL);
    CHECK(h.unified == -1 && h.legacy[CGROUP_MEMORY] == -1 && h.unified_has == 0);
    CHECK_OK(make_limited(&h, "sbx_test", &limits, &g, &missing, &e), e);
    CHECK_INT(missing, 1 << CGROUP_MEMORY | 1 << CGROUP_PIDS | 1 << CGROUP_CPU);
    CHECK_OK(cgroup_join(&g, &e), e);
    cgroup_kill(&h, "sbx_test");
    cgroup_read(&h, "sbx_test", &usage);
    CHECK(usage.oom_kills == 0 && usage.peak_bytes == 0);
    CHECK_INT(cgroup_remove(&h, "sbx_test"), 0);
    cgroup_close(&g);
    cgroup_host_done(&h);
}

static void check_memory(uint64_t memory, uint64_t tmpfs, const char *v1, const char *v2)
{
    struct cgroup_limits l = { .memory = memory, .tmpfs = tmpfs };
    struct cgroup_setting s[CGROUP_SETTINGS_MAX];

    CHECK_INT(cgroup_settings_v1(CGROUP_MEMORY, &l, s), 3);
    CHECK_STR(str_from(s[0].value), v1);
    CHECK_STR(str_from(s[1].value), v1); /* with swap */
    CHECK_INT(cgroup_settings_v2(CGROUP_MEMORY, &l, s), 2);
    CHECK_STR(str_from(s[0].value), v2);
}

TEST(files_in_memory_are_beside_the_memory)
{
    check_memory(64 << 20, 0, "67108864", "67108864");
    check_memory(64 << 20, 192 << 20, "268435456", "268435456");
    check_memory(0, 192 << 20, "-1", "max"); /* no limit stays none */
    check_memory(INT64_MAX - 1, 4096, "9223372036854775807", "9223372036854775807");
    check_memory(4096, UINT64_MAX, "9223372036854775807", "9223372036854775807");
}

TEST(only_what_is_asked_for_can_be_missing)
{
    struct cgroup_limits memory_only = { .memory = 1 << 20 }, none = { 0 };
    struct cgroup_host h;
    unsigned missing = 77;
    struct cgroup g;
    struct err e;

    cgroup_host_open(&h, "/no/such/place", NULL);
    CHECK_OK(make_limited(&h, "sbx_test", &memory_only, &g, &missing, &e), e);
    CHECK_INT(missing, 1 << CGROUP_MEMORY);
    CHECK_OK(make_limited(&h, "sbx_test", &none, &g, &missing, &e), e);
    CHECK_INT(missing, 0);
}

TEST(a_machine_that_has_only_some_hierarchies)
{
    struct cgroup_host h;
    int before = count_open();

    make_fake();
    CHECK(mkdir(under(fake, "pids", "", ""), 0755) == 0);
    CHECK(mkdir(under(fake, "unified", "", ""), 0755) == 0); /* a directory, but no cgroup2 */
    cgroup_host_open(&h, fake, NULL);
    CHECK(h.unified == -1 && h.legacy[CGROUP_PIDS] >= 0);
    CHECK(h.legacy[CGROUP_MEMORY] == -1 && h.legacy[CGROUP_CPU] == -1);
    cgroup_host_done(&h);
    CHECK_INT(count_open(), before);
    remove_fake();
}

TEST(a_hierarchy_that_is_not_ours_to_write)
{
    struct cgroup_host h;

    make_fake();
    CHECK(mkdir(under(fake, "memory", "", ""), 0755) == 0 && chmod(fake, 0755) == 0);
    if (geteuid() == 0) {
        CHECK(setegid(1000) == 0 && seteuid(1000) == 0);
    } else {
        CHECK(chmod(under(fake, "memory", "", ""), 0555) == 0);
    }
    cgroup_host_open(&h, fake, NULL);
    CHECK_INT(h.legacy[CGROUP_MEMORY], -1);
    cgroup_host_done(&h);
    CHECK(seteuid(getuid()) == 0);
    remove_fake();
}

/* A plain directory has no files of a group: the limit cannot be set, and nothing is left. */
TEST(a_failure_leaves_nothing)
{
    struct cgroup_host h;
    unsigned missing = 77;
    struct cgroup g;
    struct err e;
    int before;

    make_fake();
    CHECK(mkdir(under(fake, "memory", "", ""), 0755) == 0);
    cgroup_host_open(&h, fake, NULL);
    before = count_open();
    CHECK_INT(make_limited(&h, "sbx_test", &limits, &g, &missing, &e), -ERR_SYS);
    CHECK(strstr(e.msg, "memory.limit_in_bytes"));
    CHECK_INT(missing, 77);
    CHECK(!there(under(fake, "memory", "sandboxer-sbx_test", "")));
    CHECK_INT(count_open(), before);
    cgroup_host_done(&h);
    remove_fake();
}

TEST(usage_is_read_from_the_files)
{
    struct cgroup_usage usage;
    struct cgroup_host h;

    make_fake();
    CHECK(mkdir(under(fake, "memory", "", ""), 0755) == 0);
    CHECK(mkdir(under(fake, "memory", "sandboxer-sbx_test", ""), 0755) == 0);
    cgroup_host_open(&h, fake, NULL);
    cgroup_read(&h, "sbx_test", &usage);
    CHECK(usage.oom_kills == 0 && usage.peak_bytes == 0); /* no such files */
    put(under(fake, "memory", "sandboxer-sbx_test", "memory.oom_control"),
        "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    put(under(fake, "memory", "sandboxer-sbx_test", "memory.max_usage_in_bytes"), "5000000000\n");
    cgroup_read(&h, "sbx_test", &usage);
    CHECK_INT(usage.oom_kills, 3);
    CHECK_INT(usage.peak_bytes, 5000000000);
    cgroup_host_done(&h);
    remove_fake();
}

TEST(what_cannot_be_removed_is_counted)
{
    struct cgroup_host h;

    make_fake();
    CHECK(mkdir(under(fake, "memory", "", ""), 0755) == 0);
    CHECK(mkdir(under(fake, "pids", "", ""), 0755) == 0);
    CHECK(mkdir(under(fake, "memory", "sandboxer-sbx_test", ""), 0755) == 0);
    CHECK(mkdir(under(fake, "pids", "sandboxer-sbx_test", ""), 0755) == 0);
    put(under(fake, "memory", "sandboxer-sbx_test", "file"), "in the way");
    cgroup_host_open(&h, fake, NULL);
    CHECK_INT(cgroup_remove(&h, "sbx_test"), 1);
    CHECK(!there(under(fake, "pids", "sandboxer-sbx_test", "")));
    CHECK(unlink(under(fake, "memory", "sandboxer-sbx_test", "file")) == 0);
    CHECK_INT(cgroup_remove(&h, "sbx_test"), 0);
    CHECK_INT(cgroup_remove(&h, "sbx_test"), 0); /* gone is gone */
    cgroup_host_done(&h);
    remove_fake();
}

/* Old, empty and ours: only what is all three goes. */
TEST(a_sweep_removes_what_nobody_will)
{
    static const struct {
        const char *name;
        bool old, filled, stays;
    } groups[] = {
        { "sandboxer-sbx_old", true, false, false },
        { "sandboxer-sbx_new", false, false, true },
        { "sandboxer-sbx_full", true, true, true },
        { "sandboxer-fe01.2a-sbx_old", true, false, false },
        { "sandboxer-fe01.2a-sbx_new", false, false, true },
        { "sandboxer-fe01.2a", true, false, false },
        { "sandboxer-a-b-sbx_old", true, false, true },
        { "somebody-elses", true, false, true },
    };
    struct timespec long_ago[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    struct cgroup_host h;

    make_fake();
    CHECK(mkdir(under(fake, "pids", "", ""), 0755) == 0);
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        CHECK(mkdir(under(fake, "pids", groups[i].name, ""), 0755) == 0);
        if (groups[i].filled)
            put(under(fake, "pids", groups[i].name, "file"), "x");
        if (groups[i].old)
            CHECK(utimensat(AT_FDCWD, under(fake, "pids", groups[i].name, ""), long_ago, 0) == 0);
    }
    cgroup_host_open(&h, fake, NULL);
    cgroup_sweep(&h);
    for (size_t i = 0; i < COUNT_OF(groups); i++)
        if (there(under(fake, "pids", groups[i].name, "")) != groups[i].stays)
            FAIL("%s", groups[i].name);
    cgroup_host_done(&h);
    remove_fake();
}

TEST(tags_are_words_without_a_dash)
{
    CHECK(cgroup_tag_valid("a") && cgroup_tag_valid("fe01.2a3b4c"));
    CHECK(!cgroup_tag_valid("") && !cgroup_tag_valid("a-b") && !cgroup_tag_valid("a/b"));
    CHECK(!cgroup_tag_valid("A") && !cgroup_tag_valid("a\n"));
    CHECK(cgroup_tag_valid("0123456789012345678901234567890"));
    CHECK(!cgroup_tag_valid("01234567890123456789012345678901"));
}

TEST(groups_of_another_tag_are_not_found)
{
    static const char *const tags[] = { "a", "b", NULL };
    static const char *const names[] = { "sandboxer-a-sbx_test", "sandboxer-b-sbx_test",
                                         "sandboxer-sbx_test" };
    struct cgroup_host h;

    make_fake();
    CHECK(mkdir(under(fake, "memory", "", ""), 0755) == 0);
    for (size_t i = 0; i < COUNT_OF(tags); i++)
        CHECK(mkdir(under(fake, "memory", names[i], ""), 0755) == 0);
    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        cgroup_host_open(&h, fake, tags[i]);
        CHECK_INT(cgroup_remove(&h, "sbx_test"), 0);
        cgroup_host_done(&h);
        for (size_t k = 0; k < COUNT_OF(tags); k++)
            CHECK_INT(there(under(fake, "memory", names[k], "")), k > i);
    }
    remove_fake();
}

/* for real */

static char id[ID_MAX];

static void open_real(struct cgroup_host *h)
{
    struct err e;

    if (geteuid() != 0)
        SKIP("control groups of this machine belong to root");
    cgroup_host_open(h, real, NULL);
    CHECK_OK(id_make("sbx_", id, &e), e);
}

/* The file of our group, in the v1 hierarchy of that name. */
static const char *real_file(const char *hierarchy, const char *file)
{
    static char name[64];

    snprintf(name, sizeof name, "sandboxer-%s", id);
    return under(real, hierarchy, name, file);
}

TEST(limits_land_in_the_files)
{
    struct cgroup_host h;
    unsigned missing = 77;
    struct cgroup g;
    struct err e;

    open_real(&h);
    if (h.legacy[CGROUP_MEMORY] < 0 || h.legacy[CGROUP_PIDS] < 0 || h.legacy[CGROUP_CPU] < 0)
        SKIP("this machine has not all v1 hierarchies");
    CHECK_OK(make_limited(&h, id, &limits, &g, &missing, &e), e);
    CHECK_INT(missing, 0);
    CHECK_STR(get(real_file("memory", "memory.limit_in_bytes")), "67108864");
    CHECK_STR(get(real_file("pids", "pids.max")), "33");
    CHECK_STR(get(real_file("cpu", "cpu.cfs_period_us")), "100000");
    CHECK_STR(get(real_file("cpu", "cpu.cfs_quota_us")), "25000");
    CHECK_INT(make_limited(&h, id, &limits, &g, &missing, &e), -ERR_SYS); /* the same name again */
    CHECK_INT(e.sys, EEXIST);
    cgroup_close(&g);
    CHECK_INT(cgroup_remove(&h, id), 0);
    CHECK(!there(real_file("memory", "")) && !there(real_file("unified", "")));
    cgroup_host_done(&h);
}

TEST(groups_are_made_only_for_limits)
{
    struct cgroup_limits pids_only = { .pids = 20 };
    struct cgroup_host h;
    unsigned missing;
    struct cgroup g;
    struct err e;

    open_real(&h);
    if (h.legacy[CGROUP_PIDS] < 0 || h.legacy[CGROUP_MEMORY] < 0)
        SKIP("this machine has no v1 hierarchies");
    CHECK_OK(make_limited(&h, id, &pids_only, &g, &missing, &e), e);
    CHECK(there(real_file("pids", "")) && !there(real_file("memory", "")));
    CHECK(g.tasks[CGROUP_PIDS] >= 0 && g.tasks[CGROUP_MEMORY] == -1);
    cgroup_close(&g);
    CHECK_INT(cgroup_remove(&h, id), 0);
    cgroup_host_done(&h);
}

/* A child in all groups of a sandbox, as building one puts it there. */
static pid_t start_member(const struct cgroup *g)
{
    pid_t pid = fork();
    struct err e;

    CHECK(pid >= 0);
    if (pid == 0) {
        if (cgroup_join(g, &e) < 0)
            _exit(1);
        if (g->unified >= 0) {
            int procs = openat(g->unified, "cgroup.procs", O_WRONLY | O_CLOEXEC);

            if (procs < 0 || write(procs, "0", 1) != 1)
                _exit(1);
        }
        for (;;)
            pause();
    }
    return pid;
}

static void await_member(const char *hierarchy, pid_t pid)
{
    char want[16];

    snprintf(want, sizeof want, "%d", (int)pid);
    for (int i = 0; i < 1000; i++) {
        if (str_eq(get(real_file(hierarchy, "cgroup.procs")), str_from(want)))
            return;
        usleep(2000);
    }
    FAIL("process %d did not join %s", (int)pid, hierarchy);
}

TEST(processes_join_and_are_killed_together)
{
    struct cgroup_usage usage;
    struct cgroup_host h;
    unsigned missing;
    struct cgroup g;
    struct err e;
    int status;
    pid_t pid;

    open_real(&h);
    if (h.unified < 0 || h.legacy[CGROUP_PIDS] < 0 || h.legacy[CGROUP_MEMORY] < 0)
        SKIP("this machine is not a hybrid one");
    CHECK_OK(make_limited(&h, id, &limits, &g, &missing, &e), e);
    pid = start_member(&g);
    await_member("unified", pid);
    await_member("pids", pid);
    await_member("memory", pid);
    cgroup_kill(&h, id);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cgroup_read(&h, id, &usage);
    CHECK_INT(usage.oom_kills, 0);
    cgroup_close(&g);
    CHECK_INT(cgroup_remove(&h, id), 0);
    cgroup_host_done(&h);
}

TEST(removal_waits_for_the_dying_but_not_for_the_living)
{
    struct cgroup_host h;
    unsigned missing;
    struct cgroup g;
    struct err e;
    pid_t pid;

    open_real(&h);
    if (h.unified < 0)
        SKIP("this machine has no cgroup2");
    CHECK_OK(make_limited(&h, id, &limits, &g, &missing, &e), e);
    pid = start_member(&g);
    await_member("unified", pid);
    CHECK(cgroup_remove(&h, id) > 0);
    cgroup_kill(&h, id);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK_INT(cgroup_remove(&h, id), 0);
    cgroup_close(&g);
    cgroup_host_done(&h);
}
