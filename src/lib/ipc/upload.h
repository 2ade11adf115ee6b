/* SPDX-License-Identifier: Apache-2.0 */
/* The input of the file operation UPLOAD: the files of one request, then a commit. A record is a
 * head and its data:
 *
 *     FILE    a path: absolute, without NUL; begins a file, and completes the previous one
 *     DATA    more bytes of the file, at least one
 *     COMMIT  without data, the last record: moves the files into place
 *
 * Without COMMIT (the client died, the request was refused) nothing is stored.
 *
 *     while ((n = upload_next(&u, in, &v, e)) >= 0) { in is n bytes shorter; … } */
#ifndef LIB_IPC_UPLOAD_H
#define LIB_IPC_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    UPLOAD_FILES_MAX = 10000,
    UPLOAD_TEXT_MAX = 4 << 20,   /* bytes of all paths */
    UPLOAD_RECORD_MAX = 8 << 10, /* input that is always enough for upload_next() to proceed */
};

enum upload_kind { UPLOAD_FILE = 1, UPLOAD_DATA, UPLOAD_COMMIT };

struct upload_head {
    uint32_t kind; /* enum upload_kind */
    uint32_t size; /* bytes of data */
};

/* State of the parser; zeroed at the start. */
struct upload_records {
    uint32_t files;
    uint32_t text; /* bytes of their paths */
    uint32_t left; /* remaining bytes of the current DATA */
    bool over;     /* COMMIT was read */
};

enum upload_event_kind {
    UPLOAD_MORE, /* no event; if no byte was consumed, more input is necessary */
    UPLOAD_FILE_BEGINS,
    UPLOAD_FILE_BYTES,
    UPLOAD_ALL_CAME,
};

struct upload_event {
    enum upload_event_kind kind;
    struct str data; /* the path, or bytes: borrowed from the input */
};

/* Parses the next event at the start of `in`; returns the number of bytes consumed. */
ssize_t upload_next(struct upload_records *u, struct str in, struct upload_event *ret,
                    struct err *e);

#endif
