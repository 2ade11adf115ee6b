/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text: hexadecimal, base64, base64url (RFC 4648).
 *
 * Reading is strict: one text for one value, so that a token or digest cannot be written in two
 * ways. Hexadecimal is lower case; base64 is padded, base64url is not; there are no blanks or line
 * breaks, and the bits behind the last byte are zero.
 *
 * All of them append to the buffer, and leave it as it was on failure: -ERR_TOO_BIG past its
 * ceiling, -ERR_INVALID for malformed text. Neither runs in constant time. */
#ifndef LIB_CRYPTO_ENCODE_H
#define LIB_CRYPTO_ENCODE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "lib/crypto/hash.h"

int crypto_hex(struct str bytes, struct buf *out);
/* A digest as text, ended by NUL. */
void crypto_hex_sha256(const unsigned char digest[static CRYPTO_SHA256_SIZE],
                       char out[static CRYPTO_SHA256_HEX]);
/* crypto_sha256_end() with the digest as such a text. */
void crypto_sha256_end_hex(struct crypto_sha256 *h, char out[static CRYPTO_SHA256_HEX]);
int crypto_base64(struct str bytes, struct buf *out);
int crypto_base64url(struct str bytes, struct buf *out);

int crypto_unhex(struct str text, struct buf *out, struct err *e);
int crypto_unbase64(struct str text, struct buf *out, struct err *e);
int crypto_unbase64url(struct str text, struct buf *out, struct err *e);

#endif
