/* SPDX-License-Identifier: Apache-2.0 */
/* The server side of TLS (1.2 and newer) on a connected non-blocking socket, and its identity.
 *
 * No function waits: one that cannot continue returns the socket event that it needs. */
#ifndef LIB_CRYPTO_TLS_H
#define LIB_CRYPTO_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

struct crypto_tls_identity;
struct crypto_tls;

/* A chain of certificates and the key of the first, in PEM. The only protocol it agrees to speak is
 * HTTP/1.1. */
int crypto_tls_identity_new(struct str chain, struct str key, struct crypto_tls_identity **ret,
                            struct err *e);
/* NULL is fine, and so is one that sessions were made with. */
void crypto_tls_identity_free(struct crypto_tls_identity *i);

/* The socket stays the caller's, and outlives it. */
struct crypto_tls *crypto_tls_new(struct crypto_tls_identity *i, int fd);
void crypto_tls_free(struct crypto_tls *t); /* NULL is fine */

/* Each returns how far it came (1 for a handshake that is complete), or one of these. */
enum crypto_tls_result {
    CRYPTO_TLS_OVER = 0,         /* the peer has said that it ends */
    CRYPTO_TLS_NEEDS_READ = -1,  /* again when there is something to read … */
    CRYPTO_TLS_NEEDS_WRITE = -2, /* … or room to write */
    CRYPTO_TLS_BROKEN = -3,      /* the connection is unusable */
};
int crypto_tls_handshake(struct crypto_tls *t);
ssize_t crypto_tls_read(struct crypto_tls *t, char *room, size_t n);
/* If it could not continue, call it again with the same bytes. */
ssize_t crypto_tls_write(struct crypto_tls *t, struct str data);
void crypto_tls_end(struct crypto_tls *t);           /* sends close_notify, if there is room */
bool crypto_tls_pending(const struct crypto_tls *t); /* bytes that the socket does not show */

#endif
