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
#include "cli/run/box_options.h"
#include "cli/run/network_options.h"
#include "domain/model/process.h"

enum { REMOTE_TEXT_MAX = 8 << 20 }; /* of the arena of a request: more than execve(2) passes */

/* Fills a request for argv (ended by NULL) with n variables, of which the last of a name counts, and
 * the size of our terminal, if it gets one. The rest is default. Texts are borrowed, or on the
 * arena. */
int remote_fill_request(struct process_request *ret, char *const *argv, const char *const *env,
                        size_t n, bool tty, struct arena *a, struct err *e);

/* The request as a JSON object, without what is default. */
void remote_write_request(struct json_writer *w, const struct process_request *q);

/* Runs the process to its end: its exit status, or an EXIT_ code. */
int remote_exec(const struct verb *v, const struct common *common, const char *sandbox,
                const struct process_request *q);

/* Runs the process in a new sandbox if a daemon runs and accepts it: true, and *ret_status is the
 * exit status. False without a message: nothing has happened. `network` (NULL: none) is complete,
 * and becomes the request's `egress`; `quiet`: without notes. The files of --mount in `box` (NULL:
 * none) are handed over. */
bool remote_run(const struct verb *v, const struct run_request *q, const struct box_options *box,
                const struct network_options *network, bool quiet, int *ret_status);

/* The same for a process that runs in the background. */
int remote_attach(const struct verb *v, const struct common *common, const char *sandbox,
                  const char *process, bool stdin_, bool tty, bool replay);

/* The exit status of this process for an "exited" event. */
int remote_status(const struct json *exited);

#endif
