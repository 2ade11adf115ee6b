/* The certificate that the daemon serves its domain with: given by configuration, or made by an
 * authority of our own, which is kept below `tls` in the state directory. */
#ifndef API_CERTIFICATE_H
#define API_CERTIFICATE_H

#include "base/buf.h"
#include "config/config.h"

struct certificate {
    struct buf chain, key; /* PEM; empty: there is nothing to serve */
};

/* With the rights of whoever starts us: the key may be nobody else's to read. */
int certificate_load(const struct config *c, struct certificate *ret, struct err *e);
/* The same for a process without those rights, as a sealed file in memory, and what is in it. */
int certificate_pass(const struct config *c, int *ret, struct err *e);
int certificate_receive(int fd, struct certificate *ret, struct err *e);
void certificate_done(struct certificate *c); /* and nothing of it stays in memory */

#endif
