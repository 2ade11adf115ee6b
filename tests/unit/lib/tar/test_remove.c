/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/remove.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/tap.h"
#include "lib/proc/sys.h"
#include "scratch.h"
#include "lib/tar/tree.h"

static struct err e;

TEST(files_links_and_trees)
{
    struct scratch s = scratch_make();

    sample_tree(&s);
    make_file(s.dir, "f", "");
    CHECK(symlinkat("f", s.dir, "link") == 0);
    CHECK_OK(tree_remove(s.dir, "link", &e), e);
    CHECK(exists(s.dir, "f") && !exists(s.dir, "link"));
    CHECK_OK(tree_remove(s.dir, "f", &e), e);
    CHECK_OK(tree_remove(s.dir, "src", &e), e);
    CHECK(!exists(s.dir, "src"));
}

TEST(only_names_can_be_removed)
{
    static const char *const bad[] = { "", ".", "..", "a/b", "/", "/etc", "a/" };
    struct scratch s = scratch_make();

    make_dir(s.dir, "a");
    make_file(s.dir, "a/b", "");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_INT(tree_remove(s.dir, bad[i], &e), -ERR_INVALID);
    CHECK(exists(s.dir, "a/b"));
    CHECK_INT(tree_remove(s.dir, "nothing", &e), -ERR_NOT_FOUND);
}

TEST(links_are_not_followed)
{
    struct scratch s = scratch_make();

    make_dir(s.dir, "outside");
    make_file(s.dir, "outside/f", "");
    make_dir(s.dir, "d");
    CHECK(symlinkat("../outside", s.dir, "d/link") == 0);
    CHECK(symlinkat("outside", s.dir, "link") == 0);
    CHECK_OK(tree_remove(s.dir, "d", &e), e);
    CHECK_OK(tree_remove(s.dir, "link", &e), e);
    CHECK(exists(s.dir, "outside/f"));
}

TEST(directories_that_keep_their_owner_out)
{
    static const mode_t modes[] = { 0, 0100, 0200, 0400, 0500, 0300, 0600 };
    struct scratch s = scratch_make();

    become_user();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        make_dir(s.dir, "d");
        make_dir(s.dir, "d/inner");
        make_file(s.dir, "d/inner/f", "");
        CHECK(fchmodat(s.dir, "d/inner", modes[i], 0) == 0 &&
              fchmodat(s.dir, "d", modes[i], 0) == 0);
        CHECK_OK(tree_remove(s.dir, "d", &e), e);
        CHECK(!exists(s.dir, "d"));
    }
}

TEST(what_belongs_to_others_stays)
{
    struct scratch s = scratch_make();

    need_root();
    make_dir(s.dir, "d");
    make_file(s.dir, "d/f", "");
    become_user();
    CHECK_INT(tree_remove(s.dir, "d", &e), -ERR_SYS);
    CHECK(exists(s.dir, "d/f"));
}

static void very_deep(void)
{
    const struct rlimit few = { TREE_DEPTH_MAX + 20, TREE_DEPTH_MAX + 20 };
    struct scratch s = scratch_make();
    int dir = make_dir(s.dir, "deep");

    make_file(dir, ".deep-0", "in the way");
    for (int i = 0; i < 5000; i++) {
        int next = make_dir(dir, "d");

        if (i % 100 == 0) {
            make_file(dir, "file", "");
            make_dir(dir, "side");
            make_dir(dir, "side/by-side");
        }
        close(dir);
        dir = next;
    }
    close(dir);
    for (int fd = 3; fd < 300;
         fd++) /* what make_dir() left open, and the pipes of the harness not */
        if (fd != s.dir && fcntl(fd, F_GETFD) >= 0 && lseek(fd, 0, SEEK_CUR) >= 0)
            close(fd);
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK_OK(tree_remove(s.dir, "deep", &e), e);
    CHECK(!exists(s.dir, "deep"));
}

TEST(very_deep_trees)
{
    very_deep();
}

TEST(very_deep_trees_of_users)
{
    become_user();
    very_deep();
}

TEST(large_directories)
{
    struct scratch s = scratch_make();

    CHECK(shell("cd %s && mkdir big && cd big && for i in $(seq 600); do mkdir -p "
                "a-rather-long-name-to-fill-the-buffer-$i/sub; : >file-$i; done",
                s.path));
    CHECK_OK(tree_remove(s.dir, "big", &e), e);
    CHECK(!exists(s.dir, "big"));
}

TEST(mounts_are_left_alone)
{
    struct scratch s;
    int at;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("cannot mount here");
    s = scratch_make();
    make_dir(s.dir, "d");
    at = make_dir(s.dir, "d/mnt");
    CHECK(fchdir(at) == 0 && mount("none", ".", "tmpfs", 0, NULL) == 0 && fchdir(s.dir) == 0);
    make_file(s.dir, "d/mnt/precious", "");
    CHECK_INT(tree_remove(s.dir, "d", &e), -ERR_BUSY);
    CHECK(strstr(e.msg, "mounted"));
    CHECK(exists(s.dir, "d/mnt/precious"));
    CHECK(umount2("d/mnt", MNT_DETACH) == 0);
    CHECK_OK(tree_remove(s.dir, "d", &e), e);
}

/* Swaps tree/d with a link to outside, again and again. */
static pid_t start_swapping(int dir)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    for (;;) {
        mkdirat(dir, "tree", 0755);
        mkdirat(dir, "tree/d", 0755);
        symlinkat("../outside", dir, "tree/swap");
        close(openat(dir, "tree/d/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        for (int i = 0; i < 10; i++)
            syscall(SYS_renameat2, dir, "tree/d", dir, "tree/swap", 2 /* RENAME_EXCHANGE */);
    }
}

static void race(void)
{
    struct scratch s = scratch_make();
    pid_t pid;

    make_dir(s.dir, "outside");
    make_file(s.dir, "outside/precious", "");
    make_dir(s.dir, "outside/dir");
    pid = start_swapping(s.dir);
    for (int i = 0; i < 5000; i++)
        (void)tree_remove(s.dir, "tree", &e); /* the other one may win */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(exists(s.dir, "outside/precious") && exists(s.dir, "outside/dir"));
    if (exists(s.dir, "tree"))
        CHECK_OK(tree_remove(s.dir, "tree", &e), e);
}

TEST(a_race_removes_nothing_outside)
{
    race();
}

TEST(a_race_removes_nothing_outside_for_users_too)
{
    become_user();
    race();
}
