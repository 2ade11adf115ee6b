/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/sign.h"

#include <openssl/evp.h>
#include <stdlib.h>

static void require_signature(bool good)
{
    if (!good)
        abort();
}

static EVP_PKEY *private_of(const unsigned char *key)
{
    EVP_PKEY *k = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, key, CRYPTO_SIGN_KEY_SIZE);

    require_signature(k);
    return k;
}

void crypto_sign_public(const unsigned char private_key[static CRYPTO_SIGN_KEY_SIZE],
                        unsigned char out[static CRYPTO_SIGN_KEY_SIZE])
{
    EVP_PKEY *key = private_of(private_key);
    size_t n = CRYPTO_SIGN_KEY_SIZE;

    require_signature(EVP_PKEY_get_raw_public_key(key, out, &n) == 1 && n == CRYPTO_SIGN_KEY_SIZE);
    EVP_PKEY_free(key);
}

void crypto_sign(const unsigned char private_key[static CRYPTO_SIGN_KEY_SIZE], struct str text,
                 unsigned char out[static CRYPTO_SIGNATURE_SIZE])
{
    EVP_PKEY *key = private_of(private_key);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n = CRYPTO_SIGNATURE_SIZE;

    require_signature(ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1);
    require_signature(EVP_DigestSign(ctx, out, &n, (const unsigned char *)text.p, text.n) == 1 &&
                      n == CRYPTO_SIGNATURE_SIZE);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
}

bool crypto_signed_by(const unsigned char public_key[static CRYPTO_SIGN_KEY_SIZE], struct str text,
                      const unsigned char signature[static CRYPTO_SIGNATURE_SIZE])
{
    EVP_PKEY *key =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, CRYPTO_SIGN_KEY_SIZE);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good;

    require_signature(ctx);
    good = key && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
           EVP_DigestVerify(ctx, signature, CRYPTO_SIGNATURE_SIZE, (const unsigned char *)text.p,
                            text.n) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    return good;
}
