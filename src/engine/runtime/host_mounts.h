/* Which parts of the host's system are mounts of their own: an overlay of a directory does not show
 * what is mounted below it. Only mounts at or below the directories that sandboxes see are kept. */
#ifndef RUNTIME_HOST_MOUNTS_H
#define RUNTIME_HOST_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { HOST_MOUNTS_MAX = 128, HOST_MOUNT_MAX = 160 };

struct host_mounts {
    size_t n;
    struct host_mount {
        char path[HOST_MOUNT_MAX];
        int fd; /* O_PATH; -1: could not be opened, or is a link */
        bool is_dir;
    } mounts[HOST_MOUNTS_MAX];
    bool read;
};

/* Reads a file as /proc/self/mountinfo is, and opens the mounts. -ERR_TOO_BIG: there are more, or a
 * path is longer, than there is room for. */
int host_mounts_read(const char *file, struct host_mounts *ret, struct err *e);
void host_mounts_done(struct host_mounts *m);

/* The innermost mount that `path` is on or at, of those kept; NULL: none, it is on the root's. */
const struct host_mount *host_mounts_of(const struct host_mounts *m, const char *path);

#endif
