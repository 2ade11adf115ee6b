/* SPDX-License-Identifier: Apache-2.0 */
/* Relays carry bytes after a decision. A relay takes over the client's socket, the bytes read from
 * it, and the lease; it dials and ends by itself. */
#ifndef ENGINE_EGRESS_RELAYS_RELAYS_H
#define ENGINE_EGRESS_RELAYS_RELAYS_H

#include "base/buf.h"
#include "engine/egress/lease.h"

struct relay_start {
    struct egress_box *box;
    int client;          /* non-blocking, taken over */
    struct lease *lease; /* taken over */
    struct str read;     /* client's bytes read with the head; copied */
    /* Sent to the client when upstream is connected: the "HTTP/1.1 200 …" of a CONNECT; empty: none.
     * If dialling fails, a 502 or 504 is sent in its place. */
    struct str greeting;
};

/* Starts the relay of the decision's protocol, one of the next two, by the table in relays.c. */
void relay_begin(const struct relay_start *s);

/* Relays bytes in both directions: half-close, counters, idle limit, splice for bulk data. The
 * client's first bytes are held until they are classified. The SNI of a TLS ClientHello must be the
 * decision's host: with a missing or different SNI, ECH, or an address as name, the connection is
 * closed and audited, and no byte goes upstream. The same applies to malformed TLS and to a hello
 * in SSL 2 format. If the host is an address, the hello must not have an SNI. Other protocols pass.
 * Bytes of a server that speaks first are passed on at once. */
void relay_tcp(const struct relay_start *s);

/* Relays to an inspected endpoint (rest): HTTP/1.1 requests in origin form (tunnelled or captured),
 * each evaluated before anything of it is written upstream. `authority_port` requests must name the
 * decision's host. TLS instead of a request is refused. */
void relay_http(const struct relay_start *s);

/* Serves forward requests of the proxy port (absolute form), each of which may name another
 * authority and gets a decision of its own. Owns the connection from its first byte; `read` begins
 * with the first head. A CONNECT behind other requests (RFC 9110, 9.3.6) ends the relay: the socket
 * and the input from the CONNECT on go to `tunnel`, as if the connection had begun with it. */
typedef void relay_tunnel_fn(struct egress_box *b, int client, const struct address *from,
                             uint16_t from_port, struct str read);
void relay_forward(struct egress_box *b, int client, const struct address *from, uint16_t from_port,
                   struct str read, relay_tunnel_fn *tunnel);

#endif
