/* SPDX-License-Identifier: Apache-2.0 */
/* Priorities for the OOM killer: /proc/self/oom_score_adj.
 *
 * Any process may raise its value. Only a process with CAP_SYS_RESOURCE can lower it below the
 * inherited minimum (oom_score_adj_min), and each of its writes sets that minimum: so children
 * without the capability cannot go below the value that it has written. */
#ifndef LIB_PROC_OOM_H
#define LIB_PROC_OOM_H

#include "base/err.h"

enum {
    OOM_DAEMON = -500,  /* monitor and control plane */
    OOM_HELPER = 200,   /* egress workers, sandboxer-layers */
    OOM_LAUNCHER = 300, /* the minimum of all processes in a sandbox */
    OOM_WORKLOAD = 800,
};

/* Sets the value of the calling process. */
int oom_set(int value, struct err *e);

/* Opens a descriptor with which oom_write() sets the value of the process that opened it; or -1. */
int oom_open(void);
int oom_write(int fd, int value); /* -1: errno */

#endif
