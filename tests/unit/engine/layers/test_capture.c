/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/own.h"
#include "engine/layers/copy.h"
#include "scratch.h"

static struct err e;

#define NAME "lay_0123456789abcdefghjk"

/* A directory in the scratch one, beside the storage's own. */
static int make_source(int storage)
{
    int fd;

    CHECK_INT(mkdirat(storage, "source", 0755), 0);
    fd = openat(storage, "source", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void write_file(int dir, const char *name, size_t n)
{
    static const char room[4096];
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0640);

    CHECK(fd >= 0 && write(fd, room, n) == (ssize_t)n);
    close(fd);
}

static struct layers_said capture(int storage, int source, uint64_t bytes, uint64_t entries)
{
    struct layers_job job;

    layers_job_fill(&job, LAYERS_CAPTURE, NAME);
    job.bytes_max = bytes;
    job.entries_max = entries;
    return scratch_do(storage, &job, &source, 1);
}

TEST(what_a_sandbox_wrote_becomes_a_layer)
{
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;
    struct stat a, b;

    CHECK_INT(mkdirat(source, "dir", 0755), 0);
    write_file(source, "dir/file", 100);
    CHECK_INT(linkat(source, "dir/file", source, "again", 0), 0);
    CHECK_INT(mkdirat(source, "run", 0755), 0); /* made anew for every sandbox */
    write_file(source, "run/file", 100);
    said = capture(storage, source, 0, 0);
    CHECK_OK(said.r, said.err);
    CHECK_INT(said.bytes, 100);
    CHECK_INT(said.entries, 3);
    CHECK_INT(fstatat(storage, "layers/" NAME "/fs/dir/file", &a, 0), 0);
    CHECK_INT(fstatat(storage, "layers/" NAME "/fs/again", &b, 0), 0);
    CHECK(a.st_ino == b.st_ino && a.st_nlink == 2 && (a.st_mode & 07777) == 0640);
    CHECK(!scratch_has(storage, "layers/" NAME "/fs/run"));
    CHECK(!scratch_has(storage, "layers/" NAME "/links"));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
}

/* The next one has names of its own; a link is not followed, and how /etc looks is kept. */
TEST(names_of_a_sandbox_stay_with_it)
{
    static const struct timespec times[] = { { 1, 2 }, { 3, 4 } };
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;
    struct stat st;

    CHECK_INT(mkdirat(source, "etc", 0755), 0);
    write_file(source, "etc/hosts", 10);
    write_file(source, "etc/machine-id", 10);
    write_file(source, "etc/mine", 10);
    CHECK_INT(symlinkat("mine", source, "etc/hostname"), 0);
    CHECK_INT(utimensat(source, "etc", times, 0), 0);
    said = capture(storage, source, 0, 0);
    CHECK_OK(said.r, said.err);
    CHECK(!scratch_has(storage, "layers/" NAME "/fs/etc/hosts"));
    CHECK(!scratch_has(storage, "layers/" NAME "/fs/etc/machine-id"));
    CHECK(fstatat(storage, "layers/" NAME "/fs/etc/hostname", &st, AT_SYMLINK_NOFOLLOW) < 0);
    CHECK(scratch_has(storage, "layers/" NAME "/fs/etc/mine"));
    CHECK_INT(fstatat(storage, "layers/" NAME "/fs/etc", &st, 0), 0);
    CHECK(st.st_mtim.tv_sec == 3 && st.st_mtim.tv_nsec == 4);
    CHECK(scratch_has(storage, "source/etc/hosts"));
}

TEST(limits_hold_and_leave_nothing)
{
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;

    write_file(source, "a", 3000);
    write_file(source, "b", 3000);
    said = capture(storage, source, 5000, 0);
    CHECK_INT(said.r, -ERR_TOO_BIG);
    said = capture(storage, source, 0, 1);
    CHECK_INT(said.r, -ERR_TOO_BIG);
    CHECK(!scratch_has(storage, "layers/" NAME));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
}

/* Of data not a byte; names are few, or looked at as well. */
TEST(what_is_left_free_stays_free)
{
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;
    struct layers_job job;
    char name[16];

    layers_job_fill(&job, LAYERS_CAPTURE, NAME);
    job.free_min = UINT64_C(1) << 60;
    write_file(source, "data", 1);
    said = scratch_do(storage, &job, &source, 1);
    scratch_lacked_room(storage, &said, ERR_FULL, NAME);
    CHECK_INT(unlinkat(source, "data", 0), 0);
    write_file(source, "empty", 0);
    said = scratch_do(storage, &job, &source, 1);
    CHECK_OK(said.r, said.err);
    CHECK_OK(tree_remove(storage, "layers", &e), e);
    for (int i = 0; i < 9000; i++) {
        snprintf(name, sizeof name, "%d", i);
        CHECK_INT(linkat(source, "empty", source, name, 0), 0);
    }
    said = scratch_do(storage, &job, &source, 1);
    scratch_lacked_room(storage, &said, ERR_FULL, NAME);
}

TEST(a_tree_that_is_too_deep_is_refused)
{
    int storage = scratch_storage(), source = make_source(storage), dir = dup(source);
    struct layers_said said;

    for (int i = 0; i < 200; i++) {
        int next;

        CHECK_INT(mkdirat(dir, "d", 0755), 0);
        next = openat(dir, "d", O_RDONLY | O_DIRECTORY);
        CHECK(next >= 0);
        close(dir);
        dir = next;
    }
    said = capture(storage, source, 0, 0);
    CHECK_INT(said.r, -ERR_TOO_BIG);
}

TEST(owners_are_stored_as_they_are_inside)
{
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;
    struct stat st;

    if (geteuid() != 0)
        SKIP("only root has ranges of owners");
    write_file(source, "a", 1);
    CHECK_INT(fchownat(source, "a", 0x40010000 + 1000, 0x40010000 + 7, 0), 0);
    CHECK_INT(fchown(source, 0x40010000, 0x40010000), 0);
    said = capture(storage, source, 0, 0);
    CHECK_OK(said.r, said.err);
    CHECK_INT(fstatat(storage, "layers/" NAME "/fs/a", &st, 0), 0);
    CHECK(st.st_uid == 1000 && st.st_gid == 7);
}

TEST(somebody_elses_file_is_refused)
{
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;

    if (geteuid() != 0)
        SKIP("only root has ranges of owners");
    write_file(source, "a", 1);
    CHECK_INT(fchown(source, 0x40010000, 0x40010000), 0);
    said = capture(storage, source, 0, 0); /* `a` is root's */
    CHECK_INT(said.r, -ERR_DENIED);
}

TEST(a_device_is_refused_and_a_whiteout_is_kept)
{
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;
    struct stat st;

    if (geteuid() != 0)
        SKIP("a plain user makes no devices");
    CHECK_INT(mknodat(source, "gone", S_IFCHR, makedev(0, 0)), 0);
    said = capture(storage, source, 0, 0);
    CHECK_OK(said.r, said.err);
    CHECK_INT(fstatat(storage, "layers/" NAME "/fs/gone", &st, 0), 0);
    CHECK(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    CHECK_INT(mknodat(source, "null", S_IFCHR | 0666, makedev(1, 3)), 0);
    CHECK_INT(unlinkat(storage, "layers/" NAME "/fs/gone", 0), 0);
    said = capture(storage, source, 0, 0);
    CHECK_INT(said.r, -ERR_DENIED);
}

TEST(of_overlayfs_only_what_is_needed_is_kept)
{
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;
    char path[128];

    CHECK_INT(mkdirat(source, "dir", 0755), 0);
    snprintf(path, sizeof path, "%s/source/dir", scratch_path);
    CHECK_INT(setxattr(path, "user.overlay.opaque", "y", 1, 0), 0);
    CHECK_INT(setxattr(path, "user.overlay.redirect", "/etc", 4, 0), 0);
    CHECK_INT(setxattr(path, "user.own", "own", 3, 0), 0);
    said = capture(storage, source, 0, 0);
    CHECK_OK(said.r, said.err);
    snprintf(path, sizeof path, "%s/layers/" NAME "/fs/dir", scratch_path);
    CHECK_INT(getxattr(path, "user.overlay.opaque", NULL, 0), 1);
    CHECK_INT(getxattr(path, "user.own", NULL, 0), 3);
    CHECK(getxattr(path, "user.overlay.redirect", NULL, 0) < 0);
}

TEST(cancelled_it_leaves_nothing_but_what_is_swept)
{
    int storage = scratch_storage(), source = make_source(storage), sock, status;
    struct layers_said said;
    struct layers_job job;
    pid_t pid;

    write_file(source, "a", 1);
    layers_job_fill(&job, LAYERS_CAPTURE, NAME);
    sock = scratch_layer_worker(storage, &job, sizeof job, &source, 1, &pid);
    CHECK(ipc_recv(sock, &said, sizeof said, NULL, &e) == (ssize_t)sizeof said);
    CHECK_INT(said.word, LAYERS_READY);
    close(sock); /* before it was told to go */
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK(!scratch_has(storage, "layers/" NAME));
}

/* --- while it still runs --- */

enum { LARGE = 3 << 20 };

static void write_large(int dir, const char *name, char with)
{
    static char room[LARGE];
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0640);

    memset(room, with, sizeof room);
    CHECK(fd >= 0 && write(fd, room, sizeof room) == LARGE);
    close(fd);
}

static void change(int dir, const char *name, off_t at, char to)
{
    int fd = openat(dir, name, O_RDWR);
    char *p = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    CHECK(fd >= 0 && p != MAP_FAILED);
    p[at] = to;
    munmap(p, LARGE);
    close(fd);
}

/* All that can become of a file that was copied ahead. */
static void change_all(int source)
{
    int fd = openat(source, "holed", O_RDWR);

    change(source, "changed", 2 << 20, '!'); /* its time may not tell */
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20) == 0);
    close(fd);
    fd = openat(source, "cut", O_RDWR);
    CHECK(ftruncate(fd, 1000) == 0);
    close(fd);
    fd = openat(source, "grown", O_RDWR | O_APPEND);
    CHECK(write(fd, "more", 4) == 4);
    close(fd);
    CHECK_INT(unlinkat(source, "gone", 0), 0);
    CHECK_INT(unlinkat(source, "other", 0), 0);
    write_large(source, "other", 'o');
    CHECK_INT(renameat(source, "moved", source, "dir/moved"), 0);
    CHECK_INT(linkat(source, "linked", source, "dir/again", 0), 0);
    write_large(source, "new", 'n');
}

static void check_equal(const char *layer)
{
    char command[512];

    snprintf(
        command, sizeof command,
        "cd %s && diff -r source %s && cd source && find . -printf '%%p %%s %%m %%n %%T@ %%y\\n' "
        "| sort >../a && cd ../%s && find . -printf '%%p %%s %%m %%n %%T@ %%y\\n' | sort "
        ">../../../b "
        "&& cd ../../.. && sed -i '/^[.] /d' a b && cmp a b",
        scratch_path, layer, layer);
    CHECK_INT(system(command), 0);
}

/* Where files can be cloned, nothing is copied ahead. */
static bool is_cloned(int dir, const char *name)
{
    int from = openat(dir, name, O_RDONLY), to = openat(dir, ".", O_TMPFILE | O_RDWR, 0600);
    bool can = ioctl(to, FICLONE, from) == 0;

    close(from);
    close(to);
    return can;
}

static void check_ahead(int storage, pid_t layer_worker, int source, const char *name)
{
    char path[128];
    struct stat st;

    CHECK_INT(fstatat(source, name, &st, 0), 0);
    snprintf(path, sizeof path, "tmp/" NAME ".%d/ahead/%llx", (int)layer_worker,
             (unsigned long long)st.st_ino);
    CHECK(scratch_has(storage, path));
}

TEST(what_changes_after_it_was_copied_ahead)
{
    static const char *const names[] = { "same", "changed", "holed", "cut",   "grown",
                                         "gone", "other",   "moved", "linked" };
    int storage = scratch_storage(), source = make_source(storage), sock, status;
    struct layers_said said, go;
    struct layers_job job;
    struct stat st;
    pid_t pid;

    CHECK_INT(mkdirat(source, "dir", 0755), 0);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        write_large(source, names[i], (char)('a' + i));
    if (is_cloned(source, "same"))
        SKIP("files are cloned here, and not copied");
    layers_job_fill(&job, LAYERS_CAPTURE, NAME);
    sock = scratch_layer_worker(storage, &job, sizeof job, &source, 1, &pid);
    scratch_waits = false;
    scratch_hear(sock, LAYERS_READY, &said);
    CHECK_INT(said.word, LAYERS_READY);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        check_ahead(storage, pid, source, names[i]);
    change_all(source);
    layers_said_fill(&go, LAYERS_GO);
    CHECK_OK(ipc_send(sock, &go, sizeof go, NULL, 0, &e), e);
    scratch_hear(sock, LAYERS_DONE, &said);
    CHECK_OK(said.r, said.err);
    close(sock);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    check_equal("layers/" NAME "/fs");
    CHECK_INT(fstatat(storage, "layers/" NAME "/fs/holed", &st, 0), 0);
    CHECK(st.st_blocks * 512 < LARGE);
    CHECK(!scratch_has(storage, "layers/" NAME "/ahead"));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
}

/* Neither in the sandbox nor in the layer: what reads them is not the sandbox. */
TEST(times_of_access_are_kept)
{
    static const struct timespec times[] = { { 5000, 7 }, { 6000, 8 } };
    static const char *const names[] = { "dir/large", "dir/small", "dir" };
    int storage = scratch_storage(), source = make_source(storage);
    struct layers_said said;
    struct layers_job job;
    struct stat st;

    CHECK_INT(mkdirat(source, "dir", 0755), 0);
    write_large(source, "dir/large", 'x');
    write_file(source, "dir/small", 100);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK_INT(utimensat(source, names[i], times, 0), 0);
    said = capture(storage, source, 0, 0);
    CHECK_OK(said.r, said.err);
    layers_job_fill(&job, LAYERS_DIGEST, NAME);
    said = scratch_do(storage, &job, NULL, 0);
    CHECK_OK(said.r, said.err);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[128];

        snprintf(path, sizeof path, "layers/" NAME "/fs/%s", names[i]);
        CHECK_INT(fstatat(storage, path, &st, 0), 0);
        CHECK(st.st_atim.tv_sec == 5000 && st.st_atim.tv_nsec == 7);
        CHECK_INT(fstatat(source, names[i], &st, 0), 0);
        CHECK(st.st_atim.tv_sec == 5000 && st.st_atim.tv_nsec == 7);
    }
}

TEST(cancelled_after_it_was_copied_ahead)
{
    int storage = scratch_storage(), source = make_source(storage), sock, status;
    struct layers_said said;
    struct layers_job job;
    pid_t pid;

    write_large(source, "large", 'x');
    if (is_cloned(source, "large"))
        SKIP("files are cloned here, and not copied");
    layers_job_fill(&job, LAYERS_CAPTURE, NAME);
    sock = scratch_layer_worker(storage, &job, sizeof job, &source, 1, &pid);
    scratch_waits = false;
    scratch_hear(sock, LAYERS_READY, &said);
    CHECK_INT(said.word, LAYERS_READY);
    check_ahead(storage, pid, source, "large");
    close(sock);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0); /* nothing is left */
}
