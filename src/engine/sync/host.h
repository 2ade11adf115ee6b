/* Names beneath the mirrored directory, and changes to them that do not lose what somebody else
 * wrote meanwhile. No symbolic link is followed and no mount is entered. Errors are about one name.
 */
#ifndef MIRROR_HOST_H
#define MIRROR_HOST_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "mirror/manifest.h"
#include "tree/path.h"

enum { HOST_TEMP_MAX = 40 }; /* bytes of a temporary name, with its NUL */

/* As openat(), beneath dir. -1 and errno: ELOOP for a link on the way, EXDEV for a mount. */
int host_open(int dir, const char *path, int flags, mode_t mode);

/* Opens the directory itself and keeps everybody else who asks out until *ret is closed. */
int host_lock(int dir, int *ret, struct err *e);

/* What is at a path. */
struct found {
    int parent;            /* its directory, an O_PATH descriptor; -1: that does not exist */
    const char *name;      /* borrowed from the path */
    bool there;            /* if so, st is set */
    enum mirror_kind kind; /* KIND_NONE: nothing, or something that is not mirrored */
    int64_t now_ns;        /* the wall clock before we looked */
    struct stat st;
};
int host_find(int dir, const struct tree_path *path, struct found *ret, struct err *e);
void found_done(struct found *f);

enum mirror_kind host_kind(const struct stat *st);

/* A link's target; -1 and errno, ENAMETOOLONG if it does not fit. */
ssize_t host_target(int dir, const char *name, char out[static TREE_PATH_MAX]);

/* Whether the host still has what the manifest says; reads it if its identity does not tell. What
 * cannot be read is different. */
bool host_unchanged(const struct found *f, const struct mirror_entry *was,
                    const struct sip_key *key);

/* A new temporary name; whether a name is one. */
int host_temp_name(char out[static HOST_TEMP_MAX], struct err *e);
bool host_is_temp(const char *name);

/* Both leave the host as it is and return HOST_RACED if what is at the name is not what was found
 * there. HOST_LOST if even that failed: the error says where the host's version is. host_put()
 * moves temp, a name in the same directory, to the name; if it could not, temp is still there, but
 * not after HOST_LOST. Neither is for a directory that was found. */
enum { HOST_DONE, HOST_RACED, HOST_LOST };
int host_put(const struct found *f, const char *temp, struct err *e);
int host_remove(const struct found *f, struct err *e);

/* Removes temporary names that runs which were killed left behind, as far as we may. */
int host_sweep(int dir, struct err *e);

#endif
