/* SPDX-License-Identifier: Apache-2.0 */
/* System calls on names beneath a directory that cannot escape from it: neither through "..", nor
 * through symbolic links, nor through concurrent renames. Private to this module and mirror. */
#ifndef LIB_TAR_AT_H
#define LIB_TAR_AT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Like openat(), but resolves path beneath dir and without symbolic links; O_PATH | O_NOFOLLOW
 * opens a link itself. Returns -1 and sets errno: ELOOP if a component is a symbolic link. */
int at_open(int dir, const char *path, int flags, mode_t mode);
/* The same for what is there already; EXDEV where a mount is in the way. */
int at_open_here(int dir, const char *path, int flags);

/* Like at_open() for reading, with O_NOATIME if that is permitted. */
int at_open_unseen(int dir, const char *path, int flags);

/* Opens a directory for reading, and adds u+rwx to its mode if that is missing and the caller is
 * permitted. With same_fs, fails with EXDEV if the path crosses a mount point. */
int at_open_dir(int dir, const char *path, bool same_fs);

/* Removes the file, link or empty directory `name`, without following it. An absent name is not an
 * error. Returns -1 and sets errno: ENOTEMPTY or EEXIST for a directory with content. */
int at_clear(int dir, const char *name);

/* Writes all n bytes. */
int at_write(int fd, const void *p, size_t n, struct err *e);

/* Sets the error of a failed at_open() from errno; explains ELOOP and ENOENT. */
int at_error(struct err *e, const char *doing);

#endif
