/* SPDX-License-Identifier: Apache-2.0 */
/* Passes a directory from a client to the supervisor through the control plane, without trust in
 * the control plane.
 *
 * The client makes a pair of sockets, sends one message with the directory (O_PATH) and its own
 * credentials on one end, and passes the other end with its request. The control plane can only
 * forward that end: it cannot add a message, because the sending end is closed, and the kernel
 * verifies the sender of the queued message (SCM_CREDENTIALS). */
#ifndef LIB_IPC_HANDOVER_H
#define LIB_IPC_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct handover_sender {
    uid_t uid;
    gid_t gid;
};

/* The client's side. The caller keeps `dir`, and sends *ret with the request. */
int handover_make(int dir, bool writable, int *ret, struct err *e);

/* The supervisor's side: the directory, whether it is writable, and its sender. -ERR_DENIED if the
 * socket has no such message queued. Does not block. */
int handover_take(int sock, int *ret_dir, bool *ret_writable, struct handover_sender *ret,
                  struct err *e);
/* Like handover_take(), but leaves the message in the socket. */
int handover_peek(int sock, int *ret_dir, bool *ret_writable, struct handover_sender *ret,
                  struct err *e);

#endif
