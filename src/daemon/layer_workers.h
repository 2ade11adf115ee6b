/* Keepers of layers, started by the supervisor for the control plane: with the supervisor's rights,
 * which they give up as far as they can before they touch anything (layers/job.h). They end with
 * their job or their socket. */
#ifndef DAEMON_KEEPERS_H
#define DAEMON_KEEPERS_H

#include "base/err.h"

/* One that hangs stays until its file system lets it go. */
enum { KEEPERS_MAX = 64 };

/* Becomes a keeper that serves `sock` (proc/spawn.h: spawn_exec()). `storage` is a descriptor of
 * the storage directory. */
int keeper_exec(int storage, int sock, int *status, struct err *e);

#endif
