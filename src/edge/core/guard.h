/* SPDX-License-Identifier: Apache-2.0 */
/* Enforces the tool policy before a request is served.
 *
 * Every token without administrator rights is its own peer, on every interface: a dialect maps
 * each route to a tool, and no header or omission of a client avoids the check. `Sandboxer-Peer:
 * TOKEN`, sent beside the credentials, names a session of the caller and narrows further: the
 * caller then sees only the sandboxes of that session. */
#ifndef EDGE_CORE_GUARD_H
#define EDGE_CORE_GUARD_H

#include "edge/core/call.h"

struct peer;
struct policy_text;
struct route;
struct trust_capabilities;

/* Determines the peer, after authentication. False: the call is answered. */
bool guard_identify(struct call *c);
/* Serves the call, after the policy check if the route needs one. */
void guard_serve(struct call *c);
void guard_done(struct call *c); /* with the call */

/* The peer of the call; NULL: the caller is not a peer and is not checked. */
struct peer *guard_peer(const struct call *c);
/* The session that `Sandboxer-Peer` names; NULL: no such header. */
struct peer *guard_session(const struct call *c);

/* The role of sessions that the caller registers: for users the configured one, at most the user's
 * own; for tokens the token's. */
enum role guard_role(const struct call *c);

/* The name of the argument that holds a text body. */
#define GUARD_TEXT "policy"

/* Whether an argument of that name comes from the path or the query, not from the body. */
bool guard_adds(const struct route *r, struct str name);

/* Whether the policy check of this call covers starting programs; the control plane refuses to
 * start programs for other calls. */
bool guard_starts_programs(const struct call *c);
/* Whether the caller may run programs in the sandbox, and could therefore read its environment.
 * Consumes no quota and records nothing. */
bool guard_may_exec(const struct call *c, const struct sandbox *s);
/* Writes the sandbox's environment variables as an object: with values for callers that could read
 * them inside, with empty values for others. */
void guard_write_env(struct json_writer *w, const struct json_map *env, bool may_exec);

/* --- for handlers of rows with GUARD_LATER --- */

/* Requests a verdict on the sandbox that the request would make. `go` is called at once if no check
 * is needed or it has passed, later if the verdict allows it, and not at all otherwise: then the
 * call is answered. Holds the call meanwhile. */
typedef void guard_fn(struct call *c);
void guard_request(struct call *c, const struct trust_capabilities *declares, guard_fn *go);
/* The same for a sandbox to be created; also stores in the operation who approved its network. */
void guard_request_create(struct call *c, struct create_op *op, guard_fn *go);

/* Replaces the network policy of the call's sandbox if the tool policy allows it. done: as for
 * sandbox_set_policy(), with the call, referenced, as `user`. Takes ownership of the policy. */
void guard_set_network(struct call *c, struct policy_text *t, egress_set_fn *done);

/* --- narrowing callers --- */

/* Narrows the caller to the peer: no administrator rights, no host paths, and only objects with the
 * peer's label in addition to the labels required before. */
void caller_narrow(struct caller *who, const struct peer *p, struct arena *a);
/* Adds a label that objects must have to be visible; aborts if the arena is full. */
void caller_label(struct caller *who, const char *key, const char *value, struct arena *a);

#endif
