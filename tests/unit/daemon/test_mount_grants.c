/* SPDX-License-Identifier: Apache-2.0 */
/* What a client can grant as mounts, and what becomes of a grant when its files change. */
#include "daemon/mount_grants.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/lib/tar/scratch.h"
#include "base/own.h"
#include "harness/tap.h"

enum { OTHER = 61999 };

static struct err e;
static struct scratch s;
static struct launcher_options options;
static struct client_doors doors;
static struct grants g;
static struct client client;

static void set_up(void)
{
    s = scratch_make();
    CHECK(fchmodat(s.dir, ".", 0755, 0) == 0);
    make_dir(s.dir, "grants");
    make_dir(s.dir, "src");
    make_file(s.dir, "one", "1");
    g = (struct grants){ openat(s.dir, "grants", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &options,
                         &doors };
    client = (struct client){ .uid = geteuid(), .gid = getegid() };
    CHECK(g.dir >= 0);
}

static void add_mount(struct handover *h, const char *path, const char *target, bool writable)
{
    struct handover_file f = { .use = HANDOVER_MOUNT, .writable = writable };
    int fd = openat(s.dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    snprintf(f.target, sizeof f.target, "%s", target);
    CHECK(fd >= 0);
    CHECK_OK(handover_add(h, &fd, &f, &e), e);
}

/* Of one mount, that is wanted as it is handed over. */
static int grant_mount(const char *sandbox, const char *path, bool writable)
{
    struct handover h AUTO(handover_done) = { .n = 0 };

    add_mount(&h, path, "/x", writable);
    return mount_grants_make(&g, sandbox, &client, &h, &(struct mount_want){ 1, writable }, &e);
}

static int open_grant(const char *sandbox)
{
    struct granted got AUTO(granted_done) = { .n = 0 };

    return mount_grants_open(&g, sandbox, &got, &e);
}

TEST(mounts_are_opened_again_as_they_were_granted)
{
    struct handover h AUTO(handover_done) = { .n = 0 };
    struct granted got AUTO(granted_done) = { .n = 0 };

    set_up();
    add_mount(&h, "src", "/src", true);
    add_mount(&h, "one", "/one", true);
    CHECK_OK(mount_grants_make(&g, "sbx_1", &client, &h, &(struct mount_want){ 2, 1 }, &e), e);
    CHECK_OK(mount_grants_open(&g, "sbx_1", &got, &e), e);
    CHECK(got.n == 2 && got.uid == geteuid() && got.gid == getegid());
    CHECK_STR(str_from(got.id), "sbx_1");
    CHECK_STR(str_from(got.file[1].target), "/one");
    CHECK(got.file[0].writable && got.file[0].is_dir);
    CHECK(!got.file[1].writable && !got.file[1].is_dir); /* the request asks for less */
    CHECK_OK(mount_grants_remove(&g, "sbx_1", &e), e);
    CHECK_INT(open_grant("sbx_1"), -ERR_NOT_FOUND);
    CHECK_OK(mount_grants_remove(&g, "sbx_1", &e), e);
}

TEST(a_request_has_the_mounts_that_the_client_handed_over)
{
    struct handover h AUTO(handover_done) = { .n = 0 };

    set_up();
    CHECK_INT(mount_grants_make(&g, "sbx_1", &client, &h, &(struct mount_want){ 0, 0 }, &e),
              -ERR_DENIED);
    add_mount(&h, "src", "/src", false);
    for (uint32_t n = 0; n < 3; n += 2)
        CHECK_INT(mount_grants_make(&g, "sbx_1", &client, &h, &(struct mount_want){ n, 0 }, &e),
                  -ERR_DENIED);
    CHECK_INT(open_grant("sbx_1"), -ERR_NOT_FOUND);
    /* The client decides whether it is written to. */
    CHECK_OK(mount_grants_make(&g, "sbx_1", &client, &h, &(struct mount_want){ 1, 1 }, &e), e);
    {
        struct granted got AUTO(granted_done) = { .n = 0 };

        CHECK_OK(mount_grants_open(&g, "sbx_1", &got, &e), e);
        CHECK(!got.file[0].writable);
    }
    CHECK_INT(grant_mount("../sbx_1", "src", false), -ERR_INVALID);
    CHECK_INT(open_grant("../sbx_1"), -ERR_INVALID);
}

TEST(a_check_leaves_no_record)
{
    set_up();
    CHECK_OK(grant_mount(NULL, "src", true), e);
    CHECK_INT(open_grant("sbx_1"), -ERR_NOT_FOUND);
}

TEST(a_file_that_was_replaced_is_not_opened)
{
    set_up();
    CHECK_OK(grant_mount("sbx_1", "src", false), e);
    CHECK(renameat(s.dir, "src", s.dir, "moved") == 0);
    CHECK_INT(open_grant("sbx_1"), -ERR_NOT_FOUND);
    CHECK(strstr(e.msg, "/src"));
    make_dir(s.dir, "src");
    CHECK_INT(open_grant("sbx_1"), -ERR_CONFLICT);
    CHECK(strstr(e.msg, "/src"));
    CHECK(unlinkat(s.dir, "src", AT_REMOVEDIR) == 0 && symlinkat("moved", s.dir, "src") == 0);
    CHECK_INT(open_grant("sbx_1"), -ERR_DENIED);
    CHECK(unlinkat(s.dir, "src", 0) == 0 && renameat(s.dir, "moved", s.dir, "src") == 0);
    CHECK_OK(open_grant("sbx_1"), e);
}

TEST(a_directory_above_that_became_a_link_is_not_followed)
{
    set_up();
    make_dir(s.dir, "src/deep");
    CHECK_OK(grant_mount("sbx_1", "src/deep", false), e);
    CHECK(renameat(s.dir, "src", s.dir, "moved") == 0 && symlinkat("moved", s.dir, "src") == 0);
    CHECK_INT(open_grant("sbx_1"), -ERR_DENIED);
}

TEST(only_directories_and_regular_files_are_granted)
{
    set_up();
    CHECK(mkfifoat(s.dir, "pipe", 0600) == 0);
    CHECK_INT(grant_mount("sbx_1", "pipe", false), -ERR_INVALID);
    CHECK_OK(grant_mount("sbx_1", "one", false), e);
    CHECK(unlinkat(s.dir, "one", 0) == 0 && mkfifoat(s.dir, "one", 0600) == 0);
    CHECK_INT(open_grant("sbx_1"), -ERR_INVALID);
}

TEST(a_client_grants_with_its_own_rights)
{
    if (geteuid() != 0)
        return;
    set_up();
    client = (struct client){ .uid = OTHER, .gid = OTHER };
    CHECK_INT(grant_mount("sbx_1", "src", false), -ERR_DENIED); /* root's, which all may read */
    CHECK(strstr(e.msg, "belongs to root"));
    CHECK(fchownat(s.dir, "src", OTHER + 1, OTHER + 1, 0) == 0);
    CHECK_OK(grant_mount("sbx_1", "src", false), e);
    CHECK_INT(grant_mount("sbx_1", "src", true), -ERR_DENIED);
    CHECK(fchmodat(s.dir, "src", 0700, 0) == 0);
    CHECK_INT(grant_mount("sbx_1", "src", false), -ERR_DENIED);
    CHECK_INT(open_grant("sbx_1"), -ERR_DENIED); /* rights that it has lost */
    CHECK(fchownat(s.dir, "src", OTHER, OTHER, 0) == 0);
    CHECK_OK(grant_mount("sbx_1", "src", true), e);
    CHECK(access(s.path, W_OK) == 0 &&
          (uid_t)setfsuid((uid_t)-1) == 0); /* its own rights are back */
}

TEST(a_damaged_record_is_an_error)
{
    set_up();
    make_file(s.dir, "grants/sbx_1.mounts", "MNTS and something else");
    CHECK_INT(open_grant("sbx_1"), -ERR_INVALID);
    CHECK(strstr(e.msg, "damaged"));
    CHECK_OK(grant_mount("sbx_1", "src", false), e);
    CHECK(fstatat(g.dir, "sbx_1.mounts", &(struct stat){ 0 }, 0) == 0);
    {
        AUTO_CLOSE int fd = openat(g.dir, "sbx_1.mounts", O_WRONLY | O_APPEND | O_CLOEXEC);

        CHECK(write(fd, "x", 1) == 1);
    }
    CHECK_INT(open_grant("sbx_1"), -ERR_INVALID);
}
