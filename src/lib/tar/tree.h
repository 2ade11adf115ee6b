/* File trees as tar streams: what the functions of this module have in common.
 *
 * Nothing here allocates: buffers are fixed and live on the stack (the largest frame, that of
 * tree_unpack(), is about 150 KiB), so it all runs in a forked helper of PID 1 as well as in a
 * server. Descriptors are opened close-on-exec, and at most TREE_DEPTH_MAX plus a few at once.
 *
 * Nothing here trusts a tree or an archive: names are resolved by the kernel beneath the directory
 * that the caller gave, without symbolic links, for every single access (see at.h). */
#ifndef TREE_TREE_H
#define TREE_TREE_H

#include <stdint.h>

enum {
    TREE_PATH_MAX = 4096,  /* bytes of a path or a link target, with its NUL */
    TREE_NAME_MAX = 255,   /* bytes of one component */
    TREE_DEPTH_MAX = 128,  /* components of a path; also directories open at once */
    TREE_SHOWN_MAX = 120,  /* bytes of a path that a message shows, with its NUL */
    TREE_CHUNK = 64 << 10, /* bytes per read() or write() */
    TREE_RACES_MAX = 100,  /* how often something may change under our hands before we give up */
};

/* Ceilings that hold where the caller names none. */
#define TREE_ENTRIES_DEFAULT UINT64_C(2000000)
#define TREE_BYTES_DEFAULT   (UINT64_C(64) << 30)

/* The most that tree_unpack() stores about directories while it runs, in an unnamed file. */
#define TREE_SPOOL_MAX (UINT64_C(256) << 20)

/* What was done. Functions fill it on success only. */
struct tree_report {
    uint64_t entries; /* files, directories, links, … stored or written */
    uint64_t bytes;   /* content of regular files */
    uint64_t devices_skipped;
    uint64_t fifos_skipped;
    uint64_t sockets_skipped;
};

#endif
