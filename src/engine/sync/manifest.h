/* SPDX-License-Identifier: Apache-2.0 */
/* The last common state of host and sandbox: a record per name.
 *
 * In memory it is a table by path, bounded by the number of entries and the bytes of all paths; new
 * names of a stream are added, so duplicates are detected. As a file it is a header, records in
 * ascending order of their paths, and an end record with their number, so that a truncated manifest
 * is invalid. It is valid on this machine only: numbers are in its byte order. */
#ifndef ENGINE_SYNC_MANIFEST_H
#define ENGINE_SYNC_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/sync/sip.h"
#include "engine/sync/sync.h"

enum sync_kind { KIND_NONE, KIND_FILE, KIND_DIR, KIND_LINK, KIND_COUNT_ };

/* The properties that are compared. */
struct sync_value {
    enum sync_kind kind;
    mode_t mode;   /* permission bits; 0 of a link */
    uint64_t hash; /* of a file's content or a link's target; 0 of a directory */
};
bool sync_value_eq(const struct sync_value *a, const struct sync_value *b);

/* Identifies an unchanged host file without reading it. All zeros: unknown. */
struct sync_identity {
    uint64_t inode, size;
    int64_t mtime_ns, ctime_ns;
};
bool sync_identity_eq(const struct sync_identity *a, const struct sync_identity *b);

/* The identity of st, which was read at or after now_ns of the wall clock; unknown if it changed
 * too recently for the next change to have a different time. */
enum { IDENTITY_SETTLE_S = 2 }; /* the coarsest resolution of file systems */
struct sync_identity sync_identity_of(const struct stat *st, int64_t now_ns);

struct sync_entry {
    struct str path; /* ends in NUL */
    bool recorded;   /* the following members are in the manifest */
    struct sync_value value;
    struct sync_identity identity;

    /* While a stream is received. */
    bool seen;               /* in the stream */
    bool landed;             /* the host's file equals that of the stream */
    bool holds;              /* a directory with a held deletion */
    bool made;               /* a directory that this run made, or would have made */
    bool mode_due;           /* a directory that gets due.mode after it was filled */
    enum sync_kind box_kind; /* its kind in the stream */
    const char *temp;        /* temporary file that replaces an emptied directory, as `due` */
    struct sync_value due;
    enum sync_action due_action;
    struct sync_entry *next_;
};

struct sync_manifest {
    struct sip_key key;
    struct sync_limits limits; /* all set */
    uint64_t count;

    struct sync_entry **slots_;
    uint64_t slot_count_;
    struct arena memory_;
};

/* Draws a new key. Limits of 0 are replaced by their defaults, too large ones by the maximum. */
int sync_manifest_init(struct sync_manifest *m, const struct sync_limits *limits, struct err *e);
void sync_manifest_done(struct sync_manifest *m);

/* Reads a whole manifest, with its key, into an empty one. -ERR_INVALID if it is malformed. */
int sync_manifest_load(struct sync_manifest *m, int fd, struct err *e);

/* Writes the recorded entries. */
int sync_manifest_save(struct sync_manifest *m, int fd, struct err *e);

struct sync_entry *sync_manifest_find(const struct sync_manifest *m, struct str path);

/* Finds or adds the entry of a path; -ERR_TOO_BIG past a limit. */
int sync_manifest_add(struct sync_manifest *m, struct str path, struct sync_entry **ret,
                      struct err *e);

/* Copies a string to the manifest's memory. */
const char *sync_manifest_keep(struct sync_manifest *m, struct str s, struct err *e);

/* All entries in ascending order of their paths, so that a directory comes before its contents;
 * ended by NULL. The caller frees the array. */
int sync_manifest_sorted(const struct sync_manifest *m, struct sync_entry ***ret, struct err *e);

#endif
