/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that copy workspaces, started by the monitor for the control plane, with the rights of
 * the user who granted the directory.
 *
 * Everything that may block or fail because of the workspace happens in the child process, which
 * writes its result to the report that came with the request. */
#ifndef DAEMON_COPIES_H
#define DAEMON_COPIES_H

#include <stdbool.h>
#include <sys/types.h>

#include "domain/config/config.h"
#include "daemon/children.h"
#include "daemon/monitor_request.h"
#include "daemon/grants.h"
#include "lib/ipc/channel.h"

/* A hanging copy stays until its file system releases it, even after its sandbox is destroyed. The
 * control plane queues copies before this limit (control/sandbox/copy_slots.h); the difference is
 * for processes that have ended and are not reaped yet. */
enum { COPIES_MAX = CONFIG_COPIES_MAX + 32 };

_Static_assert((int)COPIES_MAX <= (int)CHILDREN_MAX, "all copies are children");

/* A copy that cannot be started is also reported in the report; the caller logs the error. */
int copies_start(struct children *c, const struct grants *g, const struct monitor_request *a,
                 const struct ipc_fds *fds, struct err *e);

#endif
