/* What file operations write to stdout and read from stdin, beside plain bytes. */
#ifndef EXTENSIONS_RECORDS_H
#define EXTENSIONS_RECORDS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    EXT_RECORD_MAX = 200 << 10,
    EXT_CHUNK_HEAD = 4,
    EXT_UPLOAD_HEAD = 8,
    EXT_UPLOAD_FILES_MAX = 10000,
    EXT_UPLOAD_TEXT_MAX = 4 << 20, /* bytes of their paths */
};

/* EXT_LIST: any number; EXT_STAT: one. */
struct ext_entry {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t mode, uid, gid, nlink;
    struct str name, target; /* borrowed from what was read */
    struct str attributes;   /* "user.NAME=VALUE", each ended by NUL; with EXT_ATTRIBUTES only */
};

/* EXT_WATCH: without a name and mask, it says that the watch stands. */
struct ext_change {
    uint32_t mask, cookie; /* as inotify(7) has them */
    struct str name;
    struct str entry; /* what is there, as ext_entry_read() takes it; empty: nothing, or unasked */
};

/* The record at the start of `in`: how long it is, 0 if more of it must come, -ERR_INVALID for what
 * is none. */
ssize_t ext_entry_read(struct str in, struct ext_entry *ret);
ssize_t ext_change_read(struct str in, struct ext_change *ret);

/* What precedes n bytes for EXT_WRITE; of 0 bytes: that it is complete. */
void ext_chunk_head(uint32_t n, char ret[static EXT_CHUNK_HEAD]);

/* What precedes n bytes for EXT_UPLOAD: the path of a file, bytes of it, or none, which stores all
 * files. If stdin ends before that, none of them is stored. */
enum ext_upload { EXT_UPLOAD_FILE = 1, EXT_UPLOAD_DATA, EXT_UPLOAD_COMMIT };
void ext_upload_head(enum ext_upload kind, uint32_t n, char ret[static EXT_UPLOAD_HEAD]);

#endif
