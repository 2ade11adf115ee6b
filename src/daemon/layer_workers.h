/* SPDX-License-Identifier: Apache-2.0 */
/* Layer workers, started by the monitor for the control plane: with the monitor's rights, which
 * they give up as far as they can before they touch anything (engine/layers/job.h). They end with
 * their job or their socket. */
#ifndef DAEMON_LAYER_WORKERS_H
#define DAEMON_LAYER_WORKERS_H

#include <stdbool.h>

#include "base/err.h"

/* One that hangs stays until its file system lets it go. */
enum { LAYER_WORKERS_MAX = 64 };

/* Becomes a layer worker that serves `sock` (lib/proc/spawn.h: spawn_exec()). `storage` is a
 * descriptor of the storage directory; `untrusted`: whether the control plane has fewer rights than
 * the monitor. */
int layer_worker_exec(int storage, int sock, bool untrusted, int *status, struct err *e);

#endif
