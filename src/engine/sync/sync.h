/* A host directory as the workspace of a sandbox, and the way back.
 *
 *     mirror_send()      host directory  -> tar stream for the sandbox, and a manifest
 *     mirror_receive()   the sandbox's tar stream -> host directory, by the manifest
 *
 * The manifest is the last state in which both sides agreed, so each later difference has an
 * author: what only the sandbox changed is applied, what only the host changed stays, and what both
 * changed is a conflict, which is reported and leaves the host's file alone (decide.h has the whole
 * table).
 *
 * The engine knows descriptors only. It runs with the rights of whoever owns the directory (child.h
 * starts it so), never follows a symbolic link, never leaves the directory or its file system, and
 * trusts no byte of the stream: the sandbox wrote it.
 *
 * What is compared is kind, permission bits and content (a link's target), not times and owners.
 * The sandbox's content is compared byte by byte or by a keyed hash of it. A host file is taken for
 * unchanged without reading it if inode, size and the times of modification and change are those of
 * the manifest, and is read otherwise. Times that were fresh when they were noted are not trusted,
 * so a second change within a clock tick is seen. What can be missed on the host: stores into a
 * mapping that were not written back yet, a change while the clock was set back to the same
 * nanosecond, and changes on file systems that do not keep the time of change (some FUSE ones).
 *
 * Any process may die between two system calls: each host file is then the old or the new one.
 * Temporary names (".sandboxer-mirror-" and 16 hex digits) that are left over are removed by the
 * next run. (One gap remains: a host program writes in the microseconds between our last look and
 * the exchange, and we are killed in those before it is undone.) */
#ifndef MIRROR_MIRROR_H
#define MIRROR_MIRROR_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "mirror/place.h"

/* What holds where the caller names no limit, and the most that it can name. */
#define MIRROR_ENTRIES_DEFAULT UINT64_C(200000)
#define MIRROR_ENTRIES_MAX     UINT64_C(1000000)
#define MIRROR_BYTES_DEFAULT   (UINT64_C(16) << 30)
#define MIRROR_NAMES_MAX       (UINT64_C(256) << 20) /* bytes of all paths together, in memory */

/* 0 stands for the default. Passing one is -ERR_TOO_BIG and ends the call. */
struct mirror_limits {
    uint64_t entries; /* names in the directory; or in the manifest and the stream together */
    uint64_t bytes;   /* content of all files */
    unsigned depth;   /* components of a path; at most, and by default, TREE_DEPTH_MAX */
    unsigned path;    /* bytes of a path; at most, and by default, TREE_PATH_MAX - 1 */
};

enum mirror_flag {
    MIRROR_FORCE = 1 << 0,           /* where both sides changed, the sandbox wins */
    MIRROR_DRY_RUN = 1 << 1,         /* report what would be done, change nothing */
    MIRROR_DELETE = 1 << 2,          /* what was deleted inside is deleted on the host */
    MIRROR_ALLOW_SENSITIVE = 1 << 3, /* accept every name that is held back */
    MIRROR_FLAGS_ALL_ = (1 << 4) - 1,
};

/* What became of a name. The first ones changed the host; the others are why it was not changed. */
enum mirror_action {
    MIRROR_CREATED,
    MIRROR_REPLACED,
    MIRROR_DELETED,
    MIRROR_OVERWRITTEN, /* by MIRROR_FORCE: the host's version is gone */
    MIRROR_CONFLICT,    /* changed on both sides: the host's version stays */
    MIRROR_KEPT,        /* deleted inside, but MIRROR_DELETE was not given */
    MIRROR_SENSITIVE,   /* held back: programs of the host obey it by themselves; or a deletion that
                           may be half of a move, whose other half stays inside */
    MIRROR_REFUSED,     /* a device, a link that leads out, a name that comes twice, … */
    MIRROR_FAILED,      /* the host's file system said no */
    MIRROR_SKIPPED,     /* not sent: a device, a socket, another file system */
    MIRROR_UNSTABLE,    /* sent, but it changed while it was read: send again to be sure */
    MIRROR_ACTION_COUNT_,
};
const char *mirror_action_name(enum mirror_action action); /* "created", …: stable */

/* A name that is not in one of these lines did not change. */
struct mirror_line {
    enum mirror_action action;
    struct str path; /* raw bytes: make them printable before you show them */
    const char *reason;
};
enum { MIRROR_REASON_MAX = 232 }; /* bytes of a reason, with its NUL */

typedef void mirror_line_fn(void *ctx, const struct mirror_line *line);

/* How much content has gone through so far; never less than the time before. */
typedef void mirror_moved_fn(void *ctx, uint64_t bytes);

/* For tests of races: called between looking at a name and acting on what was seen. */
typedef void mirror_pause_fn(void *ctx, const char *path);

struct mirror_options {
    unsigned flags;            /* of enum mirror_flag; mirror_send() ignores them */
    const char *const *accept; /* paths that are not held back, with everything beneath them */
    size_t n_accept;
    const struct mirror_place *place; /* of mirror_receive(): where the directory lies; NULL: it
                                         finds out, for which it needs /proc */
    const char *top; /* the directory at the top of the stream, which PACK names after the one it
                        packs; NULL or "": none */
    struct mirror_limits limits;
    mirror_line_fn *line;   /* may be NULL */
    mirror_moved_fn *moved; /* may be NULL; called often */
    mirror_pause_fn *pause;
    void *ctx;
};

/* Filled on failure too, with what was done until then. */
struct mirror_report {
    uint64_t entries; /* names sent or received */
    uint64_t bytes;   /* content of files sent, or written to the host */
    uint64_t count[MIRROR_ACTION_COUNT_];
    bool manifest; /* manifest_out is complete and true: put it in the place of the old one */
};

/* Writes everything in `dir` to tar_out, as UNPACK reads it, and a manifest to manifest_out (a
 * file; -1: none). Descriptors stay the caller's; `dir` may be O_PATH. What cannot be read is
 * reported as MIRROR_FAILED and left out of both. A file that changes while it is read is in the
 * manifest as it was sent, so the change will be seen as the host's.
 *
 * -ERR_BUSY if another mirror_send() or mirror_receive() works on the directory. On failure the
 * stream lacks its end. */
int mirror_send(int dir, int tar_out, int manifest_out, const struct mirror_options *o,
                struct mirror_report *ret, struct err *e);

/* Applies tar_in, which PACK wrote, to `dir`. manifest_in is that of the last call (-1: none, so
 * what the host has is all new); the manifest for the next one goes to manifest_out (-1: none).
 * With MIRROR_DRY_RUN none is written.
 *
 * A file is replaced as a whole, by a new one that is renamed into its place; its times are the
 * sandbox's, its permission bits too (never setuid, setgid or sticky), its owner is the caller, and
 * extended attributes and hard links to it are lost. A link that leads out of the directory is
 * refused unless the host has the same. A file that was deleted inside stays while the content of
 * another file of the stream does not come to the host, because the one may have become the other;
 * unless the same content came to the host under another name. What was made sure to be unchanged
 * and changes before it is exchanged comes back, and is a conflict.
 *
 * -ERR_INVALID for a stream that is cut off or not what PACK writes ("..", not beneath `top`):
 * what came before is applied, and nothing is deleted. ret->manifest says whether manifest_out is
 * good even so. Trouble with single names is in the report, not an error. */
int mirror_receive(int dir, int tar_in, int manifest_in, int manifest_out,
                   const struct mirror_options *o, struct mirror_report *ret, struct err *e);

#endif
