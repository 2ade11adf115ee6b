/* SPDX-License-Identifier: Apache-2.0 */
/* Egress workers, started by the monitor for the control plane: as a user of their own, without
 * rights, behind the gate (lib/gate/gate.h), and with nothing but the socket that they serve. They
 * end when it closes. */
#ifndef DAEMON_WORKER_H
#define DAEMON_WORKER_H

#include <sys/types.h>

#include "daemon/privilege.h"
#include "lib/gate/gate.h"
#include "lib/json/bind.h"

struct worker_options {
    struct identity_choice who;
    struct json_strs resolvers; /* none: those of the system */
    const char *upstream;       /* NULL: straight */
};

/* One for each sandbox that wants its own, at most. */
enum { WORKERS_MAX = 4096 };

/* Becomes a worker that serves `sock` (lib/proc/spawn.h: spawn_exec()), in the group that
 * gate_add() made. The gate gets the resolvers and the upstream proxy as exceptions. */
int worker_exec(const struct worker_options *o, const struct gate *g, int sock, int *status,
                struct err *e);

#endif
