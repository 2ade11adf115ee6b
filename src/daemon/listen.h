/* Where the daemon listens: a unix socket, TCP where asked for, and what systemd hands over. */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "base/err.h"
#include "config/config.h"

enum { LISTEN_MAX = 8 };

struct doors {
    int fd[LISTEN_MAX];
    size_t n;
    int tls;        /* where HTTPS is spoken; -1: nowhere */
    int lock;       /* held while we own the unix socket's path; -1: it is systemd's */
    char path[108]; /* of the unix socket that we made; "": none */
};

/* -ERR_BUSY if another daemon listens there. Sockets of a daemon that died are taken over. */
int doors_open(const struct config *c, struct doors *ret, struct err *e);
void doors_close(struct doors *d);     /* closes */
void doors_close_fds(struct doors *d); /* all but the lock */
void doors_remove(struct doors *d);    /* and removes the unix socket: nobody answers any more */

#endif
