/* SPDX-License-Identifier: Apache-2.0 */
/* The host's signing key, in the state directory, made at first use. */
#ifndef ENGINE_ATTEST_KEY_H
#define ENGINE_ATTEST_KEY_H

#include "base/err.h"
#include "lib/crypto/sign.h"

#define ATTEST_KEY_FILE    "seal.key" /* base64 of the private key, mode 0600 */
#define ATTEST_PUBLIC_FILE "seal.pub" /* base64 of the public one, to be given to others */

/* Reads or makes the key. Refuses a file of another owner, or one that others can read. */
int attest_key_open(int state_dir, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE], struct err *e);

/* A public key from a file with its base64. */
int attest_public_read(int dir, const char *path, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE],
                       struct err *e);

#endif
