/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a file or a tree of files as a tar archive. */
#ifndef LIB_TAR_PACK_H
#define LIB_TAR_PACK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/tar/tree.h"

struct tree_pack_options {
    const char
        *as; /* the name at the top of the archive; NULL or "": the last component of path, or
                "." for the root directory */
    bool set_owner;       /* write uid:gid as the owner of all entries */
    bool one_file_system; /* directories on other file systems are written as empty */
    uid_t uid;
    gid_t gid;
};

/* Writes the file or tree at `path` beneath root_dir to out_fd: ustar, with pax headers for values
 * that do not fit. The caller keeps both descriptors. out_fd must be blocking; a closed read end is
 * an error if SIGPIPE is ignored. "" and "." are root_dir itself; a leading "/" is dropped, ".."
 * and a path through a symbolic link are errors.
 *
 * Symbolic links are not followed, and metadata and content come from the same descriptor, so
 * concurrent renames cannot mix files. A name that vanishes is left out. A file that grows is cut
 * at the size in its header; a file that shrinks is padded with zeros, and the call then fails with
 * -ERR_CONFLICT after it has packed the rest. Sockets are skipped. A file with several names is
 * written once per name.
 *
 * On failure, except -ERR_CONFLICT, the archive lacks its end marker, so readers see that it is
 * truncated. */
int tree_pack(int out_fd, int root_dir, const char *path, const struct tree_pack_options *o,
              struct tree_report *ret, struct err *e);

#endif
