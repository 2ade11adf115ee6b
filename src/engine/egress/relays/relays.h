/* What carries bytes once a decision is there. A relay takes over the client's socket, what was
 * already read from it, and the lease; dials itself; and ends itself. */
#ifndef EGRESS_RELAYS_RELAYS_H
#define EGRESS_RELAYS_RELAYS_H

#include "base/buf.h"
#include "egress/lease.h"

struct relay_start {
    struct egress_box *box;
    int client;          /* non-blocking, taken over */
    struct lease *lease; /* taken over */
    struct str read;     /* bytes of the client that came with the head: copied */
    struct str
        greeting; /* to be sent to the client when the connection stands: "HTTP/1.1 200 …" of a
                     CONNECT; empty: none. If dialling fails, a greeting's stead is a 502/504. */
};

/* The relay that the decision's protocol asks for: one of the next two. */
void relay_begin(const struct relay_start *s);

/* Bytes both ways: half-close, counters, idle limit, splice for bulk. The client's first bytes are
 * held until they are known: those of a TLS hello are compared with the decision's host (absent or
 * other SNI, ECH, or a name that is an address: closed, audited, no byte upstream); so is what only
 * begins like TLS, and a hello in the form of SSL 2. Where the host is an address, there is no name
 * to compare: a hello must have none. What is not TLS passes. A server that speaks first is heard
 * at once. */
void relay_tcp(const struct relay_start *s);

/* An inspected endpoint (rest): HTTP/1.1 requests in origin form (a tunnel, or captured), each
 * evaluated before anything of it is written upstream. `authority_port` requests must name the
 * decision's host. TLS in place of a request is refused. */
void relay_http(const struct relay_start *s);

/* The proxy port's forward requests (absolute form): the same loop, in which every request may name
 * another authority and gets a decision of its own; `read` begins with the first head. Owns the
 * connection from its first byte. A CONNECT behind other requests (RFC 9110, 9.3.6) ends that: the
 * socket and all that came from the CONNECT's first byte on go to `tunnel`, as if the connection
 * had begun with it. */
typedef void relay_tunnel_fn(struct egress_box *b, int client, const struct address *from,
                             uint16_t from_port, struct str read);
void relay_forward(struct egress_box *b, int client, const struct address *from, uint16_t from_port,
                   struct str read, relay_tunnel_fn *tunnel);

#endif
