/* SPDX-License-Identifier: Apache-2.0 */
/* A signed text: an envelope as of DSSE 1.0 (Dead Simple Signing Envelope), with one Ed25519
 * signature.
 *
 * The signature covers the type and the bytes of the text, which the envelope carries in base64, so
 * no canonical form is necessary. */
#ifndef ENGINE_ATTEST_ENVELOPE_H
#define ENGINE_ATTEST_ENVELOPE_H

#include "base/buf.h"
#include "lib/crypto/sign.h"
#include "base/err.h"

#define ATTEST_TYPE "application/vnd.sandboxer.manifest+json"

enum { ATTEST_TEXT_MAX = 64 << 20, ATTEST_ENVELOPE_MAX = 96 << 20 };

int attest_envelope_write(const unsigned char private_key[static CRYPTO_SIGN_KEY_SIZE],
                          struct str text, struct buf *out, struct err *e);

/* The text, if the envelope is whole and signed by that key: -ERR_INVALID for what is no envelope,
 * -ERR_DENIED for a signature that is not by the key. */
int attest_envelope_read(const unsigned char public_key[static CRYPTO_SIGN_KEY_SIZE],
                         struct str envelope, struct buf *out, struct err *e);

/* The host's signing key, in the state directory, made at first use. */

#define ATTEST_KEY_FILE    "seal.key" /* base64 of the private key, mode 0600 */
#define ATTEST_PUBLIC_FILE "seal.pub" /* base64 of the public one, to be given to others */

/* Reads or makes the key. Refuses a file of another owner, or one that others can read. */
int attest_key_open(int state_dir, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE], struct err *e);

/* A public key from a file with its base64. */
int attest_public_read(int dir, const char *path, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE],
                       struct err *e);

#endif
