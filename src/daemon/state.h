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
/* `grants` beside it (daemon/grants.h), for the monitor alone. After state_open(). */
int state_open_grants(const char *path, int *ret, struct err *e);
/* Opens `storage` in it, for layers; accessible to the starting user alone. After state_open(). */
int state_open_storage(const char *path, int *ret, struct err *e);

#endif
