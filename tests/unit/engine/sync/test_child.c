/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/child.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "engine/sync/report.h"
#include "harness/tap.h"
#include "lib/proc/spawn.h"
#include "lib/tar/pack.h"
#include "lib/tar/unpack.h"
#include "world.h"

static struct err e;
static struct sync_report report;
static unsigned lines;

static void count_line(void *ctx, const struct sync_line *line)
{
    lines++;
}

/* Starts the child: the end of the pipe from which its report is read. */
static int start(const struct sync_job *job, pid_t *pid)
{
    int fds[2];

    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    CHECK_OK(sync_child_fork(job, fds[1], pid, &e), e);
    close(fds[1]);
    return fds[0];
}

/* Reads the report to its end and reaps the child: the result of the job, or -ERR_BUG if the child
 * died without a report. */
static int finish(int from, pid_t pid)
{
    AUTO(buf_done) struct buf bytes = BUF_INIT(1 << 20);
    struct sync_report_reader reader;
    int status;

    sync_report_reader_init(&reader, count_line, NULL);
    CHECK_OK(buf_read_fd(&bytes, from, &e), e);
    CHECK_OK(sync_report_feed(&reader, buf_str(&bytes), &e), e);
    close(from);
    CHECK_OK(spawn_wait(pid, &status, &e), e);
    if (!reader.ended)
        return -ERR_BUG;
    report = reader.end.report;
    e = reader.end.e;
    return reader.end.r;
}

static int run(struct sync_job *job)
{
    pid_t pid;
    int from;

    lines = 0;
    from = start(job, &pid);
    return finish(from, pid);
}

static void there_and_back(struct world *w, uid_t uid, gid_t gid)
{
    static const struct tree_unpack_options unpack = { .keep_root = true };
    static const struct tree_pack_options pack;
    struct tree_report tree;
    struct sync_job job = { .dir = w->host,
                            .tar = memory_file(),
                            .manifest_in = -1,
                            .manifest_out = memory_file(),
                            .uid = uid,
                            .gid = gid };

    CHECK_OK(run(&job), e);
    CHECK(report.manifest && lines == 0);
    rewind_file(job.tar);
    rewind_file(job.manifest_out);
    CHECK_OK(tree_unpack(job.tar, w->box, &unpack, &tree, &e), e);
    CHECK(shell("cd %s/box && echo 2 >f && mkdir n && echo 3 >n/g && ln -s /x out && rm gone",
                w->s.path));
    job.receive = true;
    job.tar = memory_file();
    CHECK_OK(tree_pack(job.tar, w->s.dir, "box", &pack, &tree, &e), e);
    rewind_file(job.tar);
    job.manifest_in = job.manifest_out;
    job.manifest_out = memory_file();
    job.options.top = "box";
    job.options.flags = SYNC_DELETE;
    CHECK_OK(run(&job), e);
    CHECK(report.manifest && lines == 5);
    CHECK_INT(report.count[SYNC_REFUSED], 1);
    CHECK(shell("cd %s && rm box/out && diff -r host box", w->s.path));
}

static void fill(struct world *w)
{
    make_file(w->host, "f", "1");
    make_file(w->host, "gone", "1");
}

TEST(as_ourselves)
{
    struct world *w = world_make();

    fill(w);
    there_and_back(w, geteuid(), getegid());
}

TEST(as_a_plain_user)
{
    struct world *w;

    become_user();
    w = world_make();
    fill(w);
    there_and_back(w, USER, USER);
}

TEST(root_becomes_the_owner)
{
    struct world *w;
    struct stat st;

    need_root();
    w = world_make();
    fill(w);
    CHECK(shell("chown -R %d:%d %s/host", USER, USER, w->s.path));
    there_and_back(w, USER, USER);
    CHECK(fstatat(w->host, "n/g", &st, 0) == 0 && st.st_uid == USER && st.st_gid == USER);
    CHECK(fstatat(w->host, "f", &st, 0) == 0 && st.st_uid == USER);
}

/* The confined process cannot see the path of its directory any more. */
TEST(the_path_of_the_directory_counts)
{
    static const char *const dirs[] = { "home/.ssh", "home/bin", "home/project" };
    static const uint64_t held[] = { 1, 1, 0 };

    for (size_t i = 0; i < COUNT_OF(dirs); i++) {
        struct world *w = world_make();
        struct archive *a = archive_new();
        struct sync_job job = { .receive = true,
                                .manifest_in = -1,
                                .manifest_out = memory_file(),
                                .uid = geteuid(),
                                .gid = getegid() };

        CHECK(shell("cd %s && mkdir -p %s && echo x >home/.profile", w->s.path, dirs[i]));
        job.dir = open_dir(w->s.dir, dirs[i]);
        archive_file(a, "rc", "evil");
        archive_end(a);
        job.tar = archive_fd(a);
        CHECK_OK(run(&job), e);
        CHECK_INT(report.count[SYNC_SENSITIVE], held[i]);
        CHECK(exists(job.dir, "rc") == !held[i]);
    }
}

TEST(a_user_cannot_become_another)
{
    struct world *w;
    struct sync_job job;

    become_user();
    w = world_make();
    job = (struct sync_job){ .dir = w->host,
                             .tar = memory_file(),
                             .manifest_in = -1,
                             .manifest_out = -1,
                             .uid = 0,
                             .gid = 0 };
    CHECK_INT(run(&job), -ERR_DENIED);
}

TEST(its_errors_are_ours)
{
    struct world *w = world_make();
    struct sync_job job = { .receive = true,
                            .dir = w->host,
                            .tar = memory_file(),
                            .manifest_in = -1,
                            .manifest_out = memory_file(),
                            .uid = geteuid(),
                            .gid = getegid() };

    CHECK(write(job.tar, "not an archive", 14) == 14);
    rewind_file(job.tar);
    CHECK_INT(run(&job), -ERR_INVALID);
    CHECK(e.code == ERR_INVALID && e.msg[0]);
}

TEST(one_that_dies)
{
    struct world *w = world_make();
    int fds[2];
    pid_t pid;
    int from;
    struct sync_job job = { .receive = true,
                            .dir = w->host,
                            .manifest_in = -1,
                            .manifest_out = -1,
                            .uid = geteuid(),
                            .gid = getegid() };

    CHECK(pipe2(fds, O_CLOEXEC) == 0); /* nobody writes: it waits */
    job.tar = fds[0];
    from = start(&job, &pid);
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK_INT(finish(from, pid), -ERR_BUG);
}
