/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a process in a daemon's sandbox with our stdin, stdout and stderr.
 *
 * On the unix socket the daemon passes the process's own descriptors, and the connection carries
 * only its end; on TCP everything goes through a WebSocket. The first two signals are passed on;
 * the third makes this process exit, which ends a process that was started here. A lost connection
 * is an error, never an exit status. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "cli/api_call.h"
#include "cli/run/network_options.h"

struct remote_start {
    const char *sandbox;
    char *const *argv; /* ended by NULL */
    const struct option_list *env;
    const char *user, *workdir, *timeout;
    const char *image; /* of a sandbox of its own; NULL: the host's system */
    bool stdin_, tty, background;
    bool quiet;                            /* no notes */
    const struct network_options *network; /* of a sandbox of its own, complete; NULL: none */
};

/* The start request as a JSON object. */
void remote_write_request(struct json_writer *w, const struct remote_start *s);

/* Runs the process to its end: its exit status, or an EXIT_ code. */
int remote_exec(const struct verb *v, const struct common *common, const struct remote_start *s);

/* Runs the process in a new sandbox if a daemon runs and accepts it: true, and *ret_status is the
 * exit status. False without a message: nothing has happened. */
bool remote_run(const struct verb *v, const struct remote_start *s, int *ret_status);

/* The same for a process that runs in the background. */
int remote_attach(const struct verb *v, const struct common *common, const char *sandbox,
                  const char *process, bool stdin_, bool tty, bool replay);

/* The exit status of this process for an "exited" event. */
int remote_status(const struct json *exited);

#endif
