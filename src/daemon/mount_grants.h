/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host that clients granted to sandboxes as mounts.
 *
 * As with workspaces (daemon/grants.h), a client hands its files over, and a record in the
 * monitor's directory keeps which files these are and who granted them. Each time a sandbox is
 * built, also after a restart of the machine, the monitor opens them by their paths with the rights
 * of the recorded user, compares them with the record, and passes them to the launcher
 * (engine/runtime/granted.h).
 *
 * All functions open files that a client chose, and may block: they run in child processes. */
#ifndef DAEMON_MOUNT_GRANTS_H
#define DAEMON_MOUNT_GRANTS_H

#include "daemon/grants.h"
#include "engine/runtime/granted.h"

/* The mounts of a request; the client may have granted less. */
struct mount_want {
    uint32_t n;
    uint32_t writable; /* a bit for each mount */
};

/* Grants the mounts that a client handed over. Without a sandbox, it only checks that the client
 * could grant them. */
int mount_grants_make(const struct grants *g, const char *sandbox, const struct client *client,
                      const struct handover *h, const struct mount_want *want, struct err *e);

/* Opens the files of all mounts of a sandbox. -ERR_NOT_FOUND without a record; -ERR_DENIED or
 * -ERR_CONFLICT, naming the path, if the recorded user cannot open one or it is another file now. */
int mount_grants_open(const struct grants *g, const char *sandbox, struct granted *ret,
                      struct err *e);
int mount_grants_remove(const struct grants *g, const char *sandbox, struct err *e);

#endif
