/* Base64 (RFC 4648, padded), one way: what the interface writes where bytes are no text. */
#ifndef CLI_BASE64_H
#define CLI_BASE64_H

#include "base/buf.h"

/* Appends the bytes. -ERR_INVALID for text that is none, -ERR_TOO_BIG past the buffer's ceiling. */
int base64_decode(struct str text, struct buf *out);

#endif
