/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static int root = -1; /* a new tmpfs, in namespaces of our own */

static void write_text(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void enter_namespaces(void)
{
    unsigned uid = geteuid(), gid = getegid();
    char map[32];

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        SKIP("no user namespace to be had: %s", strerror(errno));
    write_text("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid);
    write_text("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", gid);
    write_text("/proc/self/gid_map", map);
}

/* With a directory, a file, and links to both and to outside. */
static void open_root(void)
{
    int tree = -1;
    struct err e;

    enter_namespaces();
    CHECK_OK(mounts_make("tmpfs",
                         (const struct mount_option[]){ { "mode", "0755" }, { NULL, NULL } }, 0,
                         &tree, &e),
             e);
    CHECK(sys_move_mount(tree, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH) == 0);
    root = tree;
    CHECK(mkdirat(root, "dir", 0755) == 0 && mkdirat(root, "dir/sub", 0755) == 0);
    CHECK(symlinkat("dir", root, "link") == 0 && symlinkat("/etc", root, "out") == 0);
    CHECK(symlinkat("/no/such/place", root, "dangling") == 0);
    close(openat(root, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

static bool is_dir(const char *path)
{
    struct stat st;

    return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

TEST(directories_are_placed_with_their_parents)
{
    struct stat st;
    struct err e;

    open_root();
    CHECK_OK(mounts_place_dir(root, "/a/b/c", 0700, &e), e);
    CHECK_OK(mounts_place_dir(root, "/a/b/c", 0755, &e), e); /* what is there stays */
    CHECK(fstatat(root, "a/b/c", &st, 0) == 0 && st.st_mode == (S_IFDIR | 0700));
    CHECK(fstatat(root, "a/b", &st, 0) == 0 && st.st_mode == (S_IFDIR | 0755));
    CHECK_OK(mounts_place_dir(root, "dir/sub/new", 0755, &e), e);
    CHECK(is_dir("dir/sub/new"));
}

TEST(a_link_on_the_way_is_refused_and_named)
{
    static const struct {
        const char *path, *name;
        int want;
    } cases[] = {
        { "/link", "'link'", -ERR_DENIED },
        { "/link/new", "'link'", -ERR_DENIED },
        { "/out/new", "'out'", -ERR_DENIED },
        { "/dir/../out/x", "..", -ERR_SYS },
        { "/dangling/x", "'dangling'", -ERR_DENIED },
        { "/file", "'file'", -ERR_DENIED },
        { "/file/x", "'file'", -ERR_DENIED },
        { "/..", "..", -ERR_SYS },
        { "/a//b", "/a//b", -ERR_SYS },
        { "", "", -ERR_SYS },
    };

    open_root();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = { 0 };
        int r = mounts_place_dir(root, cases[i].path, 0755, &e);

        if (r != cases[i].want || !strstr(e.msg, cases[i].name))
            FAIL("'%s' gives %d: %s", cases[i].path, r, e.msg);
    }
    CHECK(!is_dir("dir/new") && access("/etc/new", F_OK) < 0);
}

TEST(a_name_longer_than_names_are)
{
    char path[300];
    struct err e;

    open_root();
    snprintf(path, sizeof path, "/%0256d/x", 0);
    CHECK_INT(mounts_place_dir(root, path, 0755, &e), -ERR_TOO_BIG);
    CHECK_INT(mounts_place_file(root, path, &e), -ERR_TOO_BIG);
}

TEST(files_are_placed_and_never_through_a_link)
{
    struct stat st;
    struct err e;

    open_root();
    CHECK_OK(mounts_place_file(root, "/a/b/file", &e), e);
    CHECK(fstatat(root, "a/b/file", &st, 0) == 0 && S_ISREG(st.st_mode) && st.st_size == 0);
    CHECK_OK(mounts_place_file(root, "/a/b/file", &e), e);
    CHECK_INT(mounts_place_file(root, "/out/file", &e), -ERR_DENIED);
    CHECK_INT(mounts_place_file(root, "/file/x", &e), -ERR_DENIED);
    CHECK_OK(mounts_place_file(root, "/dangling", &e), e); /* is there; attaching refuses it */
    CHECK(access("/no/such/place", F_OK) < 0);
    CHECK(fstatat(root, "dangling", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode));
}

TEST(finding_follows_no_link)
{
    static const char *const bad[] = { "link", "link/sub", "out", "out/passwd", "dangling" };
    struct err e;
    int fd = -1;

    open_root();
    CHECK_OK(mounts_find(root, "dir/sub", &fd, &e), e);
    CHECK(fcntl(fd, F_GETFL) & O_PATH);
    CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK_OK(mounts_find(root, "/file", &fd, &e), e);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        fd = 77;
        if (mounts_find(root, bad[i], &fd, &e) != -ERR_DENIED || fd != 77)
            FAIL("'%s' is found", bad[i]);
        CHECK(strstr(e.msg, bad[i]));
    }
    CHECK_INT(mounts_find(root, "none", &fd, &e), -ERR_SYS);
    CHECK_INT(e.sys, ENOENT);
    CHECK_OK(mounts_find(root, "../../dir", &fd, &e), e); /* our root is the top */
}

static int make_tree(uint64_t attributes)
{
    int tree = -1;
    struct err e;

    CHECK_OK(mounts_make("tmpfs", NULL, attributes, &tree, &e), e);
    return tree;
}

TEST(mounts_are_attached_where_they_belong)
{
    struct err e;
    struct stat st;
    int tree;

    open_root();
    tree = make_tree(0);
    CHECK(mkdirat(tree, "inside", 0755) == 0);
    CHECK_OK(mounts_attach(tree, root, "dir/sub", &e), e);
    CHECK(stat("/mnt/dir/sub/inside", &st) == 0);
}

TEST(mounts_are_not_attached_through_links)
{
    static const char *const bad[] = { "link", "link/sub", "out", "dangling" };
    struct err e;

    open_root();
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (mounts_attach(make_tree(0), root, bad[i], &e) != -ERR_DENIED)
            FAIL("attached to '%s'", bad[i]);
    CHECK_INT(mounts_attach(make_tree(0), root, "none", &e), -ERR_SYS);
    CHECK_INT(mounts_attach(make_tree(0), root, "file", &e), -ERR_SYS); /* a directory on a file */
}

TEST(a_copy_has_what_is_mounted_in_it)
{
    struct err e;
    struct stat st;
    int tree, copy = -1, again;

    open_root();
    tree = make_tree(0);
    CHECK(mkdirat(tree, "deep", 0755) == 0);
    CHECK_OK(mounts_attach(tree, root, "dir/sub", &e), e);
    CHECK_OK(mounts_copy(root, "dir", &copy, &e), e);
    CHECK(fstatat(copy, "sub/deep", &st, 0) == 0);
    CHECK_INT(fcntl(copy, F_GETFD), FD_CLOEXEC);
    again = openat(root, "dir/sub", O_PATH | O_CLOEXEC);
    CHECK_OK(mounts_copy(again, "", &copy, &e), e);
    CHECK(fstatat(copy, "deep", &st, 0) == 0);
    CHECK_INT(mounts_copy(root, "none", &copy, &e), -ERR_SYS);
}

TEST(restrictions_hold_for_the_whole_tree)
{
    struct statvfs fs;
    struct err e;
    int copy = -1;

    open_root();
    CHECK_OK(mounts_attach(make_tree(0), root, "dir/sub", &e), e);
    CHECK_OK(mounts_copy(root, "dir", &copy, &e), e);
    CHECK_OK(mounts_restrict(
                 copy, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                 -1, &e),
             e);
    CHECK(mkdirat(copy, "new", 0755) < 0 && errno == EROFS);
    CHECK(mkdirat(copy, "sub/new", 0755) < 0 && errno == EROFS);
    CHECK(fstatvfs(copy, &fs) == 0);
    CHECK((fs.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC)) ==
          (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC));
    CHECK(mkdirat(root, "dir/new", 0755) == 0); /* the original is as it was */
}

TEST(attributes_of_a_new_file_system)
{
    int tree;

    open_root();
    tree = make_tree(MOUNT_ATTR_RDONLY);
    CHECK(mkdirat(tree, "new", 0755) < 0 && errno == EROFS);
}

TEST(what_the_kernel_refuses_is_said)
{
    int tree = 77;
    struct err e;

    open_root();
    CHECK_INT(mounts_make("no-such-fs", NULL, 0, &tree, &e), -ERR_SYS);
    CHECK(strstr(e.msg, "no-such-fs"));
    CHECK_INT(
        mounts_make("tmpfs",
                    (const struct mount_option[]){ { "no-such-option", "1" }, { NULL, NULL } }, 0,
                    &tree, &e),
        -ERR_SYS);
    CHECK(strstr(e.msg, "no-such-option"));
    CHECK_INT(tree, 77);
}
