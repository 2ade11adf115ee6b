/* SPDX-License-Identifier: Apache-2.0 */
/* Digests and authentication codes. They cannot fail: the only possible cause is memory exhaustion,
 * which aborts. Any thread may call them. */
#ifndef LIB_CRYPTO_HASH_H
#define LIB_CRYPTO_HASH_H

#include "base/str.h"

enum {
    CRYPTO_SHA256_SIZE = 32,
    CRYPTO_SHA256_HEX = 2 * CRYPTO_SHA256_SIZE + 1, /* as text, with its NUL */
};

void crypto_sha256(struct str in, unsigned char out[static CRYPTO_SHA256_SIZE]);

/* SHA-256 of what comes in pieces:
 *
 *     AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
 *
 *     crypto_sha256_add(&h, piece);
 *     …
 *     crypto_sha256_end(&h, out);
 *
 * A zeroed one is ready to be added to, and is so again after its end. */
struct crypto_sha256 {
    void *context_;
};

void crypto_sha256_add(struct crypto_sha256 *h, struct str piece);
void crypto_sha256_end(struct crypto_sha256 *h, unsigned char out[static CRYPTO_SHA256_SIZE]);
void crypto_sha256_done(struct crypto_sha256 *h);

/* Compare what comes out with crypto_equal() (lib/crypto/secret.h), never with memcmp(). */
void crypto_hmac_sha256(struct str key, struct str in,
                        unsigned char out[static CRYPTO_SHA256_SIZE]);

/* HMAC-SHA-256 of many texts with one key, which is prepared once:
 *
 *     AUTO(crypto_hmac_done) struct crypto_hmac h = { 0 };
 *
 *     crypto_hmac_init(&h, key);
 *     crypto_hmac_of(&h, text, out);
 *
 * Used by one thread at a time. */
struct crypto_hmac {
    void *context_;
};

void crypto_hmac_init(struct crypto_hmac *h, struct str key); /* the key is not empty */
void crypto_hmac_of(struct crypto_hmac *h, struct str in,
                    unsigned char out[static CRYPTO_SHA256_SIZE]);
void crypto_hmac_done(struct crypto_hmac *h);

#endif
