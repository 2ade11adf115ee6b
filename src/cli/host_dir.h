/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of this machine as workspaces: opened here, with the caller's own rights, and handed
 * to the daemon's monitor (lib/ipc/handover.h). A daemon on another machine has no use for them. */
#ifndef CLI_HOST_DIR_H
#define CLI_HOST_DIR_H

#include "cli/api_call.h"

/* Passes the directory's descriptor with the request. A result other than 0 is the exit status,
 * after a message. */
int host_dir_pass(struct api_call *c, const char *path, bool writable);

#endif
