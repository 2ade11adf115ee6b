/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters: one function for each way in. Each takes over the accepted socket, adds itself to
 * the box's list of open connections, and removes itself when it ends. */
#ifndef ENGINE_EGRESS_ADAPTERS_ADAPTERS_H
#define ENGINE_EGRESS_ADAPTERS_ADAPTERS_H

#include "engine/egress/adapters/names.h"

/* A connection to the proxy port. Its first bytes select CONNECT (connect.c) or a forward request
 * (relays/relays.c); anything else is answered with 400. */
void proxy_accept(struct egress_box *b, int fd, const struct address *client, uint16_t client_port);

/* A connection to the proxy port that begins with CONNECT. `read`: the bytes received so far,
 * copied. */
void connect_accept(struct egress_box *b, int fd, const struct address *client,
                    uint16_t client_port, struct str read);

/* A captured connection; `to` is the address that the program dialled. */
void transparent_accept(struct egress_box *b, int fd, const struct address *client,
                        uint16_t client_port, const struct address *to, uint16_t port);

/* Policy DNS: serves the box's UDP and TCP listeners; freed with the box, also after a failure. */
struct dns_adapter;
int dns_adapter_new(struct egress_box *b, struct dns_adapter **ret, struct err *e);
void dns_adapter_free(struct dns_adapter *d); /* NULL is fine */

/* Policy DNS over TCP: many questions on one connection, each after a length of two bytes, answered
 * in the order of their decisions. Connections, waiting questions and unread answers are limited; a
 * client that is idle for EGRESS_DNS_IDLE_NS is disconnected. Serves a listening socket, which the
 * caller keeps. *ret is set also on failure. */
struct dns_tcp;
int dns_tcp_new(struct dns_names *n, struct loop *l, int fd, struct dns_tcp **ret, struct err *e);
void dns_tcp_free(struct dns_tcp *t); /* closes every connection; accepts NULL */

#endif
