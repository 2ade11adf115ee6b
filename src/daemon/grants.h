/* SPDX-License-Identifier: Apache-2.0 */
/* Host directories that sandboxes may use as workspaces, each granted by a client.
 *
 * A grant is made when a sandbox is created, while its client is there: the directory is opened
 * with the client's own rights, and a record in the monitor's directory keeps who that was and
 * which directory it is. Every later copy, also after a restart, opens the directory again with the
 * rights of the recorded user and compares it with the record. The control plane can only name a
 * grant by its sandbox; it cannot write one.
 *
 * All functions open files that a client chose, and may block: they run in child processes. */
#ifndef DAEMON_GRANTS_H
#define DAEMON_GRANTS_H

#include "daemon/client.h"
#include "daemon/host_file.h"
#include "engine/runtime/launcher.h"

enum { GRANT_PATH_MAX = HOST_FILE_PATH_MAX };

struct workspace_grant {
    uint32_t magic, version;
    struct client client;
    uint32_t writable;
    uint32_t has_birth; /* the file system keeps the time of birth */
    uint64_t inode, device;
    int64_t birth_s;
    uint32_t birth_ns, pad;
    char root[GRANT_PATH_MAX]; /* of workspaces.roots that `path` is below; "": path is absolute */
    char path[GRANT_PATH_MAX];
};

/* Where grants are, and what they may be about. */
struct grants {
    int dir; /* the directory of records */
    const struct launcher_options *launcher;
    const struct client_doors *doors;
};

bool grant_name_valid(const char *sandbox);

/* Without a sandbox, each only checks that the client could grant it: nothing is recorded, and what
 * was handed over stays there. */
/* For a path of a request: `root` counts from 1, 0 is for an absolute path, which only a monitor
 * that trusts the control plane takes. */
int grant_make_named(const struct grants *g, const char *sandbox, int sock, uint32_t root,
                     const char *path, bool writable, struct err *e);
/* For a directory that the client handed over (lib/ipc/handover.h). */
int grant_make_handed(const struct grants *g, const char *sandbox, const struct client *client,
                      const struct handover *h, bool writable, struct err *e);

/* Opens the directory of a grant. -ERR_NOT_FOUND without a record, -ERR_DENIED or -ERR_CONFLICT,
 * naming the path, if the recorded user cannot open it or it is another directory now. */
int grant_open(const struct grants *g, const char *sandbox, struct workspace_grant *ret,
               int *ret_dir, struct err *e);
int grant_remove(const struct grants *g, const char *sandbox, struct err *e);

#endif
