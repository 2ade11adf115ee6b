/* SPDX-License-Identifier: Apache-2.0 */
/* A control plane that was taken over shows directories to layer workers, which read with more rights. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "base/own.h"
#include "scratch.h"

#define NAME "lay_0123456789abcdefghjk"
#define BOX  "sbx_0123456789abcdefghjk"

static char changes[4096]; /* of the last DIFF or COMPARE */

static struct layers_said show_dir(int storage, enum layers_kind kind, int dir)
{
    AUTO_CLOSE int file = memfd_create("changes", MFD_CLOEXEC);
    int fds[] = { dir, file };
    struct layers_said said;
    ssize_t n;
    bool has_file = kind == LAYERS_DIFF || kind == LAYERS_COMPARE;
    struct layers_job job;

    layers_job_fill(&job, kind, has_file || kind == LAYERS_IMPORT ? NULL : NAME);
    job.entries_max = 100;
    scratch_untrusted = true;
    said = scratch_do(storage, &job, fds, has_file ? 2 : 1);
    n = pread(file, changes, sizeof changes, 0);
    memset(changes + (n > 0 ? n : 0), 0, sizeof changes - (size_t)(n > 0 ? n : 0));
    return said;
}

static bool is_told(const char *name)
{
    return memmem(changes, sizeof changes, name, strlen(name));
}

static int make_dir_with_file(int at, const char *path, int flags)
{
    AUTO_CLOSE int dir = -1, file = -1;

    CHECK_INT(mkdirat(at, path, 0755), 0);
    dir = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(dir >= 0);
    file = openat(dir, "file", O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0);
    return openat(at, path, O_DIRECTORY | O_CLOEXEC | flags);
}

TEST(a_directory_of_the_host_is_not_read)
{
    static const enum layers_kind kinds[] = { LAYERS_CAPTURE, LAYERS_DIFF, LAYERS_COMPARE,
                                              LAYERS_FLATTEN };
    int storage = scratch_storage();
    int dirs[] = { make_dir_with_file(storage, "open", O_RDONLY),
                   make_dir_with_file(storage, "path", O_PATH) };

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t j = 0; j < COUNT_OF(dirs); j++) {
            struct layers_said said = show_dir(storage, kinds[i], dirs[j]);

            CHECK_INT(said.r, -ERR_DENIED);
            CHECK(strstr(said.err.msg, "no sandbox writes to"));
            CHECK(!scratch_has(storage, "layers/" NAME));
        }
}

TEST(what_takes_no_directory_is_shown_none)
{
    int storage = scratch_storage(), usr = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK_INT(show_dir(storage, LAYERS_IMPORT, usr).r, -ERR_DENIED);
    CHECK_INT(show_dir(storage, LAYERS_CAPTURE, usr).r, -ERR_DENIED);
}

TEST(layers_are_flattened_on_the_hosts_own_usr)
{
    int storage = scratch_storage(), usr = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct layers_said said = show_dir(storage, LAYERS_FLATTEN, usr);

    CHECK_OK(said.r, said.err);
}

TEST(a_box_on_disk_is_read)
{
    int storage = scratch_storage(), box;
    struct layers_said said;

    CHECK_INT(mkdirat(storage, "boxes", 0700), 0);
    CHECK_INT(mkdirat(storage, "boxes/" BOX, 0700), 0);
    box = make_dir_with_file(storage, "boxes/" BOX "/fs", O_RDONLY);
    said = show_dir(storage, LAYERS_CAPTURE, box);
    CHECK_OK(said.r, said.err);
    CHECK(scratch_has(storage, "layers/" NAME "/fs/file"));
    /* Nothing else that lies there. */
    box = make_dir_with_file(storage, "boxes/" BOX "/other", O_RDONLY);
    CHECK_INT(show_dir(storage, LAYERS_DIFF, box).r, -ERR_DENIED);
}

TEST(a_file_system_in_memory_is_read_if_it_is_mounted_elsewhere)
{
    int storage = scratch_storage(), top;
    struct layers_said said;

    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
        SKIP("only root makes mounts");
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK(chdir("/tmp") == 0 && chdir(scratch_path) == 0); /* in the new namespace */
    CHECK_INT(mkdir("memory", 0700), 0);
    CHECK_INT(mount("none", "memory", "tmpfs", 0, NULL), 0);
    top = make_dir_with_file(AT_FDCWD, "memory/top", O_RDONLY);
    CHECK_INT(show_dir(storage, LAYERS_CAPTURE, top).r, -ERR_DENIED); /* as /run of the host is */
    CHECK_INT(umount2("memory", MNT_DETACH), 0);
    CHECK(chdir("/tmp") == 0);
    said = show_dir(storage, LAYERS_CAPTURE, top);
    CHECK_OK(said.r, said.err);
    CHECK(scratch_has(storage, "layers/" NAME "/fs/file"));
}

/* A user who plots with the control plane can mount a directory of root's below such a top. */
TEST(what_is_mounted_below_is_not_read)
{
    static const enum layers_kind kinds[] = { LAYERS_DIFF, LAYERS_COMPARE };
    AUTO_CLOSE int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), other = -1, top = -1;
    int storage = scratch_storage();

    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
        SKIP("only root makes mounts");
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK(chdir("/tmp") == 0 && chdir(scratch_path) == 0);
    CHECK(mkdir("memory", 0700) == 0 && mount("none", "memory", "tmpfs", 0, NULL) == 0);
    close(make_dir_with_file(AT_FDCWD, "host", O_RDONLY));
    close(make_dir_with_file(AT_FDCWD, "memory/own", O_RDONLY));
    CHECK(mkdir("memory/host", 0700) == 0);
    CHECK_INT(mount("host", "memory/host", NULL, MS_BIND, NULL), 0);
    top = open("memory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    other = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC); /* keeps it */
    CHECK(top >= 0 && other >= 0 && setns(home, CLONE_NEWNS) == 0 && chdir("/tmp") == 0);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct layers_said said = show_dir(storage, kinds[i], top);

        CHECK_OK(said.r, said.err);
        CHECK(is_told("own/file") && !is_told("host/file"));
    }
}
