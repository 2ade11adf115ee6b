/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/tap.h"
#include "lib/proc/sys.h"
#include "scratch.h"
#include "lib/tar/reader.h"
#include "lib/tar/unpack.h"

static struct tree_pack_options options;
static struct tree_report report;
static struct tar_reader tar;
static struct err e;

static int pack_to(const struct scratch *s, const char *path)
{
    int fd = openat(s->dir, "out.tar", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), r;

    CHECK(fd >= 0);
    r = tree_pack(fd, s->dir, path, &options, &report, &e);
    close(fd);
    return r;
}

static void start_reading(const struct scratch *s)
{
    int fd = openat(s->dir, "out.tar", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    tar_reader_init_fd(&tar, fd);
}

static void expect(const char *path, enum tar_type type)
{
    CHECK_OK(tar_next(&tar, &e), e);
    CHECK_STR(str_from(tar.entry.path), path);
    CHECK_INT(tar.entry.type, type);
}

TEST(one_file)
{
    struct scratch s = scratch_make();

    make_dir(s.dir, "d");
    make_file(s.dir, "d/f", "content");
    CHECK_OK(pack_to(&s, "/d/f"), e);
    CHECK_INT(report.entries, 1);
    CHECK_INT(report.bytes, 7);
    start_reading(&s);
    expect("f", TAR_FILE);
    CHECK_INT(tar.entry.size, 7);
    CHECK_INT(tar.entry.mode, 0644);
    CHECK_INT(tar_next(&tar, &e), 0);
}

TEST(names_and_owners_can_be_given)
{
    struct scratch s = scratch_make();

    make_dir(s.dir, "d");
    make_file(s.dir, "d/f", "");
    options = (struct tree_pack_options){
        .as = "some/name", .set_owner = true, .uid = 3000000, .gid = 7
    };
    CHECK_OK(pack_to(&s, "d"), e);
    start_reading(&s);
    expect("some/name/", TAR_DIR);
    CHECK_INT(tar.entry.uid, 3000000);
    CHECK_INT(tar.entry.gid, 7);
    expect("some/name/f", TAR_FILE);
    CHECK_INT(tar_next(&tar, &e), 0);
}

TEST(links_are_packed_and_not_followed)
{
    struct scratch s = scratch_make();

    CHECK(symlinkat("/etc", s.dir, "link") == 0);
    CHECK_OK(pack_to(&s, "link"), e);
    start_reading(&s);
    expect("link", TAR_SYMLINK);
    CHECK_STR(str_from(tar.entry.link), "/etc");
    CHECK_INT(pack_to(&s, "link/passwd"), -ERR_DENIED);
    CHECK_INT(pack_to(&s, "../etc"), -ERR_DENIED);
    CHECK_INT(pack_to(&s, "nothing"), -ERR_NOT_FOUND);
}

TEST(sockets_are_skipped_and_fifos_kept)
{
    struct scratch s = scratch_make();
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    make_dir(s.dir, "d");
    snprintf(sun.sun_path, sizeof sun.sun_path, "%s/d/socket", s.path);
    CHECK(bind(fd, (const struct sockaddr *)&sun, sizeof sun) == 0);
    CHECK(mkfifoat(s.dir, "d/fifo", 0600) == 0);
    CHECK_OK(pack_to(&s, "d"), e);
    CHECK_INT(report.sockets_skipped, 1);
    start_reading(&s);
    expect("d/", TAR_DIR);
    expect("d/fifo", TAR_FIFO);
    CHECK_INT(tar_next(&tar, &e), 0);
}

TEST(an_unreadable_file_is_named)
{
    struct scratch s = scratch_make();

    become_user();
    make_dir(s.dir, "d");
    make_file(s.dir, "d/f", "");
    CHECK(fchmodat(s.dir, "d/f", 0, 0) == 0);
    CHECK_INT(pack_to(&s, "d"), -ERR_SYS);
    CHECK_INT(e.sys, EACCES);
    CHECK(strstr(e.msg, "'d/f'"));
    start_reading(&s); /* and nobody can mistake the rest for an archive */
    while (tar_next(&tar, &e) > 0)
        ;
    CHECK_INT(e.code, ERR_INVALID);
}

TEST(a_reader_that_goes_away_is_an_error)
{
    struct scratch s = scratch_make();
    int fds[2];

    make_file(s.dir, "f", "x");
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    close(fds[0]);
    signal(SIGPIPE, SIG_IGN);
    CHECK_INT(tree_pack(fds[1], s.dir, "f", &options, &report, &e), -ERR_SYS);
    CHECK_INT(e.sys, EPIPE);
}

/* Changes the size of f while the packer waits for us to read its pipe. */
static int pack_while(const struct scratch *s, off_t before, off_t after)
{
    int fds[2], out, r;
    char piece[4096];
    ssize_t n;
    pid_t pid;

    make_file(s->dir, "f", "");
    CHECK(shell("truncate -s %lld %s/f", (long long)before, s->path));
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        r = tree_pack(fds[1], s->dir, "f", &options, &report, &e);
        _exit(-r);
    }
    close(fds[1]);
    out = openat(s->dir, "out.tar", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK((n = read(fds[0], piece, sizeof piece)) > 0 && write(out, piece, (size_t)n) == n);
    CHECK(shell("truncate -s %lld %s/f", (long long)after, s->path));
    while ((n = read(fds[0], piece, sizeof piece)) > 0)
        CHECK(write(out, piece, (size_t)n) == n);
    CHECK(waitpid(pid, &r, 0) == pid && WIFEXITED(r));
    return -WEXITSTATUS(r);
}

TEST(a_file_that_shrinks_is_filled_up_and_told)
{
    struct scratch s = scratch_make();

    CHECK_INT(pack_while(&s, 8 << 20, 10), -ERR_CONFLICT);
    start_reading(&s);
    expect("f", TAR_FILE);
    CHECK_INT(tar.entry.size, 8 << 20);
    CHECK_INT(tar_next(&tar, &e), 0);
}

TEST(a_file_that_grows_is_cut)
{
    struct scratch s = scratch_make();

    CHECK_INT(pack_while(&s, 8 << 20, 16 << 20), 0);
    start_reading(&s);
    expect("f", TAR_FILE);
    CHECK_INT(tar.entry.size, 8 << 20);
    CHECK_INT(tar_next(&tar, &e), 0);
}

TEST(too_deep_is_an_error)
{
    struct scratch s = scratch_make();
    int dir = make_dir(s.dir, "deep");

    for (int i = 0; i < TREE_DEPTH_MAX; i++) {
        int next = make_dir(dir, "d");

        close(dir);
        dir = next;
    }
    CHECK_INT(pack_to(&s, "deep"), -ERR_TOO_BIG);
}

TEST(a_large_directory_is_read_to_its_end)
{
    struct scratch s = scratch_make();
    int files = 0;

    CHECK(shell("cd %s && mkdir big && cd big && for i in $(seq 600); do mkdir -p "
                "a-rather-long-name-to-fill-the-buffer-$i/sub; done",
                s.path));
    CHECK_OK(pack_to(&s, "big"), e);
    CHECK_INT(report.entries, 1201);
    start_reading(&s);
    while (tar_next(&tar, &e) > 0)
        files++;
    CHECK_INT(files, 1201);
}

TEST(one_file_system)
{
    struct scratch s;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("cannot mount here");
    s = scratch_make();
    make_dir(s.dir, "d");
    CHECK(fchdir(make_dir(s.dir, "d/mnt")) == 0 && mount("none", ".", "tmpfs", 0, NULL) == 0);
    make_file(s.dir, "d/mnt/f", "");
    CHECK_OK(pack_to(&s, "d"), e);
    CHECK_INT(report.entries, 3);
    options.one_file_system = true;
    CHECK_OK(pack_to(&s, "d"), e);
    CHECK_INT(report.entries, 2);
    CHECK(fchdir(s.dir) == 0 && umount2("d/mnt", MNT_DETACH) == 0);
}

static void round_trip(void)
{
    struct scratch s = scratch_make();
    int dst = make_dir(s.dir, "dst"), fd;

    sample_tree(&s);
    CHECK(
        shell("rm %s/src/hard && touch -d @1234 %s/src", s.path, s.path)); /* links become files */
    options.as = ".";
    CHECK_OK(pack_to(&s, "src"), e);
    CHECK(shell("cd %s && mkdir ref && tar -xpf out.tar -C ref", s.path));
    CHECK(same_trees(&s, "src", "ref"));
    fd = openat(s.dir, "out.tar", O_RDONLY | O_CLOEXEC);
    CHECK_OK(tree_unpack(fd, dst, &(struct tree_unpack_options){ .keep_setid = true }, &report, &e),
             e);
    CHECK(same_trees(&s, "src", "dst"));
}

TEST(tar_and_we_unpack_what_we_pack)
{
    round_trip();
}

TEST(tar_and_we_unpack_what_we_pack_for_users_too)
{
    become_user();
    round_trip();
}

/* Swaps tree/d with a link to outside until it is killed. */
static pid_t start_swapping(int tree)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    for (;;)
        syscall(SYS_renameat2, tree, "d", tree, "swap", 2 /* RENAME_EXCHANGE */);
}

static bool mentions(const struct scratch *s, const char *secret)
{
    return shell("grep -q %s %s/out.tar", secret, s->path);
}

static void race(void)
{
    struct scratch s = scratch_make();
    int tree = make_dir(s.dir, "tree"), outside = make_dir(s.dir, "outside");
    int packed = 0;
    pid_t pid;

    make_file(outside, "f", "SECRET-CONTENT");
    make_dir(tree, "d");
    make_file(tree, "d/f", "harmless");
    CHECK(symlinkat("../outside", tree, "swap") == 0);
    pid = start_swapping(tree);
    for (int i = 0; i < 2000; i++) {
        packed += pack_to(&s, "tree") == 0;
        if (i % 50 == 0)
            CHECK(!mentions(&s, "SECRET"));
        start_reading(&s);
        while (tar_next(&tar, &e) > 0)
            if (tar.entry.type == TAR_FILE)
                CHECK_INT(tar.entry.size, 8);
        close(tar.fd_);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(packed > 0);
}

TEST(a_race_reads_nothing_outside)
{
    race();
}

TEST(a_race_reads_nothing_outside_for_users_too)
{
    become_user();
    race();
}
