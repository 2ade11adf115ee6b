/* The way to the daemon: a connected socket, and what every request on it must say. */
#ifndef CLI_CONTACT_H
#define CLI_CONTACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum {
    CONTACT_PATH_MAX = 108, /* of a unix socket, with its NUL */
    CONTACT_HOST_MAX = 256,
    CONTACT_TOKEN_MAX = 256,
};

/* Where a daemon may be. */
struct place {
    bool tcp;
    char path[CONTACT_PATH_MAX]; /* unix */
    char host[CONTACT_HOST_MAX]; /* TCP: as getaddrinfo() wants it, without brackets … */
    char port[8];
    char authority[CONTACT_HOST_MAX + 10]; /* … and as the Host field does */
    bool ours;                             /* the default place: only root and we may be there */
    bool may_start;                        /* a daemon of ours would listen there */
};

/* `server` or, if it is NULL, $SANDBOXER_URL: http://HOST:PORT or unix:PATH. Else
 * $SANDBOXER_SOCKET. Else the default: /run/sandboxer/sandboxer.sock for root; for others
 * sandboxer.sock in $XDG_RUNTIME_DIR, in /run/user/UID if that is there, or in the state directory.
 */
int place_find(const char *server, struct place *ret, struct err *e);

struct contact {
    int fd;
    struct place place;
    char authorization[CONTACT_TOKEN_MAX + 8]; /* "Bearer …", or empty */
    char peer[CONTACT_TOKEN_MAX + 1];          /* whose session it is; empty: none's */
};

enum contact_start {
    CONTACT_MAY_START, /* start a daemon if nobody listens, unless $SANDBOXER_NO_DAEMON says no
                        */
    CONTACT_ONLY,
};

int contact_open(struct contact *c, const char *server, enum contact_start start, struct err *e);
void contact_done(struct contact *c);

#endif
