/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of /proc whose entries are numbers: processes, threads, descriptors. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"

enum { DENTS = 32 << 10 };

void numbers_open(struct numbers *w, int at, const char *path, char *room, size_t cap)
{
    *w = (struct numbers){ .dir = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                           .room = room,
                           .cap = cap };
}

static bool read_number_batch(struct numbers *w)
{
    w->at = 0;
    w->n = w->dir < 0 ? 0 : syscall(SYS_getdents64, w->dir, w->room, w->cap);
    if (w->n > 0)
        return true;
    numbers_close(w);
    return false;
}

bool numbers_next(struct numbers *w, uint64_t *ret)
{
    while (w->at < w->n || read_number_batch(w)) {
        const struct kernel_dirent *d = (const void *)(w->room + w->at);

        w->at += d->reclen;
        if (str_to_u64(str_from(d->name), ret))
            return true;
    }
    return false;
}

void numbers_close(struct numbers *w)
{
    drop_fd(&w->dir);
    w->at = w->n = 0;
}

void pids_open(struct numbers *w)
{
    static char room[DENTS] __attribute__((aligned(8))); /* only one such walk at a time */

    numbers_open(w, AT_FDCWD, "/proc", room, sizeof room);
}

pid_t pids_next(struct numbers *w)
{
    uint64_t pid;

    while (numbers_next(w, &pid))
        if (pid > 1)
            return (pid_t)pid;
    return 0;
}
