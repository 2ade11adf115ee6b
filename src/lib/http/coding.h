/* SPDX-License-Identifier: Apache-2.0 */
/* How a client wants the bytes of an answer coded (Accept-Encoding, RFC 9110 12.5.3). */
#ifndef LIB_HTTP_CODING_H
#define LIB_HTTP_CODING_H

#include "base/str.h"

enum http_coding {
    HTTP_AS_IT_IS,
    HTTP_GZIP,
    HTTP_NO_CODING, /* it takes neither */
};

/* The coding for a client with this Accept-Encoding; empty, or with p == NULL: the field is absent.
 * Compression costs both sides time, so it is only for clients that prefer it to all other codings
 * they name. Libraries name all codings that they know with equal weight, unrelated to their
 * program's wish. */
enum http_coding http_coding(struct str accept);

#endif
