/* SPDX-License-Identifier: Apache-2.0 */
/* File trees as tar streams: limits and types that the functions of this module share.
 *
 * The module does not allocate: buffers have a fixed size and are on the stack (the largest frame,
 * of tree_unpack(), is about 150 KiB), so it can run in a forked helper of PID 1. Descriptors are
 * close-on-exec, and at most TREE_DEPTH_MAX plus a few are open at once.
 *
 * Trees and archives are untrusted: for every access the kernel resolves names beneath the caller's
 * directory and without symbolic links (at.h). */
#ifndef LIB_TAR_TREE_H
#define LIB_TAR_TREE_H

#include <stdint.h>

enum {
    TREE_PATH_MAX = 4096,  /* bytes of a path or a link target, with its NUL */
    TREE_NAME_MAX = 255,   /* bytes of one component */
    TREE_DEPTH_MAX = 128,  /* components of a path; also directories open at once */
    TREE_SHOWN_MAX = 120,  /* bytes of a path that a message shows, with its NUL */
    TREE_CHUNK = 64 << 10, /* bytes per read() or write() */
    TREE_RACES_MAX = 100,  /* retries after concurrent changes */
};

/* Limits if the caller sets none. */
#define TREE_ENTRIES_DEFAULT UINT64_C(2000000)
#define TREE_BYTES_DEFAULT   (UINT64_C(64) << 30)

/* The maximum size of tree_unpack()'s spool file (spool.h). */
#define TREE_SPOOL_MAX (UINT64_C(256) << 20)

/* Counters of a call, set on success only. */
struct tree_report {
    uint64_t entries; /* files, directories, links, … stored or written */
    uint64_t bytes;   /* content of regular files */
    uint64_t devices_skipped;
    uint64_t fifos_skipped;
    uint64_t sockets_skipped;
};

#endif
