/* The heads that a relay writes in the place of those it read. Nothing passes that was not parsed,
 * what concerns one connection only ends there, and the framing is ours: one length or chunks,
 * never both, never the bytes that came.
 *
 * Left out in both directions: Connection and what it names, Keep-Alive, every Proxy- field, TE,
 * Trailer, Transfer-Encoding, Upgrade, HTTP2-Settings. A '_' in a name counts as '-', since servers
 * that make variables of fields cannot tell them apart. Nothing is added that tells of us. */
#ifndef EGRESS_RELAYS_REWRITE_H
#define EGRESS_RELAYS_REWRITE_H

#include "base/buf.h"
#include "http/h1.h"
#include "net/host.h"

struct rewrite_to {
    const struct host *host; /* the decision's, not the client's spelling */
    uint16_t port;
    uint16_t default_port;  /* of the scheme: it is not written */
    struct str path, query; /* as judged; query.p NULL: none */
    bool inspected;         /* leave out fields that put another method or path in place */
};

/* One request in origin form. -ERR_TOO_BIG: *out is as it was. */
int rewrite_request(const struct h1_request *q, const struct rewrite_to *to, struct buf *out);

/* How an answer reaches the client. */
struct rewrite_answer {
    enum h1_method asked;
    enum h1_framing framing; /* H1_UNTIL_CLOSE and H1_EMPTY write none */
    bool close;              /* nothing follows on this connection */
};

int rewrite_response(const struct h1_response *p, const struct rewrite_answer *how,
                     struct buf *out);

/* Whether the client asks for another protocol than HTTP. An offer of h2c counts for none: it is
 * left out (RFC 9110, 7.8), and the client goes on with HTTP/1.1. */
bool rewrite_asks_upgrade(const struct h1_head *h);

#endif
