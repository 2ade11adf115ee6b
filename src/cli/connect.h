/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to the daemon: a socket, and the header fields that every request needs. */
#ifndef CLI_CONNECT_H
#define CLI_CONNECT_H

#include <stdbool.h>

#include "base/err.h"

enum {
    CONTACT_PATH_MAX = 108, /* of a unix socket, with its NUL */
    CONTACT_HOST_MAX = 256,
    CONTACT_TOKEN_MAX = 256,
};

/* Where a daemon may be. */
struct daemon_address {
    bool tcp;
    char path[CONTACT_PATH_MAX]; /* unix */
    char host[CONTACT_HOST_MAX]; /* TCP: as getaddrinfo() wants it, without brackets … */
    char port[8];
    char authority[CONTACT_HOST_MAX + 10]; /* … and as the Host field does */
    bool ours;                             /* the default place: only root and we may be there */
    bool may_start;                        /* a daemon that we start would listen there */
};

/* `server` or, if it is NULL, $SANDBOXER_URL: http://HOST:PORT or unix:PATH. Else
 * $SANDBOXER_SOCKET. Else the default: /run/sandboxer/sandboxer.sock for root; for others
 * sandboxer.sock in $XDG_RUNTIME_DIR, in /run/user/UID if that is there, or in the state
 * directory. */
int place_find(const char *server, struct daemon_address *ret, struct err *e);

struct contact {
    int fd;
    struct daemon_address place;
    char authorization[CONTACT_TOKEN_MAX + 8]; /* "Bearer …", or empty */
    char peer[CONTACT_TOKEN_MAX + 1];          /* whose session it is; empty: none's */
};

enum contact_start {
    CONTACT_MAY_START, /* start a daemon if none listens, unless $SANDBOXER_NO_DAEMON is set */
    CONTACT_ONLY,
};

/* A bare connection to a unix socket. -ERR_NOT_FOUND if no process listens there, -ERR_DENIED if this
 * user may not connect, or if at the default place another user listens. */
int contact_connect(const struct daemon_address *at, int *ret, struct err *e);

int contact_open(struct contact *c, const char *server, enum contact_start start, struct err *e);
void contact_done(struct contact *c);

#endif
