/* SPDX-License-Identifier: Apache-2.0 */
/* A listener that terminates TLS: a client that completes a handshake and sends the first bytes is
 * handed on, as a socket that carries the plain text. So it is for protocols in which the client
 * speaks first.
 *
 * A client that is slow, silent or hostile costs its own connection: a handshake has ten seconds
 * and OpenSSL's input from it is bounded. Connections that were not handed on are bounded in total
 * and by address: at either limit the oldest one ends, after its pending input was read; the first
 * bytes and a complete handshake renew its age. Connections whose server has ended and whose client
 * does not read end, too. At the limit of all connections new ones wait. */
#ifndef LIB_TLS_LISTENER_H
#define LIB_TLS_LISTENER_H

#include <sys/socket.h>

#include "lib/crypto/tls.h"
#include "lib/loop/fd.h"

struct tls_listener;

struct tls_listener_setup {
    struct loop *loop;
    int fd;                               /* listening; becomes the door's, also on failure */
    struct crypto_tls_identity *identity; /* becomes the door's, also on failure */
    unsigned connections;                 /* at once */
    unsigned strangers; /* of these, not handed on; half of them from one address; 0: all */
    /* A connection: fd is the receiver's, also if it returns an error. `net` is the client's
     * socket, to see who it is. */
    int (*serve)(void *user, int fd, int net, struct err *e);
    void *user;
};

int tls_listener_open(const struct tls_listener_setup *s, struct tls_listener **ret, struct err *e);
/* New connections use this identity, which the door owns from now on. */
void tls_listener_renew(struct tls_listener *d, struct crypto_tls_identity *identity);
void tls_listener_shut(
    struct tls_listener *d); /* stops accepting; connections continue. NULL is allowed */
void tls_listener_free(struct tls_listener *d); /* and they end. NULL is fine */

#endif
