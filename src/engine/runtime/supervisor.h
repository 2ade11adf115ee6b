/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of a sandbox's control channel: sends requests to PID 1 and receives its
 * answers. */
#ifndef ENGINE_RUNTIME_SUPERVISOR_H
#define ENGINE_RUNTIME_SUPERVISOR_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/control.h"

/* Sends the request; its results arrive with the tag. Without a user it runs as root inside. */
int supervisor_start(int sock, uint32_t tag, const struct process_start *s, struct err *e);
int supervisor_kill(int sock, uint32_t tag, uint32_t proc, int sig, enum control_scope scope,
                    struct err *e);
/* PING, LIST, USAGE, LISTENERS, UPPER, STAND, GO_ON, END */
int supervisor_request(int sock, uint32_t tag, enum control_type type, struct err *e);
/* Asks which processes hold the socket with this inode number. */
int supervisor_query_socket_owner(int sock, uint32_t tag, uint64_t inode, struct err *e);

/* Every message has the layout of this build, even from a PID 1 of another version; entries of
 * `procs` and `who_is` are still read with control_procs_at() and the like. */
union supervisor_message {
    struct control_head head;
    struct control_pong pong;
    struct control_started started;
    struct control_failed failed;
    struct control_exited exited;
    struct control_killed killed;
    struct control_procs procs;
    struct control_attached attached;
    struct control_one done;
    struct control_used used;
    struct control_listening listening;
    struct control_who_is who_is;
    struct control_stood stood;
    char room_[IPC_MESSAGE_MAX];
};

/* Receives and checks the next message from PID 1: 1, or 0 when the sandbox has ended. Its
 * descriptors have the expected kind, or the message is refused; they do not block. Those of
 * LISTENING are checked by listeners_take(); those of WHO_IS are the files that it names. -ERR_BUSY
 * if there is no message and the socket does not block. After another error the connection is
 * unusable, but a new one may be made. */
int supervisor_next(int sock, union supervisor_message *ret, struct ipc_fds *ret_fds,
                    struct err *e);

#endif
