/* Requests that carry a peer's identity: `Sandboxer-Peer: TOKEN` beside whatever else says who
 * asks. Such a caller sees what the peer sees, and the policy for tools is asked before it is
 * served. */
#ifndef API_GUARD_H
#define API_GUARD_H

#include "api/call.h"

struct peer;
struct route;

/* After the caller is known. False: it is answered. */
bool guard_identify(struct call *c);
/* Serves the call, after asking if it has to be asked. */
void guard_serve(struct call *c);
void guard_done(struct call *c); /* the call is freed */

/* Whose call it is; NULL: no peer's. */
struct peer *guard_peer(const struct call *c);

/* The role of sessions that the caller begins: a user's is what the configuration says, whatever
 * the user is; a token says it itself. */
enum role guard_role(const struct call *c);

/* Whether an argument of that name came from the path or the query, and not from the body. */
bool guard_adds(const struct route *r, struct str name);

/* --- for all who ask the policy --- */

/* The caller as the peer: no administrator, naming nothing of this machine, and seeing what has the
 * peer's label beside those that it had to have before. */
void caller_narrow(struct caller *who, const struct peer *p, struct arena *a);
/* One label more that a sandbox must have; what does not fit into the arena ends the process. */
void caller_label(struct caller *who, const char *key, const char *value, struct arena *a);

#endif
