/* One message, one packet: SOCK_SEQPACKET sockets with descriptors attached. */
#ifndef IPC_CHANNEL_H
#define IPC_CHANNEL_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum {
    IPC_MESSAGE_MAX = 128 * 1024, /* bytes in one packet */
    IPC_FDS_MAX = 48,             /* descriptors with one packet */
};

/* Descriptors that arrived with a message. Whoever receives owns them: take_fd() what you keep, and
 * ipc_fds_done() closes the rest. All are close-on-exec. */
struct ipc_fds {
    int fd[IPC_FDS_MAX];
    size_t n;
};

void ipc_fds_done(struct ipc_fds *f);

int ipc_pair(int ret[2], struct err *e); /* both ends close-on-exec */

/* Sends one packet; the descriptors stay the caller's. -ERR_BUSY if the peer's queue is full and
 * the socket does not block, -ERR_UPSTREAM if the peer is gone. */
int ipc_send(int sock, const void *message, size_t n, const int *fds, size_t n_fds, struct err *e);

/* Receives one packet of at most cap bytes: its length, or 0 when the peer is gone. A packet that
 * was cut short, or whose descriptors were, is -ERR_TOO_BIG and closes what came with it. -ERR_BUSY
 * if there is none and the socket does not block. fds may be NULL: then descriptors are refused. */
ssize_t ipc_recv(int sock, void *message, size_t cap, struct ipc_fds *fds, struct err *e);

#endif
