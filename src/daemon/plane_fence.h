/* SPDX-License-Identifier: Apache-2.0 */
/* The fence of the control plane (lib/fence/fence.h). The control plane parses everything that
 * clients send, so after start it keeps: its part of the state directory, to change; profiles,
 * policy bundle, registry credentials and the system's programs and settings, to read; descriptors
 * of its listeners and of the monitor. It starts no process and sends no signal: the monitor
 * does. */
#ifndef DAEMON_PLANE_FENCE_H
#define DAEMON_PLANE_FENCE_H

#include "daemon/serve.h"

/* Before the first thread. A refused system call is logged as daemon.call_refused. */
int plane_fence_enter(const struct serve_setup *s, struct err *e);

#endif
