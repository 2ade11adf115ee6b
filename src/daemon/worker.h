/* Egress workers, started by the warden for the control plane: as a user of their own, without
 * rights, and with nothing but the socket that they serve. They end when it closes. */
#ifndef DAEMON_WORKER_H
#define DAEMON_WORKER_H

#include "daemon/privilege.h"
#include "json/bind.h"

struct worker_options {
    struct identity_choice who;
    struct json_strs resolvers; /* none: those of the system */
    const char *upstream;       /* NULL: straight */
};

/* *ret is the control plane's end of the socket. */
int worker_start(const struct worker_options *o, int *ret, struct err *e);

#endif
