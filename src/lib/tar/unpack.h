/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks a tar archive beneath one directory. */
#ifndef LIB_TAR_UNPACK_H
#define LIB_TAR_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "lib/tar/reader.h"
#include "lib/tar/tree.h"

enum tree_unwanted { TREE_REFUSE, TREE_SKIP };

enum tree_owners {
    TREE_OWNERS_SQUASH,  /* everything belongs to the caller */
    TREE_OWNERS_REQUIRE, /* the same, but an entry that belongs to neither the caller nor 0:0 is an
                            error: for destinations with a single identity */
    TREE_OWNERS_KEEP,    /* as in the archive; needs root */
};

/* 0 is the default, which is also the maximum of depth and name. */
struct tree_limits {
    uint64_t entries; /* entries, and parent directories that the archive omits */
    uint64_t bytes;   /* content of all files */
    unsigned depth;   /* components of a path */
    unsigned name;    /* bytes of one component */
};

/* All zeros is the strictest choice. */
struct tree_unpack_options {
    enum tree_unwanted devices;
    enum tree_unwanted fifos;
    enum tree_owners owners;
    bool keep_setid; /* else the setuid and setgid bits of files are cleared */
    bool keep_root;  /* an entry for "." does not change the attributes of dest_dir */
    bool whiteouts;  /* the archive is an image layer: see below */
    bool attributes; /* store extended attributes "user.…"; else all are dropped */
    uint32_t ids;    /* with TREE_OWNERS_KEEP: ids must be below this; 0: any */
    struct tree_limits limits;
    /* Reserves quota that is shared with other calls: called for each entry and each parent
     * directory that is made, and with the size before a file is made. May be NULL. */
    int (*take)(void *user, uint64_t bytes, uint64_t entries, struct err *e);
    void *user;
};

/* Reads in_fd to its end and unpacks the archive beneath dest_dir. The caller keeps both
 * descriptors.
 *
 * Names: a leading "/" and "." components are dropped; ".." is an error. Absent parent directories
 * are made with mode 0755 minus the umask. Nothing is written through a symbolic link. An existing
 * file in an entry's place is removed first, unless both are directories; a directory that is not
 * empty is never replaced: that is an error.
 *
 * Attributes: mode and mtime are those of the entry, also of directories (they are set last).
 * Extended attributes are dropped, except, with `attributes`, those of files and directories that
 * begin with "user." but not with "user.overlay.". File capabilities are always dropped: sandboxes
 * do not honour them, and on disk they would apply to the host. Targets of symbolic links are
 * stored unchanged. A hard link adds a name to a file beneath dest_dir and changes none of its
 * attributes.
 *
 * With `whiteouts`, names that begin with ".wh." are OCI whiteouts: ".wh.x" hides x of the lower
 * layers and becomes a character device 0:0, ".wh..wh..opq" hides all lower content of its
 * directory and becomes user.overlay.opaque, and other names that begin with ".wh..wh." are
 * skipped. They do not hide entries of the same archive. Without `whiteouts` they are ordinary
 * names.
 *
 * On failure, the entries stored so far remain: call tree_remove(). Errors name the entry. */
int tree_unpack(int in_fd, int dest_dir, const struct tree_unpack_options *o,
                struct tree_report *ret, struct err *e);
/* Like tree_unpack(), with a function that reads the archive. */
int tree_unpack_from(tar_read_fn *read, void *ctx, int dest_dir,
                     const struct tree_unpack_options *o, struct tree_report *ret, struct err *e);

#endif
