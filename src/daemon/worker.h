/* Egress workers, started by the warden for the control plane: as a user of their own, without
 * rights, and with nothing but the socket that they serve. They end when it closes. */
#ifndef DAEMON_WORKER_H
#define DAEMON_WORKER_H

#include <sys/types.h>

#include "daemon/privilege.h"
#include "json/bind.h"

struct worker_options {
    struct identity_choice who;
    struct json_strs resolvers; /* none: those of the system */
    const char *upstream;       /* NULL: straight */
};

/* Those that run. One for each sandbox that wants its own, at most. */
enum { WORKERS_MAX = 4096 };

struct workers {
    pid_t pid[WORKERS_MAX];
    size_t n;
};

/* *ret is the control plane's end of the socket. */
int workers_start(struct workers *w, const struct worker_options *o, int *ret, pid_t *ret_pid,
                  struct err *e);
void workers_end(const struct workers *w, pid_t pid); /* kills it, if it is one of them */
void workers_ended(struct workers *w, pid_t pid);     /* some child was: maybe none of these */

#endif
