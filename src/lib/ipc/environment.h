/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a program in a sandbox: the sources of its variables, and which one counts.
 *
 * The first source in this order that has a variable sets it:
 *
 *     1. the start           `env` of a request, --env of `exec` and `run`
 *     2. the sandbox         `env` of the request that created it; programs of the daemon itself
 *                            (process_request.bare) do without
 *     3. the profile         `env`
 *     4. the image           its configuration
 *     5. the network         environment_proxy, if an egress worker serves the sandbox
 *     6. usual values        environment_usual
 *     7. the user inside     HOME, USER and LOGNAME by /etc/passwd of the sandbox, and PATH
 *
 * Each source is added where it is known: 1 and 2 by the control plane, 3 to 6 by the backend (3 to
 * 5 once, when the sandbox is made), 7 by PID 1. `sandboxer run` without a daemon has 1, 5, 6 and
 * 7; its TERM is that of the caller's terminal. All of them call environment_append().
 *
 * Programs read proxy variables in upper or lower case, so a source that has one in either case has
 * both. */
#ifndef LIB_IPC_ENVIRONMENT_H
#define LIB_IPC_ENVIRONMENT_H

#include <stddef.h>

enum { ENVIRONMENT_PROXY_COUNT = 8, ENVIRONMENT_USUAL_COUNT = 2 };

/* HTTP_PROXY and so on, in both cases, for the listeners of lib/ipc/listeners.h. */
extern const char *const environment_proxy[ENVIRONMENT_PROXY_COUNT];

/* LANG and, only for a program on a terminal, TERM: the last one. */
extern const char *const environment_usual[ENVIRONMENT_USUAL_COUNT];

/* Appends the variables ("NAME=VALUE") of the next source, without those that the list of n
 * variables has already, and NULL. The list needs room for all of them. Returns their new number.
 * The variables of one source are not compared with each other: a request may have many. */
size_t environment_append(const char **list, size_t n, const char *const *source, size_t count);

#endif
