/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies clients of the daemon for the monitor: by the kernel's data about a socket, never by
 * claims of the control plane. */
#ifndef DAEMON_CLIENT_H
#define DAEMON_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/ipc/handover.h"

enum { CLIENT_GROUPS_MAX = 256, CLIENT_DOORS_MAX = 8, CLIENT_PATH_MAX = 108 };

/* The addresses of the unix sockets that the daemon listens on. */
struct client_doors {
    char path[CLIENT_DOORS_MAX][CLIENT_PATH_MAX];
    size_t n;
};
void client_doors_add(struct client_doors *d, int listening); /* ignores descriptors that are not
                                                                 unix sockets */

struct client {
    uint32_t uid, gid;
    uint32_t n_groups;
    uint32_t groups[CLIENT_GROUPS_MAX];
};

/* The user at the other end of a connection that the daemon accepted and the client has not closed.
 * -ERR_DENIED for any other descriptor: a socket that the control plane connected itself would name
 * the process that listens there. */
int client_identify(int sock, const struct client_doors *d, struct client *ret, struct err *e);
/* The user who sent a handover, with the groups of who made its socket if that is the same user. */
int client_of_handover(int sock, const struct handover *h, struct client *ret, struct err *e);

/* File system rights of the client for this process, and back to those of root. No effect for a
 * monitor that is not root: it has no other rights than its user's. */
int client_enter(const struct client *c, struct err *e);
int client_leave(struct err *e);

#endif
