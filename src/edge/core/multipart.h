/* SPDX-License-Identifier: Apache-2.0 */
/* An incremental parser of multipart/form-data (RFC 7578); it buffers no content.
 *
 *     while ((n = multipart_next(&m, in, &v, e)) >= 0) { in is n bytes shorter; … }
 *
 * Strict where two parsers could disagree: lines end in CRLF, nothing follows a boundary, names are
 * quoted. */
#ifndef EDGE_CORE_MULTIPART_H
#define EDGE_CORE_MULTIPART_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70,
    MULTIPART_HEAD_MAX = 16 << 10, /* bytes of a part's fields */
    MULTIPART_TEXT_MAX = 4096,     /* of a name or file name, with NUL */
};

enum multipart_state {
    MULTIPART_PREAMBLE, /* before the first boundary */
    MULTIPART_HEAD,     /* after a boundary: the fields of a part */
    MULTIPART_BODY,
    MULTIPART_OVER, /* after the last boundary: further bytes are ignored */
};

struct multipart {
    char delimiter[MULTIPART_BOUNDARY_MAX + 8]; /* CRLF, two dashes and the boundary */
    size_t delimiter_n;
    enum multipart_state state;
    char name[MULTIPART_TEXT_MAX], filename[MULTIPART_TEXT_MAX]; /* of the current part */
    bool has_filename;
};

enum multipart_kind {
    MULTIPART_MORE, /* no event; if no byte was consumed, more input is needed */
    MULTIPART_PART, /* a part begins: name and filename are set */
    MULTIPART_DATA, /* content of the part */
    MULTIPART_PART_END,
    MULTIPART_END, /* after the last part */
};

struct multipart_event {
    enum multipart_kind kind;
    struct str data; /* of MULTIPART_DATA: borrowed from the input */
};

/* Reads the boundary from a Content-Type value. */
int multipart_init(struct multipart *m, struct str content_type, struct err *e);

/* Parses the next event of the unconsumed input; returns how many bytes it consumes. */
ssize_t multipart_next(struct multipart *m, struct str in, struct multipart_event *ret,
                       struct err *e);

#endif
