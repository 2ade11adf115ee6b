/* A signed text: an envelope as of DSSE 1.0 (Dead Simple Signing Envelope), with one Ed25519
 * signature.
 *
 * What is signed are the bytes of the text, which the envelope carries in base64, and its type:
 * nothing needs to be written in one way only. */
#ifndef SEAL_ENVELOPE_H
#define SEAL_ENVELOPE_H

#include "base/buf.h"
#include "crypto/sign.h"

#define SEAL_TYPE "application/vnd.sandboxer.manifest+json"

enum { SEAL_TEXT_MAX = 64 << 20, SEAL_ENVELOPE_MAX = 96 << 20 };

int seal_envelope_write(const unsigned char private_key[static CRYPTO_SIGN_KEY_SIZE],
                        struct str text, struct buf *out, struct err *e);

/* The text, if the envelope is whole and signed by that key: -ERR_INVALID for what is no envelope,
 * -ERR_DENIED for a signature that is not by the key. */
int seal_envelope_read(const unsigned char public_key[static CRYPTO_SIGN_KEY_SIZE],
                       struct str envelope, struct buf *out, struct err *e);

#endif
