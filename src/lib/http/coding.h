/* How a client wants the bytes of an answer coded (Accept-Encoding, RFC 9110 12.5.3). */
#ifndef HTTP_CODING_H
#define HTTP_CODING_H

#include "base/str.h"

enum http_coding {
    HTTP_AS_IT_IS,
    HTTP_GZIP,
    HTTP_NO_CODING, /* it takes neither */
};

/* What to send to whoever says so; empty, or with p == NULL: they said nothing. Packing takes time,
 * ours and theirs: it is for those who like it better than anything else that they name. Libraries
 * name all that they know, alike, whatever their program wants. */
enum http_coding http_coding(struct str accept);

#endif
