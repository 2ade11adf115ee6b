/* SPDX-License-Identifier: Apache-2.0 */
/* One program in one sandbox, without a daemon: this process is the whole control plane. */
#ifndef CLI_RUN_SESSION_H
#define CLI_RUN_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/run/network.h"
#include "engine/runtime/launcher.h"
#include "engine/runtime/plan.h"
#include "engine/runtime/supervisor.h"

struct session {
    struct launcher launcher;
    struct plan plan;
    int fds[PLAN_LAYERS_MAX + PLAN_MOUNTS_MAX]; /* layers, then mounts; in the plan's order */
    int control;
    struct network *network; /* NULL: loopback only */
    bool quiet;              /* no notes */
    unsigned asked_limits;   /* enum launch_unenforced: limits that the caller set explicitly */
    /* A directory inside that is made before the program starts and packed into collect_to (a file,
     * borrowed) when it has ended and everything else is killed; NULL: none. Needs a plan without
     * PLAN_ONE_SHOT. */
    const char *collect;
    int feed; /* a tar archive that is unpacked there first (borrowed); -1: it begins empty */
    int collect_to;
    uint64_t collect_max; /* bytes; more is a failure */
    bool collected;       /* the output is complete */
    /* With `collect`: called when the sandbox is built and filled, before its program starts; may
     * be NULL. With PLAN_CHANGES, `layer` and `userns` are set by then. */
    int (*prepare)(struct session *s, struct err *e);
    void *prepare_for; /* the callee's own */
    int layer, userns;
};

/* Starts the launcher, so that it gets ready while the caller fills in the plan. */
int session_init(struct session *s, struct err *e);
void session_done(struct session *s);

int session_add_layer(struct session *s, int dir, struct err *e); /* takes dir; before any mount */
/* Opens source with our own rights. */
int session_add_mount(struct session *s, const char *source, const char *target, bool writable,
                      struct err *e);

/* Builds the sandbox, runs the program with our stdin, stdout and stderr, and destroys the sandbox.
 * Returns the exit status for our caller, after printing errors to stderr. */
int session_run(struct session *s, const struct process_start *start);

#endif
