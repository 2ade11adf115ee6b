/* The host's key for signing, in the state directory: made by whoever needs it first. */
#ifndef SEAL_KEY_H
#define SEAL_KEY_H

#include "base/err.h"
#include "crypto/sign.h"

#define SEAL_KEY_FILE    "seal.key" /* base64 of the private key, mode 0600 */
#define SEAL_PUBLIC_FILE "seal.pub" /* base64 of the public one, to be given to others */

/* Reads it, or makes it. Refused unless it is ours and readable by nobody else. */
int seal_key_open(int state_dir, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE], struct err *e);

/* A public key from a file with its base64. */
int seal_public_read(int dir, const char *path, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE],
                     struct err *e);

#endif
