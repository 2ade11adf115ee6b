/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's state directory: `daemon` below the configured one, for the control plane alone.
 * Every process of the daemon that gave up its rights reaches its part by a descriptor, so the
 * directories above may be closed to it. */
#ifndef DAEMON_STATE_H
#define DAEMON_STATE_H

#include "base/err.h"
#include "daemon/privilege.h"

/* Opens the directory, and makes what is missing. -ERR_DENIED if another user could write there. */
int state_open(const char *path, const struct identity_choice *who, int *ret, struct err *e);
/* Whether what exists of it is as state_open() needs it. Changes nothing. */
int state_check(const char *path, const struct identity_choice *who, struct err *e);
/* A directory in the state directory that only that user enters; made if it is not there. */
int state_open_part(const char *path, const char *part, const struct identity_choice *who, int *ret,
                    struct err *e);
/* The same for the starting user: `storage` for layers, `grants` (daemon/grants.h) for the monitor.
 * After state_open(). */
int state_open_own_part(const char *path, const char *part, int *ret, struct err *e);

#endif
