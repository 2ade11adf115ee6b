/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the monitor starts for the control plane, with nothing but the socket that they
 * serve. They end when it closes. Each function becomes the program (lib/proc/spawn.h:
 * spawn_exec()). */
#ifndef DAEMON_WORKER_H
#define DAEMON_WORKER_H

#include <sys/types.h>

#include "daemon/privilege.h"
#include "engine/layers/job.h"
#include "lib/gate/gate.h"
#include "lib/json/bind.h"

struct worker_options {
    struct identity_choice who;
    struct json_strs resolvers; /* none: those of the system */
    const char *upstream;       /* NULL: straight */
};

enum {
    WORKERS_MAX = 4096,      /* one for each sandbox that wants its own, at most */
    FETCH_PROCESSES_MAX = 8, /* one, and others that are on their way out */
    /* One that hangs stays until its file system lets it go. */
    LAYER_WORKERS_MAX = LAYERS_OF_CALLERS_MAX + LAYERS_OF_DAEMON_MAX,
};

/* An egress worker: as a user of its own, without rights, behind the gate (lib/gate/gate.h), in the
 * group that gate_add() made. The gate gets the resolvers and the upstream proxy as exceptions. */
int worker_exec(const struct worker_options *o, const struct gate *g, int sock, int *status,
                struct err *e);

/* The fetch process (engine/fetcher/server.h): as a user of its own, without rights. */
int fetch_process_exec(const struct identity_choice *who, int sock, int *status, struct err *e);

/* A layer worker: with the monitor's rights, which it gives up as far as it can before it touches
 * anything (engine/layers/job.h). It ends with its job, too. `storage` is a descriptor of the
 * storage directory; `untrusted`: whether the control plane has fewer rights than the monitor. */
int layer_worker_exec(int storage, int sock, bool untrusted, int *status, struct err *e);

#endif
