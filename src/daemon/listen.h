/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemon listens: a unix socket, TCP where asked for, and what systemd hands over. */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include <sys/types.h>

#include "base/err.h"
#include "domain/config/config.h"

enum { LISTEN_MAX = 8 };

struct doors {
    int fd[LISTEN_MAX];
    size_t n;
    int tls;        /* where HTTPS is spoken; -1: nowhere */
    int lock;       /* held while we own the unix socket's path; -1: it is systemd's */
    char path[108]; /* of the unix socket, from when we have its lock; "": none */
    dev_t device;   /* of the socket that we made there; inode 0: none yet */
    ino_t inode;
    bool inherited_open; /* users other than ours can connect to an inherited socket */
};

/* Whether a daemon can put its socket there: nothing, or a socket; and its lock beside it, an empty
 * file of ours. -ERR_CONFLICT names what is in its place. Changes nothing. */
int doors_check_path(const char *path, struct err *e);
/* Whether a daemon can listen on its unix socket and its TCP addresses: -ERR_BUSY if another program
 * does. Descriptors of systemd are taken as they are. Not while a daemon of ours listens there. */
int doors_check_free(const struct config *c, struct err *e);
/* Whether a running daemon holds the path of the unix socket. */
bool doors_held(const struct config *c);

/* -ERR_BUSY if a program listens there. The socket of a daemon that died is replaced; a file of any
 * other kind is left alone and -ERR_CONFLICT. */
int doors_open(const struct config *c, struct doors *ret, struct err *e);
void doors_close(struct doors *d);     /* closes */
void doors_close_fds(struct doors *d); /* all but the lock */
void doors_remove(struct doors *d);    /* also removes the unix socket, if it is still this
                                          daemon's */

#endif
