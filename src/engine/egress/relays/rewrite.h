/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites request and response heads. Only parsed fields are forwarded, hop-by-hop fields are
 * removed, and the framing is written anew: either one length or chunks, never the received bytes.
 *
 * Removed in both directions: Connection and the fields that it names, Keep-Alive, every Proxy-
 * field, TE, Trailer, Transfer-Encoding, Upgrade, HTTP2-Settings. A '_' in a name counts as '-',
 * because CGI-like servers cannot distinguish them. No field reveals the proxy. */
#ifndef ENGINE_EGRESS_RELAYS_REWRITE_H
#define ENGINE_EGRESS_RELAYS_REWRITE_H

#include "base/buf.h"
#include "lib/http/h1.h"
#include "lib/net/host.h"

struct rewrite_to {
    const struct host *host; /* of the decision, in canonical spelling */
    uint16_t port;
    uint16_t default_port;  /* of the scheme; omitted in Host */
    struct str path, query; /* as judged; query.p NULL: no query */
    bool inspected;         /* removes fields that override the method or path */
};

/* Writes one request in origin form. -ERR_TOO_BIG: *out is unchanged. */
int rewrite_request(const struct h1_request *q, const struct rewrite_to *to, struct buf *out);

/* How an answer is sent to the client. */
struct rewrite_answer {
    enum h1_method request;
    enum h1_framing framing; /* H1_UNTIL_CLOSE and H1_EMPTY write no framing field */
    bool close;              /* the connection ends after it */
};

int rewrite_response(const struct h1_response *p, const struct rewrite_answer *how,
                     struct buf *out);

/* Whether the client requests another protocol than HTTP. An offer of h2c does not count: it is
 * removed (RFC 9110, 7.8), and the client continues with HTTP/1.1. */
bool rewrite_asks_upgrade(const struct h1_head *h);

#endif
