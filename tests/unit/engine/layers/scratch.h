/* SPDX-License-Identifier: Apache-2.0 */
/* A storage directory of a test's own, and layer workers on it. */
#ifndef TESTS_LAYERS_SCRATCH_H
#define TESTS_LAYERS_SCRATCH_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "engine/layers/worker.h"
#include "lib/tar/remove.h"

static char scratch_path[64];
static pid_t scratch_owner;
static bool scratch_untrusted; /* layer workers do not trust us */
static bool scratch_waits;     /* the layer worker that was started last waits for GO */

static void scratch_remove(void)
{
    if (getpid() == scratch_owner)
        (void)tree_remove(AT_FDCWD, scratch_path, NULL);
}

/* A descriptor; the directory goes with the test. */
static inline int scratch_storage(void)
{
    int fd;

    if (chdir("/tmp") < 0)
        FAIL("entering /tmp");
    snprintf(scratch_path, sizeof scratch_path, "sandboxer-test-XXXXXX");
    if (!mkdtemp(scratch_path))
        FAIL("making a directory");
    scratch_owner = getpid();
    atexit(scratch_remove);
    fd = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* A layer worker in a process of its own: our end of its socket. */
static inline int scratch_layer_worker(int storage, const struct layers_job *job, size_t size,
                                       const int *fds, size_t n, pid_t *ret)
{
    struct err e;
    int pair[2];

    scratch_waits = layers_job_check(job, size, n, NULL) >= 0 && layers_kind_waits(job->kind);
    CHECK_OK(ipc_pair(pair, &e), e);
    fflush(NULL);
    *ret = fork();
    CHECK(*ret >= 0);
    if (*ret == 0)
        _exit(layer_worker_run(pair[1], storage, scratch_untrusted));
    close(pair[1]);
    CHECK_OK(ipc_send(pair[0], job, size, fds, n, &e), e);
    return pair[0];
}

/* Hears until the word, or the last; tells a layer worker that waits to go. */
static inline void scratch_hear(int sock, enum layers_word word, struct layers_said *ret)
{
    struct layers_said go;
    struct err e;

    layers_said_fill(&go, LAYERS_GO);
    do {
        ssize_t n = ipc_recv(sock, ret, sizeof *ret, NULL, &e);

        if (n <= 0)
            FAIL("the keeper is gone");
        CHECK_OK(layers_said_check(ret, (size_t)n, &e), e);
        /* What a layer worker does not read makes the end of its socket an error, and its last word
         * lost. */
        if (ret->word == LAYERS_READY && scratch_waits)
            (void)ipc_send(sock, &go, sizeof go, NULL, 0, NULL);
    } while (ret->word != word && ret->word != LAYERS_DONE);
}

/* A whole job: its last word. */
static inline struct layers_said scratch_do(int storage, const struct layers_job *job,
                                            const int *fds, size_t n)
{
    struct layers_said said;
    pid_t pid;
    int status, sock = scratch_layer_worker(storage, job, sizeof *job, fds, n, &pid);

    scratch_hear(sock, LAYERS_DONE, &said);
    close(sock);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return said;
}

static inline bool scratch_has(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* It is said what to change, and nothing is left. */
static inline void scratch_lacked_room(int storage, const struct layers_said *said,
                                       enum err_code code, const char *name)
{
    char path[LAYER_NAME_MAX + 16];

    if (said->r != -(int)code || !strstr(said->err.msg, "images.free_min"))
        FAIL("%d '%s'", said->r, said->err.msg);
    snprintf(path, sizeof path, "layers/%s", name);
    CHECK(!scratch_has(storage, path));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
}

#endif
