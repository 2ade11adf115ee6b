/* A connection to something inside a sandbox, by way of the daemon. */
#ifndef CLI_TUNNEL_H
#define CLI_TUNNEL_H

#include "cli/call.h"

struct tunnel {
    struct call call; /* lasts as long as the connection: the sandbox is in use */
    int to, from;     /* the connection itself, or one to a daemon that copies */
    int said;         /* what the other end complains about; -1: it has no place for that */
    bool direct;      /* not copied: each direction has an end of its own */
};

/* To a port. These return 0, or what to exit with after saying why. */
int tunnel_open(struct tunnel *t, const struct verb *v, const struct common *common,
                const char *sandbox, const char *port);
/* To whatever t->call, which is ready to be sent, leads to by this protocol (an Upgrade). */
int tunnel_upgrade(struct tunnel *t, const char *protocol);
void tunnel_done(struct tunnel *t);

/* Copies both ways between it and two descriptors, which may be one and the same, until both
 * directions have ended, or the one towards us has; and complaints to stderr. */
void tunnel_relay(struct tunnel *t, int from, int to);

#endif
