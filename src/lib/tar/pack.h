/* A file or a tree of files as a tar archive. */
#ifndef TREE_PACK_H
#define TREE_PACK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "tree/tree.h"

struct tree_pack_options {
    const char
        *as; /* the name at the top of the archive; NULL or "": the last component of path, or
                "." for the root directory */
    bool set_owner;       /* everything belongs to uid:gid, whoever owns it really */
    bool one_file_system; /* directories on another one are written as empty */
    uid_t uid;
    gid_t gid;
};

/* Writes what is at `path` beneath root_dir to out_fd: ustar, with pax headers where something does
 * not fit. Both descriptors stay the caller's; out_fd must block, and a reader that goes away is an
 * error if SIGPIPE is ignored. "" and "." are root_dir itself; a leading "/" is dropped, ".." and a
 * path through a symbolic link are errors.
 *
 * No symbolic link is followed, and what is written is what was opened, whatever happens to names
 * in the meantime. A name that vanishes while we look is left out. A file that grows is cut at the
 * size announced for it; one that shrinks is filled up with zeros, the rest is packed, and then the
 * call fails with -ERR_CONFLICT. Sockets are skipped. Files with several names are written once for
 * each.
 *
 * On failure (but for -ERR_CONFLICT) the archive lacks its end, so that no reader takes it for a
 * whole one. */
int tree_pack(int out_fd, int root_dir, const char *path, const struct tree_pack_options *o,
              struct tree_report *ret, struct err *e);

#endif
