/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes Base64 (RFC 4648, padded), which the API uses for bytes that are not UTF-8. */
#ifndef CLI_BASE64_H
#define CLI_BASE64_H

#include "base/buf.h"

/* Appends the bytes. -ERR_INVALID for text that is not Base64, -ERR_TOO_BIG past the buffer's
 * ceiling. */
int base64_decode(struct str text, struct buf *out);

#endif
