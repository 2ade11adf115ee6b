/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to something inside a sandbox, by way of the daemon. */
#ifndef CLI_TUNNEL_H
#define CLI_TUNNEL_H

#include "cli/api_call.h"

struct tunnel {
    struct api_call call; /* lasts as long as the connection: the sandbox is in use */
    int to, from;         /* the connection itself, or one to a daemon that copies */
    int said;             /* where the other end writes errors; -1: nowhere */
    bool direct;          /* not copied: a separate descriptor for each direction */
};

/* Connects to a port. These return 0, or an exit status after a message. */
int tunnel_open(struct tunnel *t, const struct verb *v, const struct common *common,
                const char *sandbox, const char *port);
/* Upgrades t->call, which is ready to be sent, to the protocol. */
int tunnel_upgrade(struct tunnel *t, const char *protocol);
void tunnel_done(struct tunnel *t);

/* Copies both ways between it and two descriptors, which may be one and the same, until both
 * directions have ended, or the one towards us has; and complaints to stderr. */
void tunnel_relay(struct tunnel *t, int from, int to);

#endif
