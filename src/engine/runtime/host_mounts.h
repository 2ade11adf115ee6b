/* SPDX-License-Identifier: Apache-2.0 */
/* Lists mounts below the host's system directories: an overlay of a directory does not include
 * mounts below it. Only mounts at or below the directories that sandboxes see are listed. */
#ifndef ENGINE_RUNTIME_HOST_MOUNTS_H
#define ENGINE_RUNTIME_HOST_MOUNTS_H

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

/* Reads a file in the format of /proc/self/mountinfo and opens the mounts. -ERR_TOO_BIG: too many
 * mounts, or a path is too long. */
int host_mounts_read(const char *file, struct host_mounts *ret, struct err *e);
void host_mounts_done(struct host_mounts *m);

/* The innermost listed mount that contains `path`; NULL: it is on the root's mount. */
const struct host_mount *host_mounts_of(const struct host_mounts *m, const char *path);

#endif
