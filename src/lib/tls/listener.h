/* A listening socket behind which TLS ends: whoever completes a handshake and sends the first bytes
 * is handed on, as a socket that carries what was inside. So it is for protocols in which the
 * client speaks first.
 *
 * A client that is slow, silent or hostile costs its own connection: a handshake has ten seconds
 * and what OpenSSL takes of it is bounded. Connections that were not handed on are bounded in total
 * and by address: at either limit the oldest one ends, after what its client has sent was read; the
 * first bytes and a complete handshake make it young again. Connections whose server has ended and
 * whose client does not read end, too. At the limit of all connections new ones wait.
 */
#ifndef TLS_DOOR_H
#define TLS_DOOR_H

#include <sys/socket.h>

#include "crypto/tls.h"
#include "loop/fd.h"

struct tls_door;

struct tls_door_setup {
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

int tls_door_open(const struct tls_door_setup *s, struct tls_door **ret, struct err *e);
/* Whoever comes from now on meets this identity, which becomes the door's. */
void tls_door_renew(struct tls_door *d, struct crypto_tls_identity *identity);
void tls_door_shut(struct tls_door *d); /* accepts no more; connections go on. NULL is fine */
void tls_door_free(struct tls_door *d); /* and they end. NULL is fine */

#endif
