/* A connection to a port inside a sandbox, by way of the daemon. */
#ifndef CLI_TUNNEL_H
#define CLI_TUNNEL_H

#include "cli/call.h"

struct tunnel {
    struct call call; /* lasts as long as the connection: the sandbox is in use */
    int fd;           /* the connection itself, or one to a daemon that copies */
    bool direct;      /* the former: each direction has an end of its own */
};

/* 0, or what to exit with after saying why. */
int tunnel_open(struct tunnel *t, const struct verb *v, const struct common *common,
                const char *sandbox, const char *port);
void tunnel_done(struct tunnel *t);

/* Copies both ways between it and two descriptors, which may be one and the same, until both
 * directions have ended, or the one towards us has. */
void tunnel_relay(struct tunnel *t, int from, int to);

#endif
