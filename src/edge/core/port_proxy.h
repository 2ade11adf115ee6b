/* SPDX-License-Identifier: Apache-2.0 */
/* Proxies an HTTP request to a server inside a sandbox.
 *
 * Each request uses one connection, and only parsed messages are forwarded: hop-by-hop headers are
 * removed, the framing is the daemon's own, and headers for the daemon alone (tokens, the sandbox's
 * name) are dropped. After an upgrade, to a WebSocket or another protocol, bytes are copied. */
#ifndef EDGE_CORE_PORT_PROXY_H
#define EDGE_CORE_PORT_PROXY_H

#include "edge/core/call.h"

/* Answers, in the dialect of the call, that the port could not be reached. */
typedef void port_refused_fn(struct call *c, uint16_t port, const struct err *e);

/* Takes over the call, whose sandbox is known and whose body was not read. The sandbox was named by
 * Host or by a header. */
void port_proxy(struct call *c, uint16_t port, port_refused_fn *refused);
/* The same for a sandbox that the path names: `prefix` ("/x/ID/") is common to all previews of the
 * sandbox, `target` is the path and query to request. Both must stay valid as long as the call. */
void port_proxy_to(struct call *c, uint16_t port, struct str prefix, struct str target,
                   port_refused_fn *refused);

#endif
