/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/progress.h"
#include "lib/proc/spawn.h"
#include "lib/tar/pack.h"

static int start_packer(struct archive *a, struct err *e)
{
    /* As a plain user one is root of one's own sandboxes. */
    const struct tree_pack_options o = { .as = ".", .set_owner = geteuid() != 0 };
    struct tree_report report;
    struct err said;
    int fds[2], r;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    fflush(NULL);
    a->packer = fork();
    if (a->packer == 0) {
        close(fds[0]);
        signal(SIGPIPE, SIG_IGN);
        r = tree_pack(fds[1], a->fd, "", &o, &report, &said);
        if (r < 0)
            fprintf(stderr, "sandboxer: packing the directory: %s\n", said.msg);
        _exit(r < 0 ? 1 : 0);
    }
    close(fds[1]);
    a->stream = fds[0];
    return a->packer < 0 ? err_sys(e, "starting a helper") : 0;
}

int archive_open(struct archive *a, const char *path, struct err *e)
{
    bool standard = strcmp(path, "-") == 0;
    struct stat st;
    int r;

    *a = ARCHIVE_NONE;
    if (standard && isatty(STDIN_FILENO) == 1)
        return err_set(e, ERR_INVALID, "'-' reads an archive from stdin, which is a terminal");
    a->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (a->fd < 0 || fstat(a->fd, &st) < 0)
        return err_sys(e, "%s", path);
    if (S_ISDIR(st.st_mode))
        return start_packer(a, e);
    r = decompress_start(&a->decompress, a->fd, e);
    a->stream = a->decompress.plain >= 0 ? a->decompress.plain : a->fd;
    return err_wrap(e, r, "%s", path);
}

static int finish_archive_stream(struct archive *a, struct err *e)
{
    int status, r;

    if (a->packer <= 0)
        return decompress_finish(&a->decompress, e);
    r = spawn_wait(a->packer, &status, e);
    a->packer = 0;
    if (r >= 0 && status != 0)
        r = err_set(e, ERR_SYS, "the directory could not be packed");
    return r;
}

int archive_more(void *archive, char *out, size_t cap, struct err *e)
{
    struct archive *a = archive;
    ssize_t n;

    do
        n = read(a->stream, out, cap);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "reading the archive");
    progress_moved((uint64_t)n);
    return n ? (int)n : finish_archive_stream(a, e);
}

void archive_done(struct archive *a)
{
    int status;

    if (a->packer > 0) {
        drop_fd(&a->stream); /* so that it ends */
        spawn_wait(a->packer, &status, NULL);
    }
    decompress_end(&a->decompress);
    drop_fd(&a->fd);
}
