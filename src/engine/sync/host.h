/* SPDX-License-Identifier: Apache-2.0 */
/* Names beneath the synced directory, and changes to them that do not lose concurrent writes of
 * other processes. Symbolic links are not followed and mounts are not entered. Errors are about one
 * name. */
#ifndef ENGINE_SYNC_HOST_H
#define ENGINE_SYNC_HOST_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/sync/manifest.h"
#include "lib/tar/path.h"

enum { HOST_TEMP_MAX = 40 }; /* bytes of a temporary name, with its NUL */

/* Like openat(), beneath dir. -1 and errno: ELOOP for a link on the way, EXDEV for a mount. */
int host_open(int dir, const char *path, int flags, mode_t mode);

/* Opens the directory itself and locks it until *ret is closed. */
int host_lock(int dir, int *ret, struct err *e);

/* The file at a path of the host. */
struct found_file {
    int parent;          /* O_PATH descriptor of its directory; -1: that does not exist */
    const char *name;    /* borrowed from the path */
    bool there;          /* it exists: st is set */
    enum sync_kind kind; /* KIND_NONE: nothing, or a file that is not synced */
    int64_t now_ns;      /* the wall clock before st was read */
    struct stat st;
};
int host_find(int dir, const struct tree_path *path, struct found_file *ret, struct err *e);
void found_file_done(struct found_file *f);

enum sync_kind host_kind(const struct stat *st);

/* A link's target; -1 and errno, ENAMETOOLONG if it does not fit. */
ssize_t host_target(int dir, const char *name, char out[static TREE_PATH_MAX]);

/* Whether the host's file still matches the manifest; reads it if its identity is not sufficient.
 * Unreadable files are different. */
bool host_unchanged(const struct found_file *f, const struct sync_entry *was,
                    const struct sip_key *key);

/* Makes a new temporary name; tests whether a name is one. */
int host_temp_name(char out[static HOST_TEMP_MAX], struct err *e);
bool host_is_temp(const char *name);

/* Both return HOST_RACED and leave the host unchanged if the name does not refer to the file that
 * was found. HOST_LOST if even that failed: the error names the place of the host's version.
 * host_put() moves temp, a name in the same directory, to the name; if that fails, temp still
 * exists, except after HOST_LOST. Neither is for a directory that was found. */
enum { HOST_DONE, HOST_RACED, HOST_LOST };
int host_put(const struct found_file *f, const char *temp, struct err *e);
int host_remove(const struct found_file *f, struct err *e);

/* Removes temporary files of earlier runs that were killed, as far as permitted. */
int host_sweep(int dir, struct err *e);

#endif
