/* A tar archive onto a file system, beneath one directory and nowhere else. */
#ifndef TREE_UNPACK_H
#define TREE_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "tree/reader.h"
#include "tree/tree.h"

/* What to do with an entry that is not wanted. */
enum tree_unwanted { TREE_REFUSE, TREE_SKIP };

enum tree_owners {
    TREE_OWNERS_SQUASH,  /* everything belongs to the caller */
    TREE_OWNERS_REQUIRE, /* the same, but an entry that belongs to neither the caller nor 0:0 is an
                            error: for where only one identity exists and nobody should be surprised
                          */
    TREE_OWNERS_KEEP,    /* as the archive says; needs root */
};

/* 0 stands for the default, which is also the most for all but entries and bytes. */
struct tree_limits {
    uint64_t entries; /* entries and the parent directories that they leave unsaid */
    uint64_t bytes;   /* content of all files */
    unsigned depth;   /* components of a path */
    unsigned name;    /* bytes of one component */
};

/* All zeros is the most careful choice. */
struct tree_unpack_options {
    enum tree_unwanted devices;
    enum tree_unwanted fifos;
    enum tree_owners owners;
    bool keep_setid; /* else the setuid and setgid bits of files are taken away */
    bool keep_root;  /* an entry for "." leaves the attributes of dest_dir as they are */
    bool whiteouts;  /* it is a layer of an image: see below */
    bool attributes; /* keep the extended attributes of people, "user.…"; else none is kept */
    uint32_t ids;    /* with TREE_OWNERS_KEEP: how many ids there are from 0; 0: any */
    struct tree_limits limits;
    /* Asked before anything is made, and before the content of a file is: for what limits several
     * at the same time. NULL: nobody is. */
    int (*take)(void *user, uint64_t bytes, uint64_t entries, struct err *e);
    void *user;
};

/* Reads in_fd to its end and stores what it holds beneath dest_dir. Both stay the caller's.
 *
 * Names: a leading "/" and "." components are dropped; ".." is an error. Parents that the archive
 * does not name are made with mode 0755 less the umask. Nothing is written through a symbolic link,
 * whoever put it there. What is in an entry's place is removed first, unless both are directories;
 * a directory that is not empty makes way for nothing and is an error.
 *
 * Attributes: modes and times of modification are those of the entry, for directories too (they are
 * set last). Extended attributes are ignored, but with `attributes` those of files and directories
 * that mean nothing to the kernel: "user.…" without "user.overlay.…". File capabilities are not
 * among them: no sandbox honours any, and on disk they would be the host's. So nothing in an
 * archive means anything to overlayfs but, with `whiteouts`, names that begin with ".wh.": ".wh.x"
 * says that x of the layers below is gone, which overlayfs is told by a character device 0:0, and
 * ".wh..wh..opq" that nothing of them is in its directory, told by user.overlay.opaque; other names
 * that begin with ".wh..wh." say nothing. They count for layers below alone: an x of the same
 * archive stays. Without `whiteouts` they are names like any other. Targets of symbolic links are
 * stored as they are. A hard link gives another name to something that is beneath dest_dir, and
 * changes no attribute of it.
 *
 * On failure, what was stored so far stays: call tree_remove(). Errors name the entry. */
int tree_unpack(int in_fd, int dest_dir, const struct tree_unpack_options *o,
                struct tree_report *ret, struct err *e);
/* The same from a function, which is called as long as the archive goes on. */
int tree_unpack_from(tar_read_fn *read, void *ctx, int dest_dir,
                     const struct tree_unpack_options *o, struct tree_report *ret, struct err *e);

#endif
