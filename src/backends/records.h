/* SPDX-License-Identifier: Apache-2.0 */
/* Records that file operations write to stdout and read from stdin, beside plain bytes. */
#ifndef BACKENDS_RECORDS_H
#define BACKENDS_RECORDS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    BACKEND_RECORD_MAX = 200 << 10,
    BACKEND_CHUNK_HEAD = 4,
    BACKEND_UPLOAD_HEAD = 8,
    BACKEND_UPLOAD_FILES_MAX = 10000,
    BACKEND_UPLOAD_TEXT_MAX = 4 << 20, /* bytes of all paths */
};

/* START_LIST: any number; START_STAT: one. */
struct backend_entry {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t mode, uid, gid, nlink;
    uint32_t target_mode; /* of a link's final target, with START_RESOLVE; 0: dangling or unknown */
    struct str name, target; /* borrowed from the input */
    struct str attributes;   /* "user.NAME=VALUE", each ended by NUL; with START_ATTRIBUTES only */
};

/* START_WATCH: a record without name and mask means that the watch is active. */
struct backend_change {
    uint32_t mask, cookie; /* of inotify(7) */
    struct str name;
    struct str
        entry; /* the current entry, for backend_entry_read(); empty: none, or not requested */
};

/* Parses the record at the start of `in`: its length, 0 if it is incomplete, -ERR_INVALID if
 * malformed. */
ssize_t backend_entry_read(struct str in, struct backend_entry *ret);
ssize_t backend_change_read(struct str in, struct backend_change *ret);

/* Writes the header of n bytes for START_WRITE; n 0 marks the end. */
void backend_chunk_head(uint32_t n, char ret[static BACKEND_CHUNK_HEAD]);

/* Writes the header of n bytes for START_UPLOAD: the path of a file, bytes of it, or the commit,
 * which stores all files. If stdin ends before the commit, no file is stored. */
enum backend_upload { BACKEND_UPLOAD_FILE = 1, BACKEND_UPLOAD_DATA, BACKEND_UPLOAD_COMMIT };
void backend_upload_head(enum backend_upload kind, uint32_t n,
                         char ret[static BACKEND_UPLOAD_HEAD]);

#endif
