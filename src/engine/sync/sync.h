/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a host directory to a sandbox as its workspace, and changes back to the host.
 *
 *     sync_send()      host directory  -> tar stream for the sandbox, and a manifest
 *     sync_receive()   the sandbox's tar stream -> host directory, by the manifest
 *     sync_look()      host directory -> what has changed there since the manifest
 *
 * The manifest is the last common state of both sides, so each later difference has an author:
 * changes of the sandbox alone are applied, changes of the host alone stay, and a name that both
 * changed is a conflict, which is reported and leaves the host's file alone (decide.h has the whole
 * table).
 *
 * The engine uses descriptors only. It runs with the rights of the directory's owner (started by
 * child.h), never follows a symbolic link, never leaves the directory or its file system, and
 * trusts no byte of the stream: the sandbox wrote it.
 *
 * Kind, permission bits and content (a link's target) are compared, not times and owners. The
 * sandbox's content is compared byte by byte or by a keyed hash. A host file counts as unchanged
 * without reading it if inode, size, mtime and ctime match the manifest, and is read otherwise.
 * Times that were recent when they were recorded are not trusted, so a second change within a clock
 * tick is detected. Changes on the host that can be missed: stores into a mapping that were not
 * written back yet, a change while the clock was set back to the same nanosecond, and changes on
 * file systems that do not keep ctime (some FUSE ones).
 *
 * A process may die between any two system calls: each host file is then the old or the new one.
 * Temporary names (".sandboxer-mirror-" and 16 hex digits) that are left over are removed by the
 * next run. (One gap remains: a host program writes in the microseconds between our last check and
 * the exchange, and we are killed before the exchange is undone.) */
#ifndef ENGINE_SYNC_SYNC_H
#define ENGINE_SYNC_SYNC_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/sync/place.h"

/* Default limits and maximum values. */
#define SYNC_ENTRIES_DEFAULT UINT64_C(200000)
#define SYNC_ENTRIES_MAX     UINT64_C(1000000)
#define SYNC_BYTES_DEFAULT   (UINT64_C(16) << 30)
#define SYNC_NAMES_MAX       (UINT64_C(256) << 20) /* bytes of all paths together, in memory */

/* 0: the default. Exceeding a limit is -ERR_TOO_BIG and ends the call. */
struct sync_limits {
    uint64_t entries; /* names in the directory; or in the manifest and the stream together */
    uint64_t bytes;   /* content of all files */
    unsigned depth;   /* components of a path; at most, and by default, TREE_DEPTH_MAX */
    unsigned path;    /* bytes of a path; at most, and by default, TREE_PATH_MAX - 1 */
};

enum sync_flag {
    SYNC_FORCE = 1 << 0,           /* where both sides changed, the sandbox wins */
    SYNC_DRY_RUN = 1 << 1,         /* report what would be done, change nothing */
    SYNC_DELETE = 1 << 2,          /* delete files on the host that were deleted inside */
    SYNC_ALLOW_SENSITIVE = 1 << 3, /* accept all sensitive names */
    SYNC_ONLY_ACCEPTED = 1 << 4,   /* apply the accepted paths alone, and nothing beneath them that
                                      is not accepted itself; other names have no line */
    SYNC_FLAGS_ALL_ = (1 << 5) - 1,
};

/* The result for a name. The first ones changed the host; the others are reasons for not changing
 * it. */
enum sync_action {
    SYNC_CREATED,
    SYNC_REPLACED,
    SYNC_DELETED,
    SYNC_OVERWRITTEN, /* by SYNC_FORCE: the host's version is lost */
    SYNC_CONFLICT,    /* changed on both sides: the host's version stays */
    SYNC_KEPT,        /* deleted inside, but SYNC_DELETE was not given */
    SYNC_SENSITIVE,   /* held back: programs of the host interpret it by themselves; or a deletion
                         that may be half of a move whose other half is held back */
    SYNC_REFUSED,     /* a device, a link that leads out, a duplicate name, … */
    SYNC_FAILED,      /* an error of the host's file system */
    SYNC_SKIPPED,     /* not sent: a device, a socket, another file system */
    SYNC_UNSTABLE,    /* sent, but it changed while it was read: send again to be sure */
    SYNC_ACTION_COUNT_,
};
extern const char *const sync_action_names[SYNC_ACTION_COUNT_ + 1]; /* "created", …: stable */
const char *sync_action_name(enum sync_action action);

/* Names without a line did not change. */
struct sync_line {
    enum sync_action action;
    struct str path; /* raw bytes: make them printable before you show them */
    const char *reason;
};
enum { SYNC_REASON_MAX = 232 }; /* bytes of a reason, with its NUL */

typedef void sync_line_fn(void *ctx, const struct sync_line *line);

/* The amount of content so far; never decreases. */
typedef void sync_moved_fn(void *ctx, uint64_t bytes);

/* For tests of races: called between checking a name and acting on it. */
typedef void sync_pause_fn(void *ctx, const char *path);

struct sync_job_options {
    unsigned flags; /* of enum sync_flag; sync_send() and sync_look() ignore them */
    const char *const
        *accept; /* paths that are not held back, with everything beneath them (but see
                                  SYNC_ONLY_ACCEPTED) */
    size_t n_accept;
    const struct sync_place *place; /* for sync_receive(): the location of the directory; NULL:
                                       determined by the call, which needs /proc */
    const char *top; /* the top directory of the stream, which PACK names after the packed one; NULL
                        or "": none */
    struct sync_limits limits;
    sync_line_fn *line;   /* may be NULL */
    sync_moved_fn *moved; /* may be NULL; called often */
    sync_pause_fn *pause;
    void *ctx;
};

/* Filled on failure, too, with the results so far. */
struct sync_report {
    uint64_t entries; /* names sent or received */
    uint64_t bytes;   /* content of files sent, or written to the host */
    uint64_t count[SYNC_ACTION_COUNT_];
    bool manifest; /* manifest_out is complete and correct: replace the old one */
};

/* Writes everything in `dir` to tar_out, in the format of UNPACK, and a manifest to manifest_out (a
 * file; -1: none). Descriptors stay the caller's; `dir` may be O_PATH. Unreadable files are
 * reported as SYNC_FAILED and left out of both. A file that changes while it is read is in the
 * manifest as it was sent, so the change will be detected as one of the host.
 *
 * -ERR_BUSY if another sync_send() or sync_receive() uses the directory. On failure the stream
 * lacks its end. */
int sync_send(int dir, int tar_out, int manifest_out, const struct sync_job_options *o,
              struct sync_report *ret, struct err *e);

/* Reports what has changed in `dir` since manifest_in was written: as created, replaced and deleted;
 * not the contents of a new or removed directory. Reads attributes alone, and the files whose
 * attributes differ; takes no lock. */
int sync_look(int dir, int manifest_in, const struct sync_job_options *o, struct sync_report *ret,
              struct err *e);

/* Applies tar_in, a stream of PACK, to `dir`. manifest_in is that of the last call (-1: none, so
 * all files of the host count as new); the manifest for the next call is written to manifest_out
 * (-1: none). With SYNC_DRY_RUN none is written.
 *
 * A file is replaced as a whole, by a new one that is renamed into its place; its times and
 * permission bits are the sandbox's (never setuid, setgid or sticky), its owner is the caller, and
 * extended attributes and hard links are lost. A link that leads out of the directory is refused
 * unless the host has the same. A file that was deleted inside is kept while the content of another
 * file of the stream is held back, because it may have been moved there; unless the same content
 * was applied under another name. If a host file changes between the check and the exchange, it is
 * restored and reported as a conflict.
 *
 * -ERR_INVALID for a stream that is truncated or not written by PACK ("..", not beneath `top`): the
 * entries before are applied, and nothing is deleted. ret->manifest is set if manifest_out is
 * valid nevertheless. Errors of single names are in the report. */
int sync_receive(int dir, int tar_in, int manifest_in, int manifest_out,
                 const struct sync_job_options *o, struct sync_report *ret, struct err *e);

#endif
