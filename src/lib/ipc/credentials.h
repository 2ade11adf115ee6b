/* SPDX-License-Identifier: Apache-2.0 */
/* Packets whose sender the kernel verifies (SCM_CREDENTIALS): a process that only forwards the
 * receiving socket can neither add such a packet nor change one. */
#ifndef LIB_IPC_CREDENTIALS_H
#define LIB_IPC_CREDENTIALS_H

#include <stdbool.h>

#include "lib/ipc/channel.h"

struct credentials {
    pid_t pid;
    uid_t uid;
    gid_t gid;
};

/* The effective ids of this process. */
struct credentials credentials_own(void);

/* Sends one packet on a new pair of sockets and returns its other end: nothing can follow, because
 * the sending end is closed. Only root may name a pid that is not its own. The caller keeps the
 * descriptors. */
int credentials_send(const struct credentials *as, const void *message, size_t n, const int *fds,
                     size_t n_fds, int *ret_sock, struct err *e);

/* The queued packet: its length. With `peek` it stays queued. -ERR_DENIED if the socket has no
 * whole packet with the credentials of its sender. Does not block. */
ssize_t credentials_receive(int sock, bool peek, void *message, size_t cap, struct ipc_fds *fds,
                            struct credentials *ret, struct err *e);

#endif
