/* Keys as OpenSSH writes them. */
#ifndef SSH_KEY_H
#define SSH_KEY_H

#include "base/buf.h"
#include "base/err.h"
#include "crypto/sign.h"

enum { SSH_KEY_LINE_MAX = 16 << 10 };

/* A public key that somebody sent, as one line of a file ("ssh-ed25519 AAAA… comment"): what is
 * appended is "TYPE BASE64", without the comment, and holds nothing that means something else to
 * who reads files of keys. -ERR_INVALID for what is no key. */
int ssh_public_key_read(struct str line, struct buf *ret, struct err *e);

/* An Ed25519 key: "ssh-ed25519 BASE64", and a file of the private one. Both append. */
int ssh_public_key_write(const unsigned char key[static CRYPTO_SIGN_KEY_SIZE], struct buf *ret);
int ssh_private_key_write(const unsigned char key[static CRYPTO_SIGN_KEY_SIZE], struct buf *ret);

#endif
