/* One function per way in. Each takes the accepted socket over and looks after itself from then on:
 * it is in the box's list of open things until it ends. */
#ifndef EGRESS_ADAPTERS_ADAPTERS_H
#define EGRESS_ADAPTERS_ADAPTERS_H

#include "egress/egress.h"

/* The proxy's port: by its first bytes it is a CONNECT (connect.c) or a forward request
 * (relays/forward.c); anything else is answered 400. */
void proxy_accept(struct egress_box *b, int fd, const struct address *client, uint16_t client_port);

/* The proxy's port, when a CONNECT has begun; `read` is what came of it: copied. */
void connect_accept(struct egress_box *b, int fd, const struct address *client,
                    uint16_t client_port, struct str read);

/* A captured connection; `to` is what the program dialled. */
void transparent_accept(struct egress_box *b, int fd, const struct address *client,
                        uint16_t client_port, const struct address *to, uint16_t port);

/* Policy DNS: serves the box's UDP and TCP listeners; freed with the box. */
struct dns_adapter;
int dns_adapter_new(struct egress_box *b, struct dns_adapter **ret, struct err *e);
void dns_adapter_free(struct dns_adapter *d); /* NULL is fine */

#endif
