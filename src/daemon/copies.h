/* Processes that copy workspaces, started by the supervisor for the control plane: with the rights
 * of the user who granted the directory.
 *
 * Everything that may take long or fail for the workspace's sake happens in the process itself, and
 * what it has to say goes to the report that came with the request. */
#ifndef DAEMON_COPIES_H
#define DAEMON_COPIES_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/ask.h"
#include "daemon/grants.h"
#include "ipc/channel.h"

/* One that hangs stays until its file system lets it go, whatever became of its sandbox. */
enum { COPIES_MAX = 256 };

struct copies {
    pid_t pid[COPIES_MAX];
    size_t n;
};

/* What cannot even be started is told in the report too. */
void copies_start(struct copies *c, const struct grants *g, const struct warden_ask *a,
                  const struct ipc_fds *fds);
void copies_ended(struct copies *c, pid_t pid); /* some child was: maybe none of these */

#endif
