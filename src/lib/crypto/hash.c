/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/hash.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdlib.h>

/* Looked up once: by name, every digest would search the providers anew, under a lock. */
static struct {
    pthread_once_t once;
    EVP_MD *sha256;
} digests = { .once = PTHREAD_ONCE_INIT };

static void require_digest(bool good)
{
    if (!good)
        abort();
}

static void load_digests(void)
{
    digests.sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    require_digest(digests.sha256);
}

static const EVP_MD *sha256_digest(void)
{
    pthread_once(&digests.once, load_digests);
    return digests.sha256;
}

void crypto_sha256(struct str in, unsigned char out[static CRYPTO_SHA256_SIZE])
{
    require_digest(EVP_Digest(in.p, in.n, out, NULL, sha256_digest(), NULL));
}

static EVP_MD_CTX *begun_context(struct crypto_sha256 *h)
{
    if (!h->context_) {
        h->context_ = EVP_MD_CTX_new();
        require_digest(h->context_ && EVP_DigestInit_ex(h->context_, sha256_digest(), NULL));
    }
    return h->context_;
}

void crypto_sha256_add(struct crypto_sha256 *h, struct str piece)
{
    require_digest(EVP_DigestUpdate(begun_context(h), piece.p, piece.n));
}

void crypto_sha256_end(struct crypto_sha256 *h, unsigned char out[static CRYPTO_SHA256_SIZE])
{
    require_digest(EVP_DigestFinal_ex(begun_context(h), out, NULL));
    crypto_sha256_done(h);
}

void crypto_sha256_done(struct crypto_sha256 *h)
{
    EVP_MD_CTX_free(h->context_);
    h->context_ = NULL;
}

void crypto_hmac_sha256(struct str key, struct str in, unsigned char out[static CRYPTO_SHA256_SIZE])
{
    require_digest(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key.n ? key.p : "", key.n,
                             (const unsigned char *)in.p, in.n, out, CRYPTO_SHA256_SIZE, NULL));
}

void crypto_hmac_init(struct crypto_hmac *h, struct str key)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);

    crypto_hmac_done(h);
    h->context_ = mac ? EVP_MAC_CTX_new(mac) : NULL;
    EVP_MAC_free(mac); /* the context holds it */
    require_digest(h->context_ &&
                   EVP_MAC_init(h->context_, (const unsigned char *)key.p, key.n, params));
}

/* Without a key, init goes back to where the last one was prepared. */
void crypto_hmac_of(struct crypto_hmac *h, struct str in,
                    unsigned char out[static CRYPTO_SHA256_SIZE])
{
    require_digest(EVP_MAC_init(h->context_, NULL, 0, NULL) &&
                   EVP_MAC_update(h->context_, (const unsigned char *)in.p, in.n) &&
                   EVP_MAC_final(h->context_, out, NULL, CRYPTO_SHA256_SIZE));
}

void crypto_hmac_done(struct crypto_hmac *h)
{
    EVP_MAC_CTX_free(h->context_);
    h->context_ = NULL;
}
