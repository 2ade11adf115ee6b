/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/image_import.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/tap.h"
#include "lib/proc/confine.h"
#include "lib/proc/caps.h"
#include "unit/lib/tar/scratch.h"

static struct tree_unpack_options options;
static struct tree_report report;
static struct err e;

static int import(const struct archive *a, int dest)
{
    int fd = archive_fd(a), r;

    e.msg[0] = '\0';
    r = image_import(fd, dest, &options, &report, &e);
    close(fd);
    return r;
}

static struct archive *sample(void)
{
    struct archive *a = archive_new();

    archive_dir(a, "./");
    archive_file(a, "./etc/hostname", "sandbox\n");
    archive_link(a, '1', "./usr/hard", "./etc/hostname");
    archive_link(a, '2', "./link", "/etc/hostname");
    a->mode = 0444;
    archive_dir(a, "./ro");
    archive_file(a, "./ro/f", "x");
    archive_end(a);
    return a;
}

static void check_sample(int dest)
{
    CHECK_STR(content_of(dest, "etc/hostname"), "sandbox\n");
    CHECK_STR(content_of(dest, "usr/hard"), "sandbox\n");
    CHECK_STR(target_of(dest, "link"), "/etc/hostname");
    CHECK_INT(mode_of(dest, "ro"), 0555);
    CHECK_INT(report.entries, 6);
    CHECK_INT(report.bytes, 9);
}

static void plain(void)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");

    CHECK_OK(import(sample(), dest), e);
    check_sample(dest);
}

TEST(an_archive)
{
    plain();
}

TEST(an_archive_of_a_user)
{
    become_user();
    plain();
}

TEST(a_directory_that_is_only_a_path)
{
    struct scratch s = scratch_make();

    close(make_dir(s.dir, "dest"));
    CHECK_OK(import(sample(), openat(s.dir, "dest", O_PATH | O_DIRECTORY | O_CLOEXEC)), e);
    check_sample(open_dir(s.dir, "dest"));
}

TEST(owners_of_root)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");
    struct archive *a = archive_new();
    struct stat st;

    need_root();
    options.owners = TREE_OWNERS_KEEP;
    options.keep_setid = true;
    a->uid = 12;
    a->gid = 42;
    a->mode = 06700;
    archive_dir(a, "d");
    archive_dir(a, "d/e");
    archive_file(a, "d/e/f", "x");
    archive_end(a);
    CHECK_OK(import(a, dest), e);
    CHECK(fstatat(dest, "d/e/f", &st, 0) == 0 && st.st_uid == 12 && st.st_gid == 42);
    CHECK_INT(mode_of(dest, "d/e/f"), 06700);
}

TEST(errors_come_back)
{
    struct scratch s = scratch_make();
    struct archive *a = archive_new();

    archive_file(a, "../out", "");
    archive_end(a);
    CHECK_INT(import(a, s.dir), -ERR_DENIED);
    CHECK_INT(e.code, ERR_DENIED);
    CHECK_STR(str_from(e.msg), "entry 1 '../out': the path contains '..'");
    a = archive_new();
    CHECK_INT(import(a, s.dir), -ERR_INVALID);
    CHECK(strstr(e.msg, "not a tar archive"));
}

TEST(limits_and_owners_are_passed_on)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");
    struct archive *a = archive_new();

    options.limits.bytes = 5;
    CHECK_INT(import(sample(), dest), -ERR_TOO_BIG);
    options.owners = TREE_OWNERS_REQUIRE;
    a = archive_new();
    a->gid = 42;
    archive_file(a, "etc/shadow", "");
    archive_end(a);
    CHECK_INT(import(a, dest), -ERR_DENIED);
    CHECK(strstr(e.msg, "'etc/shadow': belongs to 0:42"));
}

/* Writes the archive to s/a.tar and has `program` compress it. */
static int compressed(const struct scratch *s, const struct archive *a, const char *program)
{
    int fd = openat(s->dir, "a.tar", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    CHECK(fd >= 0 && write(fd, a->bytes, a->n) == (ssize_t)a->n);
    close(fd);
    if (access("/usr/bin/gzip", X_OK) < 0 ||
        !shell("cd %s && %s -c a.tar >a.z 2>/dev/null", s->path, program))
        SKIP("there is no %s", program);
    return openat(s->dir, "a.z", O_RDONLY | O_CLOEXEC);
}

static void decompress(const char *program)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");

    CHECK_OK(image_import(compressed(&s, sample(), program), dest, &options, &report, &e), e);
    check_sample(dest);
}

TEST(gzip)
{
    decompress("gzip");
}

TEST(xz)
{
    decompress("xz");
}

TEST(zstd)
{
    decompress("zstd");
}

TEST(gzip_for_users)
{
    become_user();
    decompress("gzip");
}

TEST(damaged_compression_is_told)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), fd = compressed(&s, sample(), "gzip");
    struct stat st;

    CHECK(fstat(fd, &st) == 0);
    CHECK(shell("truncate -s %lld %s/a.z", (long long)st.st_size - 9, s.path));
    CHECK_INT(image_import(fd, dest, &options, &report, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "gzip"));
}

TEST(a_wrong_checksum_at_the_very_end_is_told)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), fd = compressed(&s, sample(), "gzip");
    struct stat st;
    int out = openat(s.dir, "a.z", O_WRONLY | O_CLOEXEC);

    CHECK(fstat(fd, &st) == 0 && pwrite(out, "\xde\xad\xbe\xef", 4, st.st_size - 8) == 4);
    CHECK_INT(image_import(fd, dest, &options, &report, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "gzip"));
}

TEST(an_error_inside_a_compressed_archive)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");
    static const char zeros[512];
    struct archive *a = archive_new();

    archive_head(a, '3', "dev/null", "", 0);
    for (int i = 0; i < 4000; i++) /* more than the pipe holds */
        archive_data(a, zeros, sizeof zeros);
    archive_end(a);
    CHECK_INT(image_import(compressed(&s, a, "gzip"), dest, &options, &report, &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "'dev/null'"));
}

TEST(something_compressed_that_is_no_archive)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");
    struct archive *a = archive_new();

    archive_data(a, "hello", 5);
    CHECK_INT(image_import(compressed(&s, a, "gzip"), dest, &options, &report, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "not a tar archive"));
}

/* The archive through a pipe, in small pieces at first. */
static int piped(int from)
{
    int fds[2];
    char byte;

    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    if (fork() == 0) {
        close(fds[0]);
        for (int i = 0; read(from, &byte, 1) == 1 && write(fds[1], &byte, 1) == 1; i++)
            if (i < 8)
                usleep(3000);
        _exit(0);
    }
    close(fds[1]);
    return fds[0];
}

TEST(pipes)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), again = make_dir(s.dir, "again");

    CHECK_OK(image_import(piped(archive_fd(sample())), dest, &options, &report, &e), e);
    check_sample(dest);
    CHECK_OK(image_import(piped(compressed(&s, sample(), "gzip")), again, &options, &report, &e),
             e);
    check_sample(again);
    CHECK_INT(image_import(piped(open("/dev/null", O_RDONLY)), again, &options, &report, &e),
              -ERR_INVALID);
    CHECK(strstr(e.msg, "not a tar archive"));
}

TEST(a_disk_limit_is_an_error_not_a_crash)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), fd = archive_fd(sample());

    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 4, 4 }) == 0);
    CHECK_INT(image_import(fd, dest, &options, &report, &e), -ERR_SYS);
    CHECK_INT(e.sys, EFBIG);
}

/* Runs `act` in a confined child whose only directory is dest: its exit status. */
static int confined(int dest, uint64_t caps, int (*act)(void))
{
    int status, fds[] = { -1, -1, -1, dest };
    struct confine c = { .parent = getpid(), .dir = 3, .caps = caps, .file_max = 1 << 20 };
    pid_t pid = fork();

    if (pid == 0) {
        if (confine_fds(fds, 4, NULL) < 0 || confine_enter(&c, NULL) < 0)
            _exit(99);
        _exit(act());
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static int reach_out(void)
{
    if (open("/etc/passwd", O_RDONLY) >= 0)
        return 1;
    if (openat(3, "../victim", O_RDWR) >= 0 || open("../victim", O_RDWR) >= 0)
        return 2;
    if (fcntl(4, F_GETFD) >= 0)
        return 3;
    if (openat(3, "inside", O_RDWR | O_CREAT, 0600) < 0)
        return 4;
    return 0;
}

static int look_at_caps(void)
{
    uint64_t kept = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FOWNER);

    return caps_permitted() == (geteuid() == 0 ? kept : 0) ? 0 : 1;
}

TEST(a_confined_process_reaches_one_directory)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest");

    make_file(s.dir, "victim", "");
    CHECK_INT(confined(dest, 0, reach_out), 0);
    CHECK_INT(confined(dest, CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FOWNER), look_at_caps), 0);
}

TEST(a_confined_process_of_a_user)
{
    struct scratch s = scratch_make();
    int dest;

    become_user();
    dest = make_dir(s.dir, "dest");
    make_file(s.dir, "victim", "");
    if (confined(dest, 0, reach_out) == 1)
        SKIP("no Landlock in this kernel");
    CHECK_INT(confined(dest, 0, reach_out), 0);
    CHECK_INT(confined(dest, 0, look_at_caps), 0);
}

TEST(a_crash_is_an_error)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), fd = archive_fd(sample());

    CHECK(setrlimit(RLIMIT_STACK, &(struct rlimit){ 100 << 10, 100 << 10 }) == 0);
    CHECK_INT(image_import(fd, dest, &options, &report, &e), -ERR_BUG);
    CHECK(strstr(e.msg, "died"));
}

TEST(a_confined_process_dies_with_its_parent)
{
    struct scratch s = scratch_make();
    int dest = make_dir(s.dir, "dest"), in[2];
    struct pollfd readers;
    pid_t pid;

    CHECK(pipe2(in, O_CLOEXEC) == 0 && write(in[1], "not compressed", 14) == 14);
    pid = fork();
    if (pid == 0) { /* waits for the rest of an archive, until it is killed */
        (void)image_import(in[0], dest, &options, &report, &e);
        _exit(0);
    }
    close(in[0]);
    readers = (struct pollfd){ .fd = in[1] };
    CHECK_INT(poll(&readers, 1, 200), 0);
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK_INT(poll(&readers, 1, 10000), 1); /* POLLERR: nobody has the other end any more */
}
