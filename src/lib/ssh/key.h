/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as OpenSSH writes them. */
#ifndef LIB_SSH_KEY_H
#define LIB_SSH_KEY_H

#include "base/buf.h"
#include "base/err.h"
#include "lib/crypto/sign.h"

enum { SSH_KEY_LINE_MAX = 16 << 10 };

/* Reads a client's public key, one line of a key file ("ssh-ed25519 AAAA… comment"), and appends
 * "TYPE BASE64" without the comment, free of characters that readers of key files interpret.
 * -ERR_INVALID for a malformed key. */
int ssh_public_key_read(struct str line, struct buf *ret, struct err *e);

/* An Ed25519 key: "ssh-ed25519 BASE64", and a file of the private one. Both append. */
int ssh_public_key_write(const unsigned char key[static CRYPTO_SIGN_KEY_SIZE], struct buf *ret);
int ssh_private_key_write(const unsigned char key[static CRYPTO_SIGN_KEY_SIZE], struct buf *ret);

#endif
