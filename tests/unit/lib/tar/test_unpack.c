/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/unpack.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "harness/tap.h"
#include "lib/proc/sys.h"
#include "scratch.h"

static struct tree_unpack_options options;
static struct tree_report report;
static struct err e;

static int unpack(const struct archive *a, int dest)
{
    int fd = archive_fd(a), r;

    e.msg[0] = '\0';
    r = tree_unpack(fd, dest, &options, &report, &e);
    close(fd);
    return r;
}

/* Ends the archive, unpacks it and expects an error that says something. */
static void refuse(struct archive *a, int dest, int code, const char *says)
{
    int r;

    archive_end(a);
    r = unpack(a, dest);
    if (r != -code || !strstr(e.msg, says))
        FAIL("%d '%s' instead of %d '%s'", r, e.msg, -code, says);
}

static void accept(struct archive *a, int dest)
{
    archive_end(a);
    CHECK_OK(unpack(a, dest), e);
}

TEST(a_small_tree)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();
    struct stat st;

    archive_dir(a, "./");
    archive_dir(a, "./etc/");
    a->mode = 0600;
    archive_file(a, "./etc/secret", "s3cret");
    archive_link(a, '2', "./etc/link", "../../anywhere");
    archive_link(a, '1', "./other", "./etc/secret");
    accept(a, s.dir);
    CHECK_STR(content_of(s.dir, "etc/secret"), "s3cret");
    CHECK_STR(content_of(s.dir, "other"), "s3cret");
    CHECK_STR(target_of(s.dir, "etc/link"), "../../anywhere");
    CHECK_INT(mode_of(s.dir, "etc/secret"), 0600);
    CHECK_INT(mode_of(s.dir, "etc"), 0755);
    CHECK_INT(mode_of(s.dir, "."), 0755);
    CHECK(fstatat(s.dir, "etc", &st, 0) == 0 && st.st_mtime == 1000000000);
    CHECK(fstatat(s.dir, "etc/secret", &st, 0) == 0 && st.st_mtime == 1000000000);
    CHECK_INT(st.st_nlink, 2);
    CHECK(fstatat(s.dir, "etc/link", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime == 1000000000);
    CHECK_INT(report.entries, 5);
    CHECK_INT(report.bytes, 6);
}

TEST(the_destination_keeps_its_attributes_on_request)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_dir(a, "./");
    options.keep_root = true;
    accept(a, s.dir);
    CHECK_INT(mode_of(s.dir, "."), 0777);
}

TEST(parents_need_not_be_named)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, "/a/b/c/file", "x");
    accept(a, s.dir);
    CHECK_STR(content_of(s.dir, "a/b/c/file"), "x");
    CHECK_INT(mode_of(s.dir, "a/b"), 0755);
}

static void dotdot(void)
{
    static const char *const paths[] = { "../out", "a/../../out", "/../out", "a/..", ".." };
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct archive *a = archive_new();

        archive_file(a, paths[i], "x");
        refuse(a, dest, ERR_DENIED, "'..'");
    }
    CHECK(!exists(s.dir, "out"));
}

TEST(dotdot_is_refused)
{
    dotdot();
}

TEST(dotdot_is_refused_for_users_too)
{
    become_user();
    dotdot();
}

/* dest/link leads to the directory outside, one way or the other. */
static void through_links(const char *target)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), outside = make_dir(s.dir, "outside");
    struct archive *a = archive_new();

    make_file(outside, "victim", "safe");
    archive_link(a, '2', "link", target);
    archive_file(a, "link/new", "x");
    refuse(a, dest, ERR_DENIED, "symbolic link");

    a = archive_new();
    archive_link(a, '2', "link", target);
    archive_dir(a, "link/new");
    refuse(a, dest, ERR_DENIED, "symbolic link");

    a = archive_new();
    archive_link(a, '2', "link", target);
    archive_link(a, '1', "stolen", "link/victim");
    refuse(a, dest, ERR_DENIED, "symbolic link");

    a = archive_new(); /* a link to the file itself is replaced, not written through */
    archive_link(a, '2', "victim", "../outside/victim");
    archive_file(a, "victim", "evil");
    accept(a, dest);

    CHECK_STR(content_of(dest, "victim"), "evil");
    CHECK_STR(content_of(outside, "victim"), "safe");
    CHECK(!exists(outside, "new") && !exists(dest, "stolen"));
}

TEST(nothing_is_written_through_links)
{
    through_links("../outside");
}

TEST(nothing_is_written_through_links_for_users_too)
{
    become_user();
    through_links("../outside");
}

TEST(links_inside_are_not_followed_either)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_dir(a, "usr/bin");
    archive_link(a, '2', "bin", "usr/bin");
    archive_file(a, "bin/sh", "x");
    refuse(a, s.dir, ERR_DENIED, "entry 3 'bin/sh'");
}

TEST(hard_links_stay_beneath)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");
    struct archive *a = archive_new();

    make_file(s.dir, "victim", "safe");
    archive_link(a, '1', "stolen", "../victim");
    refuse(a, dest, ERR_DENIED, "hard link to '../victim'");
    a = archive_new();
    archive_link(a, '1', "stolen", "/etc/passwd"); /* that is dest/etc/passwd */
    refuse(a, dest, ERR_NOT_FOUND, "hard link");
    a = archive_new();
    archive_link(a, '1', "stolen", "");
    refuse(a, dest, ERR_INVALID, "hard link");
    a = archive_new();
    archive_link(a, '1', "stolen", ".");
    archive_end(a);
    CHECK(unpack(a, dest) < 0);
    CHECK(!exists(dest, "stolen"));
}

TEST(a_hard_link_to_a_link_is_a_link)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_link(a, '2', "link", "/etc/passwd");
    archive_link(a, '1', "again", "link");
    accept(a, s.dir);
    CHECK_STR(target_of(s.dir, "again"), "/etc/passwd");
}

TEST(a_hard_link_to_itself_keeps_the_file)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, "f", "x");
    archive_link(a, '1', "f", "f");
    accept(a, s.dir);
    CHECK_STR(content_of(s.dir, "f"), "x");
}

TEST(later_entries_replace_earlier_ones)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, "f", "first");
    archive_link(a, '1', "g", "f");
    archive_file(a, "f", "second");
    archive_dir(a, "d");
    archive_file(a, "d", "was a directory");
    archive_file(a, "e", "");
    archive_dir(a, "e");
    archive_link(a, '2', "h", "x");
    archive_link(a, '2', "h", "y");
    accept(a, s.dir);
    CHECK_STR(content_of(s.dir, "f"), "second");
    CHECK_STR(content_of(s.dir, "g"), "first"); /* a new file, not new content */
    CHECK_STR(content_of(s.dir, "d"), "was a directory");
    CHECK_INT(mode_of(s.dir, "e"), 0755);
    CHECK_STR(target_of(s.dir, "h"), "y");
}

TEST(a_full_directory_makes_way_for_nothing)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, "d/f", "");
    archive_link(a, '2', "d", "/etc");
    refuse(a, s.dir, ERR_CONFLICT, "not empty");
    CHECK(exists(s.dir, "d/f"));
}

TEST(a_directory_that_became_a_link_is_left_alone)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), outside = make_dir(s.dir, "outside");
    struct archive *a = archive_new();

    a->mode = 0;
    archive_dir(a, "d");
    archive_link(a, '2', "d", "../outside");
    accept(a, dest);
    CHECK_INT(mode_of(s.dir, "outside"), 0755);
    close(outside);
}

static void read_only_directories(void)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();
    struct stat st;

    a->mode = 0;
    archive_dir(a, "closed");
    archive_dir(a, "closed/inner");
    a->mode = 0444;
    archive_dir(a, "closed/inner/d");
    archive_file(a, "closed/inner/d/f", "x");
    archive_dir(a, "closed/inner/d"); /* twice, and after its content */
    a->mode = 0;
    archive_dir(a, "closed/inner");
    archive_dir(a, "closed");
    accept(a, s.dir);
    CHECK_INT(mode_of(s.dir, "closed"), 0);
    CHECK(fstatat(s.dir, "closed", &st, 0) == 0 && st.st_mtime == 1000000000);
    CHECK(fchmodat(s.dir, "closed", 0700, 0) == 0);
    CHECK_INT(mode_of(s.dir, "closed/inner"), 0);
    CHECK(fchmodat(s.dir, "closed/inner", 0700, 0) == 0);
    CHECK_INT(mode_of(s.dir, "closed/inner/d"), 0555);
    CHECK(fstatat(s.dir, "closed/inner/d", &st, 0) == 0 && st.st_mtime == 1000000000);
}

TEST(directories_are_closed_last)
{
    read_only_directories();
}

TEST(directories_are_closed_last_for_users_too)
{
    become_user();
    read_only_directories();
}

TEST(closed_directories_of_an_earlier_time_are_opened)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    become_user();
    CHECK(mkdirat(s.dir, "d", 0) == 0);
    a->mode = 0444;
    archive_dir(a, "d");
    archive_file(a, "d/f", "x");
    accept(a, s.dir);
    CHECK_INT(mode_of(s.dir, "d"), 0555);
    CHECK_STR(content_of(s.dir, "d/f"), "x");
}

TEST(devices_and_fifos)
{
    static const char types[] = "346";
    struct scratch s = scratch_make();
    struct archive *a;

    for (int i = 0; i < 3; i++) {
        a = archive_new();
        archive_head(a, types[i], "dev/x", "", 0);
        refuse(a, s.dir, ERR_DENIED, "entry 1 'dev/x': it is a ");
    }
    options.devices = options.fifos = TREE_SKIP;
    a = archive_new();
    for (int i = 0; i < 3; i++)
        archive_head(a, types[i], "dev/x", "", 0);
    accept(a, s.dir);
    CHECK_INT(report.devices_skipped, 2);
    CHECK_INT(report.fifos_skipped, 1);
    CHECK_INT(report.entries, 0);
    CHECK(!exists(s.dir, "dev"));
}

TEST(setid_bits)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    a->mode = 06755;
    archive_file(a, "f", "");
    accept(a, s.dir);
    CHECK_INT(mode_of(s.dir, "f"), 0755);
    options.keep_setid = true;
    CHECK_OK(unpack(a, s.dir), e);
    CHECK_INT(mode_of(s.dir, "f"), 06755);
}

static void check_owner(int dir, const char *path, uid_t uid, gid_t gid)
{
    struct stat st;

    CHECK(fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK_INT(st.st_uid, uid);
    CHECK_INT(st.st_gid, gid);
}

static struct archive *owned_archive(void)
{
    struct archive *a = archive_new();

    a->uid = 12;
    a->gid = 42;
    a->mode = 0640;
    archive_dir(a, "d");
    archive_file(a, "d/f", "");
    archive_link(a, '2', "d/l", "f");
    archive_end(a);
    return a;
}

TEST(owners_are_kept_by_root)
{
    struct scratch s = scratch_make();

    need_root();
    options.owners = TREE_OWNERS_KEEP;
    options.keep_setid = true;
    CHECK_OK(unpack(owned_archive(), s.dir), e);
    check_owner(s.dir, "d", 12, 42);
    check_owner(s.dir, "d/f", 12, 42);
    check_owner(s.dir, "d/l", 12, 42);
}

TEST(owners_are_not_kept_by_others)
{
    struct scratch s = scratch_make();

    become_user();
    options.owners = TREE_OWNERS_KEEP;
    CHECK_INT(unpack(owned_archive(), s.dir), -ERR_DENIED);
}

TEST(owners_are_squashed)
{
    struct scratch s = scratch_make();

    become_user();
    CHECK_OK(unpack(owned_archive(), s.dir), e);
    check_owner(s.dir, "d", USER, USER);
    check_owner(s.dir, "d/f", USER, USER);
}

TEST(owners_can_be_required)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    become_user();
    options.owners = TREE_OWNERS_REQUIRE;
    archive_file(a, "of-root", "");
    a->uid = a->gid = USER;
    archive_file(a, "mine", "");
    a->uid = 0;
    a->gid = 42;
    archive_file(a, "etc/shadow", "");
    refuse(a, s.dir, ERR_DENIED, "entry 3 'etc/shadow': belongs to 0:42");
    check_owner(s.dir, "of-root", USER, USER);
}

TEST(limits)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    options.limits = (struct tree_limits){ .entries = 3, .bytes = 10, .depth = 3, .name = 8 };
    archive_file(a, "a/b/f", ""); /* three with its parents */
    archive_file(a, "one-more", "");
    refuse(a, s.dir, ERR_TOO_BIG, "more than 3 files");
    a = archive_new();
    archive_file(a, "f", "12345");
    archive_file(a, "g", "123456");
    refuse(a, s.dir, ERR_TOO_BIG, "more than 10 bytes");
    a = archive_new();
    archive_file(a, "a/b/c/d", "");
    refuse(a, s.dir, ERR_TOO_BIG, "more than 3 components");
    a = archive_new();
    archive_file(a, "123456789", "");
    refuse(a, s.dir, ERR_TOO_BIG, "longer than 8 bytes");
}

TEST(a_huge_size_is_refused_at_once)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_pax(a, "size", "9223372036854775807");
    archive_file(a, "f", "");
    refuse(a, s.dir, ERR_TOO_BIG, "entry 1 'f'");
    CHECK(!exists(s.dir, "f"));
}

TEST(truncated_content_is_an_error)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, "f", "0123456789");
    a->n -= 507;
    CHECK_INT(unpack(a, s.dir), -ERR_INVALID);
    CHECK_STR(str_from(e.msg), "entry 1 'f': the archive is truncated");
}

TEST(names_without_a_name)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, "", "x");
    refuse(a, s.dir, ERR_INVALID, "empty");
    a = archive_new();
    archive_file(a, ".", "x");
    refuse(a, s.dir, ERR_INVALID, "without a name");
    a = archive_new();
    archive_link(a, '2', "/", "x");
    refuse(a, s.dir, ERR_INVALID, "without a name");
    a = archive_new();
    archive_link(a, '2', "l", "");
    refuse(a, s.dir, ERR_INVALID, "points to nothing");
}

TEST(whiteout_names_are_just_names)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, ".wh.x", "");
    archive_file(a, "d/.wh..wh..opq", "");
    accept(a, s.dir);
    CHECK(exists(s.dir, ".wh.x") && exists(s.dir, "d/.wh..wh..opq"));
}

TEST(deep_and_long)
{
    static char path[TREE_PATH_MAX + 2];
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    for (size_t i = 0; i < 2 * TREE_DEPTH_MAX - 1; i++)
        path[i] = i % 2 ? '/' : 'd';
    archive_long(a, 'L', path);
    archive_file(a, "", "deep");
    accept(a, s.dir);
    CHECK_STR(content_of(s.dir, path), "deep");

    a = archive_new();
    memcpy(path + strlen(path), "/x", 3);
    archive_long(a, 'L', path);
    archive_file(a, "", "");
    refuse(a, s.dir, ERR_TOO_BIG, "components");

    a = archive_new();
    memset(path, 'n', 256);
    path[256] = '\0';
    archive_long(a, 'L', path);
    archive_file(a, "", "");
    refuse(a, s.dir, ERR_TOO_BIG, "longer than 255");
}

/* Swaps dest/d with a link to outside until it is killed. */
static pid_t start_swapping(int dest)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    for (;;)
        syscall(SYS_renameat2, dest, "d", dest, "swap", 2 /* RENAME_EXCHANGE */);
}

static void race(void)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), outside = make_dir(s.dir, "outside");
    struct archive *a = archive_new();
    pid_t pid;

    make_file(outside, "victim", "safe");
    make_file(dest, "inside", "x");
    CHECK(symlinkat("../outside", dest, "swap") == 0 && mkdirat(dest, "d", 0755) == 0);
    a->mode = 0604;
    archive_dir(a, "d");
    archive_file(a, "d/victim", "evil");
    archive_link(a, '2', "d/link", "evil");
    archive_dir(a, "d/sub");
    archive_file(a, "d/sub/file", "evil");
    archive_link(a, '1', "d/hard", "inside");
    archive_end(a);
    pid = start_swapping(dest);
    for (int i = 0; i < 2000; i++)
        (void)unpack(a, dest); /* it may fail, but only beneath dest */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK_STR(content_of(outside, "victim"), "safe");
    CHECK_INT(mode_of(outside, "victim"), 0644);
    CHECK_INT(mode_of(s.dir, "outside"), 0755);
    CHECK(!exists(outside, "link") && !exists(outside, "sub") && !exists(outside, "hard"));
}

TEST(a_race_leads_nowhere)
{
    race();
}

TEST(a_race_leads_nowhere_for_users_too)
{
    become_user();
    race();
}

static void from_tar(const char *format)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dst"), fd;

    sample_tree(&s);
    if (!shell("cd %s && tar --format=%s -cf a.tar -C src .", s.path, format))
        SKIP("no tar program that writes %s", format);
    fd = openat(s.dir, "a.tar", O_RDONLY | O_CLOEXEC);
    CHECK_OK(
        tree_unpack(fd, dest, &(struct tree_unpack_options){ .keep_setid = true }, &report, &e), e);
    CHECK(same_trees(&s, "src", "dst"));
}

TEST(what_tar_packs_as_pax)
{
    from_tar("pax");
}

TEST(what_tar_packs_as_gnu)
{
    from_tar("gnu");
}

TEST(what_tar_packs_for_users)
{
    become_user();
    from_tar("gnu");
}

TEST(what_tar_packs_as_ustar)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dst"), fd;

    CHECK(shell("cd %s && d=$(printf '%%090d' 1) && mkdir -p src/$d/$d && echo hi >src/$d/$d/f",
                s.path)); /* the prefix is needed */
    if (!shell("cd %s && tar --format=ustar -cf a.tar -C src .", s.path))
        SKIP("no tar program");
    fd = openat(s.dir, "a.tar", O_RDONLY | O_CLOEXEC);
    CHECK_OK(tree_unpack(fd, dest, &options, &report, &e), e);
    CHECK(same_trees(&s, "src", "dst"));
}

TEST(sparse_archives_are_refused)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dst"), fd;

    if (!shell("cd %s && truncate -s 10M hole && tar --sparse -cf a.tar hole", s.path))
        SKIP("no tar program that knows sparse files");
    fd = openat(s.dir, "a.tar", O_RDONLY | O_CLOEXEC);
    CHECK_INT(tree_unpack(fd, dest, &options, &report, &e), -ERR_UNSUPPORTED);
}

/* --- layers of images --- */

static bool is_hidden(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
           st.st_rdev == 0;
}

static bool is_opaque(const struct scratch *s, const char *path)
{
    char full[128], value[2] = "";

    snprintf(full, sizeof full, "%s/%s", s->path, path);
    return getxattr(full, "user.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y';
}

static void whiteouts(void)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    options.whiteouts = true;
    archive_dir(a, "d/");
    archive_file(a, "d/.wh.gone", "");
    archive_file(a, "d/.wh..wh..opq", "");
    archive_file(a, ".wh..wh.plnk", "");
    archive_file(a, ".wh.back", "");
    archive_dir(a, "back/");
    archive_dir(a, "first/");
    archive_file(a, ".wh.first", "");
    archive_file(a, "kept", "x");
    archive_file(a, ".wh.kept", "");
    accept(a, s.dir);
    CHECK(is_hidden(s.dir, "d/gone"));
    CHECK(!exists(s.dir, "d/.wh.gone") && !exists(s.dir, ".wh..wh.plnk"));
    CHECK(is_opaque(&s, "d"));
    CHECK(is_opaque(&s, "back") && is_opaque(&s, "first")); /* one that was made anew */
    CHECK_STR(content_of(s.dir, "kept"), "x");
}

TEST(whiteouts_hide_what_is_below)
{
    whiteouts();
}

TEST(whiteouts_hide_what_is_below_for_a_user)
{
    become_user();
    whiteouts();
}

TEST(whiteouts_hide_no_other_directory)
{
    static const char *const paths[] = { ".wh.", ".wh..", ".wh..." };
    struct scratch s = scratch_make();

    options.whiteouts = true;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct archive *a = archive_new();

        archive_file(a, paths[i], "");
        refuse(a, s.dir, ERR_INVALID, "hides no name");
    }
}

TEST(whiteouts_are_names_elsewhere)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, ".wh.x", "y");
    accept(a, s.dir);
    CHECK_STR(content_of(s.dir, ".wh.x"), "y");
}

/* "name=value;" of each that there is. */
static void check_attributes(int dir, const char *path, const char *want)
{
    char names[512], value[64], got[512] = "";
    int fd = openat(dir, path, O_RDONLY);
    ssize_t n = flistxattr(fd, names, sizeof names), k;
    size_t at = 0;

    CHECK(fd >= 0 && n >= 0);
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        k = fgetxattr(fd, name, value, sizeof value);
        CHECK(k >= 0);
        at += (size_t)snprintf(got + at, sizeof got - at, "%s=%.*s;", name, (int)k, value);
    }
    close(fd);
    CHECK_STR(str_from(got), want);
}

TEST(attributes_of_overlays_are_not_taken_from_archives)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    options.whiteouts = options.attributes = true;
    archive_pax(a, "SCHILY.xattr.user.overlay.opaque", "y");
    archive_dir(a, "d/");
    archive_pax(a, "SCHILY.xattr.trusted.overlay.redirect", "/etc");
    archive_dir(a, "r/");
    accept(a, s.dir);
    CHECK(!is_opaque(&s, "d"));
    check_attributes(s.dir, "r", "");
}

TEST(attributes_that_mean_nothing_to_the_kernel_are_kept)
{
    static const char *const ignored[] = { "user.overlay.overlay.x",
                                           "trusted.x",
                                           "security.capability",
                                           "security.selinux",
                                           "system.posix_acl_access",
                                           "user",
                                           "" };
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    options.attributes = true;
    archive_pax(a, "SCHILY.xattr.user.note", "a=b");
    archive_file(a, "f", "content");
    archive_pax(a, "SCHILY.xattr.user.empty", "");
    archive_dir(a, "d/");
    archive_pax(a, "SCHILY.xattr.user.root", "r");
    archive_dir(a, "./");
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        char key[64], name[8];

        snprintf(key, sizeof key, "SCHILY.xattr.%s", ignored[i]);
        snprintf(name, sizeof name, "i%zu", i);
        archive_pax(a, key, "v");
        archive_file(a, name, "");
    }
    archive_file(a, "none", ""); /* what was said of an entry before is not said of this */
    archive_pax(a, "SCHILY.xattr.user.link", "l");
    archive_link(a, '2', "l", "f");
    accept(a, s.dir);
    check_attributes(s.dir, "f", "user.note=a=b;");
    check_attributes(s.dir, "d", "user.empty=;");
    check_attributes(s.dir, ".", "user.root=r;");
    check_attributes(s.dir, "none", "");
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        char name[8];

        snprintf(name, sizeof name, "i%zu", i);
        check_attributes(s.dir, name, "");
    }
}

TEST(attributes_are_kept_on_request_only)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_pax(a, "SCHILY.xattr.user.note", "x");
    archive_file(a, "f", "");
    accept(a, s.dir);
    check_attributes(s.dir, "f", "");
}

TEST(attributes_with_impossible_names_are_refused)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();
    char key[300];

    options.attributes = true;
    memset(key, 'x', sizeof key);
    memcpy(key, "SCHILY.xattr.user.", 18);
    key[sizeof key - 1] = '\0';
    archive_pax(a, key, "x");
    archive_file(a, "f", "");
    refuse(a, s.dir, ERR_INVALID, "more than 255 bytes");
}

TEST(owners_beyond_the_ids_of_a_sandbox_are_refused)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    need_root();
    options.owners = TREE_OWNERS_KEEP;
    options.ids = 65536;
    a->uid = 65535;
    archive_file(a, "good", "");
    a->uid = 65536;
    archive_file(a, "bad", "");
    refuse(a, s.dir, ERR_INVALID, "ids go up to 65535");
}
