/* An HTTP request that is meant for a server inside: it goes there, and its answer comes back.
 *
 * One request is one connection, and nothing passes that was not parsed: what concerns one
 * connection only ends here, the framing is ours, and what a client says to us alone (tokens, which
 * sandbox it means) stays with us. A WebSocket, or whatever else both ends agree to speak, becomes
 * bytes. */
#ifndef API_PORT_PROXY_H
#define API_PORT_PROXY_H

#include "api/call.h"

/* Answers that nothing could be reached, in the words of whoever serves the call. */
typedef void port_refused_fn(struct call *c, uint16_t port, const struct err *e);

/* Takes the call, whose sandbox is known and whose body was not touched. The sandbox is named by
 * the request's Host, or by a field of its head. */
void port_proxy(struct call *c, uint16_t port, port_refused_fn *refused);
/* The same for a sandbox that is named by the path: `prefix` ("/x/ID/") is common to all of its
 * previews, `target` is the path and query to ask for. Both stay as long as the call. */
void port_proxy_to(struct call *c, uint16_t port, struct str prefix, struct str target,
                   port_refused_fn *refused);

#endif
