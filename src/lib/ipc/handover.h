/* SPDX-License-Identifier: Apache-2.0 */
/* Passes host files from a client to the supervisor through the control plane, without trust in the
 * control plane.
 *
 * The client makes a pair of sockets, sends one packet with the files (O_PATH) and its own
 * credentials on one end, and passes the other end with its request. The control plane can only
 * forward that end (lib/ipc/credentials.h). */
#ifndef LIB_IPC_HANDOVER_H
#define LIB_IPC_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
    HANDOVER_MOUNTS_MAX = 16,
    HANDOVER_FILES_MAX = 1 + HANDOVER_MOUNTS_MAX,
    HANDOVER_TARGET_MAX = 256,
};

enum handover_use {
    HANDOVER_WORKSPACE = 1, /* the first file, a directory */
    HANDOVER_MOUNT,         /* a directory or a regular file, which is shown at `target` */
};

struct handover_file {
    uint32_t use, writable;
    char target[HANDOVER_TARGET_MAX]; /* of a mount */
};

struct handover {
    struct handover_file file[HANDOVER_FILES_MAX];
    int fd[HANDOVER_FILES_MAX]; /* owned */
    size_t n;
    uid_t uid; /* of the sender */
    gid_t gid;
};

void handover_done(struct handover *h);

/* The client's side. Adds a file: *fd is taken. -ERR_TOO_BIG if there is no room for it. */
int handover_add(struct handover *h, int *fd, const struct handover_file *f, struct err *e);
/* Sends all files; *ret goes with the request. */
int handover_make(const struct handover *h, int *ret, struct err *e);

/* The supervisor's side: -ERR_DENIED if the socket has no such packet queued, -ERR_INVALID if a
 * file has the wrong type. With `peek` the packet stays queued. Does not block. */
int handover_take(int sock, bool peek, struct handover *ret, struct err *e);

#endif
