/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/download.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/progress.h"

enum { DOWNLOAD_PATH_MAX = 4096 };

/* A file of that name is whole, or what it was before. */
struct download_file {
    const char *path;
    char partial
        [DOWNLOAD_PATH_MAX]; /* our own temporary file; empty: not made, or renamed already */
    int fd;
};

/* The one whose partial file goes if a signal ends us. */
static const struct download_file *unfinished;

static void on_ending_signal(int sig)
{
    if (unfinished)
        (void)unlink(unfinished->partial);
    raise(sig); /* as it would be without us, when we return */
}

static void remove_on_signals(const struct download_file *t)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_ending_signal, .sa_flags = (int)SA_RESETHAND },
                     was;

    unfinished = t;
    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (sigaction(ends[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(ends[i], &action, NULL);
}

static int open_download(struct download_file *t, const char *path, struct err *e)
{
    t->path = path;
    t->fd = STDOUT_FILENO;
    if (strcmp(path, "-") == 0)
        return 0;
    if (snprintf(t->partial, sizeof t->partial, "%s.XXXXXX", path) >= (int)sizeof t->partial) {
        t->partial[0] = '\0';
        return err_set(e, ERR_INVALID, "%.80s…: the name has more than %zu bytes", path,
                       sizeof t->partial - 8);
    }
    remove_on_signals(t);
    t->fd = mkostemp(t->partial, O_CLOEXEC);
    if (t->fd >= 0)
        return 0;
    t->partial[0] = '\0';
    return err_sys(e, "a file beside %s", path);
}

/* The name is on disk, too. */
static int sync_parent_dir(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char dir[DOWNLOAD_PATH_MAX] = ".";
    AUTO_CLOSE int fd = -1;

    if (slash) /* with it: of "/file" it is the directory */
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path + 1), path);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_sys(e, "forcing %s to disk", dir) : 0;
}

static int publish_download(struct download_file *t, struct err *e)
{
    if (!t->partial[0])
        return 0;
    if (fsync(t->fd) < 0 || rename(t->partial, t->path) < 0)
        return err_sys(e, "%s", t->path);
    unfinished = NULL;
    t->partial[0] = '\0';
    return sync_parent_dir(t->path, e);
}

static void download_file_done(struct download_file *t)
{
    if (t->partial[0])
        (void)unlink(t->partial);
    unfinished = NULL;
    if (t->fd > STDERR_FILENO)
        close(t->fd);
}

int download(struct api_call *c, const char *path)
{
    AUTO(download_file_done) struct download_file f = { .fd = -1 };
    struct str piece;
    struct err e;
    int status;

    if (open_download(&f, path, &e) < 0)
        return api_call_failed(c, &e);
    status = api_call_open(c);
    while (status == 0 && api_call_next(c, &piece, &status) > 0) {
        progress_moved(piece.n);
        if (write_all(f.fd, piece, &e) < 0)
            status = api_call_failed(c, &e);
    }
    if (status == 0 && publish_download(&f, &e) < 0)
        status = api_call_failed(c, &e);
    return status;
}
