/* multipart/form-data (RFC 7578), as it comes: nothing of a part's content is kept.
 *
 *     while ((n = multipart_next(&m, in, &v, e)) >= 0) { in is n bytes shorter; … }
 *
 * Strict where two programs could read differently: lines end in CRLF, a boundary is followed by
 * nothing, names are quoted. */
#ifndef API_MULTIPART_H
#define API_MULTIPART_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70,
    MULTIPART_HEAD_MAX = 16 << 10, /* bytes of a part's fields */
    MULTIPART_TEXT_MAX = 4096,     /* of a name or file name, with its NUL */
};

enum multipart_state {
    MULTIPART_PREAMBLE, /* before the first boundary */
    MULTIPART_HEAD,     /* behind a boundary: the fields of a part */
    MULTIPART_BODY,
    MULTIPART_OVER, /* behind the last boundary: what comes is not looked at */
};

struct multipart {
    char delimiter[MULTIPART_BOUNDARY_MAX + 8]; /* CRLF, two dashes and the boundary */
    size_t delimiter_n;
    enum multipart_state state;
    char name[MULTIPART_TEXT_MAX], filename[MULTIPART_TEXT_MAX]; /* of the part that it is in */
    bool has_filename;
};

enum multipart_kind {
    MULTIPART_MORE, /* nothing to tell: if no byte was taken, more has to come first */
    MULTIPART_PART, /* a part begins: name and filename are known */
    MULTIPART_DATA, /* of its content */
    MULTIPART_PART_END,
    MULTIPART_END, /* there are no more parts */
};

struct multipart_event {
    enum multipart_kind kind;
    struct str data; /* of MULTIPART_DATA: borrowed from what was given */
};

/* From the value of a Content-Type. */
int multipart_init(struct multipart *m, struct str content_type, struct err *e);

/* The next thing in what has come and was not taken yet: how many bytes of it that takes. */
ssize_t multipart_next(struct multipart *m, struct str in, struct multipart_event *ret,
                       struct err *e);

#endif
