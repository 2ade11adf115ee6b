/* SPDX-License-Identifier: Apache-2.0 */
/* The location of a synced directory on the host. Its path decides, together with the names in it,
 * which programs interpret these names: "config" is harmless in a project but not in ~/.ssh. */
#ifndef ENGINE_SYNC_PLACE_H
#define ENGINE_SYNC_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Properties of a directory at or above the synced one. */
enum place_mark {
    PLACE_HOME = 1 << 0, /* a home directory: by its path, or by the files at its top */
    PLACE_HEAD = 1 << 1, /* it has a file HEAD, so git may take it for a repository */
};

struct sync_place {
    char path[PATH_MAX]; /* absolute, without a slash at its end; "" is the root directory */
    size_t n;            /* bytes of path */
    bool known;          /* false: the path is unknown */
    unsigned char marks[PATH_MAX]; /* marks[i] are those of the directory path[0..i), where path[i]
                                      is a slash or the end */
};

/* Needs /proc and reads the parent directories, so it is called before a process is confined. */
void sync_place_find(int dir, struct sync_place *ret);

/* Whether the synced directory itself is a home. */
static inline bool place_is_home(const struct sync_place *p)
{
    return p->marks[p->n] & PLACE_HOME;
}

#endif
