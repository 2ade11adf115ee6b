/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over SOCK_SEQPACKET sockets, one per packet, with attached descriptors. */
#ifndef LIB_IPC_CHANNEL_H
#define LIB_IPC_CHANNEL_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum {
    IPC_MESSAGE_MAX = 128 * 1024, /* bytes in one packet */
    IPC_FDS_MAX = 48,             /* descriptors with one packet */
};

/* Descriptors that arrived with a message, owned by the receiver: take_fd() those to keep;
 * ipc_fds_done() closes the rest. All are close-on-exec. */
struct ipc_fds {
    int fd[IPC_FDS_MAX];
    size_t n;
};

void ipc_fds_done(struct ipc_fds *f);

int ipc_pair(int ret[2], struct err *e); /* both ends close-on-exec */

/* Sends one packet; the caller keeps the descriptors. -ERR_BUSY if the peer's queue is full and the
 * socket is non-blocking, -ERR_UPSTREAM if the peer has closed the connection. */
int ipc_send(int sock, const void *message, size_t n, const int *fds, size_t n_fds, struct err *e);

/* Receives one packet of at most cap bytes: returns its length, or 0 if the peer has closed the
 * connection. A packet whose bytes or descriptors were truncated is -ERR_TOO_BIG, and its
 * descriptors are closed. -ERR_BUSY if no packet is queued and the socket is non-blocking. fds may
 * be NULL: packets with descriptors are then rejected. */
ssize_t ipc_recv(int sock, void *message, size_t cap, struct ipc_fds *fds, struct err *e);

#endif
