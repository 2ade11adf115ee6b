/* SPDX-License-Identifier: Apache-2.0 */
/* Authenticated encryption with associated data: AES-256-GCM with a random nonce of 96 bits for
 * each message, which is good for 2^32 messages with one key (NIST SP 800-38D). */
#ifndef LIB_CRYPTO_AEAD_H
#define LIB_CRYPTO_AEAD_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
    CRYPTO_AEAD_KEY = 32,
    CRYPTO_AEAD_NONCE = 12,
    CRYPTO_AEAD_TAG = 16,
    CRYPTO_AEAD_MORE = CRYPTO_AEAD_NONCE + CRYPTO_AEAD_TAG, /* bytes that a sealed text has more */
};

/* Appends nonce, tag and ciphertext. Any thread may call either. */
int crypto_aead_seal(const unsigned char key[static CRYPTO_AEAD_KEY], struct str associated,
                     struct str plain, struct buf *out, struct err *e);
/* Appends the text. -ERR_DENIED: it was sealed with another key or for something else, or
 * changed. */
int crypto_aead_open(const unsigned char key[static CRYPTO_AEAD_KEY], struct str associated,
                     struct str sealed, struct buf *out, struct err *e);

#endif
