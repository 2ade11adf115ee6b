/* SPDX-License-Identifier: Apache-2.0 */
/* Message bodies, parsed as they arrive, without copying.
 *
 * Chunks are read as strictly as heads: hexadecimal sizes without sign, prefix or blank, CRLF and
 * nothing else, extensions (tokens, of which the last may have a value, a token) bounded and
 * ignored, trailers bounded, checked and dropped (a trailer that names framing is refused). A
 * proxy that forwards a body writes its own chunks. */
#ifndef LIB_HTTP_BODY_H
#define LIB_HTTP_BODY_H

#include "lib/http/h1.h"

enum {
    BODY_SIZE_DIGITS = 16,       /* of one chunk's size */
    BODY_EXTENSION_MAX = 256,    /* bytes of one chunk's extensions */
    BODY_EXTENSIONS_MAX = 16384, /* bytes of all extensions of a body */
    BODY_TRAILER_MAX = 4096,     /* bytes of all trailers */
};

enum body_event {
    BODY_MORE, /* everything was taken; more input is needed */
    BODY_DATA, /* a piece of the body */
    BODY_END,  /* the body is complete; the rest of the input belongs to the next message */
};

struct body {
    enum h1_framing framing;
    uint64_t left; /* of the length or of the current chunk */
    uint64_t seen; /* bytes of data so far */
    bool ended;
    int state_;
    unsigned digits_, part_n_, name_n_;
    size_t line_extra_, all_extra_, trailer_;
    char name_[18]; /* the current trailer's name, in lower case, as far as it matters */
};

void body_start(struct body *b, enum h1_framing framing, uint64_t length);

/* Takes bytes off the front of *in and returns a body_event; *data is a slice of the input and set
 * with BODY_DATA only. An error is final. */
int body_next(struct body *b, struct str *in, struct str *data, struct err *e);

/* The stream ended: 0 if the body may end here, -ERR_UPSTREAM if it is cut off. */
int body_finish(const struct body *b, struct err *e);

/* Writing chunks: the line before n > 0 bytes of data, CRLF behind them, BODY_LAST_CHUNK at the
 * end. */
enum { BODY_CHUNK_LINE_MAX = 18 };
#define BODY_CHUNK_AFTER STR("\r\n")
#define BODY_LAST_CHUNK  STR("0\r\n\r\n")
struct str body_chunk_line(char out[static BODY_CHUNK_LINE_MAX], size_t n); /* a slice of out */

#endif
