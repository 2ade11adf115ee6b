/* Requests that carry a peer's identity: `Sandboxer-Peer: TOKEN` beside whatever else says who
 * asks. Such a caller sees what the peer sees, and the policy for tools is asked before it is
 * served. */
#ifndef API_GUARD_H
#define API_GUARD_H

#include "api/call.h"

/* After the caller is known. False: it is answered. */
bool guard_identify(struct call *c);
/* Serves the call, after asking if it has to be asked. */
void guard_serve(struct call *c);
void guard_done(struct call *c); /* the call is freed */

#endif
