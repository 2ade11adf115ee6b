/* Directories of this machine as workspaces: opened here, with the caller's own rights, and handed
 * to the daemon's supervisor (ipc/handover.h). A daemon on another machine has no use for them. */
#ifndef CLI_HOST_DIR_H
#define CLI_HOST_DIR_H

#include "cli/call.h"

/* Has the directory go along with the request. Not 0: what to exit with, said. */
int host_dir_hand(struct call *c, const char *path, bool writable);

#endif
