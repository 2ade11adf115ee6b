/* A directory that a client hands to the supervisor by way of the control plane, which neither of
 * them has to trust.
 *
 * The client makes a pair of sockets, sends one message with the directory (O_PATH) and its own
 * credentials on one end, and passes the other end along with its request. The control plane can
 * only pass that end on: it cannot put another message into it, and the kernel vouches for the
 * sender of the one that is there (SCM_CREDENTIALS). */
#ifndef IPC_HANDOVER_H
#define IPC_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct handover_sender {
    uid_t uid;
    gid_t gid;
};

/* The client's side. `dir` stays the caller's; *ret goes with the request. */
int handover_make(int dir, bool writable, int *ret, struct err *e);

/* The supervisor's side: the directory, whether it may be written to, and who sent it. -ERR_DENIED
 * if the socket holds no such message. Does not wait. */
int handover_take(int sock, int *ret_dir, bool *ret_writable, struct handover_sender *ret,
                  struct err *e);
/* The same, and the message stays in the socket. */
int handover_look(int sock, int *ret_dir, bool *ret_writable, struct handover_sender *ret,
                  struct err *e);

#endif
