/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the host that a client grants: how it is recorded, and recognized when it is opened
 * again. */
#ifndef DAEMON_HOST_FILE_H
#define DAEMON_HOST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { HOST_FILE_PATH_MAX = 1024 };

struct host_file {
    uint64_t inode, device;
    int64_t birth_s;
    uint32_t birth_ns;
    uint32_t has_birth; /* the file system keeps the time of birth */
    uint32_t uid, mode; /* not compared */
};

int host_file_read(int fd, struct host_file *ret, struct err *e);
/* Numbers of devices can change when the machine starts; the time of birth does not. */
bool host_file_same(const struct host_file *a, const struct host_file *b);
/* The path by which the file can be opened again. */
int host_file_path(int fd, char ret[static HOST_FILE_PATH_MAX], struct err *e);

/* Records, as files in the directory `dir`: written completely or not at all. */
int host_record_write(int dir, const char *name, const void *data, size_t n, struct err *e);
/* Its size, at most `cap`. -ERR_NOT_FOUND: it does not exist. */
ssize_t host_record_read(int dir, const char *name, void *ret, size_t cap, struct err *e);

#endif
