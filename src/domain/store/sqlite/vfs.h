/* SPDX-License-Identifier: Apache-2.0 */
/* A VFS of SQLite that opens the store by the state directory's descriptor.
 *
 * The control plane has no search permission on the directories above its state directory, and
 * SQLite takes paths only. This VFS uses paths unchanged, where the default one resolves symbolic
 * links first. So a path through /proc/self/fd works, which leads to an open directory and needs no
 * permission on its parents. */
#ifndef DOMAIN_STORE_SQLITE_VFS_H
#define DOMAIN_STORE_SQLITE_VFS_H

#include "base/err.h"

#define VFS_NAME "sandboxer"

enum { VFS_PATH_MAX = 64 };

/* Registers the VFS on top of SQLite's current default. Call it before the first connection, and
 * again after the default has changed. */
int vfs_register(struct err *e);

/* The path of the file `name` in an open directory, valid while the directory is open. */
void vfs_path(int dir, const char *name, char ret[static VFS_PATH_MAX]);

#endif
