/* Where the daemon listens: a unix socket, TCP where asked for, and what systemd hands over. */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "base/err.h"
#include "config/config.h"

enum { LISTEN_MAX = 8 };

struct listeners {
    int fd[LISTEN_MAX];
    size_t n;
    int lock;       /* held while we own the unix socket's path; -1: it is systemd's */
    char path[108]; /* of the unix socket that we made; "": none */
};

/* -ERR_BUSY if another daemon listens there. Sockets of a daemon that died are taken over. */
int listeners_open(const struct config *c, struct listeners *ret, struct err *e);
void listeners_close(struct listeners *l);     /* closes */
void listeners_close_fds(struct listeners *l); /* all but the lock */
void listeners_remove(
    struct listeners *l); /* and removes the unix socket: nobody answers any more */

#endif
