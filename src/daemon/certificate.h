/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS certificate of the daemon's domain: configured, or issued by the daemon's own authority,
 * whose key is kept below `tls` in the state directory. */
#ifndef DAEMON_CERTIFICATE_H
#define DAEMON_CERTIFICATE_H

#include "base/buf.h"
#include "domain/config/config.h"

struct certificate {
    struct buf chain, key; /* PEM; empty: no HTTPS */
};

/* Loads the certificate. Runs with the rights of the user that starts the daemon: the key may be
 * readable to that user only. */
int certificate_load(const struct config *c, struct certificate *ret, struct err *e);
/* The same for a process without those rights: certificate_pass() returns a sealed memory file, and
 * certificate_receive() reads it. */
int certificate_pass(const struct config *c, int *ret, struct err *e);
int certificate_receive(int fd, struct certificate *ret, struct err *e);
void certificate_done(struct certificate *c); /* wipes the key */

#endif
