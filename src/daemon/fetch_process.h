/* SPDX-License-Identifier: Apache-2.0 */
/* The fetch process (engine/fetcher/server.h), started by the monitor for the control plane: as a
 * user of its own, without rights, and with nothing but the socket that it serves. It ends when
 * that closes. */
#ifndef DAEMON_FETCH_PROCESS_H
#define DAEMON_FETCH_PROCESS_H

#include "daemon/privilege.h"

/* One, and others that are on their way out. */
enum { FETCH_PROCESSES_MAX = 8 };

/* Becomes a fetch process that serves `sock` (lib/proc/spawn.h: spawn_exec()). */
int fetch_process_exec(const struct identity_choice *who, int sock, int *status, struct err *e);

#endif
