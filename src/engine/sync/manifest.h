/* The state in which host and sandbox last agreed: a record per name.
 *
 * In memory it is a table by path, bounded by the number of entries and the bytes of all paths; new
 * names of a stream are added to it, so it also knows what was seen twice. As a file it is a
 * header, records in ascending order of their paths, and an end that counts them, so a manifest
 * that was cut off is no manifest. It belongs to this machine: numbers are in its byte order. */
#ifndef MIRROR_MANIFEST_H
#define MIRROR_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "mirror/sip.h"
#include "mirror/mirror.h"

enum mirror_kind { KIND_NONE, KIND_FILE, KIND_DIR, KIND_LINK, KIND_COUNT_ };

/* What the two sides are compared by. */
struct mirror_value {
    enum mirror_kind kind;
    mode_t mode;   /* permission bits; 0 of a link */
    uint64_t hash; /* of a file's content or a link's target; 0 of a directory */
};
bool mirror_value_eq(const struct mirror_value *a, const struct mirror_value *b);

/* What tells, without reading it, that a host file is what it was. All zeros: nothing does. */
struct mirror_identity {
    uint64_t inode, size;
    int64_t mtime_ns, ctime_ns;
};
bool mirror_identity_eq(const struct mirror_identity *a, const struct mirror_identity *b);

/* That of st, which was taken at or after now_ns of the wall clock; none if it changed too recently
 * for the next change to have another time. */
enum { IDENTITY_SETTLE_S = 2 }; /* the coarsest times that file systems keep */
struct mirror_identity mirror_identity_of(const struct stat *st, int64_t now_ns);

struct mirror_entry {
    struct str path; /* ends in NUL */
    bool recorded;   /* what follows is in the manifest */
    struct mirror_value value;
    struct mirror_identity identity;

    /* While a stream is received. */
    bool seen;                 /* the stream has it */
    bool landed;               /* the host has what the stream has */
    bool holds;                /* a directory in which a deletion was held back */
    bool made;                 /* a directory that this run made, or would have made */
    bool mode_due;             /* a directory that gets due.mode when everything is in it */
    enum mirror_kind box_kind; /* what it is in the stream */
    const char *temp;          /* what takes a directory's place as `due` once that is empty */
    struct mirror_value due;
    enum mirror_action due_action;
    struct mirror_entry *next_;
};

struct mirror_manifest {
    struct sip_key key;
    struct mirror_limits limits; /* all of them set */
    uint64_t count;

    struct mirror_entry **slots_;
    uint64_t slot_count_;
    struct arena memory_;
};

/* A new key. Limits of 0 are replaced by their defaults, and too large ones by the most. */
int mirror_manifest_init(struct mirror_manifest *m, const struct mirror_limits *limits,
                         struct err *e);
void mirror_manifest_done(struct mirror_manifest *m);

/* Reads a whole manifest into one that is empty, with its key. -ERR_INVALID for what is none. */
int mirror_manifest_load(struct mirror_manifest *m, int fd, struct err *e);

/* Writes the recorded entries. */
int mirror_manifest_save(struct mirror_manifest *m, int fd, struct err *e);

struct mirror_entry *mirror_manifest_find(const struct mirror_manifest *m, struct str path);

/* The entry of that path, made if need be; -ERR_TOO_BIG past a limit. */
int mirror_manifest_add(struct mirror_manifest *m, struct str path, struct mirror_entry **ret,
                        struct err *e);

/* Room in the manifest's memory for as long as it lives. */
const char *mirror_manifest_keep(struct mirror_manifest *m, struct str s, struct err *e);

/* All entries in ascending order of their paths, so that a directory comes before what is in it; a
 * NULL ends them. The array is the caller's to free. */
int mirror_manifest_sorted(const struct mirror_manifest *m, struct mirror_entry ***ret,
                           struct err *e);

#endif
