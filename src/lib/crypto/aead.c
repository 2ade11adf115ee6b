/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/aead.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/crypto/random.h"

static void free_context(EVP_CIPHER_CTX **c)
{
    EVP_CIPHER_CTX_free(*c);
}

static void free_cipher(EVP_CIPHER **c)
{
    EVP_CIPHER_free(*c);
}

static const unsigned char *aead_bytes(struct str s)
{
    return (const unsigned char *)s.p;
}

/* Encrypts or decrypts `in` to `out`; *tag is read or written. */
static int run_cipher(const unsigned char *key, struct str associated, struct str in, bool seal,
                      const unsigned char *nonce, unsigned char *tag, unsigned char *out)
{
    AUTO(free_cipher) EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    AUTO(free_context) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    unsigned char nothing = 0;
    int n = 0, last = 0;

    if (!cipher || !c || !EVP_CipherInit_ex2(c, cipher, key, nonce, seal, NULL))
        abort(); /* not in this library, or out of memory */
    if (!seal && !EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, CRYPTO_AEAD_TAG, tag))
        return -(int)ERR_BUG;
    if (associated.n && !EVP_CipherUpdate(c, NULL, &n, aead_bytes(associated), (int)associated.n))
        return -(int)ERR_BUG;
    if (!EVP_CipherUpdate(c, out, &n, in.n ? aead_bytes(in) : &nothing, (int)in.n) ||
        !EVP_CipherFinal_ex(c, out + n, &last))
        return -(int)ERR_DENIED;
    if (seal && !EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, CRYPTO_AEAD_TAG, tag))
        return -(int)ERR_BUG;
    return 0;
}

int crypto_aead_seal(const unsigned char key[static CRYPTO_AEAD_KEY], struct str associated,
                     struct str plain, struct buf *out, struct err *e)
{
    unsigned char *nonce; /* the tag and the text follow it */
    char *room;
    int r;

    if (plain.n > INT32_MAX || buf_room(out, plain.n + CRYPTO_AEAD_MORE, &room) < 0)
        return err_set(e, ERR_TOO_BIG,
                       "a text of %zu bytes does not fit the %zu bytes of its sealed form", plain.n,
                       out->max);
    nonce = (unsigned char *)room;
    r = crypto_random(nonce, CRYPTO_AEAD_NONCE, e);
    if (r < 0)
        return r;
    if (run_cipher(key, associated, plain, true, nonce, nonce + CRYPTO_AEAD_NONCE,
                   nonce + CRYPTO_AEAD_MORE) < 0)
        return err_set(e, ERR_BUG, "sealing failed");
    buf_grew(out, plain.n + CRYPTO_AEAD_MORE);
    return 0;
}

int crypto_aead_open(const unsigned char key[static CRYPTO_AEAD_KEY], struct str associated,
                     struct str sealed, struct buf *out, struct err *e)
{
    unsigned char head[CRYPTO_AEAD_MORE];
    struct str text;
    char *room;

    if (sealed.n < CRYPTO_AEAD_MORE || sealed.n > INT32_MAX)
        return err_set(e, ERR_DENIED, "a sealed text is too short");
    memcpy(head, sealed.p, sizeof head);
    text = (struct str){ sealed.p + CRYPTO_AEAD_MORE, sealed.n - CRYPTO_AEAD_MORE };
    if (buf_room(out, text.n + 1, &room) < 0)
        return err_set(e, ERR_TOO_BIG,
                       "a sealed text of %zu bytes does not fit the %zu bytes of its buffer",
                       text.n, out->max);
    if (run_cipher(key, associated, text, false, head, head + CRYPTO_AEAD_NONCE,
                   (unsigned char *)room) < 0)
        return err_set(e, ERR_DENIED, "a sealed text cannot be opened with this key");
    buf_grew(out, text.n);
    return 0;
}
