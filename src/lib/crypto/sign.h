/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures by Ed25519 (RFC 8032). A private key is 32 bytes of crypto_random(); keep it from
 * others, and crypto_wipe() copies of it. Nothing here can fail but for running out of memory,
 * which aborts. */
#ifndef LIB_CRYPTO_SIGN_H
#define LIB_CRYPTO_SIGN_H

#include <stdbool.h>

#include "base/str.h"

enum { CRYPTO_SIGN_KEY_SIZE = 32, CRYPTO_SIGNATURE_SIZE = 64 };

void crypto_sign_public(const unsigned char private_key[static CRYPTO_SIGN_KEY_SIZE],
                        unsigned char out[static CRYPTO_SIGN_KEY_SIZE]);

void crypto_sign(const unsigned char private_key[static CRYPTO_SIGN_KEY_SIZE], struct str text,
                 unsigned char out[static CRYPTO_SIGNATURE_SIZE]);

/* Also false for 32 bytes that are no key. */
bool crypto_signed_by(const unsigned char public_key[static CRYPTO_SIGN_KEY_SIZE], struct str text,
                      const unsigned char signature[static CRYPTO_SIGNATURE_SIZE]);

#endif
