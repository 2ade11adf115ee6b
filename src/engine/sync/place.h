/* Where a mirrored directory lies on the host. Its own path decides, together with the names in it,
 * which programs obey these names: "config" is harmless in a project and not in ~/.ssh. */
#ifndef MIRROR_PLACE_H
#define MIRROR_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* What is known of a directory at or above the mirrored one. */
enum place_mark {
    PLACE_HOME = 1 << 0, /* a home directory: by its path, or by the files at its top */
    PLACE_HEAD = 1 << 1, /* it has a file HEAD, so git may take it for a repository */
};

struct mirror_place {
    char path[PATH_MAX]; /* absolute, without a slash at its end; "" is the root directory */
    size_t n;            /* bytes of path */
    bool known;          /* false: the path could not be found out */
    unsigned char marks[PATH_MAX]; /* marks[i] are those of the directory path[0..i), where path[i]
                                      is a slash or the end */
};

/* Needs /proc and looks into the directories above, so it is called before a process gives up the
 * rest of the file system. */
void mirror_place_find(int dir, struct mirror_place *ret);

/* Whether the mirrored directory itself is a home. */
static inline bool place_is_home(const struct mirror_place *p)
{
    return p->marks[p->n] & PLACE_HOME;
}

#endif
