/* Whom the kernel kills first when memory runs out: /proc/self/oom_score_adj.
 *
 * Any process may raise its value. Only CAP_SYS_RESOURCE lowers it below the floor that it
 * inherited, and moves that floor: a process that raises itself with the capability passes on a
 * value that its children cannot undercut. */
#ifndef PROC_OOM_H
#define PROC_OOM_H

#include "base/err.h"

enum {
    OOM_DAEMON = -500,  /* warden and control plane */
    OOM_HELPER = 200,   /* egress workers, keepers of layers */
    OOM_LAUNCHER = 300, /* the floor of everything in a sandbox */
    OOM_WORKLOAD = 800,
};

/* Sets the value of the calling process. */
int oom_set(int value, struct err *e);

/* A descriptor on which oom_write() sets the value of the calling process, or -1. */
int oom_open(void);
int oom_write(int fd, int value); /* -1: errno */

#endif
