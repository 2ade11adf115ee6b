/* System calls on names beneath a directory that nobody can lure elsewhere: not with "..", not with
 * symbolic links and not by renaming while we look. Private to this module and mirror. */
#ifndef TREE_AT_H
#define TREE_AT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* As openat(), but path stays beneath dir and meets no symbolic link; only O_PATH | O_NOFOLLOW
 * opens a link itself. -1 and errno: ELOOP where a symbolic link is in the way. */
int at_open(int dir, const char *path, int flags, mode_t mode);

/* The same to read something, without its time of access telling of it, if we may. */
int at_open_unseen(int dir, const char *path, int flags);

/* Opens a directory for reading. Where its mode keeps its own owner from reading, filling or
 * emptying it, that is changed (u+rwx), if we may. With same_fs, EXDEV where a mount is in the way.
 */
int at_open_dir(int dir, const char *path, bool same_fs);

/* Removes what is at name, which is not followed: a file, a link, or a directory that is empty.
 * Nothing there is fine. -1 and errno: ENOTEMPTY or EEXIST for a directory with content. */
int at_clear(int dir, const char *name);

/* Writes all of it, or fails with errno's message. */
int at_write(int fd, const void *p, size_t n, struct err *e);

/* After a failed at_open(): the error in words, where errno's own would mislead. */
int at_error(struct err *e, const char *doing);

#endif
