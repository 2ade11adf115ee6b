/* SPDX-License-Identifier: Apache-2.0 */
/* A VFS of SQLite that opens the store by the state directory's descriptor, for this process alone.
 *
 * The control plane has no search permission on the directories above its state directory, and
 * SQLite takes paths only. This VFS uses paths unchanged, where the default one resolves symbolic
 * links first. So a path through /proc/self/fd works, which leads to an open directory and needs no
 * permission on its parents.
 *
 * It is based on SQLite's "unix-excl": the first connection locks the file for the process until
 * its last connection is closed, and all of them share a WAL index on the heap. With the default
 * VFS the index is a mapped file (-shm), and a write to a mapped page for which the file system has
 * no block (a full btrfs) is a SIGBUS. Other processes can neither write nor read the file
 * meanwhile; `sandboxer backup` makes a copy for them.
 *
 * The lock is one of fcntl(2), which the process loses when it closes any descriptor of the file.
 * So nothing else in the process may open and close the file while a connection exists. */
#ifndef DOMAIN_STORE_SQLITE_VFS_H
#define DOMAIN_STORE_SQLITE_VFS_H

#include "base/err.h"

#define VFS_NAME "sandboxer"

enum { VFS_PATH_MAX = 64 };

/* Registers the VFS on top of "unix-excl", or of SQLite's default if that is not "unix" (tests). Call it before the first connection, and
 * again after the default has changed. */
int vfs_register(struct err *e);

/* The path of the file `name` in an open directory, valid while the directory is open. */
void vfs_path(int dir, const char *name, char ret[static VFS_PATH_MAX]);

#endif
