/* What the file operation UPLOAD reads from stdin: the files of one request, and behind the last
 * one that all of them came. A record is a head and as many bytes as that says:
 *
 *     FILE    a path: absolute, without NUL; a file begins, and the one before it is complete
 *     DATA    more bytes of the file, at least one
 *     COMMIT  no bytes, and nothing behind it: the files take their places
 *
 * Without COMMIT (the client died, the request was refused) nothing is stored.
 *
 *     while ((n = upload_next(&u, in, &v, e)) >= 0) { in is n bytes shorter; … } */
#ifndef IPC_UPLOAD_H
#define IPC_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    UPLOAD_FILES_MAX = 10000,
    UPLOAD_TEXT_MAX = 4 << 20,   /* bytes of all paths */
    UPLOAD_RECORD_MAX = 8 << 10, /* that have to be there at once for upload_next() to go on */
};

enum upload_kind { UPLOAD_FILE = 1, UPLOAD_DATA, UPLOAD_COMMIT };

struct upload_head {
    uint32_t kind; /* enum upload_kind */
    uint32_t size; /* of what follows */
};

/* Zeroed: nothing came yet. */
struct upload_records {
    uint32_t files;
    uint32_t text; /* bytes of their paths */
    uint32_t left; /* bytes of the DATA that it is in */
    bool over;     /* COMMIT came */
};

enum upload_event_kind {
    UPLOAD_MORE, /* nothing to tell: if no byte was taken, more has to come first */
    UPLOAD_FILE_BEGINS,
    UPLOAD_FILE_BYTES,
    UPLOAD_ALL_CAME,
};

struct upload_event {
    enum upload_event_kind kind;
    struct str data; /* the path, or bytes: borrowed from what was given */
};

/* The next thing in what has come and was not taken yet: how many bytes of it that takes. */
ssize_t upload_next(struct upload_records *u, struct str in, struct upload_event *ret,
                    struct err *e);

#endif
