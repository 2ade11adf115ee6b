/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/worker.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "scratch.h"

static struct err e;

#define NAME "lay_0123456789abcdefghjk"

/* A layer, made by hand. */
static void make_layer(int storage)
{
    struct storage s;
    struct staging g;
    int file;

    CHECK_OK(storage_open(&s, storage, &e), e);
    CHECK_OK(staging_begin(&g, &s, NAME, &e), e);
    file = openat(g.fs, "file", O_WRONLY | O_CREAT, 0644);
    CHECK(file >= 0 && write(file, "x", 1) == 1);
    close(file);
    CHECK(!scratch_has(storage, "layers/" NAME));
    CHECK_OK(staging_publish(&g, NAME, &(struct layer_info){ .bytes = 1, .entries = 1 }, &e), e);
    staging_done(&g);
    storage_done(&s);
    CHECK(scratch_has(storage, "layers/" NAME "/fs/file"));
    CHECK(scratch_has(storage, "layers/" NAME "/info"));
}

TEST(a_layer_is_there_when_it_is_whole)
{
    int storage = scratch_storage();

    make_layer(storage);
}

TEST(what_is_not_published_is_gone)
{
    int storage = scratch_storage();
    struct storage s;
    struct staging g;

    CHECK_OK(storage_open(&s, storage, &e), e);
    CHECK_OK(staging_begin(&g, &s, NAME, &e), e);
    staging_done(&g);
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
    storage_done(&s);
}

/* While it is not waited for, how it ran can be asked. */
TEST(what_is_idle_is_in_nobodys_way)
{
    int storage = scratch_storage(), sock;
    struct layers_said said;
    struct layers_job job;
    pid_t pid;

    make_layer(storage);
    for (int idle = 0; idle <= 1; idle++) {
        layers_job_fill(&job, LAYERS_DIGEST, NAME);
        job.flags = idle ? LAYERS_IDLE : 0;
        sock = scratch_layer_worker(storage, &job, sizeof job, NULL, 0, &pid);
        scratch_hear(sock, LAYERS_DONE, &said);
        CHECK_OK(said.r, said.err);
        CHECK_INT(sched_getscheduler(pid), idle ? SCHED_IDLE : SCHED_OTHER);
        close(sock);
        CHECK(waitpid(pid, NULL, 0) == pid);
    }
}

TEST(removes_a_layer)
{
    int storage = scratch_storage();
    struct layers_job job;
    struct layers_said said;

    make_layer(storage);
    layers_job_fill(&job, LAYERS_REMOVE, NAME);
    said = scratch_do(storage, &job, NULL, 0);
    CHECK_OK(said.r, said.err);
    CHECK(!scratch_has(storage, "layers/" NAME));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
    said = scratch_do(storage, &job, NULL, 0); /* it is gone already */
    CHECK_OK(said.r, said.err);
}

/* A layer that grows until the other end says so, in a process of its own. */
static pid_t start_maker(int storage, const int pair[static 2])
{
    struct storage s;
    struct staging g;
    pid_t pid;
    char go;

    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    close(pair[0]);
    CHECK_OK(storage_open(&s, storage, &e), e);
    CHECK_OK(staging_begin(&g, &s, NAME, &e), e);
    CHECK(write(pair[1], "x", 1) == 1 && read(pair[1], &go, 1) == 1);
    CHECK_OK(staging_publish(&g, NAME, &(struct layer_info){ .bytes = 0 }, &e), e);
    _exit(0);
}

/* Who is past the point where it looks is not overtaken. */
TEST(removes_a_layer_that_somebody_is_about_to_make)
{
    enum { LONG_MS = 300 }; /* for one that does not wait; one that does has all the time */
    int storage = scratch_storage(), pair[2], sock;
    struct pollfd said_it = { .events = POLLIN };
    struct layers_said said;
    struct layers_job job;
    pid_t maker, layer_worker;
    char grows;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    maker = start_maker(storage, pair);
    CHECK(read(pair[0], &grows, 1) == 1);
    layers_job_fill(&job, LAYERS_REMOVE, NAME);
    sock = scratch_layer_worker(storage, &job, sizeof job, NULL, 0, &layer_worker);
    scratch_hear(sock, LAYERS_READY, &said);
    said_it.fd = sock;
    CHECK_INT(poll(&said_it, 1, LONG_MS), 0);
    CHECK(write(pair[0], "x", 1) == 1);
    scratch_hear(sock, LAYERS_DONE, &said);
    CHECK_OK(said.r, said.err);
    CHECK(waitpid(maker, NULL, 0) == maker && waitpid(layer_worker, NULL, 0) == layer_worker);
    CHECK(!scratch_has(storage, "layers/" NAME));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
}

TEST(lists_layers_and_nothing_else)
{
    int storage = scratch_storage(), sock;
    struct layers_job job;
    struct layers_said said;
    pid_t pid;

    make_layer(storage);
    CHECK_INT(mkdirat(storage, "layers/other", 0700), 0);
    layers_job_fill(&job, LAYERS_LIST, NULL);
    sock = scratch_layer_worker(storage, &job, sizeof job, NULL, 0, &pid);
    scratch_hear(sock, LAYERS_LINE, &said);
    CHECK_STR(str_from(said.text), NAME);
    scratch_hear(sock, LAYERS_LINE, &said);
    CHECK_INT(said.word, LAYERS_DONE);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(ends_when_its_job_is_cancelled_in_one_direction)
{
    int storage = scratch_storage(), sock, status;
    struct layers_job job;
    struct layers_said said;
    pid_t pid;

    CHECK(setenv("SANDBOXER_STOP_AT", "layers.begin:1", 1) == 0);
    make_layer(storage);
    layers_job_fill(&job, LAYERS_LIST, NULL);
    sock = scratch_layer_worker(storage, &job, sizeof job, NULL, 0, &pid);
    scratch_hear(sock, LAYERS_READY, &said);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    CHECK(shutdown(sock, SHUT_WR) == 0 && kill(pid, SIGCONT) == 0);
    CHECK_INT(ipc_recv(sock, &said, sizeof said, NULL, &e), 0); /* neither LINE nor DONE */
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
}

TEST(sweeps_what_nobody_works_on)
{
    int storage = scratch_storage(), held;
    struct layers_job job;
    struct layers_said said;

    CHECK_INT(mkdirat(storage, "tmp", 0700), 0);
    CHECK_INT(mkdirat(storage, "tmp/left", 0700), 0);
    CHECK_INT(mkdirat(storage, "tmp/left/fs", 0000), 0);
    CHECK_INT(mkdirat(storage, "tmp/held", 0700), 0);
    held = openat(storage, "tmp/held", O_RDONLY | O_DIRECTORY);
    CHECK(held >= 0 && flock(held, LOCK_EX | LOCK_NB) == 0);
    layers_job_fill(&job, LAYERS_SWEEP, NULL);
    said = scratch_do(storage, &job, NULL, 0);
    CHECK_OK(said.r, said.err);
    CHECK(!scratch_has(storage, "tmp/left") && scratch_has(storage, "tmp/held"));
}

TEST(nonsense_is_answered_and_nothing_done)
{
    int storage = scratch_storage();
    struct layers_job job;
    struct layers_said said;

    layers_job_fill(&job, LAYERS_REMOVE, "../../etc");
    said = scratch_do(storage, &job, NULL, 0);
    CHECK_INT(said.r, -ERR_INVALID);
    CHECK(!scratch_has(storage, "layers"));
}

TEST(ends_when_nobody_asks)
{
    int storage = scratch_storage(), status;
    int pair[2];
    pid_t pid;

    CHECK_OK(ipc_pair(pair, &e), e);
    pid = fork();
    if (pid == 0) {
        close(pair[0]);
        _exit(layer_worker_run(pair[1], storage, false));
    }
    close(pair[0]);
    close(pair[1]);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A sweep at the start, while the first layers are made: it may come before one is locked. */
TEST(what_is_swept_while_it_is_made_is_made_again)
{
    int storage = scratch_storage(), status;
    struct storage s = STORAGE_NONE;
    pid_t pid;

    CHECK_OK(storage_open(&s, storage, &e), e);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (pid == 0)
        if (storage_sweep(&s, &e) < 0)
            _exit(1);
    for (int i = 0; i < 300; i++) {
        struct staging g = STAGING_NONE;
        char name[LAYER_NAME_MAX];

        snprintf(name, sizeof name, "lay_%d", i);
        CHECK_OK(staging_begin(&g, &s, name, &e), e);
        staging_done(&g);
    }
    CHECK(waitpid(pid, &status, WNOHANG) == 0); /* it sweeps still */
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
    storage_done(&s);
}
